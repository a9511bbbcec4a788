"""Small networks of peers in memory, each in a thread of its own."""

import threading

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ppadmm.algorithms import build
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.weights import site_weights
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import SeededNoise
from ppadmm.peers.agreement import Agreement, Party
from ppadmm.peers.outcome import RetrySchedule
from ppadmm.peers.store import PeerStore
from ppadmm.peers.sum_peer import make_peer
from ppadmm.problem import Logistic, make_graph, risk_of
from ppadmm.sum_agent import SumAgent
from tests.peers.hub import Hub
from tests.small_problems import make_agents, make_settings, random_shard

QUICK = RetrySchedule(first=0.02, longest=0.2, grace=1.0, wait=30)
RECORDS, FEATURES = 60, 5


def key_of(i):
    return Ed25519PrivateKey.from_private_bytes(bytes([i + 1]) * 32)


def agreed(graph, records=RECORDS, **changes):
    """An agreement that fits `make_settings` and `make_agents`; `records` may be one for each."""
    settings, sizes = make_settings(), np.broadcast_to(records, graph.size).tolist()
    parties = tuple(
        Party(f"site {i}", key_of(i).public_key().public_bytes_raw().hex(), n, 1.0)
        for i, n in enumerate(sizes)
    )
    values = {
        "parties": parties,
        "edges": graph.edges,
        "schema": "5e" * 32,
        "parameters": FEATURES,
        "rounds": settings.rounds,
        "eta": settings.eta[0],
        "delta": settings.budgets[0].delta,
        "nonce": "test",
        "regularisation": settings.regularisation[0],
        "beta": settings.beta,
        "weights": "records",
        "patience": 30.0,
    }
    return Agreement(**{**values, **changes})


def graph_of(n=5, kind="ring"):
    return make_graph(kind, n, 0)


def sum_agents_of(agreement, ledgers=None, noise=None, seed=0):
    """The agents of an agreement on sums, with seeded noise unless told otherwise."""
    sizes, network = [party.records for party in agreement.parties], agreement.graph
    shares, graph = site_weights(agreement.weights, sizes), agreement.exchange(network)
    agents = []
    for i, n in enumerate(sizes):
        risk = risk_of(random_shard(n=n, d=FEATURES, seed=100 + i), Logistic())
        site = site_in(graph, i, risk, shares, sum(sizes))
        rule = build(agreement.algorithm, site, agreement.settings(i))
        ledger = MemoryLedger() if ledgers is None else ledgers(i, rule)
        source = noise or SeededNoise((seed,))
        agents.append(SumAgent(rule, i, graph.neighbours(i), [ledger], source))
    return agents


def agents_of(agreement, **options):
    """The agents of an agreement, with seeded noise."""
    if agreement.recipe.everyone:
        return sum_agents_of(agreement, **options)
    settings = make_settings(rounds=agreement.rounds)
    sizes = [party.records for party in agreement.parties]
    options = {"n": sizes, "d": FEATURES, "weights": agreement.weights, **options}
    return make_agents(agreement.graph, settings, agreement.algorithm, **options)


def peer_of(agent, agreement, transport, folder, pace=QUICK, **options):
    key = key_of(agent.number)
    store = PeerStore(folder / f"site-{agent.number}")
    return make_peer(agent, agreement, key, agreement.sign(key), transport, store, pace, **options)


def run_all(peers):
    """Run peers side by side; return their outcomes, or the errors that they ended with."""
    found = [None] * len(peers)

    def run(k):
        try:
            found[k] = peers[k].run()
        except Exception as error:
            found[k] = error

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(peers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a peer never ended"
    return found


def join(agreement, agents, folder, faults=None, hub=None, **options):
    """Join agents on a hub as peers and run them."""
    hub = hub or Hub(agreement.edges, cap=1 << 20, faults=faults)
    peers = [peer_of(a, agreement, hub.end(a.number), folder, **options) for a in agents]
    return peers, run_all(peers)
