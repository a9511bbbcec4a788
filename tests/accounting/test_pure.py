"""Pure differential privacy: randomised response dominates, and Gamma noise delivers it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.accounting import Budget, Charge, Gaussian, Pure, Tally, epsilon
from ppadmm.accounting.accountant import _by_pure_composition, _randomised_response_delta, pure_rdp
from ppadmm.algorithms.gamma import epsilon_per_release

ORDERS = np.array([1.01, 1.5, 2.0, 4.0, 16.0, 64.0])


def response(each):
    p = math.exp(each) / (1.0 + math.exp(each))
    return np.array([p, 1.0 - p]), np.array([1.0 - p, p])


@given(each=st.floats(1e-4, 8.0))
def test_pure_rdp_is_that_of_randomised_response(each):
    p, q = response(each)
    exact = [math.log((p**a * q ** (1 - a)).sum()) / (a - 1) for a in ORDERS]
    np.testing.assert_allclose(pure_rdp(each, ORDERS), exact, rtol=1e-6, atol=1e-12)
    assert np.all(pure_rdp(each, ORDERS) >= np.array(exact) * (1 - 1e-12) - 1e-14)
    assert np.all(pure_rdp(each, ORDERS) <= np.minimum(each, ORDERS * each**2 / 2) * (1 + 1e-9))


@pytest.mark.parametrize("each", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("times", [1, 2, 5, 8])
def test_optimal_composition_against_all_outcomes(each, times):
    p, q = response(each)
    outcomes = list(itertools.product((0, 1), repeat=times))
    P = np.array([np.prod(p[list(o)]) for o in outcomes])
    Q = np.array([np.prod(q[list(o)]) for o in outcomes])
    for target in np.linspace(0.0, each * times, 7):
        exact = np.maximum(P - math.exp(target) * Q, 0.0).sum()
        assert _randomised_response_delta(each, times, target) == pytest.approx(exact, abs=1e-12)


@given(each=st.floats(1e-4, 3.0), times=st.integers(1, 300), delta=st.floats(1e-9, 1e-2))
def test_composition_is_never_above_the_sum_and_delivers_its_delta(each, times, delta):
    tally = Tally.of([Charge((Pure(each),))], times)
    bound = epsilon(tally, delta)
    assert bound.epsilon <= each * times * (1 + 1e-9)
    assert _randomised_response_delta(each, times, bound.epsilon) <= delta * (1 + 1e-6) + 1e-15


def test_unequal_pure_events_are_composed_as_if_all_were_the_largest():
    mixed = Tally.of([Charge((Pure(0.1), Pure(0.2)))], 10)
    largest = Tally.of([Charge((Pure(0.2),))], 20)
    bound = _by_pure_composition(mixed, 1e-5)
    assert bound.epsilon == _by_pure_composition(largest, 1e-5).epsilon
    assert epsilon(mixed, 1e-5).epsilon <= bound.epsilon


def test_pure_and_gaussian_events_compose():
    both = Tally.of([Charge((Pure(0.3), Gaussian(0.2)))])
    assert epsilon(both, 1e-5).epsilon > epsilon(Tally.of([Charge((Gaussian(0.2),))]), 1e-5).epsilon
    assert epsilon(both, 1e-5).epsilon > 0.3


@given(
    target=st.floats(0.01, 20), delta=st.sampled_from([1e-8, 1e-5]), releases=st.integers(1, 200)
)
def test_the_epsilon_of_a_release_fits_the_budget(target, delta, releases):
    each = epsilon_per_release(Budget(target, delta), releases)
    assert epsilon(Tally.of([Charge((Pure(each),))], releases), delta).epsilon <= target
    assert each >= target / releases * (1 - 1e-6)


def test_gamma_noise_is_pure_on_the_line():
    """The exact density ratio of θ̃ never exceeds ρs + log(1+κ), and comes close."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(400):
        n, mu, rate = int(rng.integers(1, 20)), 10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-1, 2)
        others = rng.uniform(-1, 1, n - 1)
        v, w = rng.choice([-1.0, 1.0]), rng.uniform(-1, 1)
        theta = np.linspace(-30, 30, 4001)
        logs = []
        for record in (v, w):
            x = np.append(others, record)
            m = np.outer(theta, x)
            p = 1 / (1 + np.exp(m))
            slope = -(p * x).mean(axis=1) + mu * theta
            bend = (p * (1 - p) * x**2).mean(axis=1) + mu
            logs.append(-rate * np.abs(slope) + np.log(bend))
        exact = np.abs(logs[0] - logs[1]).max()
        bound = rate * 2 / n + math.log1p(0.25 / (n * mu))
        assert exact <= bound * (1 + 1e-12)
        worst = max(worst, exact / bound)
    assert worst > 0.8
