"""The laws: exact probabilities by going through all digits, and samples against closed forms."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import chi2, chisquare, ks_2samp, kstest

from ppadmm.noise import FINENESS, Key, SecureNoise
from ppadmm.sampling import choice, lanes

KEY = Key(0, 0, "law")
P_LEAST = 1e-6
"""A correct sampler fails a test at this level once in a million runs."""


@pytest.fixture(params=["numba", "numpy"])
def kernel(request, monkeypatch):
    monkeypatch.setenv(choice.KERNEL, request.param)
    return request.param


def sample(law, n, scale, grid):
    draw = SecureNoise().gaussian if law == "normal" else SecureNoise().laplace
    return draw(np.zeros((1, n)), np.full(1, scale), np.full(1, grid), KEY)[0]


# -- every sequence of binary digits ---------------------------------------------------------------


def outcome(make, bits):
    """Run a lane on these digits to base 2; return what it found, or None if they are too few."""
    lane = make()
    next(lane)
    try:
        for bit in bits:
            lane.send(bit)
    except StopIteration as end:
        return end.value
    return None


def enumerated(make, depth):
    """Return the probability of each outcome by at most so many digits, and of none."""
    found, waiting, undecided = Counter(), [()], Fraction(0)
    while waiting:
        bits = waiting.pop()
        drew = outcome(make, bits)
        if drew is not None:
            found[drew] += Fraction(1, 2 ** len(bits))
        elif len(bits) == depth:
            undecided += Fraction(1, 2**depth)
        else:
            waiting += [(*bits, 0), (*bits, 1)]
    assert sum(found.values()) + undecided == 1
    return found, undecided


@pytest.fixture
def binary(monkeypatch):
    """To base 2 the lanes are the same and tie all the time."""
    for name, value in (("BITS", 1), ("HALF", 1), ("LAST", 1)):
        monkeypatch.setattr(lanes, name, value)


def integral(exponent):
    return quad(lambda x: math.exp(-exponent(x)), 0.0, 1.0)[0]


def with_fraction(inner, *more):
    def lane():
        x = [(yield)]
        return (yield from inner(x, *more))

    return lane


TRIALS = {
    "half": (lanes._half, math.exp(-0.5), 0.02),
    "fall": (with_fraction(lanes._falls_evenly), integral(lambda x: x), 0.04),
    "pass 2": (lambda: lanes._all_pass(2), math.exp(-1.0), 0.07),
    **{
        f"part {j}": (
            with_fraction(lanes._part, j),
            integral(lambda y, j=j: y * (2 * j + y) / (2 * j + 2)),
            0.07,
        )
        for j in range(4)
    },
    "accepted 1": (with_fraction(lanes._accepted, 1), integral(lambda y: y * (2 + y) / 2), 0.16),
}


@pytest.mark.usefixtures("binary")
@pytest.mark.parametrize("name", TRIALS)
def test_the_probability_of_each_trial_by_all_binary_digits(name):
    make, exact, most = TRIALS[name]
    found, undecided = enumerated(make, 16)
    assert undecided < most
    assert found[True] <= exact <= found[True] + undecided


def between(law, low, high):
    if law == "normal":
        return (math.erf(high / math.sqrt(2.0)) - math.erf(low / math.sqrt(2.0))) / 2.0
    return (math.exp(-low) - math.exp(-high)) / 2.0


@pytest.mark.usefixtures("binary")
@pytest.mark.parametrize("law", lanes.LAWS)
def test_the_law_by_all_binary_digits(law):
    """No outcome may come more often than it should, or more seldom than what is open allows."""
    found, undecided = enumerated(lanes.LAWS[law], 17)
    assert undecided < 0.4
    sums = Counter()
    for each, least in found.items():
        sums[each.negative, each.whole, each.digits[0]] += least
    for (_, whole, digit), least in sums.items():
        exact = between(law, whole + digit / 2, whole + (digit + 1) / 2)
        assert least <= exact + 1e-15
        assert exact <= least + undecided + 1e-15
    assert {negative for negative, *_ in sums} == {False, True}


# -- coarse grids ----------------------------------------------------------------------------------


def rounded_law(law, ratio, k):
    """Return the probabilities of the integers k for a continuous law of scale `ratio`, rounded."""
    if law == "normal":
        return ndtr((k + 0.5) / ratio) - ndtr((k - 0.5) / ratio)
    tail = np.exp(-(np.abs(k) - 0.5) / ratio) - np.exp(-(np.abs(k) + 0.5) / ratio)
    return np.where(k == 0, 1.0 - np.exp(-0.5 / ratio), 0.5 * tail)


@pytest.mark.parametrize("law", ["normal", "exponential"])
@pytest.mark.parametrize("ratio", [0.3, 1.0, 2.5, 8.0, 100.0 / 3.0])
def test_a_coarse_grid_has_the_law_of_a_rounded_continuous_one(law, ratio, kernel):
    n = 100_000
    drawn = sample(law, n, ratio, 1.0)
    k = np.arange(-400, 401)
    expected = n * rounded_law(law, ratio, k)
    counts = np.array([(drawn == j).sum() for j in k])
    often = expected >= 10.0
    rest = n - counts[often].sum(), n - expected[often].sum()
    counts, expected = np.append(counts[often], rest[0]), np.append(expected[often], rest[1])
    if rest[1] < 5.0:
        counts, expected = counts[:-1], expected[:-1] * counts[:-1].sum() / expected[:-1].sum()
    assert chisquare(counts, expected).pvalue > P_LEAST


def test_that_law_is_not_the_discrete_one():
    """At σ = g the two are told apart by such a sample, so that the test above can fail."""
    k = np.arange(-8, 9)
    discrete = np.exp(-(k**2) / 2.0)
    discrete /= discrete.sum()
    counts = np.array([(sample("normal", 400_000, 1.0, 1.0) == j).sum() for j in k])[4:13]
    expected = discrete[4:13] / discrete[4:13].sum() * counts.sum()
    assert chisquare(counts, expected).pvalue < P_LEAST


# -- fine grids ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-9, 1.0, 300.0])
@pytest.mark.parametrize(("law", "name"), [("normal", "norm"), ("exponential", "laplace")])
def test_a_fine_grid_has_the_continuous_law(law, name, scale, kernel):
    drawn = sample(law, 100_000, scale, scale * FINENESS) / scale
    assert kstest(drawn, name).pvalue > P_LEAST
    sizes = (drawn**2).sum() if law == "normal" else 2.0 * np.abs(drawn).sum()
    degrees = len(drawn) * (1 if law == "normal" else 2)
    assert P_LEAST < chi2(degrees).cdf(sizes) < 1.0 - P_LEAST


def test_moments(kernel):
    """Odd moments vanish, and the fourth is 3: the tails are those of a Gaussian."""
    n = 200_000
    z = sample("normal", n, 1.0, FINENESS)
    for power, mean, variance in (
        (1, 0.0, 1.0),
        (3, 0.0, 15.0),
        (4, 3.0, 96.0),
        (6, 15.0, 10170.0),
    ):
        assert abs((z**power).mean() - mean) < 6.0 * math.sqrt(variance / n), power


def test_tails(kernel):
    """|Z| > 3 and |Z| > 4 come as often as they should."""
    z = np.abs(sample("normal", 400_000, 1.0, FINENESS))
    for edge in (2.0, 3.0, 4.0):
        expected = 400_000 * 2.0 * ndtr(-edge)
        assert abs((z > edge).sum() - expected) < 6.0 * math.sqrt(expected)


def test_sizes_signs_and_neighbours_are_independent(kernel):
    z = sample("normal", 100_000, 1.0, FINENESS)
    for a, b in ((z[1:], z[:-1]), (np.abs(z[1:]), np.abs(z[:-1])), (np.sign(z), np.abs(z))):
        assert abs(np.corrcoef(a, b)[0, 1]) < 6.0 / math.sqrt(len(a))
    low = np.ldexp(z, 44) % 16
    assert chisquare(np.bincount(low.astype(int), minlength=16)).pvalue > P_LEAST


@pytest.mark.parametrize("law", ["normal", "exponential"])
def test_opendp_has_the_same_law(law, monkeypatch):
    own = sample(law, 20_000, 2.0, 2.0 * FINENESS)
    monkeypatch.setenv(choice.VARIABLE, "opendp")
    theirs = sample(law, 5_000, 2.0, 2.0 * FINENESS)
    assert ks_2samp(own, theirs).pvalue > P_LEAST
