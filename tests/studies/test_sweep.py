"""Sweeps: nothing that is finished runs again, and nothing that is broken is believed."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from ppadmm.accounting import Budget
from ppadmm.algorithms.method import MethodSpec
from ppadmm.algorithms.settings import Settings, Speaking
from ppadmm.data.knots import settle_knots
from ppadmm.datasets import load
from ppadmm.engines import local
from ppadmm.engines import processes as pool
from ppadmm.errors import DataError, InfeasibleError, InputError, WorkerError
from ppadmm.files import write_whole
from ppadmm.noise import SeededNoise
from ppadmm.problem import Logistic
from ppadmm.runs.federation import build_federation, make_agents
from ppadmm.studies import cell as cell_module
from ppadmm.studies.cell import deal_seeds, run_cell
from ppadmm.studies.sweep import CellStore, sweep
from tests.studies.people import write_people

CHANGED = {
    "trust": "sum",
    "colluding": 2,
    "repeats": 1,
    "knots": 4,
    "weights": "equal",
    "adjacency": "zero-out",
    "regularisation": 0.25,
    "partition": "dirichlet:1",
    "multiclass": "one-vs-rest",
    "data": "other.csv",
    "data_digest": "0",
    "split": 1,
    "seeds": (0, 2),
    "algorithm": "ipp",
    "epsilons": (4.0, 9.0),
    "delta": 1e-5,
    "agents": 4,
    "graph": "complete",
    "loss": "huber-hinge",
    "label": "age",
    "calibration": "paper",
    "rounds": 5,
    "eta": 0.3,
    "beta": 1e-7,
    "records": (9, 9, 9),
    "share": 1e-2,
    "speaking": Speaking(alpha=0.5),
    "curve": True,
}
WORKER = """
import pickle, sys
from pathlib import Path
from ppadmm.studies.sweep import sweep
if __name__ == "__main__":
    cells = pickle.loads(Path(sys.argv[1]).read_bytes())
    print(sweep(cells, Path(sys.argv[2]), jobs=int(sys.argv[3])).ran)
"""


def start(tmp_path, cells, folder, jobs):
    """Sweep in a process of its own."""
    (tmp_path / "cells.pickle").write_bytes(pickle.dumps(cells))
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    return subprocess.Popen(
        [sys.executable, script, tmp_path / "cells.pickle", folder, str(jobs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(folder):
    return sorted(folder.glob("*.json"))


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


def children(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in found.read_text().split()] if found.exists() else []


def gone(pid):
    """Whether a process has ended, be it that nobody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_killed_sweep_continues_where_it_was(tmp_path, cell):
    folder = tmp_path / "cells"
    many = [replace(cell, split=k, rounds=60) for k in range(12)]
    process = start(tmp_path, many, folder, jobs=2)
    wait_for(lambda: len(finished(folder)) >= 2)
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_for(lambda: all(gone(pid) for pid in workers))
    kept = {path: path.stat().st_mtime_ns for path in finished(folder)}
    assert 2 <= len(kept) < len(many)

    ran = []
    done = sweep(many, folder, progress=lambda *counts: ran.append(counts))
    assert done.ran == len(many) - len(kept)
    assert ran == [(k, len(many)) for k in range(len(kept), len(many) + 1)]
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert done.results == sweep(many[::-1]).results
    assert sweep(many, folder).ran == 0


def truncated(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path):
    path.write_bytes(b"")


def tampered(path):
    record = json.loads(path.read_bytes())
    record["outcomes"][0]["test_error"][0] += 0.01
    path.write_text(json.dumps(record))


def of_another_cell(path):
    other = next(p for p in finished(path.parent) if p != path)
    path.write_bytes(other.read_bytes())


def not_an_object(path):
    path.write_text("[1, 2]")


def binary(path):
    path.write_bytes(b"\xff\xfe\x00")


@pytest.mark.parametrize(
    "damage", [truncated, emptied, tampered, of_another_cell, not_an_object, binary]
)
def test_a_damaged_cell_runs_again(tmp_path, cells, damage):
    first = sweep(cells, tmp_path / "cells")
    damage(CellStore(tmp_path / "cells").path(cells[0]))
    again = sweep(cells, tmp_path / "cells")
    assert again.ran == 1
    assert again.results == first.results
    assert sweep(cells, tmp_path / "cells").ran == 0


def test_the_same_numbers_with_any_number_of_jobs_and_in_any_order(tmp_path, cells):
    one = sweep(cells)
    two = sweep(cells[::-1], tmp_path / "cells", jobs=2)
    assert one.results == two.results
    assert sweep(cells, tmp_path / "cells").results == one.results
    assert one.results[cells[0]] != one.results[cells[4]]


def test_workers_have_one_thread_and_the_environment_is_left_as_it_was(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    assert all(value == "1" for _, value in pool.run(os.getenv, pool.THREADS, jobs=2))
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in os.environ


def test_two_sweeps_may_share_a_folder(tmp_path, cell):
    folder = tmp_path / "cells"
    many = [replace(cell, split=k) for k in range(12)]
    processes = [start(tmp_path, many, folder, 1) for _ in range(2)]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert int(out) <= 12
    assert len(list(folder.iterdir())) == 12
    kept = sweep(many, folder)
    assert kept.ran == 0
    assert kept.results == sweep(many).results


def test_every_setting_counts_in_the_digest(cell):
    names = {field.name for field in fields(cell)} - {"data_dir", "schema"}
    assert names == set(CHANGED), "a field of a cell without a case here"
    changed = [replace(cell, **{name: value}) for name, value in CHANGED.items() if name != "trust"]
    changed.append(replace(cell, algorithm="newton", trust=CHANGED["trust"]))
    assert len({cell.digest(), *(other.digest() for other in changed)}) == len(changed) + 1


@pytest.mark.parametrize("field", fields(Speaking), ids=lambda field: field.name)
def test_every_setting_of_the_test_counts_in_the_digest(cell, field):
    other = {"statistic": "loss", "test": "svt", "releases": 2}.get(field.name, 0.123)
    assert replace(cell, speaking=Speaking(**{field.name: other})).digest() != cell.digest()


def test_where_the_records_lie_does_not_count(cell):
    moved = replace(cell, data_dir="/elsewhere", schema="elsewhere.toml")
    assert moved.digest() == cell.digest()
    assert moved == cell


@pytest.mark.parametrize("home", ["ppadmm.accounting.accountant.VERSION", "__version__"])
def test_versions_count_in_the_digest(cell, monkeypatch, home):
    before = cell.digest()
    target = home if "." in home else f"{cell_module.__name__}.{home}"
    monkeypatch.setattr(target, "other")
    assert cell.digest() != before


def test_the_network_in_a_file_counts_in_the_digest(cell, tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("0 1\n1 2\n")
    line = replace(cell, graph=str(path))
    before = line.digest()
    path.write_text("0 1\n1 2\n0 2\n")
    assert line.digest() != before


def test_records_that_changed_are_not_mistaken_for_the_old_ones(tmp_path, cell, people):
    sweep([cell], tmp_path / "cells")
    write_people(people, seed=1)
    with pytest.raises(DataError, match="not those the sweep was planned with"):
        sweep([replace(cell, split=7, data_dir="a new place")], tmp_path / "cells")


def test_an_error_ends_the_sweep_and_keeps_what_was_finished(tmp_path, cell):
    hopeless = replace(cell, eta=1e-9, epsilons=(0.1,))
    with pytest.raises(InfeasibleError, match="cannot reach"):
        sweep([cell, hopeless], tmp_path / "cells")
    assert len(finished(tmp_path / "cells")) == 1
    with pytest.raises(InfeasibleError, match="cannot reach"):
        sweep([cell, hopeless], tmp_path / "cells", jobs=2)
    assert sweep([cell], tmp_path / "cells").ran == 0


def test_a_worker_that_dies_is_reported():
    with pytest.raises(WorkerError, match="A worker process ended early"):
        list(pool.run(os._exit, [3], jobs=2))


def test_a_folder_that_cannot_be_written_to_is_refused_before_any_work(tmp_path, cell):
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="Cannot write cells to"):
        sweep([cell], tmp_path / "taken")
    with pytest.raises(InputError, match="jobs"):
        sweep([cell], jobs=0)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "value"
    write_whole(path, b"old")

    def full(file):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, b"new")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]


def test_the_curve_ends_where_the_agents_do(cell):
    (first, second) = run_cell(replace(cell, curve=True))
    assert len(first.curve) == len(first.seeds) == 2
    assert {len(row) for row in first.curve + second.curve} == {4}
    plain = run_cell(cell)
    assert plain[0].test_error == first.test_error
    assert plain[0].curve == ()


def test_the_curve_is_the_mean_over_agents_of_their_own_loss_by_weight(cell):
    (outcome,) = run_cell(replace(cell, epsilons=(4.0,), curve=True))
    data = load(cell.data, label="ill")
    data = data.with_schema(settle_knots(data.schema, data.train_records, 4.0))
    federation = build_federation(data, 3, "ring", Logistic(), 0)
    plan = federation.chosen(MethodSpec(rounds=4), [Budget(4.0, 1e-4)] * 3)
    settings = Settings(4, (plan.eta,) * 2, (0.0,) * 2, (Budget(4.0, 1e-4),) * 2)
    agents = make_agents(
        "pp", federation.sites(plan, [Budget(4.0, 1e-4)] * 3), [settings] * 3, SeededNoise((0, 1))
    )
    releases = local.run(agents).releases
    for seed in (0, 1):
        for t in range(4):
            pairs = zip(federation.shards, releases[t, :, seed], strict=True)
            losses = [np.log1p(np.exp(-part.y * (part.X @ theta))).mean() for part, theta in pairs]
            mean = np.average(losses, weights=federation.records)
            assert outcome.curve[seed][t] == pytest.approx(mean, rel=1e-9)


def test_seeds_are_dealt_over_splits():
    assert deal_seeds(5, 2) == [(0, (0, 2, 4)), (1, (1, 3))]
    assert deal_seeds(2, 9) == [(0, (0,)), (1, (1,))]
