"""The statistics of an audit: right when the claim is exact, and biting when it is not."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from ppadmm.accounting import Charge, Gaussian, Pure, Tally
from ppadmm.accounting.gaussian import gdp_epsilon
from ppadmm.auditing.statistics import Claim, at_least, at_most, judge
from ppadmm.errors import InputError


def gaussian_claim(m):
    return Claim.of(Tally.of([Charge((Gaussian(m),))]))


def gaussian_scores(m, runs, seed):
    rng = np.random.default_rng(seed)
    return {"ratio": (rng.standard_normal(runs) + m, rng.standard_normal(runs))}


@pytest.mark.parametrize("hits", [0, 1, 37, 499, 500])
def test_clopper_pearson_is_the_inverted_binomial_test(hits):
    low = float(at_least(np.array(hits), 500, 0.01))
    high = float(at_most(np.array(hits), 500, 0.01))
    assert low <= hits / 500 <= high
    if hits:
        assert binom.sf(hits - 1, 500, low) == pytest.approx(0.01)
    else:
        assert low == 0.0
    if hits < 500:
        assert binom.cdf(hits, 500, high) == pytest.approx(0.01)
    else:
        assert high == 1.0


def test_the_power_of_a_gaussian_claim_is_that_of_the_optimal_test():
    fpr = np.array([1e-6, 1e-3, 0.05, 0.3, 0.5])
    exact = norm.cdf(norm.ppf(fpr) + 1.0)
    power = gaussian_claim(1.0).power(fpr)
    assert np.all(power >= exact - 1e-12)
    np.testing.assert_allclose(power, exact, rtol=0.02)


def test_a_true_claim_is_exceeded_no_more_often_than_promised():
    """At confidence 90 % a tight claim may fail in one game of ten; 300 games."""
    claim = gaussian_claim(1.0)
    failures = sum(
        judge(gaussian_scores(1.0, 400, seed), claim, 1e-5, 0.9).exceeded for seed in range(300)
    )
    assert binom.sf(failures - 1, 300, 0.1) > 1e-3


def test_a_claim_that_is_a_fifth_too_small_is_refuted():
    found = judge(gaussian_scores(1.2, 20_000, 0), gaussian_claim(1.0), 1e-5)
    assert found.exceeded
    assert found.tpr > found.allowed
    assert not judge(gaussian_scores(1.0, 20_000, 0), gaussian_claim(1.0), 1e-5).exceeded


def test_the_bounds_lie_below_the_truth():
    truth = gdp_epsilon(1e-5, 1.0)
    found = judge(gaussian_scores(1.0, 20_000, 1), gaussian_claim(1.0), 1e-5)
    assert 0.3 * truth < found.epsilon < found.gaussian_epsilon < truth
    assert found.gaussian_epsilon > 0.85 * truth


def test_both_directions_are_tried():
    """A score that is 1 in one run of 100, on one side only, refutes any pure ε."""
    runs = 40_000
    rng = np.random.default_rng(0)
    rare = (rng.random(runs) < 0.01).astype(float)
    claim = Claim.of(Tally.of([Charge((Pure(1.0),))]))
    none = np.zeros(runs)
    for pair in ((rare, none), (none, rare), (-rare, none), (none, -rare)):
        assert judge({"rare": pair}, claim, 1e-5).exceeded
    assert not judge({"same": (rare, rare)}, claim, 1e-5).exceeded


def test_the_best_attack_is_chosen():
    rng = np.random.default_rng(0)
    useless = (rng.standard_normal(4000), rng.standard_normal(4000))
    scores = {"useless": useless, **gaussian_scores(2.0, 4000, 3)}
    assert judge(scores, gaussian_claim(1.0), 1e-5).attack == "ratio"


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(InputError, match="at least 100 runs"):
        judge(gaussian_scores(1.0, 50, 0), gaussian_claim(1.0), 1e-5)
    broken = {"ratio": (np.full(200, math.nan), np.zeros(200))}
    with pytest.raises(InputError, match="not a number"):
        judge(broken, gaussian_claim(1.0), 1e-5)
