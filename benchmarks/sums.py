"""What sums over the network cost: five peers in a ring, beside PP-ADMM.

    python benchmarks/sums.py [--repeats 3] [--out FILE]

Every peer is a process with mutual TLS, a ledger on disk and noise from the system, on made-up
records (500 a site). PP-ADMM tells neighbours; Newton tells everybody, through the neighbours, with
noise of its own (`local`) or under masks (`sum`). A round is from one word of the slowest peer to
its next: the median over the rounds, of slopes where there are slopes; the exchange of second
moments, which comes once, is given by itself. Bytes are those that one peer gave to its links, the
mean of the five; a message that goes to two neighbours counts once. Medians over the repeats.
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
from peer import booked, key_of
from transport import certificates, free_port

from ppadmm.algorithms import build
from ppadmm.algorithms.base import site_in
from ppadmm.data import Shard, normalise_rows
from ppadmm.noise import SecureNoise
from ppadmm.peers.agreement import Agreement, Party
from ppadmm.peers.link_settings import Credentials, LinkSettings
from ppadmm.peers.settings import longest_message, unread_messages
from ppadmm.peers.store import PeerStore
from ppadmm.peers.sum_peer import make_peer
from ppadmm.peers.zenoh.transport import ZenohTransport
from ppadmm.problem import Logistic, make_graph, risk_of
from ppadmm.runs.federation import agent_kind

PEERS, RECORDS, ROUNDS = 5, 500, 25
SIZES = (70, 1000)
METHODS = {
    "pp": {"algorithm": "pp", "eta": 0.05},
    "newton, local": {"algorithm": "newton", "eta": 1.0},
    "newton, sum": {"algorithm": "newton", "eta": 1.0, "trust": "sum", "repeats": 1},
}


def agreement_of(d, method):
    graph = make_graph("ring", PEERS, 0)
    parties = tuple(
        Party(f"agent-{i}", key_of(i).public_key().public_bytes_raw().hex(), RECORDS, 1.0)
        for i in range(PEERS)
    )
    terms = {"rounds": ROUNDS, "beta": 1e-7, "delta": 1e-5, "regularisation": 0.01, "knots": 0}
    return Agreement(
        parties, graph.edges, "0" * 64, d, nonce="benchmark", weights="records", **terms,
        **METHODS[method],
    )  # fmt: skip


def agent_of(terms, i, ledger):
    rng = np.random.default_rng(i)
    X = normalise_rows(rng.standard_normal((RECORDS, terms.parameters)))
    risk = risk_of(Shard(X, np.where(rng.random(RECORDS) < 0.5, 1.0, -1.0)), Logistic())
    graph = terms.exchange(terms.graph)
    site = site_in(graph, i, risk, [1.0] * PEERS, PEERS * RECORDS)
    rule = build(terms.algorithm, site, terms.settings(i))
    kind = agent_kind(terms.recipe)
    return kind(rule, i, graph.neighbours(i), [ledger(rule)], SecureNoise())


def work(plan):
    terms, i, folder = agreement_of(plan["d"], plan["method"]), plan["agent"], Path(plan["folder"])
    link = LinkSettings(
        bytes(16), i, {j: f"agent-{j}" for j in terms.graph.neighbours(i)},
        Credentials(*map(Path, plan["credentials"])), longest_message(terms),
        tuple(plan["listen"]), tuple(plan["connect"]), held=unread_messages(terms),
    )  # fmt: skip
    seen = []

    def tell(event, **_):
        if event == "round":
            seen.append((time.perf_counter(), peer.tally.bytes_sent))

    agent, key = agent_of(terms, i, booked(folder / "site.ledger", terms, i)), key_of(i)
    peer = make_peer(
        agent, terms, key, terms.sign(key), ZenohTransport(link), PeerStore(folder), tell=tell
    )
    outcome = peer.run()
    if outcome.reason:
        raise SystemExit(outcome.reason)
    stages = list(getattr(agent.algorithm, "stages", ("round",) * ROUNDS))
    print(json.dumps({"seen": seen, "stages": stages, "again": peer.tally.repeated}), flush=True)


def one_run(d, method, folder, files):
    """Return the figures of one run."""
    ports, processes = [free_port() for _ in range(PEERS)], []
    for i in range(PEERS):
        place = folder / f"{d}-{i}-{time.time_ns()}"
        place.mkdir()
        plan = {
            "d": d, "method": method, "agent": i, "folder": str(place), "credentials": files[i],
            "listen": [f"tls/127.0.0.1:{ports[i]}"],
            "connect": [f"tls/127.0.0.1:{ports[(i + 1) % PEERS]}"],
        }  # fmt: skip
        words = [sys.executable, __file__, "--worker", json.dumps(plan)]
        processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    found = [process.communicate(timeout=900)[0] for process in processes]
    return figures([json.loads(text.splitlines()[-1]) for text in found])


def figures(peers):
    stages = peers[0]["stages"]
    after = np.array([np.diff(np.array(peer["seen"]), axis=0) for peer in peers])
    seconds, sent = after[..., 0].max(axis=0), after[..., 1].mean(axis=0)
    usual = [k for k in range(2, len(seconds)) if stages[k] in ("slopes", "round")]
    once = [k for k in range(len(seconds)) if stages[k] == "moments"]
    whole = max(p["seen"][-1][0] for p in peers) - min(p["seen"][0][0] for p in peers)
    return {
        "ms": 1000 * float(np.median(seconds[usual])),
        "bytes": float(np.median(sent[usual])),
        "ms of moments": 1000 * float(seconds[once].sum()),
        "bytes of moments": float(np.mean([p["seen"][once[0]][1] for p in peers])
                                  + sent[once].sum()) if once else 0.0,
        "seconds": float(whole),
        "said again": float(np.mean([p["again"] for p in peers])),
    }  # fmt: skip


def measure(repeats):
    rows = []
    with tempfile.TemporaryDirectory() as name:
        files = certificates(Path(name))
        for d in SIZES:
            for method in METHODS:
                found = [one_run(d, method, Path(name), files) for _ in range(repeats)]
                middle = {key: statistics.median(f[key] for f in found) for key in found[0]}
                rows.append({"d": d, "method": method, **middle})
                print(show(rows[-1]), flush=True)
    return rows


def show(row):
    cells = [
        f"{row['d']:,}", row["method"], f"{row['ms']:.1f}", f"{1000 / row['ms']:.0f}",
        f"{row['bytes']:,.0f}", f"{row['ms of moments']:.0f}", f"{row['bytes of moments']:,.0f}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker")
    given = parser.parse_args()
    if given.worker:
        work(json.loads(given.worker))
        return
    heads = ("d", "method", "ms a round", "rounds a second", "bytes a round", "ms of moments",
             "bytes up to then")  # fmt: skip
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
