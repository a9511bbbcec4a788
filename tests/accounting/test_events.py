"""Tallies: what is counted at once is what would be counted one by one."""

from collections import Counter

from ppadmm.accounting import Charge, Gaussian, Pure, Tally
from ppadmm.ledger.state import tally_of

TWICE = Charge((Gaussian(0.1), Pure(0.2), Gaussian(0.1)))
OTHER = Charge((Pure(0.2), Pure(0.3)))


def test_an_event_that_is_twice_in_a_charge_counts_twice():
    assert Tally().plus(TWICE, 3).counts == ((Gaussian(0.1), 6), (Pure(0.2), 3))
    assert Tally.of([OTHER]).plus(TWICE, 3).counts == (
        (Pure(0.2), 4),
        (Pure(0.3), 1),
        (Gaussian(0.1), 6),
    )


def test_a_tally_of_many_is_that_of_each():
    each = Tally()
    for charge in (TWICE, TWICE, OTHER):
        each = each.plus(charge)
    assert tally_of(Counter({TWICE: 2, OTHER: 1})) == each
    assert tally_of(Counter({TWICE: 2, OTHER: 0})) == Tally.of([TWICE], 2)
    assert tally_of(Counter({OTHER: 0})) == Tally()
