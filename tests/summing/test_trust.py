"""Who is trusted with what: values that make sense, and sites that are too many or too few."""

import pytest

from ppadmm.errors import InputError
from ppadmm.summing.fixed_point import MOST_SITES
from ppadmm.summing.trust import LOCAL_TRUST, MOST_REPEATS, Trust


def test_by_default_every_message_is_private_by_itself():
    assert Trust() == LOCAL_TRUST
    assert not LOCAL_TRUST.by_sum
    assert LOCAL_TRUST.honest(10**6) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "nobody"},
        {"colluding": -1},
        {"colluding": 1.5},
        {"repeats": -1},
        {"repeats": MOST_REPEATS + 1},
    ],
)
def test_what_makes_no_sense_is_refused(given):
    with pytest.raises(InputError):
        Trust(**{"kind": "sum", **given})


@pytest.mark.parametrize(("members", "colluding"), [(2, 1), (5, 1), (5, 4), (50, 12), (3, 0)])
def test_who_colludes_adds_no_noise(members, colluding):
    assert Trust("sum", colluding).honest(members) == members - colluding


@pytest.mark.parametrize(("members", "colluding"), [(1, 1), (2, 2), (5, 7)])
def test_somebodys_noise_must_be_left(members, colluding):
    with pytest.raises(InputError, match="nobody's noise is left"):
        Trust("sum", colluding).honest(members)


def test_more_sites_than_a_sum_has_room_for_are_refused():
    assert Trust("sum").honest(MOST_SITES) == MOST_SITES - 1
    with pytest.raises(InputError, match="1025 sites might not fit into 64 bits; choose 1024"):
        Trust("sum").honest(MOST_SITES + 1)
