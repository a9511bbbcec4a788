"""The law of a sum of rounded Gaussian numbers, computed to 40 digits (docs/privacy.md, 19)."""

import math
from functools import lru_cache
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from ppadmm.accounting.gaussian import gdp_delta
from ppadmm.noise import Key, SecureNoise
from ppadmm.summing.fixed_point import LEAST, MOST_SITES, distance

SCALES = (0.8, 1.2, 2.0, 3.0)
SITES = (2, 3, 5, 8)
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(40):
        yield


@lru_cache(maxsize=64)
def rounded(variance, reach):
    """P(round(X) = k), X ~ N(0, variance), for |k| ≤ reach."""
    sigma = mp.sqrt(variance)
    ends = [mp.ncdf((k - mp.mpf(1) / 2) / sigma) for k in range(-reach, reach + 2)]
    return [b - a for a, b in pairwise(ends)]


def discrete(variance, reach):
    """The discrete Gaussian."""
    weights = [mp.exp(-mp.mpf(k * k) / (2 * variance)) for k in range(-reach, reach + 1)]
    return [w / mp.fsum(weights) for w in weights]


def summed(law, sites):
    """The law of a sum of so many independent numbers, by convolution."""
    total = law
    for _ in range(sites - 1):
        found = [mp.mpf(0)] * (len(total) + len(law) - 1)
        for i, p in enumerate(total):
            for j, q in enumerate(law):
                found[i + j] += p * q
        total = found
    return total


def followed(scale, sites, reach):
    """What follows from one Gaussian number of variance Ns²: the density of it plus N uniforms.

    That is the law of T(Y) in the proof, where the fractions are uniform; by its Fourier transform.
    """

    def density(k):
        def spectrum(w):
            box = mp.sinc(w / 2) ** sites
            return mp.exp(-sites * scale**2 * w**2 / 2) * box * mp.cos(w * k)

        ends = mp.linspace(0, 16 / (scale * mp.sqrt(sites)), 5)
        return mp.quad(spectrum, ends) / mp.pi

    return [density(k) for k in range(-reach, reach + 1)]


def apart(p, q):
    """Total variation of two laws about 0."""
    wide = max(len(p), len(q))
    p, q = ([mp.mpf(0)] * ((wide - len(x)) // 2) + x + [mp.mpf(0)] * ((wide - len(x)) // 2)
            for x in (p, q))  # fmt: skip
    return mp.fsum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2


def tiny(scale, sites):
    """The bound of the proof, per coordinate."""
    each = [mp.exp(-2 * mp.pi**2 * mp.mpf(scale) ** 2 * j / (j + 1)) for j in range(1, sites)]
    return mp.mpf("1.1") * mp.fsum(each)


@pytest.mark.parametrize("sites", [2, 3])
@pytest.mark.parametrize("scale", [0.8, 1.2])
def test_the_sum_is_next_to_what_follows_from_one_gaussian(scale, sites):
    """Not within 1/s² but within exp(−π²s²), as the proof has it."""
    reach = int(14 * scale)
    law = summed(rounded(scale**2, reach), sites)
    found = apart(law, followed(scale, sites, int(10 * scale * math.sqrt(sites)) + sites))
    # The fractions are uniform up to a wrapped Gaussian's 2·exp(−2π²s²) each.
    assert found <= tiny(scale, sites) + 3 * sites * mp.exp(-2 * mp.pi**2 * scale**2)
    assert found < mp.mpf("0.02") / scale**2


@pytest.mark.parametrize("sites", SITES)
@pytest.mark.parametrize("scale", SCALES)
def test_sums_of_either_law_are_within_what_is_charged_of_a_rounded_gaussian(scale, sites):
    reach = int(13 * scale)
    whole = rounded(sites * scale**2, sites * reach)
    for law in (rounded(scale**2, reach), discrete(scale**2, reach)):
        assert apart(summed(law, sites), whole) <= distance(1, max(scale, 1.0), sites)


@pytest.mark.parametrize("sites", SITES)
@pytest.mark.parametrize("scale", SCALES[:3])
def test_sums_of_discrete_gaussians_are_nearly_discrete(scale, sites):
    """The constant is below that of Kairouz, Liu and Steinke, 10 in place of 1.1."""
    reach = int(13 * scale)
    exact = apart(summed(discrete(scale**2, reach), sites),
                  discrete(sites * mp.mpf(scale) ** 2, sites * reach))  # fmt: skip
    assert exact <= tiny(scale, sites)


def test_the_bound_is_of_the_right_size():
    """Two sites, s = 0.8: a tenth of the bound would be too little."""
    exact = apart(summed(discrete(mp.mpf("0.64"), 12), 2), discrete(mp.mpf("1.28"), 24))
    assert exact > tiny(0.8, 2) / 10


@pytest.mark.parametrize("sites", [1, 2, 4])
@pytest.mark.parametrize("scale", [1.2, 3.0])
@pytest.mark.parametrize("moved", [1, 2])
def test_the_privacy_of_a_sum_is_that_of_one_gaussian(scale, sites, moved):
    """δ(ε) of two sums that are `moved` apart, exactly, against the claim for √N·s."""
    law, far = summed(rounded(scale**2, int(13 * scale)), sites), distance(1, scale, sites)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        shifted = [mp.mpf(0)] * moved + law
        pairs = zip([*law, *[mp.mpf(0)] * moved], shifted, strict=True)
        exact = mp.fsum(max(p - mp.exp(epsilon) * q, 0) for p, q in pairs)
        claimed = gdp_delta(epsilon, moved / (scale * math.sqrt(sites))) * (1 + 1e-10)
        assert exact <= claimed + (1 + math.exp(epsilon)) * float(tiny(scale, sites)) + 1e-25
        assert exact <= claimed + (1 + math.exp(epsilon)) * far


def test_one_charge_more_covers_what_is_tiny():
    """1.1·N·exp(−π²s²) ≤ 1/(8s²) from s = 1 on, for all that may take part."""
    for scale in (1.0, 2.0, LEAST):
        assert mp.mpf("1.1") * MOST_SITES * mp.exp(-(mp.pi**2) * scale**2) <= 1 / (8 * scale**2)
    assert mp.mpf("1.1") * MOST_SITES * mp.exp(-(mp.pi**2) * 0.64) > 1 / (8 * 0.64)


@pytest.mark.parametrize("scale", [LEAST, 3.7e9, 1e13])
def test_a_share_is_whole_and_has_its_law(scale):
    """The secure sampler on the grid of integers, about a value at the end of the range."""
    start = np.full((1, 4000), 2.0**50)
    found = SecureNoise().gaussian(start, np.array([scale]), np.ones(1), Key(0, 0, "slopes"))
    assert (found == np.rint(found)).all()
    drawn = (found - start)[0]
    assert stats.kstest(drawn / scale, "norm").pvalue > 1e-6
    assert len(np.unique(drawn % 2)) == 2
