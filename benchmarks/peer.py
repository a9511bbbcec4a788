"""What a round of real peers costs: five in a ring, private, beside the local engine.

    python benchmarks/peer.py [--repeats 3] [--out FILE] [--only 58 100000]

PP-ADMM on made-up records (500 a site), a process for each peer, all on one machine. Noise is
secure (`SecureNoise`), as in a private run; what a peer tells goes to its log, as `ppadmm peer run`
has it. The links are plain TCP, mutual TLS, and mutual TLS with a ledger on disk (synced once a
round): only the last is a private run. It is also measured with seeded noise, for comparison: what
a row says of noise and ledger is read off the agents that ran. Local: all five agents in one
process, without links and ledger.

The wall time is that of the slowest peer from its second round to its last. Processor time is
summed over the peers: five of them share the cores of one machine, on which the local engine uses
one. Repeats go round all cells in turn, so that other work on the machine hits all alike. Medians.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is loaded

import numpy as np
from scipy.sparse import random_array
from transport import certificates, free_port

from ppadmm.accounting import Budget
from ppadmm.accounting.protection import STANDARD
from ppadmm.agent import Agent
from ppadmm.algorithms import Site, build
from ppadmm.data import Shard, normalise_rows
from ppadmm.data.fingerprint import Fingerprint
from ppadmm.engines import local
from ppadmm.ledger import MemoryLedger
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.noise import SecureNoise, SeededNoise
from ppadmm.peers import control
from ppadmm.peers.agreement import Agreement, Party
from ppadmm.peers.link_settings import Credentials, LinkSettings
from ppadmm.peers.messages import message_length
from ppadmm.peers.peer import Peer
from ppadmm.peers.running import logged
from ppadmm.peers.status import EventLog
from ppadmm.peers.store import PeerStore
from ppadmm.peers.zenoh.transport import ZenohTransport
from ppadmm.problem import Logistic, make_graph, risk_of

PEERS, RECORDS = 5, 500
ROUNDS = {58: 300, 100_000: 30}
BETAS = {58: 1e-8, 100_000: 1e-7}  # 1e-8 is beyond double precision with 100,000 parameters


@dataclass(frozen=True)
class Cell:
    """A way to run: `links` is none for the local engine."""

    name: str
    links: str | None
    ledger: bool
    secure: bool


CELLS = (
    Cell("TLS and ledger", "tls", ledger=True, secure=True),
    Cell("TLS and ledger, seeded", "tls", ledger=True, secure=False),
    Cell("TLS", "tls", ledger=False, secure=True),
    Cell("TCP", "tcp", ledger=False, secure=True),
    Cell("local", None, ledger=False, secure=True),
)


def key_of(i):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(bytes([i + 1]) * 32)


def agreement_of(d):
    graph = make_graph("ring", PEERS, 0)
    parties = tuple(
        Party(f"agent-{i}", key_of(i).public_key().public_bytes_raw().hex(), RECORDS, 1.0)
        for i in range(PEERS)
    )
    return Agreement(
        parties,
        graph.edges,
        "0" * 64,
        d,
        nonce="benchmark",
        rounds=ROUNDS[d],
        eta=0.05,
        beta=BETAS[d],
        delta=1e-5,
        regularisation=0.01,
        weights="records",
        knots=0,
    )


def shard_of(d, seed):
    rng = np.random.default_rng(seed)
    if d < 1000:
        X = normalise_rows(rng.standard_normal((RECORDS, d)))
    else:
        X = random_array((RECORDS, d), density=1e-3, rng=rng, format="csr")
        X = normalise_rows(X)
    return Shard(X, np.where(rng.random(RECORDS) < 0.5, 1.0, -1.0))


def agent_of(terms, i, secure, ledger=None):
    graph = terms.graph
    near = graph.neighbours(i)
    risk = risk_of(shard_of(terms.parameters, i), Logistic())
    site = Site(i, graph.size, near, risk, tuple(graph.degree(j) for j in near))
    rule = build(terms.algorithm, site, terms.settings(i))
    noise = SecureNoise(2 * rule.rounds * risk.d) if secure else SeededNoise((0,))
    return Agent(rule, i, near, [ledger(rule) if ledger else MemoryLedger()], noise)


def now():
    """(wall, processor) seconds of this process."""
    return time.perf_counter(), time.process_time()


def a_round(times):
    """(wall, processor) seconds a round, from the second round on."""
    first, last = times[0], times[-1]
    return [(b - a) / (len(times) - 1) for a, b in zip(first, last, strict=True)]


def found_of(agents, times):
    """What was measured, and of which noise and books; private runs have both."""
    secure = all(agent.charged.source.secure for agent in agents)
    durable = all(agent.charged.durable for agent in agents)
    wall, processor = a_round(times)
    return {"wall": wall, "processor": processor, "secure": secure, "durable": durable}


def time_local(d, cell):
    agents = [agent_of(agreement_of(d), i, cell.secure) for i in range(PEERS)]
    times = []
    local.run(agents, lambda _: times.append(now()))
    return found_of(agents, times)


# A peer


def booked(path, terms, i):
    """A ledger on disk for one run of this agent."""
    ledger = OwnerLedger.create(path, "benchmark")
    ledger.grant("made up", Budget(1e6, terms.delta))

    def reserve(rule):
        asked = [(i, rule.reserved[0])]
        records = Fingerprint(b"made up")
        return ledger.reserve_run("made up", records, terms.digest, asked, STANDARD).agent(i)

    return reserve


def work(plan):
    terms, i = agreement_of(plan["d"]), plan["agent"]
    credentials = Credentials(*map(Path, plan["credentials"])) if plan["credentials"] else None
    near = terms.graph.neighbours(i)
    link = LinkSettings(
        bytes(16), i, {j: f"agent-{j}" for j in near}, credentials,
        max(message_length(plan["d"]), control.LONGEST), tuple(plan["listen"]),
        tuple(plan["connect"]),
    )  # fmt: skip
    folder = Path(plan["folder"])
    ledger = booked(folder / "site.ledger", terms, i) if plan["ledger"] else None
    times = []

    def listen(event, _):
        if event == "round":
            times.append(now())

    agent, key = agent_of(terms, i, plan["secure"], ledger), key_of(i)
    peer = Peer(
        agent, terms, key, terms.sign(key), ZenohTransport(link), PeerStore(folder),
        tell=EventLog(listen),
    )  # fmt: skip
    with logged(folder / "log.jsonl"):
        outcome = peer.run()
    if outcome.reason:
        raise SystemExit(outcome.reason)
    print(json.dumps(found_of([agent], times)), flush=True)


def time_peers(d, cell, folder, files):
    """The wall time of the slowest peer and the processor time of all, a round."""
    ports = [free_port() for _ in range(PEERS)]
    processes = []
    for i in range(PEERS):
        place = folder / f"{d}-{time.time_ns()}"
        place.mkdir()
        plan = {
            "d": d, "agent": i, "folder": str(place), **asdict(cell),
            "credentials": None if cell.links == "tcp" else files[i],
            "listen": [f"{cell.links}/127.0.0.1:{ports[i]}"],
            "connect": [f"{cell.links}/127.0.0.1:{ports[(i + 1) % PEERS]}"],
        }  # fmt: skip
        words = [sys.executable, __file__, "--worker", json.dumps(plan)]
        processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    texts = [process.communicate(timeout=900)[0] for process in processes]
    each = [json.loads(text.splitlines()[-1]) for text in texts]
    return {
        "wall": max(one["wall"] for one in each),
        "processor": sum(one["processor"] for one in each),
        **{what: all(one[what] for one in each) for what in ("secure", "durable")},
    }


def measure(sizes, repeats):
    """Yield a row for each size and cell."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = certificates(folder)
        for d in sizes:
            found = {cell: [] for cell in CELLS}
            for _ in range(repeats):
                for cell in CELLS:
                    run = time_peers(d, cell, folder, files) if cell.links else time_local(d, cell)
                    found[cell].append(run)
            for cell, runs in found.items():
                yield row_of(d, cell, runs)


def row_of(d, cell, runs):
    wall = statistics.median(run["wall"] for run in runs)
    secure, durable = (all(run[what] for run in runs) for what in ("secure", "durable"))
    return {
        "d": d,
        "rounds": ROUNDS[d],
        "way": cell.name,
        "links": cell.links,
        "secure": secure,
        "ledger": durable,
        "private": secure and durable,
        "ms": round(1e3 * wall, 2),
        "rounds_per_second": round(1.0 / wall, 1),
        "processor_ms": round(1e3 * statistics.median(run["processor"] for run in runs), 2),
        "each_ms": [round(1e3 * run["wall"], 2) for run in runs],
        "each_processor_ms": [round(1e3 * run["processor"], 2) for run in runs],
    }


HEADS = (
    "parameters",
    "links",
    "noise",
    "ms a round",
    "rounds a second",
    "CPU ms a round, all five",
)


def show(row):
    """Return a line of the table."""
    head, noise = f"{row['d']:,}", "secure" if row["secure"] else "seeded, not private"
    way = row["way"].partition(",")[0]
    cells = [head, way, noise, in_digits(row["ms"]), in_digits(row["rounds_per_second"])]
    cells.append(in_digits(row["processor_ms"]))
    if row["private"]:
        cells = [f"**{cell}**" for cell in cells]
    return "| " + " | ".join(cells) + " |"


def in_digits(value):
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", type=int, nargs="+", default=list(ROUNDS), choices=list(ROUNDS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(json.loads(given.worker))
        return
    print("| " + " | ".join(HEADS) + " |\n|" + "---|" * len(HEADS))
    before, rows = os.getloadavg()[0], []
    for row in measure(given.only, given.repeats):
        rows.append(row)
        print(show(row), flush=True)
    system = {"system": platform.platform(), "cores": os.cpu_count(), "peers": PEERS}
    found = {**system, "load": [before, os.getloadavg()[0]], "rows": rows}
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
