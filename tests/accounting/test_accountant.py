"""The accountant: against dp_accounting and high precision, and what must always hold."""

import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from dp_accounting.rdp import RdpAccountant, compute_epsilon
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from ppadmm.accounting import (
    Approximate,
    Charge,
    Gaussian,
    NonPrivate,
    ObjectivePerturbation,
    Tally,
    accountant,
    delta,
    epsilon,
)
from ppadmm.accounting.accountant import SLACK, rdp, rdp_to_epsilon, rdp_to_log_delta, total_rdp
from ppadmm.accounting.gaussian import gdp_delta, gdp_epsilon
from ppadmm.errors import InputError

DELTAS = (1e-12, 1e-9, 1e-6, 1e-4, 1e-2, 0.1)
RATIOS = (1e-3, 0.03, 0.3, 1.0, 3.0, 10.0)


def log_floats(low: float, high: float):
    return st.floats(math.log(low), math.log(high)).map(math.exp)


def eps(*events, times: int = 1, at: float = 1e-6) -> float:
    return epsilon(Tally.of([Charge(events)], times), at).epsilon


def exact_gdp_delta(e: float, m: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        e, m = mpmath.mpf(e), mpmath.mpf(m)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize("at", DELTAS)
@pytest.mark.parametrize("ratio", RATIOS)
class TestGaussian:
    def test_is_the_exact_value(self, ratio, at):
        ours = eps(Gaussian(ratio), at=at)
        exact = dp_accounting.get_epsilon_gaussian(1.0 / ratio, at)
        assert ours >= exact - 1e-9
        assert ours == pytest.approx(exact, rel=1e-6, abs=1e-6)

    def test_is_private_in_high_precision(self, ratio, at):
        assert exact_gdp_delta(eps(Gaussian(ratio), at=at), ratio) <= at * (1.0 + 1e-9)

    def test_profile_agrees_with_dp_accounting(self, ratio, at):
        e = eps(Gaussian(ratio), at=at)
        theirs = GaussianPrivacyLoss(1.0 / ratio).get_delta_for_epsilon(e)
        assert gdp_delta(e, ratio) == pytest.approx(theirs, rel=1e-6, abs=1e-14)

    def test_is_below_renyi_accounting(self, ratio, at):
        theirs = RdpAccountant().compose(dp_accounting.GaussianDpEvent(1.0 / ratio), 7)
        assert eps(Gaussian(ratio), times=7, at=at) <= theirs.get_epsilon(at) + 1e-9

    def test_composition_adds_squares(self, ratio, at):
        once = eps(Gaussian(ratio * 3.0), at=at)
        assert eps(Gaussian(ratio), times=9, at=at) == pytest.approx(once, rel=1e-9, abs=1e-12)


def test_divergence_of_a_gaussian_agrees_with_dp_accounting():
    orders = np.array([1.5, 2.0, 8.0, 64.0])
    theirs = RdpAccountant(orders.tolist()).compose(dp_accounting.GaussianDpEvent(2.0), 5)
    ours = total_rdp(Tally.of([Charge((Gaussian(0.5),))], 5), orders)
    np.testing.assert_allclose(ours, theirs._rdp, rtol=1e-12)


@given(st.floats(1.02, 200.0), log_floats(1e-3, 50.0), log_floats(1e-12, 0.1))
def test_the_conversion_is_that_of_dp_accounting(order, divergence, at):
    ours = float(rdp_to_epsilon(np.array([order]), np.array([divergence]), at)[0])
    theirs, _ = compute_epsilon([order], [divergence], at)
    if theirs == 0.0 and ours > 0.0:
        assert at**2 > -math.expm1(-divergence)  # they also use δ² ≥ 1 − e^(−KL)
    else:
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9)


@given(st.floats(1.001, 1e4), log_floats(1e-3, 50.0), log_floats(1e-12, 0.1))
def test_the_two_conversions_are_inverse(order, divergence, at):
    order, divergence = np.array([order]), np.array([divergence])
    e = float(rdp_to_epsilon(order, divergence, at)[0])
    if e > 0.0:
        back = float(rdp_to_log_delta(order, divergence, e)[0])
        assert back == pytest.approx(math.log(at), rel=1e-6, abs=1e-6)


@given(log_floats(1e-6, 100.0), log_floats(1e-300, 0.5))
def test_gdp_epsilon_inverts_gdp_delta_on_the_private_side(m, at):
    e = gdp_epsilon(at, m)
    assert gdp_delta(e, m) <= at * (1.0 + 1e-6)
    if e > 0.0:
        assert gdp_delta(e * (1.0 - 1e-5), m) > at * (1.0 - 1e-6)


def test_gdp_without_sensitivity():
    assert gdp_delta(0.0, 0.0) == 0.0
    assert gdp_delta(-1.0, 0.0) == pytest.approx(1.0 - math.exp(-1.0))
    assert gdp_epsilon(1e-6, 0.0) == 0.0


@pytest.mark.parametrize("tail", [1e-14, 1e-8, 1e-3])
@pytest.mark.parametrize("freedom", [1, 2, 60, 1000])
def test_the_quantile_of_theorem_c_is_accurate(freedom, tail):
    q = float(chi2.isf(tail, df=freedom))
    with mpmath.workdps(40):
        above = mpmath.gammainc(mpmath.mpf(freedom) / 2, mpmath.mpf(q) / 2, regularized=True)
    assert 1.0 - float(above) / tail == pytest.approx(0.0, abs=1e-6)


event = st.one_of(
    st.builds(Gaussian, log_floats(1e-4, 3.0)),
    st.builds(
        ObjectivePerturbation, log_floats(1e-4, 3.0), log_floats(1e-7, 2.0), st.integers(1, 2)
    ),
)
charges = st.lists(event, min_size=1, max_size=3).map(lambda events: Charge(tuple(events)))
FEW = settings(max_examples=80, deadline=None)
ROOM = 1.0 + 1e-7
"""Minimising over orders is exact only to about this."""


@FEW
@given(charges, st.integers(1, 200), log_floats(1e-12, 0.05), st.floats(1.0, 10.0))
def test_epsilon_falls_with_delta(charge, times, at, factor):
    tally = Tally.of([charge], times)
    assert epsilon(tally, at * factor).epsilon <= epsilon(tally, at).epsilon * ROOM + 1e-12


@FEW
@given(charges, event, st.integers(1, 200), log_floats(1e-12, 0.1))
def test_epsilon_rises_with_every_event(charge, more, times, at):
    tally = Tally.of([charge], times)
    before = epsilon(tally, at).epsilon
    assert before <= epsilon(tally.plus(Charge((more,))), at).epsilon * ROOM + 1e-12
    assert before <= epsilon(Tally.of([charge], times + 1), at).epsilon * ROOM + 1e-12


@FEW
@given(
    log_floats(1e-4, 3.0),
    log_floats(1e-7, 2.0),
    st.integers(1, 100),
    log_floats(1e-12, 0.1),
    st.floats(1.0, 5.0),
)
def test_epsilon_rises_with_ratio_kappa_and_rank(ratio, kappa, times, at, factor):
    def of(r: float, k: float, rank: int) -> float:
        return eps(ObjectivePerturbation(r, k, rank), times=times, at=at)

    base = of(ratio, kappa, 1)
    for other in (of(ratio * factor, kappa, 1), of(ratio, kappa * factor, 1), of(ratio, kappa, 2)):
        assert base <= other * ROOM + 1e-12


@FEW
@given(charges, st.integers(1, 200), log_floats(1e-10, 0.05))
def test_delta_is_the_inverse_of_epsilon(charge, times, at):
    tally = Tally.of([charge], times)
    e = epsilon(tally, at).epsilon
    if e > 1e-9:
        found = delta(tally, e)
        assert found == pytest.approx(at, rel=1e-3)
        assert epsilon(tally, found).epsilon <= e


@FEW
@given(charges, st.integers(1, 100), log_floats(1e-3, 20.0))
def test_delta_is_a_valid_claim(charge, times, target):
    tally = Tally.of([charge], times)
    found = delta(tally, target)
    assert found == 1.0 or epsilon(tally, found).epsilon <= target


@FEW
@given(st.lists(charges, min_size=1, max_size=4), st.randoms())
def test_the_order_of_charges_does_not_matter(many, random):
    shuffled = random.sample(many, len(many))
    one_by_one = Tally()
    for charge in shuffled:
        one_by_one = one_by_one.plus(charge)
    expected = epsilon(Tally.of(many), 1e-6).epsilon
    assert epsilon(one_by_one, 1e-6).epsilon == pytest.approx(expected, rel=1e-7)


def test_a_tally_counts_events():
    first, second = Gaussian(0.1), ObjectivePerturbation(0.2, 0.01)
    tally = Tally.of([Charge((first, second)), Charge((first,))], 3)
    assert dict(tally.counts) == {first: 6, second: 3}
    assert dict(tally.plus(Charge((second,))).counts) == {first: 6, second: 4}
    assert Tally.of([]) == Tally()


def test_nothing_released_costs_nothing():
    assert epsilon(Tally(), 1e-6).epsilon == 0.0


def test_no_curvature_is_a_gaussian():
    for at in DELTAS:
        without = eps(ObjectivePerturbation(0.7, 0.0), at=at)
        assert without == pytest.approx(eps(Gaussian(0.7), at=at), rel=1e-9)


def test_each_bound_is_sometimes_the_smallest():
    def theorem(*events, times=1, at=1e-6):
        return epsilon(Tally.of([Charge(events)], times), at).theorem

    assert theorem(ObjectivePerturbation(0.1, 1e-7), times=30) == "C"
    assert theorem(ObjectivePerturbation(0.1, 1e-2), times=30) == "A, B"


@pytest.mark.parametrize("at", DELTAS)
def test_a_value_without_noise_has_no_epsilon(at):
    assert eps(Gaussian(0.1), NonPrivate(), at=at) == math.inf
    assert np.isinf(rdp(NonPrivate(), np.array([2.0]))).all()
    assert eps(NonPrivate(), Approximate(1e-20), at=at) == math.inf


@pytest.mark.parametrize("target", [0.0, 1.0, 1e3, 1e6, 1e9])
def test_a_value_without_noise_has_delta_one(target):
    assert delta(Tally.of([Charge((NonPrivate(),))]), target) == 1.0


class TestApproximate:
    @FEW
    @given(charges, st.integers(1, 100), log_floats(1e-9, 0.1), log_floats(1e-24, 1e-9))
    def test_the_distance_is_paid_out_of_delta(self, charge, times, at, distance):
        tally = Tally.of([Charge((*charge.events, Approximate(distance)))], times)
        e, plain = epsilon(tally, at).epsilon, Tally.of([charge], times)
        if math.isfinite(e):
            inner = at - (1.0 + math.exp(e)) * times * distance
            assert inner > 0.0
            assert epsilon(plain, inner).epsilon <= e * ROOM
            assert e <= epsilon(plain, at * (1.0 - SLACK)).epsilon * ROOM
        else:
            least = epsilon(plain, at * (1.0 - SLACK)).epsilon
            assert (1.0 + math.exp(least)) * times * distance > SLACK * at

    def test_too_coarse_a_grid_is_refused(self):
        bound = epsilon(Tally.of([Charge((Gaussian(0.1), Approximate(1e-6)))]), 1e-6)
        assert bound.epsilon == math.inf
        assert "grid" in bound.theorem

    def test_adds_up(self):
        tally = Tally.of([Charge((Gaussian(0.01), Approximate(1e-11)))], 10)
        assert math.isfinite(epsilon(tally, 1e-6).epsilon)
        tally = Tally.of([Charge((Gaussian(0.01), Approximate(1e-11)))], 100)
        assert epsilon(tally, 1e-6).epsilon == math.inf

    def test_no_distance_changes_nothing(self):
        assert eps(Gaussian(0.3), Approximate(0.0)) == eps(Gaussian(0.3))

    def test_on_its_own_it_has_no_divergence(self):
        assert (rdp(Approximate(0.1), np.array([2.0, 3.0])) == 0.0).all()


@pytest.mark.parametrize("at", [0.0, 1.0, -1e-6, math.nan, math.inf])
def test_delta_must_be_a_probability(at):
    with pytest.raises(InputError, match="delta"):
        epsilon(Tally.of([Charge((Gaussian(0.1),))]), at)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize(
    "build",
    [
        Gaussian,
        Approximate,
        lambda x: ObjectivePerturbation(x, 0.1),
        lambda x: ObjectivePerturbation(0.1, x),
    ],
)
def test_events_refuse_what_is_not_a_scale(build, bad):
    with pytest.raises(InputError):
        build(bad)


def test_the_version_is_stated():
    assert accountant.VERSION
