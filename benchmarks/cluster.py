"""What Ray costs, against processes and the local engine of the same machine, in the same run.

    python benchmarks/cluster.py [--cells 200] [--rounds 40] [--nodes] [--json FILE]

- start: until a cluster started here answers its first task; the pool, its first result.
- cell: seconds per empty piece of work, one after the other.
- sweep: a small version of figure 5 (PP-ADMM, 2 calibrations × 2 splits, made-up records), with
  the workers of Ray there already and those of the pool started for it, as a command would.
- round: the median time of a round of two agents, in one process and each in an actor.
- nodes (--nodes): the same sweep on a cluster of two nodes, both on this machine, started and
  stopped by this script; how many cells each node ran.
"""

import argparse
import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ppadmm.engines import processes as pool
from ppadmm.engines.ray import actors
from ppadmm.engines.ray import tasks as cluster
from ppadmm.runs.run import prepare, run
from ppadmm.runs.specification import RunSpec
from ppadmm.studies.cell import run_cell
from ppadmm.studies.figures import FigureSetting, figure
from ppadmm.studies.sweep import sweep


def timed(function, *arguments, **named):
    """Return (seconds, result)."""
    started = time.perf_counter()
    result = function(*arguments, **named)
    return time.perf_counter() - started, result


def first_result(runner):
    """Seconds until the first piece of work is back; the rest of the time is its shutdown."""
    started = time.perf_counter()
    results = runner(abs, range(1, 3))
    next(results)
    return time.perf_counter() - started


def small_figure_5():
    """PP-ADMM of figure 5 at both calibrations, on two splits with a seed each."""
    cells = figure(5, FigureSetting("synthetic", 2, 2)).cells
    return [cell for cell in cells if cell.algorithm == "pp"]


def over_both(cells, pooled, rayed):
    """Time a sweep on each; the numbers must agree."""
    seconds_pool, here = timed(sweep, cells, runner=pooled)
    seconds_ray, there = timed(sweep, cells, runner=rayed)
    assert here.results == there.results
    return seconds_pool, seconds_ray


def per_item(runner, count):
    """Seconds per empty piece of work once the workers are there, their ending not counted."""
    results = runner(abs, range(count + 10))
    for _ in range(count // 2):
        next(results)
    started = time.perf_counter()
    for _ in range(count - count // 2):
        next(results)
    seconds = time.perf_counter() - started
    results.close()
    return seconds / (count - count // 2)


def rounds(spec, count):
    """Seconds per round of two agents, here and each in an actor: the median of all but the first.

    Starting the actors is not part of it.
    """
    found, prepared = {}, prepare(replace(spec, rounds=count))
    for name, engine in (("local", None), ("actors", actors.run)):
        ends = []
        run(prepared, lambda done, of, ends=ends: ends.append(time.perf_counter()), engine=engine)
        found[name] = statistics.median(np.diff(ends))
    return found


@contextmanager
def two_nodes():
    """Start a head and a second node on this machine; end both, and no other, afterwards.

    They and this process, which must not have imported Ray yet, share a token of their own.
    """
    ray = Path(sys.executable).with_name("ray")
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    environment.pop("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", None)
    common = ["--block", "--num-cpus=1", "--object-store-memory=200000000"]
    with tempfile.TemporaryDirectory(prefix="ray-") as folder, free_port() as port:
        head = [ray, "start", "--head", f"--port={port}", f"--temp-dir={folder}", *common]
        head += ["--include-dashboard=false"]
        second = [ray, "start", f"--address=127.0.0.1:{port}", *common]
        nodes = []
        try:
            for line in (head, second):
                nodes.append(
                    subprocess.Popen(
                        line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                    )
                )
                wait_for(port)
            yield f"127.0.0.1:{port}"
        finally:
            for node in reversed(nodes):
                node.terminate()
                node.wait()


@contextmanager
def free_port():
    """Give a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    yield port


def wait_for(port, seconds=60):
    """Wait until the head answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
    raise SystemExit("The head of the cluster did not answer.")


def node_of(cell):
    """Run a cell and say on which node."""
    import ray

    return ray.get_runtime_context().get_node_id(), run_cell(cell)


def over_nodes(cells):
    """Sweep on two nodes; return the number of cells that each ran."""
    with two_nodes() as address, cluster.connected(address) as ray:
        end = time.monotonic() + 60
        while len([n for n in ray.nodes() if n["Alive"]]) < 2 and time.monotonic() < end:
            time.sleep(0.1)
        ran = dict(cluster.run(node_of, cells))
    here = sweep(cells, jobs=2).results
    assert {cell: outcomes for cell, (_, outcomes) in ran.items()} == here
    nodes = [node for node, _ in ran.values()]
    return sorted(nodes.count(node) for node in set(nodes))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--nodes", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.nodes:
        show({"cells run by each of two nodes": over_nodes(small_figure_5())}, options.json)
        return
    pooled, rayed = partial(pool.run, jobs=2), partial(cluster.run, jobs=2)
    found = {"cpus": os.cpu_count(), "load": os.getloadavg()[0]}
    found["start: pool, s"] = first_result(pooled)
    found["start: ray, s"] = first_result(rayed)
    with cluster.connected(cpus=2):
        found["cell: pool, ms"] = 1e3 * per_item(pooled, options.cells)
        found["cell: ray, ms"] = 1e3 * per_item(rayed, options.cells)
        cells = small_figure_5()
        found["sweep: cells"] = len(cells)
        found["sweep: pool, s"], found["sweep: ray, s"] = over_both(cells, pooled, rayed)
        seeded = RunSpec(agents=2, graph="complete", seed=1, epsilon=4.0)
        for name, spec in (("seeded", seeded), ("secure", replace(seeded, seed=None))):
            for engine, seconds in rounds(spec, options.rounds).items():
                found[f"round: {name}, {engine}, ms"] = 1e3 * seconds
    show(found, options.json)


def show(found, path):
    for name, value in found.items():
        print(f"{name:42} {value:.4g}" if isinstance(value, float) else f"{name:42} {value}")
    if path is not None:
        path.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
