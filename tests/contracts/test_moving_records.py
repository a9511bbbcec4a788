"""Records are pickled on purpose only, and copied within the process as usual."""

import copy
import pickle
import threading
from dataclasses import dataclass

import numpy as np
import pytest

from ppadmm.data import Shard
from ppadmm.records import moving_records
from ppadmm.solvers.base import Point
from tests.planted import pickled, planted


@pytest.fixture
def shard():
    return Shard(planted().X, planted().y)


def test_records_move_on_purpose_only(shard):
    with moving_records(), moving_records():
        again = pickle.loads(pickle.dumps([shard]))
    np.testing.assert_array_equal(again[0].X.toarray(), shard.X.toarray())
    np.testing.assert_array_equal(again[0].y, shard.y)
    with pytest.raises(ZeroDivisionError), moving_records():
        _ = 1 / 0
    with pytest.raises(TypeError, match="This Shard holds records"):
        pickle.dumps([shard])


def test_what_one_thread_moves_no_other_may(shard):
    found = []
    with moving_records():
        thread = threading.Thread(target=lambda: found.append(pickled(shard)))
        thread.start()
        thread.join()
    assert found == [None]


def test_copies_within_the_process_are_made_as_usual(shard):
    point = Point(np.ones((1, 2)), np.ones((1, 2)), np.ones((1, 2)))
    for copied in (copy.copy, copy.deepcopy):
        again = copied(shard)
        assert type(again) is Shard
        np.testing.assert_array_equal(again.X.toarray(), shard.X.toarray())
        np.testing.assert_array_equal(copied(point).data, point.data)
    assert not np.shares_memory(copy.deepcopy(shard).y, shard.y)
    twice = copy.deepcopy([shard, shard])
    assert twice[0] is twice[1]


def test_a_users_own_kind_of_shard_shows_no_more(shard):
    @dataclass(frozen=True)
    class Mine(Shard):
        note: str = "mine"

    mine = Mine(shard.X, shard.y)
    assert repr(mine) == "<Mine: X (90, 11), y (90,)>"
    assert pickled(mine) is None


def test_what_a_shard_shows(shard):
    assert repr(shard) == str(shard) == f"{shard}" == "<Shard: X (90, 11), y (90,)>"
    assert repr(shard.X) == (
        "<Coded: numeric (90, 1), codes (90, 1), scale (90,), knots (90, 1), weights (90, 1, 2)>"
    )
    assert repr([shard.X.T]) == "[<Transposed: rows (90, 11)>]"
