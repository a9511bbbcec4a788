"""Noise sources: their law, their grid, and what they refuse."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import chi2, chisquare, kstest

from ppadmm.errors import InputError
from ppadmm.noise import FINENESS, Key, SecureNoise, SeededNoise, grid_exponent, total_variation
from ppadmm.sampling import choice

KEY = Key(agent=1, round=2, purpose="b")
P_LEAST = 1e-6
"""A correct sampler fails a test at this level once in a million runs."""


def secure(values, scale: float, grid: float) -> np.ndarray:
    rows = np.atleast_2d(np.asarray(values, dtype=float))
    full = np.full(len(rows), 1.0)
    return SecureNoise().gaussian(rows, scale * full, grid * full, KEY)


@pytest.fixture(params=choice.CHOICES)
def sampler(request, monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, request.param)
    return request.param


@pytest.mark.usefixtures("sampler")
class TestSecure:
    @pytest.mark.parametrize("scale", [1e-9, 1.0, 300.0])
    def test_is_normal(self, scale):
        sample = secure(np.zeros(3000), scale, scale * FINENESS)[0]
        assert kstest(sample / scale, "norm").pvalue > P_LEAST

    @pytest.mark.parametrize("scale", [1e-9, 1.0, 300.0])
    def test_its_scale_is_the_one_that_is_asked_for(self, scale):
        """Kolmogorov and Smirnov hardly notice a tenth too little; the sum of squares does."""
        n, given = 20_000, (np.full(1, scale), np.full(1, scale * FINENESS), KEY)
        normal = SecureNoise().gaussian(np.zeros((1, n)), *given)[0] / scale
        laplace = SecureNoise().laplace(np.zeros((1, n)), *given)[0] / scale
        for found, degrees in (((normal**2).sum(), n), (2.0 * np.abs(laplace).sum(), 2 * n)):
            assert P_LEAST < chi2(degrees).cdf(found) < 1.0 - P_LEAST

    def test_coordinates_and_rows_are_independent(self):
        a, b = secure(np.zeros((2, 3000)), 1.0, 2.0**-20)
        assert abs(np.corrcoef(a, b)[0, 1]) < 6.0 / math.sqrt(3000)
        assert abs(np.corrcoef(a[1:], a[:-1])[0, 1]) < 6.0 / math.sqrt(3000)

    @pytest.mark.parametrize("grid", [0.25, 0.3, 2.0**-20])
    def test_values_lie_on_the_grid(self, grid):
        step = 2.0 ** grid_exponent(grid)
        assert step <= grid < 2.0 * step
        released = secure(np.full(500, math.pi), 1.0, grid)[0]
        np.testing.assert_array_equal(released / step, np.round(released / step))

    def test_the_noise_is_added_to_the_value_itself(self):
        values = np.linspace(-50.0, 50.0, 3000)
        sample = secure(values, 0.5, 2.0**-30)[0]
        assert kstest((sample - values) / 0.5, "norm").pvalue > P_LEAST

    def test_the_value_is_rounded_to_the_nearest_point_of_the_grid(self):
        """With next to no noise the rounding shows: at most half a grid step per coordinate."""
        values = np.array([0.1, 0.49, 0.51, 0.9, -0.49, -0.51, -0.9, 7.3])
        released = secure(values, 1e-3, 1.0)[0]
        np.testing.assert_array_equal(released, np.round(values))

    def test_a_coarse_grid_has_the_law_of_its_sampler(self, sampler):
        """The exact one is a rounded Gaussian, OpenDP's a discrete one."""
        sample = secure(np.zeros(100_000), 1.0, 1.0)[0]
        k = np.arange(-3, 4)
        rounded, discrete = ndtr(k + 0.5) - ndtr(k - 0.5), np.exp(-(k**2) / 2.0)
        law, other = (rounded, discrete) if sampler == "exact" else (discrete, rounded)
        inside = sample[np.abs(sample) <= 3]
        counts = np.array([(inside == j).sum() for j in k])
        assert chisquare(counts, law / law.sum() * len(inside)).pvalue > P_LEAST
        assert chisquare(counts, other / other.sum() * len(inside)).pvalue < P_LEAST

    def test_each_row_has_its_own_scale(self):
        values, scale = np.zeros((2, 2000)), np.array([1.0, 100.0])
        a, b = SecureNoise().gaussian(values, scale, scale * 2.0**-20, KEY)
        assert kstest(a, "norm").pvalue > P_LEAST
        assert kstest(b / 100.0, "norm").pvalue > P_LEAST

    def test_never_repeats(self):
        assert not np.array_equal(secure(np.zeros(4), 1.0, 2e-9), secure(np.zeros(4), 1.0, 2e-9))

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_refuses_what_is_not_finite(self, bad):
        with pytest.raises(InputError, match="finite"):
            secure([0.0, bad], 1.0, 2.0**-20)

    @pytest.mark.parametrize(("scales", "grids"), [(1, 2), (2, 1), (3, 3)])
    def test_refuses_the_wrong_length(self, scales, grids):
        with pytest.raises(InputError, match="per row"):
            SecureNoise().gaussian(np.zeros((2, 3)), np.ones(scales), np.ones(grids), KEY)

    def test_refuses_a_vector(self):
        with pytest.raises(InputError, match="per row"):
            SecureNoise().gaussian(np.zeros(3), np.ones(3), np.ones(3), KEY)

    @pytest.mark.parametrize("grid", [0.0, -1.0, math.nan, math.inf])
    def test_refuses_a_grid_that_is_none(self, grid):
        with pytest.raises(InputError, match="grid"):
            secure([0.0], 1.0, grid)

    @pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf])
    def test_refuses_a_scale_that_is_none(self, scale):
        with pytest.raises(Exception, match="scale"):
            secure([0.0], scale, 1.0)

    def test_says_that_it_is_secure(self):
        assert SecureNoise().secure
        assert not SeededNoise((0,)).secure


def test_an_unknown_sampler_is_refused(monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, "quick")
    with pytest.raises(InputError, match="PPADMM_NOISE"):
        secure([0.0], 1.0, 2.0**-20)


@pytest.mark.parametrize(
    ("noise", "words"), [("exact", "exact sampler, secure"), ("opendp", "OpenDP, secure")]
)
def test_statements_name_the_sampler_in_use(noise, words, monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, noise)
    assert choice.in_words() == words


@given(st.floats(1e-300, 1e300))
def test_the_grid_is_a_power_of_two_and_never_coarser(grid):
    assert 2.0 ** grid_exponent(grid) <= grid < 2.0 ** (grid_exponent(grid) + 1)


def seeded(key: Key, seeds=(7,), d: int = 5, scale: float = 1.0) -> np.ndarray:
    rows = len(seeds)
    full = np.full(rows, scale)
    return SeededNoise(seeds).gaussian(np.zeros((rows, d)), full, full, key)


class TestSeeded:
    def test_is_normal(self):
        sample = seeded(KEY, d=20_000, scale=3.0)[0]
        assert kstest(sample / 3.0, "norm").pvalue > 1e-4

    def test_is_normal_across_rounds_and_agents(self):
        keys = [Key(agent, t, "b") for agent in range(40) for t in range(50)]
        sample = np.array([seeded(key, d=1)[0, 0] for key in keys])
        assert kstest(sample, "norm").pvalue > 1e-4

    def test_repeats(self):
        np.testing.assert_array_equal(seeded(KEY), seeded(Key(1, 2, "b")))

    @pytest.mark.parametrize("key", [Key(2, 2, "b"), Key(1, 3, "b"), Key(1, 2, "output")])
    def test_depends_on_agent_round_and_purpose(self, key):
        assert not np.isin(seeded(key), seeded(KEY)).any()

    def test_depends_on_the_seed_and_not_on_its_place(self):
        both = seeded(KEY, seeds=(7, 8))
        np.testing.assert_array_equal(both[0], seeded(KEY, seeds=(7,))[0])
        np.testing.assert_array_equal(both[1], seeded(KEY, seeds=(8,))[0])
        assert not np.isin(both[0], both[1]).any()

    def test_depends_on_nothing_else(self):
        source = SeededNoise((7,))
        first = source.gaussian(np.zeros((1, 5)), np.ones(1), np.ones(1), KEY)
        source.gaussian(np.zeros((1, 9)), np.ones(1), np.ones(1), Key(5, 5, "b"))
        again = source.gaussian(np.ones((1, 5)), np.full(1, 2.0), np.full(1, 0.1), KEY)
        np.testing.assert_allclose(again, 1.0 + 2.0 * first)

    def test_refuses_more_rows_than_seeds(self):
        with pytest.raises(ValueError, match="one seed per row, got 2 for 3"):
            SeededNoise((1, 2)).gaussian(np.zeros((3, 2)), np.ones(3), np.ones(3), KEY)


def exact_total_variation(h: float) -> float:
    """Between the discrete Gaussian on hℤ and the rounded N(0, 1), by direct sums."""
    k = np.arange(0, math.ceil(12.0 / h) + 1)
    discrete = np.exp(-0.5 * (k * h) ** 2)
    discrete /= 2.0 * discrete.sum() - 1.0
    rounded = ndtr(-(k - 0.5) * h) - ndtr(-(k + 0.5) * h)
    gap = np.abs(discrete - rounded)
    return float(gap.sum() - 0.5 * gap[0])


@pytest.mark.parametrize("h", [1.0, 0.9, 0.7, 0.5, 0.3, 0.1, 0.03, 0.01])
def test_the_distance_of_the_sampler_is_bounded(h):
    exact = exact_total_variation(h)
    assert exact <= total_variation(1, 1.0, h)
    assert exact > total_variation(1, 1.0, h) / 10.0


@pytest.mark.parametrize("h", [1.0, 0.5])
def test_the_distance_of_two_coordinates_is_bounded(h):
    k = np.arange(-math.ceil(9.0 / h), math.ceil(9.0 / h) + 1)
    discrete = np.exp(-0.5 * (k * h) ** 2)
    discrete /= discrete.sum()
    rounded = ndtr((k + 0.5) * h) - ndtr((k - 0.5) * h)
    gap = np.outer(discrete, discrete) - np.outer(rounded, rounded)
    assert np.abs(gap).sum() / 2.0 <= total_variation(2, 1.0, h)


def test_the_distance_depends_on_grid_over_scale_alone():
    assert total_variation(3, 4.0, 2.0) == pytest.approx(3 * total_variation(1, 1.0, 0.5))
    with pytest.raises(InputError, match="grid ≤ scale"):
        total_variation(1, 1.0, 1.5)
