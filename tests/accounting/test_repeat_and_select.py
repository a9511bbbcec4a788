"""The best of a random number of runs: against dp_accounting and against exact divergences."""

import math

import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.accounting import (
    Approximate,
    Charge,
    Gaussian,
    NonPrivate,
    ObjectivePerturbation,
    Pure,
    RepeatAndSelect,
    Tally,
    epsilon,
)
from ppadmm.accounting.accountant import rdp, stopping_rate
from ppadmm.accounting.event_data import from_plain, to_plain
from ppadmm.accounting.interop import to_dp_event
from ppadmm.accounting.orders import GRID
from ppadmm.errors import InputError

ORDERS = 1.0 + np.exp(GRID)


def tally_of(*events):
    return Tally.of([Charge(events)])


def best_of(run, mean, shape=1.0):
    return RepeatAndSelect((run,), mean, shape)


@given(
    ratio=st.floats(0.01, 3.0), mean=st.floats(1.01, 100.0), shape=st.sampled_from([0.0, 0.5, 1.0])
)
def test_it_agrees_with_dp_accounting(ratio, mean, shape):
    run = tally_of(Gaussian(ratio))
    event = best_of(run, mean, shape)
    theirs = RdpAccountant(ORDERS).compose(to_dp_event(tally_of(event)))
    ours = rdp(event, ORDERS)
    monotone = np.minimum.accumulate(ours[::-1])[::-1]  # they also use that RDP increases
    np.testing.assert_allclose(monotone, theirs._rdp, rtol=1e-6)
    assert theirs.get_epsilon(1e-5) >= epsilon(tally_of(event), 1e-5).epsilon - 1e-9


def selected(p, rate):
    """P(best of K) where each run gives outcome j (ordered by score) with p_j, K geometric."""
    below = np.concatenate([[0.0], np.cumsum(p)])

    def best_at_most(t):  # E tᴷ
        return rate * t / (1.0 - (1.0 - rate) * t)

    return np.diff(best_at_most(below))


@pytest.mark.parametrize("mean", [1.5, 4.0, 30.0])
@pytest.mark.parametrize("base", [0.1, 1.0])
def test_the_bound_holds_for_randomised_response(mean, base):
    """Exact Rényi divergences of the selected outcome, for every outcome that scores best."""
    keep = math.exp(base) / (1.0 + math.exp(base))
    orders = np.array([1.5, 2.0, 4.0, 16.0])
    bound = rdp(best_of(tally_of(Pure(base)), mean), orders)
    for p in ((keep, 1.0 - keep), (1.0 - keep, keep)):
        ours, theirs = selected(np.array(p), 1 / mean), selected(np.array(p[::-1]), 1 / mean)
        for order, limit in zip(orders, bound, strict=True):
            exact = math.log((ours**order * theirs ** (1.0 - order)).sum()) / (order - 1.0)
            assert exact <= limit
            assert exact > 0.0


def test_selecting_costs_more_than_one_run_and_less_than_many():
    run = tally_of(ObjectivePerturbation(0.1, 1e-4))
    one = epsilon(run, 1e-6).epsilon
    best = epsilon(tally_of(best_of(run, 10.0)), 1e-6).epsilon
    all_of_them = epsilon(Tally.of([Charge((ObjectivePerturbation(0.1, 1e-4),))], 100), 1e-6)
    assert one < best < 4.0 * one
    assert best < all_of_them.epsilon


def test_the_dearest_run_counts():
    cheap, dear = tally_of(Gaussian(0.1)), tally_of(Gaussian(0.5))
    both = RepeatAndSelect((cheap, dear), 5.0)
    np.testing.assert_allclose(rdp(both, ORDERS), rdp(best_of(dear, 5.0), ORDERS))
    unsafe = RepeatAndSelect((cheap, tally_of(NonPrivate())), 5.0)
    assert epsilon(tally_of(unsafe), 1e-5).epsilon == math.inf


def test_the_samplers_distance_is_multiplied():
    fine = tally_of(best_of(tally_of(Gaussian(0.1), Approximate(1e-12)), 10.0))
    coarse = tally_of(best_of(tally_of(Gaussian(0.1), Approximate(1e-9)), 10.0))
    assert epsilon(fine, 1e-6).epsilon < 10.0
    assert epsilon(coarse, 1e-6).epsilon == math.inf
    alone = tally_of(Gaussian(0.1), Approximate(1e-10))
    assert epsilon(alone, 1e-6).epsilon < 10.0


@pytest.mark.parametrize("shape", [0.0, 0.3, 1.0, 2.5])
def test_the_stopping_rate_gives_the_mean(shape):
    rate = stopping_rate(7.0, shape)
    k = np.arange(1, 20_000)
    weights = (1.0 - rate) ** k * np.exp(
        np.array([math.lgamma(j + shape) - math.lgamma(j + 1) for j in k])
    )
    assert (k * weights).sum() / weights.sum() == pytest.approx(7.0, rel=1e-6)
    assert stopping_rate(1.0, shape) == 1.0


def test_it_is_written_down_and_read_again():
    tally = tally_of(best_of(tally_of(Gaussian(0.1), Approximate(1e-20)), 3.0), Pure(0.1))
    assert from_plain(to_plain(tally)) == tally


def test_nonsense_is_refused():
    with pytest.raises(InputError, match="1 of them or more"):
        best_of(Tally(), 0.5)
    with pytest.raises(InputError, match="Expected a run"):
        RepeatAndSelect((), 2.0)
