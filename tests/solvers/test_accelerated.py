"""`finish` ends after a public number of steps within tolerance/μ of the minimiser, as proven."""

import math

import mpmath
import numpy as np
import pytest

from ppadmm.problem import HuberHinge, Logistic, Subproblem
from ppadmm.solvers import Newton, cold_start, finish
from ppadmm.solvers.accelerated import GROWTH, epochs, rounding_within, steps_of_epoch
from tests.solvers.test_every_solver import combinations, problem


@pytest.fixture
def uncertified(monkeypatch):
    """No point is certified on the way: what is left is the number of steps."""
    monkeypatch.setattr(Subproblem, "rounding", lambda self, theta: np.full(len(theta), 1.0))


@combinations
@pytest.mark.parametrize("scale", [0.0, 0.1, 30.0])
@pytest.mark.parametrize("mu", [0.05, 1e-3])
def test_its_last_point_is_as_close_as_it_says(loss, scale, mu, uncertified):
    tolerance, sub = 1e-7, problem(loss, mu=mu, scale=scale, R=2)
    best = minimiser(sub)
    found = finish(sub, tolerance)
    assert (found.residual <= tolerance).all()
    away = np.linalg.norm(found.point - best, axis=1)
    assert (away <= (found.residual + 1e-10) / sub.mu).all()


def minimiser(sub):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Subproblem, "rounding", lambda self, theta: np.zeros(len(theta)))
        return Newton(careful=True).solve(sub, cold_start(sub), 1e-10).point


def test_it_takes_as_many_steps_as_the_condition_number_says(uncertified):
    sub = problem(Logistic(), mu=0.05, R=1)
    radius = (1.0 + np.linalg.norm(sub.linear, axis=1)) / sub.mu
    halvings, inner = epochs(sub.mu, radius, 1e-7)[0], steps_of_epoch(sub.mu, 0.25)[0]
    assert halvings == math.ceil(math.log2(sub.mu[0] * radius[0] / 3e-8))
    assert inner == math.ceil(4 * math.sqrt((0.25 + sub.mu[0]) / sub.mu[0]))
    before = sub.risk.passes
    assert finish(sub, 1e-7).passes == halvings * inner + 1 == sub.risk.passes - before


def test_zero_is_the_answer_where_it_is_near_enough():
    sub = problem(Logistic(), mu=2.0, R=1, scale=0.0)
    found = finish(sub, 5.0)
    assert (found.point == 0.0).all()
    assert found.passes == 1


def push_away(theta, best):
    return -(theta - best) / max(np.linalg.norm(theta - best), 1e-300)


def push_round(theta, best):
    return push_away(theta, best)[:, ::-1] * np.array([1.0, -1.0] * (theta.shape[1] // 2))


def push_always(theta, best):
    return np.full_like(theta, theta.shape[1] ** -0.5)


@pytest.mark.parametrize("push", [push_away, push_round, push_always], ids=lambda f: f.__name__)
@pytest.mark.parametrize("rho", [1e-2, 1e-4])
@pytest.mark.parametrize("mu", [0.05, 2e-3])
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.05)], ids=lambda loss: loss.name)
def test_errors_of_the_gradient_do_no_more_than_the_theorem_says(
    loss, mu, rho, push, uncertified, monkeypatch
):
    """Gradients that err by ρ in whatever direction: every epoch and every point keeps to it."""
    sub = problem(loss, mu=mu, R=1)
    best, seen, exact = minimiser(sub), [], sub.risk.gradient

    def wrong(theta, single=False):
        seen.append(theta[0])
        return exact(theta) + rho * push(theta, best)

    monkeypatch.setattr(sub.risk, "gradient", wrong)
    found = finish(sub, 1e-6)
    inner, floor = steps_of_epoch(sub.mu, loss.smoothness)[0], GROWTH * rho / sub.mu[0]
    starts = np.linalg.norm(np.array(seen[::inner]) - best, axis=1)
    assert len(starts) > 10
    assert (starts[1:] <= starts[:-1] / 2 + floor / 2 + 1e-9).all()
    for k, start in enumerate(starts[:-1]):
        points = np.array(seen[k * inner : (k + 1) * inner])
        assert (np.linalg.norm(points - best, axis=1) <= start + floor + 1e-9).all()
    assert np.linalg.norm(found.point - best) <= floor + 1e-6


def test_its_rounding_bound_covers_its_steps():
    """Against 40 digits: every step is an exact one, but for an error of ∇F that is allowed."""
    sub = problem(Logistic(), mu=0.05, R=1, n=20, scale=1e4)
    c1, mu = 0.25, float(sub.mu[0])
    radius = (1.0 + np.linalg.norm(sub.linear)) / sub.mu
    allowed = rounding_within(sub.rounding_terms, c1, sub.mu, radius)[0]
    rows, steepest = sub.risk.shard.signed(), c1 + mu
    theta = last = ahead = np.zeros(6)
    with mpmath.workdps(40):
        for k in range(1, 60):
            moved = ahead - sub.gradient(ahead[None])[0] / steepest
            point = extrapolated(k - 1, theta, last)
            exact = [
                y - g / (mpmath.mpf(c1) + mpmath.mpf(mu))
                for y, g in zip(point, slope(rows, point, mu, sub.linear[0]), strict=True)
            ]
            error = mpmath.norm([a - b for a, b in zip(moved.tolist(), exact, strict=True)])
            assert error * steepest <= allowed
            last, theta = theta, moved
            ahead = theta + (k - 1) / (k + 2) * (theta - last)
            assert np.linalg.norm(ahead) <= 3 * radius[0]


def extrapolated(k, theta, last):
    """θ + (k−1)/(k+2)·(θ − θ'), exactly; θ itself before the first step."""
    pairs = zip(theta.tolist(), last.tolist(), strict=True)
    weight = mpmath.mpf(max(k - 1, 0)) / (k + 2)
    return [mpmath.mpf(a) + weight * (mpmath.mpf(a) - mpmath.mpf(b)) for a, b in pairs]


def slope(rows, point, mu, linear):
    """∇F at a point in whatever precision mpmath has."""
    total = [mpmath.mpf(0)] * len(point)
    for row in rows.tolist():
        v = [mpmath.mpf(x) for x in row]
        weight = -1 / (1 + mpmath.exp(mpmath.fdot(v, point)))
        total = [a + weight * x for a, x in zip(total, v, strict=True)]
    public = zip(point, linear.tolist(), strict=True)
    return [a / len(rows) + mu * t + c for a, (t, c) in zip(total, public, strict=True)]
