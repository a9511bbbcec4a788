import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.data import (
    Categorical,
    Dataset,
    Label,
    Numeric,
    Partition,
    Schema,
    assign,
    by_column,
    dirichlet,
    even,
    shards,
    split,
)
from ppadmm.datasets import load
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
    with pytest.raises(DataError, match="norm ≤ 1, got a longer one in row"):
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


LABELS = np.where(np.arange(5000) % 10 < 3, 1.0, -1.0)


@given(st.integers(1, 120), st.integers(1, 30), st.floats(1e-6, 1e4), st.integers(0, 2**40))
def test_skewed_parts_are_complete_and_none_is_empty(n, agents, alpha, seed):
    if agents > n:
        with pytest.raises(InputError, match=f"at most {n} agents.*got {agents}"):
            dirichlet(LABELS[:n], agents, alpha, seed)
        return
    parts = dirichlet(LABELS[:n], agents, alpha, seed)
    assert len(parts) == agents
    assert min(map(len, parts)) >= 1
    assert sorted(np.concatenate(parts)) == list(range(n))


def test_a_skewed_deal_follows_the_seed():
    first, again, other = (dirichlet(LABELS, 5, 0.5, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def skew(alpha):
    """Mean distance between an agent's share of positives and everybody's, weighted by records."""
    distances = []
    for seed in range(20):
        parts = dirichlet(LABELS, 5, alpha, seed)
        shares = [(LABELS[part] > 0).mean() for part in parts]
        weights = [len(part) for part in parts]
        distances.append(np.average(np.abs(np.array(shares) - 0.3), weights=weights))
    return np.mean(distances)


def test_the_smaller_alpha_the_more_labels_differ():
    skews = [skew(alpha) for alpha in (1e-3, 0.1, 1.0, 10.0, 1e4)]
    assert skews == sorted(skews, reverse=True)
    assert skews[0] > 0.3  # almost every agent has one class only
    assert skews[-1] < 0.01  # the agents hardly differ


def test_more_than_two_classes_can_be_skewed():
    y = np.arange(300) % 3.0
    parts = dirichlet(y, 4, 0.01, 0)
    assert sorted(np.concatenate(parts)) == list(range(300))


SITES = ("north", "south", "west")
TABLE = pa.table(
    {
        "x": np.linspace(0, 1, 12),
        "site": ["south", "north", "south"] * 4,
        "year": [2020, 2019, 9] * 4,
        "y": [0, 1] * 6,
    }
)


def dataset(agents=(), table=TABLE):
    schema = Schema((Numeric("x", 0, 1),), Label("y", ("1",), ("0",)), agents=agents)
    return load(table, schema=schema)


def test_every_value_of_a_column_has_its_rows():
    parts = by_column(TABLE, "site", SITES)
    assert [part.tolist() for part in parts] == [
        [1, 4, 7, 10],
        [0, 2, 3, 5, 6, 8, 9, 11],
        [],
    ]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["south", "nroth"] * 6, "'site', row 2 is not among the categories"),
        (["south", None] * 6, "'site', row 2 is missing, so no agent holds the record"),
        (["south", "?"] * 6, "'site', row 2 is missing, so no agent holds the record"),
    ],
)
def test_rows_that_nobody_holds_are_refused(cells, message):
    table = TABLE.set_column(1, "site", pa.array(cells))
    with pytest.raises(DataError, match=message):
        by_column(table, "site", SITES, ("?",))


def dealt(data, how, agents=5, seed=0, sizes=None):
    train, _ = split(data, seed)
    deal_ = assign(data, train, Partition.parse(how), agents, seed, sizes)
    return deal_, [train[part] for part in deal_.parts]


def test_a_public_list_names_the_agents_even_those_without_records():
    deal_, rows = dealt(dataset(agents=(Categorical("site", SITES),)), "column:site")
    assert deal_.names == SITES
    assert deal_.not_private_because is None
    assert "'site'" in deal_.caveat
    assert len(rows[2]) == 0
    for name, part in zip(SITES, rows, strict=True):
        assert {TABLE["site"][int(i)].as_py() for i in part} <= {name}
    assert sorted(np.concatenate(rows)) == sorted(split(dataset(), 0)[0])


def test_without_a_public_list_the_agents_are_not_private():
    deal_, _ = dealt(dataset(), "column:site")
    assert deal_.names == ("north", "south")
    assert "'site') were read off the records" in deal_.not_private_because


def test_values_that_are_numbers_are_in_the_order_of_numbers():
    assert dealt(dataset(), "column:year")[0].names == ("9", "2019", "2020")


def test_dealing_by_labels_is_not_private():
    data = load("synthetic")
    deal_, rows = dealt(data, "dirichlet:0.1")
    assert deal_.names == ("agent 0", "agent 1", "agent 2", "agent 3", "agent 4")
    assert "by their labels (dirichlet:0.1)" in deal_.not_private_because
    assert sorted(np.concatenate(rows)) == sorted(split(data, 0)[0])
    shares = [(data.y[part] > 0).mean() for part in rows]
    assert max(shares) - min(shares) > 0.2  # dealt evenly they differ by less than 0.03


def test_even_and_sized_deals_are_private():
    deal_, rows = dealt(dataset(), "even", agents=4)
    assert [len(part) for part in rows] == [3, 2, 2, 2]
    assert (deal_.not_private_because, deal_.caveat) == (None, None)
    assert [len(part) for part in dealt(dataset(), "even", 3, sizes=(4, 0, 2))[1]] == [4, 0, 2]


@pytest.mark.parametrize(
    "text",
    ["", "evn", "even:", "even:3", "column", "column:", "dirichlet", "dirichlet:", "sized:3"],
)
def test_unknown_partitions_list_the_known_ones(text):
    known = "even, column:NAME, files, dirichlet:ALPHA"
    with pytest.raises(InputError, match=f"Unknown partition '{text}'; .*{known}"):
        Partition.parse(text)


@pytest.mark.parametrize("alpha", ["0", "-1", "nan", "inf", "x"])
def test_alpha_is_a_positive_number(alpha):
    with pytest.raises(InputError, match="the partition's α"):
        Partition.parse(f"dirichlet:{alpha}")


def test_a_column_name_may_hold_a_colon():
    assert Partition.parse("column:a:b") == Partition("column", column="a:b")


@pytest.mark.parametrize(
    ("make", "how", "message"),
    [
        (dataset, "column:town", "no column 'town'"),
        (lambda: DATA, "column:site", "encoded records only and no column 'site'"),
        (
            lambda: dataset(table=TABLE.set_column(1, "site", pa.nulls(12))),
            "column:site",
            "'site' holds no values",
        ),
    ],
)
def test_columns_that_name_nobody_are_refused(make, how, message):
    with pytest.raises(DataError, match=message):
        dealt(make(), how)


def test_a_column_with_too_many_values_is_refused():
    table = pa.table({"x": [0.0] * 1001, "id": range(1001), "y": [0, *[1] * 1000]})
    with pytest.raises(DataError, match="'id' has 1,001 different values, too many for agents"):
        dealt(dataset(table=table), "column:id")
