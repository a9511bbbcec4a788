"""Without noise every algorithm of the family finds the centralised optimum, and at which rate."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from ppadmm.accounting import Budget
from ppadmm.agent import Agent
from ppadmm.algorithms import Settings, Site
from ppadmm.algorithms.dvp import build_dvp
from ppadmm.algorithms.gradient import build_gradient
from ppadmm.algorithms.ipp import build_ipp
from ppadmm.algorithms.m_admm import build_m_admm
from ppadmm.algorithms.pp import build_pp
from ppadmm.algorithms.r_admm import build_r_admm
from ppadmm.algorithms.settings import Speaking
from ppadmm.engines import local
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import SeededNoise
from ppadmm.problem import Graph, Logistic, MarginRisk
from tests.small_problems import random_shard

N, n, d = 5, 400, 6
WEIGHT, ETA = 0.05, 0.05
GRAPH = Graph(N, ((0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (0, 2)))
SHARDS = [random_shard(n=n, d=d, seed=i) for i in range(N)]


@pytest.fixture(scope="module")
def optimum():
    V = np.vstack([shard.signed() for shard in SHARDS])
    loss = Logistic()

    def value(theta):
        return loss.value(V @ theta).sum() / n + WEIGHT / 2 * theta @ theta

    def slope(theta):
        return V.T @ loss.gradient(V @ theta) / n + WEIGHT * theta

    return minimize(value, np.zeros(d), jac=slope, method="BFGS", options={"gtol": 1e-11}).x


def sites():
    for i in range(N):
        degrees = tuple(GRAPH.degree(j) for j in GRAPH.neighbours(i))
        yield Site(i, N, GRAPH.neighbours(i), MarginRisk(SHARDS[i], Logistic()), degrees)


def last(builder, epsilon, rounds=400, quieter=lambda rule: rule, **changes):
    """Run with a budget of `epsilon` and return every agent's last release."""
    budgets = (Budget(epsilon, 1e-5),)
    values = {"eta": (ETA,), "beta": 1e-11, "solver": "newton", **changes}
    settings = Settings(rounds, regularisation=(WEIGHT,), budgets=budgets, **values)
    agents = []
    for site in sites():
        rule = quieter(builder(site, settings))
        noise = SeededNoise((0,))
        agents.append(Agent(rule, site.agent, site.neighbours, [MemoryLedger()], noise))
    return local.run(agents).releases[-1, :, 0]


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
        def quieter(rule):
            noises = tuple(
                replace(noise, sigma1=scale * noise.sigma1, sigma2=scale * noise.sigma2)
                for noise in rule.mechanism.noises
            )
            return replace(rule, mechanism=replace(rule.mechanism, noises=noises))

        return last(builder, 20.0, quieter=quieter, speaking=Speaking(releases=400, level=-1e9))

    assert_proportional(
        [np.linalg.norm(with_scale(scale) - optimum, axis=1).max() for scale in (1e-4, 1e-5, 1e-6)]
    )


def test_gradient_descent_settles_near_the_optimum_in_proportion_to_its_step(optimum):
    def distance(step):
        def quieter(rule):
            return replace(rule, sigma=1e-12 * rule.sigma)

        models = last(build_gradient, 1.0, 20_000, quieter, eta=(step,))
        return np.linalg.norm(models - optimum)

    near, far = distance(0.05), distance(0.2)
    assert 0 < near < far / 2.5


def test_r_admm_reads_the_records_in_every_other_round():
    settings = Settings(7, (ETA,), (WEIGHT,), (Budget(1.0, 1e-5),), solver="newton")
    site = Site(0, N, GRAPH.neighbours(0), MarginRisk(SHARDS[0], Logistic()))
    assert build_r_admm(site, settings).reserved[0][0][1] == 4
