"""Scaling, rounding and adding: exact at every size, and the same in every kernel."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppadmm.errors import InputError
from ppadmm.sampling import choice, grid, lanes
from ppadmm.sampling.grid import Scaled, nearest, rounded
from ppadmm.sampling.stock import Deviates
from tests.sampling import reference

HALF, LAST = 2**63, 2**64 - 1


class Given:
    """A store with numbers and words that a test chose."""

    def __init__(self, deviates, words):
        self.deviates, self.words = deviates, list(words)

    def take(self, law, n):
        room = Deviates.blank(n)
        for i, (negative, whole, digits) in enumerate(self.deviates):
            room.negative[i], room.whole[i], room.digit[i] = negative, whole, digits[0]
            if digits[1:]:
                room.further[i] = tuple(digits[1:])
        return room

    def word(self):
        return self.words.pop(0)


@pytest.fixture(params=["numba", "numpy"])
def kernel(request, monkeypatch):
    monkeypatch.setenv(choice.KERNEL, request.param)


def words(n, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64).tolist()


def check(values, scale, exponent, deviates, further):
    """Compare `release` with the reference, bit for bit."""
    found = grid.release(np.array(values), scale, exponent, "normal", Given(deviates, further))
    following = iter(further)
    expected = [
        reference.noisy(v, scale, exponent, d, following)
        for v, d in zip(values, deviates, strict=True)
    ]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def random_deviates(n, seed=0):
    rng = np.random.default_rng(seed)
    whole = rng.geometric(0.5, n) - 1
    return [
        (bool(s), int(k), [w])
        for s, k, w in zip(rng.random(n) < 0.5, whole, words(n, seed + 1), strict=True)
    ]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    "ratio",
    [0.001, 0.3, 1.0, 1.5, 2.0**20, 1.1 * 2.0**44, *(2.0**e for e in range(45, 61)), 1.7 * 2.0**70],
)
@pytest.mark.parametrize("exponent", [-44, 0, 3, -930])
def test_every_size_of_noise(ratio, exponent):
    values = np.random.default_rng(2).standard_normal(200) * 10.0 * ratio * 2.0**exponent
    check(values, ratio * 2.0**exponent, exponent, random_deviates(200), words(500, 5))


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    "size", [2.0**e for e in (40, 52, 61, 62, 63, 64, 70, 82, 83, 84, 90, 120, 300)]
)
def test_every_size_of_value(size):
    """|v|/g may be far beyond 2⁶³: the second noise is small against the model it is added to."""
    rng = np.random.default_rng(3)
    values = np.concatenate(
        [rng.standard_normal(100) * size, [size, -size, np.nextafter(size, 0.0)]]
    )
    check(values * 2.0**-60, 1.3 * 2.0**-16, -60, random_deviates(103), words(500, 6))


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    "ratio", [np.nextafter(2.0**48, 0.0), 2.0**48, np.nextafter(2.0**48, np.inf), 2.0**50]
)
def test_noise_about_the_size_that_a_double_holds(ratio):
    """Below 2⁵³ noise is added as a double, beyond it in two halves: no digit tells which."""
    rng = np.random.default_rng(4)
    deviates = [(s, 31, d) for s, _, d in random_deviates(200)]
    for size in (0.0, 1.0, 2.0**20, 2.0**60):
        check(rng.standard_normal(200) * size, ratio, 0, deviates, words(500, 7))


@pytest.mark.usefixtures("kernel")
def test_a_sum_of_zero_has_no_sign():
    """The sign of a zero would tell the value's, which is no function of the sum."""
    least = [(negative, 0, [1]) for negative in (False, True)]
    check([-1e-300, 1e-300], 4.0, 0, least, words(500))
    check([-1e-300, 1e-300], 4.0, 0, least[::-1], words(500))


@pytest.mark.usefixtures("kernel")
def test_values_between_two_points_of_the_grid():
    values = [0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 0.49999999999999994, 1e-300, -1e-320, 5e-324]
    check(values, 4.0, 0, random_deviates(len(values)), words(500))


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("ratio", [1.0, 3.0, 1.1 * 2.0**44, 2.0**52])
@pytest.mark.parametrize("more", [1, 2, 3])
def test_digits_are_drawn_until_the_integer_is_certain(ratio, more):
    """x is so near the edge between two integers that the first `more` digits do not tell."""
    edge = Fraction(2 * int(ratio / 2.0) + 1, 2) / Fraction(ratio)
    digits, rest = [], edge % 1
    for _ in range(more):
        rest *= 2**64
        digits.append(int(rest))
        rest %= 1
    for last in (0, int(rest * 2**64), int(rest * 2**64) + 1, LAST):
        following = [*digits[1:], last % 2**64, *words(50)]
        for negative in (False, True):
            check([2.0], ratio, 0, [(negative, int(edge), digits[:1])], following)


@settings(max_examples=500, deadline=None)
@given(
    value=st.floats(-1e6, 1e6),
    scale=st.floats(1e-12, 1e12),
    below=st.integers(-3, 70),
    negative=st.booleans(),
    whole=st.integers(0, 40),
    digit=st.one_of(st.integers(0, LAST), st.sampled_from([0, 1, HALF - 1, HALF, LAST])),
    numba=st.booleans(),
)
def test_whatever_comes(value, scale, below, negative, whole, digit, numba):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(choice.KERNEL, "numba" if numba else "numpy")
        exponent = math.frexp(scale)[1] - below
        check([value], scale, exponent, [(negative, whole, [digit])], words(50))


def test_the_scale_is_the_one_that_is_asked_for():
    for scale, exponent in ((0.1, -44), (3.0, 5), (1e-9, -80), (math.pi, -50), (5e-324, -1074)):
        found = Scaled.of(scale, exponent)
        assert found.shift >= 1
        assert (
            Fraction(found.multiplier, 2**found.shift) == Fraction(scale) / Fraction(2) ** exponent
        )


def test_noise_is_symmetric():
    """Both signs have the same size: the integer is rounded before the sign is put on."""
    for deviate in random_deviates(200):
        both = [
            reference.noisy(0.0, 1.3, -3, (s, *deviate[1:]), iter(words(50))) for s in (False, True)
        ]
        assert both[0] == -both[1]


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_refuses_a_scale_that_is_none(bad):
    with pytest.raises(InputError, match="Expected scale > 0, got"):
        Scaled.of(bad, 0)


def test_refuses_what_is_beyond_doubles():
    with pytest.raises(InputError, match="too large together"):
        nearest(2**1100, 0)
    assert nearest(2**1100, -1100) == 1.0
    assert nearest(3, -1074) == 1.5e-323


@pytest.mark.usefixtures("kernel")
def test_the_sum_alone_decides_the_double(monkeypatch):
    """Equal sums of other values and noise leave as the same double, in 64 bits or by `exactly`."""
    slow, real = [], grid.exactly
    monkeypatch.setattr(grid, "exactly", lambda *given: slow.append(1) or real(*given))
    found = set()
    for t in range(-3, 4):
        value, noise = 2**83 + t * 2**31, 12345 - t * 2**31
        given = Given([(noise < 0, 0, [abs(noise) << 14])], [0] * 9)
        found.add(grid.release(np.array([float(value)]), 2.0**50, 0, "normal", given)[0])
    assert 0 < len(slow) < 7
    assert found == {float(2**83 + 12345)}


def test_rounding_reads_no_more_digits_than_it_needs():
    asked = []
    size = rounded(Scaled.of(2.0**20, 0), 1, [HALF], lambda: asked.append(1) or 0)
    assert size == 3 * 2**19
    assert asked == []
    assert lanes.joined([1, 2]) == 2**64 + 2
