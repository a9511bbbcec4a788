"""Small problems that every part of the suite shares."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from ppadmm.agent import Agent
from ppadmm.algorithms import Settings, Site, build
from ppadmm.data import Shard, normalise_rows
from ppadmm.engines import local
from ppadmm.noise import SeededNoise
from ppadmm.privacy import Budget, MemoryLedger
from ppadmm.problem import Logistic, Risk

settings.register_profile(
    "ppadmm", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ppadmm")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Run every test in a folder of its own: what it saves by default stays out of the project."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data_dir():
    """The folder with the real data sets, where there is one."""
    folder = os.environ.get("PPADMM_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("PPADMM_DATA names no folder with the real data sets")
    return folder


def random_shard(n=60, d=5, seed=0, sparse=False):
    """Records from a logistic model, rows of norm ≤ 1."""
    rng = np.random.default_rng(seed)
    X = normalise_rows(rng.standard_normal((n, d)))
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-4 * X[:, 0])), 1.0, -1.0)
    if sparse:
        from scipy.sparse import csr_array

        X = csr_array(X * (rng.random((n, d)) < 0.4))
    return Shard(X, y)


def make_agents(graph, settings, algorithm="pp", loss=None, seeds=(0,), sparse=False, **sizes):
    """One agent per node of `graph`, each with its own random records."""
    noise = SeededNoise(tuple(seeds))
    agents = []
    for i in range(graph.size):
        risk = Risk(random_shard(seed=100 + i, sparse=sparse, **sizes), loss or Logistic())
        rule = build(algorithm, Site(i, graph.size, graph.neighbours(i), risk), settings)
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
