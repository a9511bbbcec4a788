"""The search over orders finds the least ε, also where ε has two valleys: both accountants do.

PPADMM_FULL=1 tries 3,000 tallies; without it a few dozen.
"""

import math
import os
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppadmm.accounting import Gaussian, NonPrivate, ObjectivePerturbation, Pure, Tally, recompute
from ppadmm.accounting.accountant import _by_rdp, _crossings, theorem_a, theorem_b, total_rdp
from ppadmm.accounting.event_data import to_plain
from ppadmm.accounting.orders import GRID, conversion
from tests.accounting.tallies import random_tally

FULL = bool(os.environ.get("PPADMM_FULL"))
DENSE = np.linspace(GRID[0], GRID[-1], 400_001)
TWO_VALLEYS = [
    (Tally(((ObjectivePerturbation(0.1067, 0.03183, 1, 5), 1),)), 4.66e-7),
    (Tally(((ObjectivePerturbation(0.4928, 0.2729, 1), 3),)), 1.6e-3),
    (Tally(((ObjectivePerturbation(0.08576, 0.06239, 1, 5), 5), (Gaussian(0.006), 5))), 4.95e-9),
    (
        Tally((
            (ObjectivePerturbation(0.03869, 0.1545, 1, 2), 5),
            (Gaussian(0.2066), 5),
            (ObjectivePerturbation(0.03461, 0.08987, 1), 5),
        )),
        1.45e-4,
    ),
]  # fmt: skip
"""The accountant of 0.1 stated 2 to 3 % more than the least here: it searched the other valley."""
RANDOM = range(3000 if FULL else 30)


def values_at(tally, delta, x):
    lam = np.exp(x)
    return total_rdp(tally, 1.0 + lam) + conversion(lam, delta)


def again(tally, delta):
    """What the second accountant finds over orders."""
    return float(recompute._by_orders(to_plain(tally), np.array([delta]))[0])


def dense_minimum(tally, delta):
    """The least ε over 400,001 orders and over 2,001 between the neighbours of each deep valley."""
    values = values_at(tally, delta, DENSE)
    best = values.min()
    for k in valleys(values):
        if values[k] <= best + 1e-3 * abs(best):
            near = np.linspace(DENSE[max(k - 1, 0)], DENSE[min(k + 1, DENSE.size - 1)], 2001)
            best = min(best, values_at(tally, delta, near).min())
    return max(float(best), 0.0)


def valleys(values):
    """Where a value is below both neighbours, or at an end; rounding makes many of them."""
    inner = np.flatnonzero((values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:])) + 1
    return [0, *inner[:50], int(values.argmin()), values.size - 1]


def deep_valleys(tally, delta):
    """Count valleys that a ridge of more than 0.1 % of the least ε parts from any other."""
    values = values_at(tally, delta, DENSE[::40])
    ridge = 1e-3 * values.min()
    count, low, high, falling = 0, math.inf, -math.inf, True
    for value in values:
        if falling:
            low = min(low, value)
            if value > low + ridge:
                count, falling, high = count + 1, False, value
        else:
            high = max(high, value)
            if value < high - ridge:
                falling, low = True, value
    return count


@pytest.mark.parametrize(("tally", "delta"), TWO_VALLEYS)
def test_the_deeper_of_two_valleys(tally, delta):
    assert deep_valleys(tally, delta) >= 2
    least = dense_minimum(tally, delta)
    assert _by_rdp(tally, delta).epsilon == pytest.approx(least, rel=1e-8)
    assert again(tally, delta) == pytest.approx(least, rel=1e-8)


def test_the_least_of_random_tallies_is_that_of_a_dense_grid():
    several = 0
    for seed in RANDOM:
        tally, delta = random_tally(seed)
        least = dense_minimum(tally, delta)
        assert _by_rdp(tally, delta).epsilon == pytest.approx(least, rel=1e-6, abs=1e-12), seed
        assert again(tally, delta) == pytest.approx(least, rel=1e-6, abs=1e-12), seed
        several += least > 0.0 and deep_valleys(tally, delta) > 1
    assert several >= len(RANDOM) // 100


@settings(max_examples=300 if FULL else 30)
@given(st.integers(0, 10**9))
def test_a_minus_b_grows_with_the_order(seed):
    """So that each event goes over from A to B once. Rounding is some 10⁻¹⁵/λ."""
    lam = np.exp(GRID)
    for event, _ in random_tally(seed)[0].counts:
        if isinstance(event, ObjectivePerturbation):
            a, b = theorem_a(event, 1.0 + lam), theorem_b(event, 1.0 + lam)
            room = (1e-9 * np.abs(b) + 1e-14 / lam)[np.isfinite(a)]
            assert (np.diff((a - b)[np.isfinite(a)]) >= -room[1:]).all()


@settings(max_examples=300 if FULL else 30)
@given(st.integers(0, 10**9))
def test_between_two_crossings_epsilon_times_lambda_is_convex(seed):
    """So that there is one valley between them: chords lie above."""
    tally, delta = random_tally(seed)
    ends = [GRID[0], *sorted(_crossings(tally, GRID[0], GRID[-1])), GRID[-1]]
    for low, high in pairwise(ends):
        x = low + (high - low) * np.linspace(1e-6, 1.0 - 1e-6, 60)
        lam = np.exp(x)
        h = lam * values_at(tally, delta, x)
        share = (lam[1:-1] - lam[:-2]) / (lam[2:] - lam[:-2])
        chord = (1.0 - share) * h[:-2] + share * h[2:]
        size = np.abs(h[:-2]) + np.abs(h[2:]) + 1.0
        assert (h[1:-1] <= chord + 1e-9 * size).all()


def test_what_needs_no_search():
    assert _by_rdp(Tally(), 1e-6).epsilon == 0.0
    assert _by_rdp(Tally(((NonPrivate(), 1),)), 1e-6).epsilon == math.inf
    assert again(Tally(((NonPrivate(), 1),)), 1e-6) == math.inf
    assert again(Tally(), 1e-6) == 0.0


@pytest.mark.parametrize("event", [Gaussian(1e-9), Pure(1e-9), ObjectivePerturbation(0.0, 0.0)])
def test_the_least_at_the_largest_order(event):
    """There ε falls to the end of the grid."""
    tally = Tally(((event, 1),))
    least = dense_minimum(tally, 1e-6)
    assert _by_rdp(tally, 1e-6).epsilon == pytest.approx(least, rel=1e-9)
    assert again(tally, 1e-6) == pytest.approx(least, rel=1e-6)
