"""Who holds which record of a stream."""

import numpy as np
import pytest

from ppadmm.data import Dataset, Numeric, Partition, Schema, assign, split
from ppadmm.data.schema import Label
from ppadmm.data.stream import assignment
from ppadmm.data.stream.assignment import LabelReader, held_out, labels
from ppadmm.errors import DataError, InputError

SCHEMA = Schema((Numeric("x", 0, 1),), Label("y", ("1",), ("0",)))


@pytest.fixture
def chunked(monkeypatch):
    """Deal in chunks of seven, as more than a million records are."""
    monkeypatch.setattr(assignment, "AS_IN_MEMORY", 0)
    monkeypatch.setattr(assignment, "CHUNK", 7)


@pytest.mark.parametrize("sizes", [None, (3, 0, 20)])
@pytest.mark.parametrize("n", [10, 57])
def test_a_small_stream_is_dealt_as_in_memory(n, sizes):
    if sizes and n == 10:
        sizes = (3, 0, 2)
    X = np.zeros((n, 2))
    data = Dataset("x", X, np.ones(n), SCHEMA, max(1, n * 4 // 5))
    train, test = split(data, 5)
    dealt = assign(data, train, Partition(), 3, 5, sizes)
    [whose] = labels(n, 3, 5, sizes)
    assert np.array_equal(np.flatnonzero(whose == 3), np.sort(test))
    for agent, part in enumerate(dealt.parts):
        assert np.array_equal(np.flatnonzero(whose == agent), np.sort(train[part]))
    assert (whose == 4).sum() == (0 if sizes is None else len(train) - sum(sizes))


def test_chunks_have_exact_sizes_and_follow_from_the_seed(chunked):
    n = 1000
    pieces = list(labels(n, 3, 1))
    whose = np.concatenate(pieces)
    assert max(map(len, pieces)) == 7
    assert len(whose) == n
    assert np.bincount(whose).tolist() == [267, 267, 266, held_out(n)]
    assert np.array_equal(whose, np.concatenate(list(labels(n, 3, 1))))
    assert not np.array_equal(whose, np.concatenate(list(labels(n, 3, 2))))


def test_every_record_is_equally_likely_to_go_anywhere(chunked):
    n, draws = 20, 4000
    counts = np.zeros((n, 3))
    for seed in range(draws):
        whose = np.concatenate(list(labels(n, 2, seed, (6, 5))))
        for k in range(3):
            counts[:, k] += whose == k
    expected = np.array([6, 5, 4]) / n
    assert np.abs(counts / draws - expected).max() < 4.5 * np.sqrt(0.25 / draws)


def test_neighbouring_records_are_dealt_independently_of_the_chunks(chunked):
    together = 0
    for seed in range(3000):
        whose = np.concatenate(list(labels(40, 1, seed)))
        together += (whose[6] == 1) & (whose[7] == 1)
    assert together / 3000 == pytest.approx(8 * 7 / (40 * 39), abs=0.02)


@pytest.mark.parametrize("pieces", [[1] * 50, [50], [13, 37]])
def test_a_dealer_hands_out_pieces_of_any_length(chunked, pieces):
    whole = np.concatenate(list(labels(50, 4, 0)))
    dealer = LabelReader(labels(50, 4, 0))
    assert np.array_equal(np.concatenate([dealer.next(m) for m in pieces]), whole)


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((1, 1, 0), DataError, "at least 2 records"),
        ((10, 9, 0), InputError, "at most 8 agents"),
        ((10, 2, 0, (5, 4)), InputError, "at most 8 records"),
        ((10, 2, 0, (0, 0)), InputError, "at least one agent"),
        ((10**9, 2, 0), DataError, "at most 999,999,999 records"),
    ],
)
def test_what_cannot_be_dealt_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        list(labels(*arguments))


def test_sizes_are_checked_in_chunks_as_in_memory(chunked):
    with pytest.raises(InputError, match="records of agent 1 to be a whole number ≥ 0, got -1"):
        next(labels(100, 2, 0, (5, -1)))
