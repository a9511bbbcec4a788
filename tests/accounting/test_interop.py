import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.accounting import (
    Approximate,
    Charge,
    Gaussian,
    NonPrivate,
    ObjectivePerturbation,
    Tally,
)
from ppadmm.accounting.accountant import epsilon, total_rdp
from ppadmm.accounting.interop import to_dp_event, without_sampler

ORDERS = np.array([1.01, 1.5, 2.0, 5.0, 20.0, 100.0])


@given(ratio=st.floats(1e-6, 10), kappa=st.floats(0, 10), times=st.integers(1, 100))
def test_their_epsilon_is_never_below_ours(ratio, kappa, times):
    charge = Charge((ObjectivePerturbation(ratio, kappa), Gaussian(ratio / 10)))
    tally = Tally.of([charge], times)
    theirs = RdpAccountant(ORDERS)
    theirs.compose(to_dp_event(tally))
    assert np.all(theirs._rdp >= total_rdp(tally, ORDERS) * (1 - 1e-9))
    assert theirs.get_epsilon(1e-5) >= epsilon(tally, 1e-5).epsilon - 1e-9


def test_gaussian_events_are_said_exactly():
    tally = Tally.of([Charge((Gaussian(0.2),))], 30)
    theirs = RdpAccountant(ORDERS).compose(to_dp_event(tally))
    np.testing.assert_allclose(theirs._rdp, total_rdp(tally, ORDERS))


def test_what_cannot_be_said():
    tally = Tally.of([Charge((Gaussian(0.2), Approximate(1e-12)))], 3)
    assert not RdpAccountant().supports(to_dp_event(tally))
    assert RdpAccountant().supports(to_dp_event(without_sampler(tally)))
    exact = to_dp_event(Tally.of([Charge((NonPrivate(), Gaussian(0.0)))]))
    kinds = {type(part.event) for part in exact.events}
    assert kinds == {dp_event.NonPrivateDpEvent, dp_event.NoOpDpEvent}
    assert RdpAccountant().compose(exact).get_epsilon(1e-5) == pytest.approx(np.inf)
