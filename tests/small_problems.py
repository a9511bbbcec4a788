"""Small problems that every part of the suite shares."""

import numpy as np
import pytest

from ppadmm.accounting import Budget
from ppadmm.agent import Agent
from ppadmm.algorithms import Settings, build
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.weights import site_weights
from ppadmm.data import Shard, normalise_rows
from ppadmm.engines import local
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import SeededNoise
from ppadmm.problem import Logistic, risk_of


def assert_alike(mine, theirs, rel=1e-9):
    """Check that plain data agree, numbers to rounding: kernels add up in orders of their own."""
    if isinstance(mine, dict):
        assert mine.keys() == theirs.keys()
        for name in mine:
            assert_alike(mine[name], theirs[name], rel)
    elif isinstance(mine, list | tuple):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            assert_alike(a, b, rel)
    elif isinstance(mine, float):
        assert mine == pytest.approx(theirs, rel=rel, abs=1e-12)
    else:
        assert mine == theirs


def random_shard(n=60, d=5, seed=0, sparse=False, classes=2):
    """Records from a logistic model, rows of norm ≤ 1."""
    rng = np.random.default_rng(seed)
    X = normalise_rows(rng.standard_normal((n, d)))
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-4 * X[:, 0])), 1.0, -1.0)
    if sparse:
        from scipy.sparse import csr_array

        X = csr_array(X * (rng.random((n, d)) < 0.4))
    if classes > 2:
        return Shard(X, rng.integers(0, classes, n).astype(float), classes)
    return Shard(X, y)


def make_agents(
    graph, settings, algorithm="pp", loss=None, seeds=(0,), weights="records", shards=(), **options
):
    """One agent per node of `graph`, with its own of `shards` or random records, `n` in number."""
    noise, loss = SeededNoise(tuple(seeds)), loss or Logistic()
    sizes = np.broadcast_to(options.pop("n", 60), graph.size).tolist()
    shards = shards or [
        random_shard(seed=100 + i, classes=max(2, loss.outputs), n=n, **options)
        for i, n in enumerate(sizes)
    ]
    shares = site_weights(weights, [shard.n for shard in shards])
    agents = []
    for i, shard in enumerate(shards):
        rule = build(algorithm, site_in(graph, i, risk_of(shard, loss), shares), settings)
        ledgers = [MemoryLedger() for _ in range(settings.replicates)]
        agents.append(Agent(rule, i, graph.neighbours(i), ledgers, noise))
    return agents


def make_settings(**changes):
    """Settings of a small run; pass any of them to change it."""
    values = {
        "rounds": 5,
        "eta": (0.1,),
        "regularisation": (0.05,),
        "budgets": (Budget(1.0, 1e-5),),
        "beta": 1e-9,
    }
    return Settings(**{**values, **changes})


def run_small(graph, algorithm="pp", settings=None, **options):
    """Run a small network to the end and return its trace."""
    return local.run(make_agents(graph, settings or make_settings(), algorithm, **options))
