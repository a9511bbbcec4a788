"""Integers, their range and their exact sums."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.errors import InputError
from ppadmm.summing.fixed_point import (
    EXACT,
    LEAST,
    MOST_SITES,
    TAILS,
    FixedPoint,
    as_words,
    distance,
    fixed_point,
)
from tests.summing.small_sums import keyed

bounds = st.floats(1e-3, 10.0)
sizes = st.integers(1, 600_000)
honest = st.integers(1, MOST_SITES)


@st.composite
def grids(draw):
    bound, size, h = draw(bounds), draw(sizes), draw(honest)
    delta = bound * 10.0 ** draw(st.floats(-7, -1))
    ratio = 10.0 ** draw(st.floats(-3, 0.7))
    return delta, ratio, bound, size, h


@given(grids())
def test_noise_is_enough_and_no_number_leaves_its_range(given_):
    """With √size for the grid the sum of the honest noises has Δ/σ ≤ ratio."""
    delta, ratio, bound, size, h = given_
    found = fixed_point(*given_)
    moved = delta / found.grid + math.sqrt(size)
    assert moved / (found.scale * math.sqrt(h)) <= ratio * (1.0 + 1e-12)
    assert moved / (found.scale * math.sqrt(h)) >= ratio * (1.0 - 1e-12)
    largest = math.ceil(bound / found.grid) + TAILS * found.scale
    assert largest < EXACT == 2.0**52
    assert MOST_SITES * EXACT < 2.0**63
    assert found.scale >= LEAST


def test_the_grid_costs_next_to_nothing():
    """γ is so fine that √size is some 10⁻⁸ of what a record moves, in runs as they are."""
    delta = math.sqrt(2.0) / 35_000
    found = fixed_point(delta, 0.1, 1.0, 2_500, 49)
    assert math.sqrt(2_500) * found.grid < 1e-8 * delta


def test_too_little_and_too_much_noise_are_refused():
    with pytest.raises(InputError, match="too fine"):
        fixed_point(1e-12, 1.0, 1.0, 10, 1)
    with pytest.raises(InputError, match="too wide"):
        fixed_point(1e-5, 1e-13, 1.0, 100_000, 1)


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=30), st.integers(-52, -10))
def test_values_come_back_to_half_a_grid(values, exponent):
    grid = FixedPoint(exponent, LEAST, 1.0)
    whole = grid.encode(np.array(values))
    assert (whole == np.rint(whole)).all()
    back = grid.decode(as_words(whole))
    assert np.abs(back - values).max() <= 0.5 * grid.grid


@given(st.floats(-1e300, 1e300), st.integers(-52, -10))
def test_a_value_beyond_the_bound_counts_as_the_bound(value, exponent):
    grid = FixedPoint(exponent, LEAST, 1.0)
    assert abs(grid.encode(np.array([value]))[0]) <= 2.0**-exponent


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=9),
    st.lists(st.floats(-1, 1), min_size=9, max_size=9),
    st.integers(-30, -1),
)
def test_the_grid_adds_at_most_the_root_of_the_size(ours, theirs, exponent):
    """‖round(v/γ) − round(v'/γ)‖ ≤ ‖v − v'‖/γ + √size."""
    v, w = np.array(ours), np.array(theirs[: len(ours)])
    grid = FixedPoint(exponent, LEAST, 1.0)
    moved = np.linalg.norm(grid.encode(v) - grid.encode(w))
    assert moved <= np.linalg.norm(v - w) / grid.grid + math.sqrt(len(v)) + 1e-9


def test_the_grid_can_add_as_much_as_that():
    """So √size may not be left out: two values next to each other on either side of a half."""
    grid, size = FixedPoint(-4, LEAST, 1.0), 25
    v = np.full(size, 0.5 * grid.grid * (1 + 1e-12))
    assert np.linalg.norm(grid.encode(v) - grid.encode(-v)) == 2 * math.sqrt(size)
    v, w = np.full(size, 0.5 * grid.grid * (1 - 1e-12)), np.full(size, 0.5 * grid.grid * (1 + 1e-9))
    assert np.linalg.norm(grid.encode(v) - grid.encode(w)) == math.sqrt(size)


@given(
    st.sets(st.integers(0, 1023), min_size=1, max_size=8),
    st.integers(1, 40),
    st.integers(0, 2**32),
    st.integers(1, 52),
)
def test_the_opened_sum_is_the_sum_of_the_parts_exactly(members, size, seed, bits):
    rng, masks = np.random.default_rng(seed), keyed(sorted(members))
    parts = {i: rng.integers(-(2**bits), 2**bits, size, endpoint=True) for i in members}
    said = [as_words(parts[i].astype(float)) + masks[i].mask(members, 3, size) for i in members]
    opened = np.add.reduce(said, axis=0).view(np.int64)
    exact = [sum(int(parts[i][k]) for i in members) for k in range(size)]
    assert opened.tolist() == exact


def test_the_largest_sum_of_the_most_sites_fits():
    """1024 sites at the end of the range: the sum is itself, not a remainder."""
    part = as_words(np.array([EXACT, -EXACT]))
    total = np.add.reduce([part] * MOST_SITES, axis=0).view(np.int64)
    assert total.tolist() == [2**62, -(2**62)]
    assert FixedPoint(-52, LEAST, 1.0).decode(total.view(np.uint64)).tolist() == [1024.0, -1024.0]


def test_what_is_charged_grows_with_the_sites_and_falls_with_the_noise():
    assert distance(10, 1e6, 5) == pytest.approx(6 * 10 / 8e12)
    assert distance(10, 2e6, 5) == pytest.approx(distance(10, 1e6, 5) / 4)
