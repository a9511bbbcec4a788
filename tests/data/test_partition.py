import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.data import Dataset, Label, Numeric, Schema, even, shards, split
from ppadmm.errors import DataError, InputError

X = np.linspace(-1, 1, 10)[:, None]
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
DATA = Dataset("ten", X, Y, Schema((Numeric("x", 0, 1),), Label("y", ("1",), ("0",))), 7)


@given(st.integers(1, 200), st.integers(1, 200), st.integers(0, 2**40))
def test_parts_are_even_and_complete(n, agents, seed):
    if agents > n:
        with pytest.raises(InputError, match=f"at most {n} agents.*got {agents}"):
            even(n, agents, seed)
        return
    parts = even(n, agents, seed)
    sizes = [len(p) for p in parts]
    assert len(parts) == agents
    assert max(sizes) - min(sizes) <= 1
    assert sorted(np.concatenate(parts)) == list(range(n))


def test_a_split_is_a_partition_that_follows_the_seed():
    train, test = split(DATA, 3)
    assert (len(train), len(test)) == (7, 3)
    assert sorted([*train, *test]) == list(range(10))
    assert np.array_equal(train, split(DATA, 3)[0])
    assert not np.array_equal(train, split(DATA, 4)[0])


def test_split_and_even_draw_apart():
    train, test = split(DATA, 3)
    assert not np.array_equal(np.concatenate([train, test]), even(10, 1, 3)[0])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_shards_hold_their_parts(make):
    parts = even(10, 3, 0)
    for part, shard in zip(parts, shards(make(X), Y, parts), strict=True):
        rows = shard.X if isinstance(shard.X, np.ndarray) else shard.X.toarray()
        assert np.array_equal(rows, X[part])
        assert np.array_equal(shard.y, Y[part])


def test_shards_check_their_rows():
    with pytest.raises(DataError, match="norm 2"):
        shards(2 * X, Y, [np.arange(10)])


@pytest.mark.parametrize("seed", [-1, 0.5, float("nan"), "x"])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(InputError, match="seed"):
        even(4, 2, seed)
    with pytest.raises(InputError, match="seed"):
        split(DATA, seed)


@pytest.mark.parametrize(("n", "agents"), [(0, 1), (4, 0), (4, 1.5)])
def test_bad_counts_are_refused(n, agents):
    with pytest.raises(InputError):
        even(n, agents, 0)
