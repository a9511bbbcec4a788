"""Without noise every algorithm of the family finds the centralised optimum, and at which rate.

Sites have unequal numbers of records and count by them, so the optimum is that of all records.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from ppadmm.accounting import Budget
from ppadmm.agent import Agent
from ppadmm.algorithms import Settings
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.dvp import build_dvp
from ppadmm.algorithms.gradient import build_gradient
from ppadmm.algorithms.ipp import build_ipp
from ppadmm.algorithms.m_admm import build_m_admm
from ppadmm.algorithms.one_shot import build_one_shot
from ppadmm.algorithms.pp import build_pp
from ppadmm.algorithms.r_admm import build_r_admm
from ppadmm.algorithms.settings import Speaking
from ppadmm.algorithms.weights import site_weights
from ppadmm.engines import local
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import SeededNoise
from ppadmm.problem import Graph, Logistic, MarginRisk
from tests.small_problems import random_shard

N, d = 5, 6
SIZES = (700, 150, 900, 40, 210)
WEIGHT, ETA = 0.05, 0.05
GRAPH = Graph(N, ((0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (0, 2)))
SHARDS = [random_shard(n=n, d=d, seed=i) for i, n in enumerate(SIZES)]


def minimum(V, scale, ridge):
    """Return argmin scale·Σℓ(Vθ) + (ridge/2)‖θ‖², by Newton's method."""
    loss, theta = Logistic(), np.zeros(d)
    for _ in range(30):
        slope = scale * V.T @ loss.gradient(V @ theta) + ridge * theta
        bend = scale * (V.T * loss.curvature(V @ theta)) @ V + ridge * np.eye(d)
        theta = theta - np.linalg.solve(bend, slope)
    assert np.linalg.norm(slope) < 1e-13
    return theta


@pytest.fixture(scope="module")
def optimum():
    return minimum(np.vstack([shard.signed() for shard in SHARDS]), N / sum(SIZES), WEIGHT)


def sites():
    weights = site_weights("records", SIZES)
    for i in range(N):
        yield site_in(GRAPH, i, MarginRisk(SHARDS[i], Logistic()), weights)


def last(builder, epsilon, rounds=400, quieter=lambda rule: rule, **changes):
    """Run with a budget of `epsilon` and return every agent's last release."""
    return traced(builder, epsilon, rounds, quieter, **changes).releases[-1, :, 0]


def traced(builder, epsilon, rounds, quieter, **changes):
    budgets = (Budget(epsilon, 1e-5),)
    values = {"eta": (ETA,), "beta": 1e-10, "solver": "newton", **changes}
    settings = Settings(rounds, regularisation=(WEIGHT,), budgets=budgets, **values)
    agents = []
    for site in sites():
        rule = quieter(builder(site, settings))
        noise = SeededNoise((0,))
        agents.append(Agent(rule, site.agent, site.neighbours, [MemoryLedger()], noise))
    return local.run(agents)


def quietened(scale):
    """Return what makes both noises of a rule `scale` times as large."""

    def quieter(rule):
        noises = tuple(
            replace(noise, sigma1=scale * noise.sigma1, sigma2=scale * noise.sigma2)
            for noise in rule.mechanism.noises
        )
        return replace(rule, mechanism=replace(rule.mechanism, noises=noises))

    return quieter


def assert_proportional(distances):
    assert distances[-1] < 1e-3
    for larger, smaller in pairwise(distances):
        assert 5 < larger / smaller < 20


@pytest.mark.parametrize("builder", [build_dvp, build_m_admm, build_r_admm])
def test_gamma_noise_leaves_a_distance_in_proportion(builder, optimum):
    assert_proportional(
        [
            np.linalg.norm(last(builder, epsilon) - optimum, axis=1).max()
            for epsilon in (1e7, 1e8, 1e9)
        ]
    )


@pytest.mark.parametrize("builder", [build_pp, build_ipp])
def test_gaussian_noise_leaves_a_distance_in_proportion(builder, optimum):
    def with_scale(scale):
        speaking = Speaking(releases=400, level=-1e9)
        return last(builder, 20.0, quieter=quietened(scale), speaking=speaking)

    assert_proportional(
        [np.linalg.norm(with_scale(scale) - optimum, axis=1).max() for scale in (1e-4, 1e-5, 1e-6)]
    )


def test_gradient_descent_settles_near_the_optimum_in_proportion_to_its_step(optimum):
    def distance(step):
        def quieter(rule):
            return replace(rule, sigma=1e-12 * rule.sigma)

        models = last(build_gradient, 1.0, 7_000, quieter, eta=(step,))
        return np.linalg.norm(models - optimum)

    near, far = distance(0.05), distance(0.2)
    assert 0 < near < far / 2.5


def test_one_shot_averages_local_minima_by_weight():
    """Each is that of wᵢfᵢ + (λ̂/N)·½‖θ‖², as in the common objective."""
    weights = site_weights("records", SIZES)
    local_minima = [
        minimum(shard.signed(), weight / shard.n, WEIGHT / N)
        for shard, weight in zip(SHARDS, weights, strict=True)
    ]
    found = np.average(local_minima, axis=0, weights=SIZES)

    def with_scale(scale):
        return traced(build_one_shot, 20.0, 1, quietened(scale)).model(weights)[0]

    assert_proportional([np.linalg.norm(with_scale(s) - found) for s in (1e-3, 1e-4, 1e-5)])


def test_r_admm_reads_the_records_in_every_other_round():
    settings = Settings(7, (ETA,), (WEIGHT,), (Budget(1.0, 1e-5),), solver="newton")
    assert build_r_admm(next(sites()), settings).reserved[0][0][1] == 4
