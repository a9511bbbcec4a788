"""The noise that is drawn is as large as what was paid for it says: to the last digit.

A game sees noise that is a fifth too small. Here sensitivities are written down anew, and compared
with what agents draw and what their ledgers hold.
"""

import math
from typing import ClassVar

import numpy as np
import pytest
from scipy.special import logsumexp

from ppadmm.accounting import Gaussian, ObjectivePerturbation, Pure
from ppadmm.agent import Agent, Message
from ppadmm.algorithms import SharedState, Site, build
from ppadmm.algorithms.settings import Speaking
from ppadmm.ledger import MemoryLedger
from ppadmm.mechanisms import ChargedNoise, Place
from ppadmm.mechanisms.threshold_tests import SparseVector
from ppadmm.noise import SeededNoise
from ppadmm.problem import HuberHinge, Logistic, Multinomial, OneVsRest, risk_of
from tests.small_problems import make_settings, random_shard

AGENTS, ETA, WEIGHT, BETA, N = 6, 0.3, 0.05, 1e-8, 60
LOSSES = {
    "logistic": (Logistic(), 1.0, 0.25),
    "hinge": (HuberHinge(0.5), 1.0, 1.0),
    "multinomial": (Multinomial(4), math.sqrt(2.0), 0.5),
    "one-vs-rest": (OneVsRest(HuberHinge(0.5), 3), math.sqrt(3.0), 1.0),
}
"""By name: a loss, its G and its c₁."""


class Watched(SeededNoise):
    """Seeded noise that keeps the scale of every draw, by purpose."""

    scales: ClassVar[dict] = {}

    def gaussian(self, values, scale, grid, key):
        self.scales.setdefault(key.purpose, []).extend(scale)
        return super().gaussian(values, scale, grid, key)

    def laplace(self, values, scale, grid, key):
        self.scales.setdefault(key.purpose, []).extend(scale)
        return super().laplace(values, scale, grid, key)

    def restricted(self, rows):
        return Watched(tuple(self.seeds[k] for k in rows))


def drawn(algorithm, loss, degree=1, theirs=5, rounds=3, **changes):
    """Run an agent in a star; return its scales by purpose and its events, spent, by kind."""
    Watched.scales = {}
    risk = risk_of(random_shard(n=N, d=4, classes=max(loss.outputs, 2)), loss)
    site = Site(0, AGENTS, tuple(range(1, degree + 1)), risk, (theirs,) * degree)
    given = {"rounds": rounds, "eta": (ETA,), "regularisation": (AGENTS * WEIGHT,), "beta": BETA}
    rule = build(algorithm, site, make_settings(**given | changes))
    ledger = MemoryLedger()
    agent = Agent(rule, 0, site.neighbours, [ledger], Watched((0,)))
    for t in range(rule.rounds):
        heard = agent.next().message.heard
        for j in site.neighbours:
            agent.receive(Message(j, t, SharedState(0.0 * heard.value, 0.0 * heard.total)))
    events = {}
    for event, times in ledger.spent.counts:
        events.setdefault(type(event), []).append((event, times))
    return {name: set(scales) for name, scales in Watched.scales.items()}, events


@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out"])
@pytest.mark.parametrize(("degree", "theirs"), [(1, 5), (5, 1)], ids=["leaf", "hub"])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("algorithm", ["pp", "one-shot"])
def test_both_noises_of_a_release(algorithm, name, degree, theirs, adjacency):
    loss, G, c1 = LOSSES[name]
    scales, events = drawn(algorithm, loss, degree, theirs, adjacency=adjacency)
    mu = WEIGHT + (2.0 * ETA * degree if algorithm == "pp" else 0.0)
    changed = 2 if adjacency == "replace-one" else 1
    (sigma1,), (sigma2,) = scales["linear"], scales["output"]
    ((first, times),), ((second, again),) = events[ObjectivePerturbation], events[Gaussian]
    assert times == again == (3 if algorithm == "pp" else 1)
    assert first.ratio * sigma1 == pytest.approx(changed * G / N, rel=1e-12)
    assert first.kappa == pytest.approx(c1 / (N * mu), rel=1e-12)
    assert first.records == changed
    assert 1.0 <= second.ratio * sigma2 / (2.0 * BETA / mu) < 1.01


@pytest.mark.parametrize("name", LOSSES)
def test_gaussian_tests(name):
    loss, G, _ = LOSSES[name]
    scales, events = drawn("ipp", loss, speaking=Speaking(test="gaussian", level=1e9))
    (sigma,), ((event, times),) = scales["test"], events[Gaussian]
    assert times == 3
    assert 1.0 <= event.ratio * sigma / (2.0 * G / N) < 1.01


def test_noisy_gradients():
    scales, events = drawn("gradient", Logistic())
    (sigma,), ((event, times),) = scales["gradient"], events[Gaussian]
    assert times == 3
    assert 1.0 <= event.ratio * sigma / (2.0 / N) < 1.01


@pytest.mark.parametrize("releases", [1, 2, 5])
def test_the_sparse_vector_costs_what_it_says(releases):
    """Its ratio of probabilities, by quadrature over the threshold, is ε at the worst: no more.

    N answers are "no" and c are "yes". One record brings all of the former up by Δ and all of the
    latter down. The scales are those that are drawn with.
    """
    scales, events = drawn("ipp", Logistic(), speaking=Speaking(
        test="svt", level=1e9, releases=releases
    ))  # fmt: skip
    (threshold,), (query,) = scales["threshold"], scales["test"]
    ((event, times),) = events[Pure]
    assert times == 1
    delta = 2.0 / N * (1.0 + 2.0**-9)
    worst = max(
        abs(_log_probability(no, yes, count, releases, threshold, query)
            - _log_probability(no + delta, yes - delta, count, releases, threshold, query))
        for count in (1, 10, 100)
        for no in np.linspace(-15.0, 10.0, 11) * query
        for yes in np.linspace(-15.0, 10.0, 6) * query
    )  # fmt: skip
    assert 0.99 * event.epsilon < worst < 1.01 * event.epsilon


def _log_probability(no, yes, count, releases, threshold, query):
    z = np.linspace(-60.0, 60.0, 12_001) * threshold
    parts = -np.abs(z) / threshold - math.log(2.0 * threshold)
    parts += count * _log_cdf((z - no) / query) + releases * _log_cdf((yes - z) / query)
    return float(logsumexp(parts)) + math.log(z[1] - z[0])


def _log_cdf(x):
    below, above = np.minimum(x, 0.0), np.maximum(x, 0.0)
    return np.where(x < 0.0, math.log(0.5) + below, np.log1p(-0.5 * np.exp(-above)))


def test_a_kept_threshold_decides_as_it_was_drawn():
    """What is compared with is what `draw_threshold` returned."""
    test = SparseVector(np.ones(1), np.zeros(1), np.ones(1), 1)
    ledger = MemoryLedger()
    ledger.reserve([test.reserved[0]])
    charged = ChargedNoise((ledger,), SeededNoise((0,)))
    for kept in (-1e9, 1e9):
        answer = test.decide(np.zeros(1), np.full(1, kept), np.array([0]), charged, Place(0, 0))
        assert answer == [kept < 0.0]
