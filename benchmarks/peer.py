"""What the network costs: seconds a round of five peers in a ring, beside the local engine.

    python benchmarks/peer.py [--repeats 3] [--out FILE]

PP-ADMM with seeded noise on made-up records (500 a site). Local: all five agents in one process.
Peers: a process each, on one machine, over plain TCP, over mutual TLS, and over mutual TLS with a
ledger on disk, as a private run has it (every round two transactions that are synced). The time is
that of the slowest peer from its second round to its last. Medians over the repeats. The share of
TLS is (TLS − TCP) / TLS; it includes nothing but the links, as messages are signed either way.
Processor time, summed over the peers, is given beside the wall time: five peers share the cores of
one machine, on which the local engine uses one.
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
from ppadmm.noise import SeededNoise
from ppadmm.peers import control
from ppadmm.peers.agreement import Agreement, Party
from ppadmm.peers.link_settings import Credentials, LinkSettings
from ppadmm.peers.messages import message_length
from ppadmm.peers.peer import Peer
from ppadmm.peers.store import PeerStore
from ppadmm.peers.zenoh.transport import ZenohTransport
from ppadmm.problem import Logistic, make_graph, risk_of

PEERS, RECORDS = 5, 500
ROUNDS = {58: 300, 100_000: 30}
BETAS = {58: 1e-8, 100_000: 1e-7}  # 1e-8 is beyond double precision with 100,000 parameters
LINKS = ("TCP", "TLS", "TLS and ledger")


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


def agent_of(terms, i, ledger=None):
    graph = terms.graph
    near = graph.neighbours(i)
    risk = risk_of(shard_of(terms.parameters, i), Logistic())
    site = Site(i, graph.size, near, risk, tuple(graph.degree(j) for j in near))
    rule = build(terms.algorithm, site, terms.settings(i))
    return Agent(rule, i, near, [ledger(rule) if ledger else MemoryLedger()], SeededNoise((0,)))


def now():
    """(wall, processor) seconds of this process."""
    return time.perf_counter(), time.process_time()


def a_round(times):
    """(wall, processor) seconds a round, from the second round on."""
    first, last = times[0], times[-1]
    return [(b - a) / (len(times) - 1) for a, b in zip(first, last, strict=True)]


def time_local(d):
    agents, times = [agent_of(agreement_of(d), i) for i in range(PEERS)], []
    local.run(agents, lambda _: times.append(now()))
    return a_round(times)


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

    def tell(event, **_):
        if event == "round":
            times.append(now())

    agent, key = agent_of(terms, i, ledger), key_of(i)
    peer = Peer(
        agent, terms, key, terms.sign(key), ZenohTransport(link), PeerStore(folder), tell=tell
    )
    outcome = peer.run()
    if outcome.reason:
        raise SystemExit(outcome.reason)
    print(json.dumps({"times": a_round(times), "repeated": peer.tally.repeated}), flush=True)


def time_peers(d, links, folder, files):
    """(wall of the slowest peer, processor of all) seconds a round."""
    ports, scheme = [free_port() for _ in range(PEERS)], "tcp" if links == "TCP" else "tls"
    processes = []
    for i in range(PEERS):
        place = folder / f"{d}-{links.replace(' ', '-')}-{time.time_ns()}"
        place.mkdir()
        plan = {
            "d": d, "agent": i, "folder": str(place), "ledger": "ledger" in links,
            "credentials": None if scheme == "tcp" else files[i],
            "listen": [f"{scheme}/127.0.0.1:{ports[i]}"],
            "connect": [f"{scheme}/127.0.0.1:{ports[(i + 1) % PEERS]}"],
        }  # fmt: skip
        words = [sys.executable, __file__, "--worker", json.dumps(plan)]
        processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    found = [process.communicate(timeout=600)[0] for process in processes]
    each = [json.loads(text.splitlines()[-1])["times"] for text in found]
    return max(wall for wall, _ in each), sum(used for _, used in each)


def measure(repeats):
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = certificates(folder)
        for d in ROUNDS:
            row = {"d": d, "local": medians([time_local(d) for _ in range(repeats)])}
            for links in LINKS:
                times = [time_peers(d, links, folder, files) for _ in range(repeats)]
                row[links] = medians(times)
            rows.append(row)
            print(show(row), flush=True)
    return rows


def medians(times):
    return [statistics.median(column) for column in zip(*times, strict=True)]


def show(row):
    """Return both lines of a table: wall and processor."""
    lines = []
    for k, name in enumerate(("wall", "processor")):
        ms = {links: 1000 * row[links][k] for links in ("local", *LINKS)}
        over = ms["TLS and ledger"] - ms["local"]
        share = (ms["TLS"] - ms["TCP"]) / ms["TLS"]
        cells = [f"{row['d']:,}", name, *(f"{value:.1f}" for value in ms.values())]
        lines.append("| " + " | ".join([*cells, f"{over:.1f}", f"{100 * share:.0f} %"]) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker")
    given = parser.parse_args()
    if given.worker:
        work(json.loads(given.worker))
        return
    heads = ("d", "ms a round", "local", *LINKS, "overhead", "share of TLS")
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    before = os.getloadavg()[0]
    rows = measure(given.repeats)
    system = {"system": platform.platform(), "cores": os.cpu_count()}
    found = {**system, "load": [before, os.getloadavg()[0]], "rows": rows}
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
