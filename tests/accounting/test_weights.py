"""Weights (docs/privacy.md, section 17) against exact densities of the problem as it is written.

Here an agent minimises w·f + (m/2)θ² + cθ + w·bθ with m = λ̂/N + 2η|B|, whereas the code solves all
of it divided by w. What the code charges must cover the exact law of that minimiser.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from ppadmm.accounting import Budget, Charge, Tally, epsilon
from ppadmm.accounting.accountant import rdp
from ppadmm.accounting.events import ObjectivePerturbation
from ppadmm.algorithms import Settings, Site
from ppadmm.algorithms.pp import build_pp
from ppadmm.data import Shard
from ppadmm.problem import HuberHinge, Logistic, risk_of
from tests.accounting.exact import (
    PAIRS,
    Lines,
    centred,
    orders_for,
    random_lines,
    random_plane,
)

LOSSES = (Logistic(), HuberHinge(0.5))
DELTA = 1e-5
PER_CASE = 100


@dataclass(frozen=True)
class Place:
    """A random place in a network: weight w, and λ̂/N + 2η|B| = m."""

    weight: float
    degree: int
    listeners: int
    ridge: float

    @classmethod
    def drawn(cls, rng):
        weight = math.exp(rng.uniform(math.log(0.02), math.log(50.0)))
        return cls(weight, int(rng.integers(1, 9)), int(rng.integers(0, 5)), rng.uniform(0.0, 0.9))

    def noise(self, loss, n, m, wanted, adjacency, d):
        """Return σ₁ and the event that the code charges for, at about the event that is `wanted`.

        The site may be any but the heaviest: only the radius depends on that.
        """
        agents = 1 + self.degree + self.listeners
        risk = risk_of(Shard(np.zeros((n, d)), np.ones(n)), loss)
        near = tuple(range(1, 1 + self.degree))
        site = Site(0, agents, near, risk, (1,) * self.degree, self.weight, 2.0 * self.weight)
        budget = Budget(1.01 * epsilon(Tally.of([Charge((wanted,))]), DELTA).epsilon, DELTA)
        eta = (1.0 - self.ridge) * m / (2.0 * self.degree)
        settings = Settings(
            1, (eta,), (self.ridge * m * agents,), (budget,), beta=1e-5, adjacency=adjacency
        )
        found = build_pp(site, settings).mechanism.noises[0]
        return found.sigma1, found.charge.events[0]


def weighted_lines(loss, pair, rng, count=PER_CASE, **limits):
    """Random undivided problems on the line, with the noise of the code, and what it charges."""
    plain = random_lines(loss, pair, count, rng, kappa=(1e-3, 2.0), **limits)
    places = [Place.drawn(rng) for _ in range(count)]
    w = np.array([place.weight for place in places])
    m = w * plain.mu
    adjacency = "zero-out" if pair == "zero-out" else "replace-one"
    found = [
        place.noise(loss, int(n), own, wanted, adjacency, d=1)
        for place, n, own, wanted in zip(places, plain.n, m, plain.events(), strict=True)
    ]
    sigma = np.array([s for s, _ in found])
    undivided = replace(
        plain, n=plain.n / w, mu=m, sigma=w * sigma, weights=w[:, None] * plain.weights
    )
    centre = plain.points(np.zeros((count, 1)))[:, 0]
    return centred(replace(undivided, c=0.0 * w), centre), [event for _, event in found], w


def largest(lines, events, bound=rdp):
    """Return exact/bound (I,), the largest of both directions and all orders."""
    orders = orders_for(lines)
    exact = lines.renyi(orders).max(axis=0)
    limits = np.array([bound(e, o) for e, o in zip(events, orders, strict=True)])
    return np.nanmax((exact - 1e-9) / limits, axis=1)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_no_weighted_problem_on_the_line_exceeds_what_is_charged(loss, pair):
    rng = np.random.default_rng([1, LOSSES.index(loss), PAIRS.index(pair)])
    lines, events, w = weighted_lines(loss, pair, rng)
    assert w.min() < 0.2
    assert w.max() > 5.0
    found = largest(lines, events)
    assert found.max() <= 1.0 + 1e-6
    assert np.median(found) > 0.01


@pytest.mark.parametrize("pair", PAIRS)
def test_no_weighted_problem_in_the_plane_exceeds_what_is_charged(pair):
    rng = np.random.default_rng([2, PAIRS.index(pair)])
    worst = 0.0
    for _ in range(5):
        plain, place = random_plane(Logistic(), pair, rng), Place.drawn(rng)
        w, m = place.weight, place.weight * plain.mu
        adjacency = "zero-out" if pair == "zero-out" else "replace-one"
        sigma, event = place.noise(plain.loss, plain.n, m, plain.event, adjacency, d=2)
        centre = plain.points(np.zeros((1, 2)))
        undivided = replace(plain, n=plain.n / w, mu=m, sigma=w * sigma, weights=w * plain.weights)
        undivided = replace(undivided, c=-(undivided.gradient(centre) - undivided.c)[0])
        orders = np.array([1.1, 1.5, 2.0, 4.0, 8.0, 32.0])
        orders = orders[orders * event.ratio <= 6.0 + 1.1 * event.ratio]
        ratio = undivided.renyi(orders) / rdp(event, orders)
        worst = max(worst, ratio.max())
    assert (0.9 if pair == "antipodal" else 0.0) < worst <= 1.0 + 1e-6


def straight(rng, ratio=(0.1, 2.0)) -> tuple[Lines, list[ObjectivePerturbation], np.ndarray]:
    """Opposite records where the hinge is straight: ∇f moves by 2G/n exactly."""
    lines, events, w = weighted_lines(HuberHinge(0.5), "antipodal", rng, 40, ratio=ratio)
    lines = replace(lines, old=np.ones(40), new=-np.ones(40), others=0.0 * lines.others)
    return centred(replace(lines, c=0.0 * w), np.zeros(40)), events, w


def bent(rng) -> tuple[Lines, list[ObjectivePerturbation], np.ndarray]:
    """Little s/σ, with θ̃ where the loss that is left out bends: κ is what counts."""
    lines, events, w = weighted_lines(HuberHinge(0.5), "zero-out", rng, 40, ratio=(1e-3, 1e-2))
    return centred(replace(lines, c=0.0 * w), 1.0 / lines.old), events, w


def test_what_is_charged_is_reached_at_every_weight():
    found = largest(*straight(np.random.default_rng(3))[:2])
    assert np.median(found) > 0.9


def test_noise_for_a_weight_of_one_is_caught():
    """w·f with noise b in place of w·b: whoever weighs more than 1 is protected less."""
    lines, events, w = straight(np.random.default_rng(4))
    found = largest(replace(lines, sigma=lines.sigma / w), events)
    assert (found[w > 2.0] > 1.1).all()


def test_a_curvature_for_a_weight_of_one_is_caught():
    lines, events, w = bent(np.random.default_rng(5))
    assert largest(lines, events).max() <= 1.0 + 1e-6
    careless = [replace(e, kappa=e.kappa / own) for e, own in zip(events, w, strict=True)]
    heavy = w > 2.0
    assert (largest(lines, careless)[heavy] > 1.0).mean() > 0.5
