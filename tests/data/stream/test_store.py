"""The store of encoded blocks: in memory while there is room, then in a file without a name."""

import shutil
import tempfile
from collections import namedtuple
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from ppadmm.data.stream.store import BlockStore, Kept, Spilled, one_ahead
from ppadmm.errors import DataError
from tests.small_problems import random_shard


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def same(a, b):
    pairs = [(getattr(a, name), getattr(b, name)) for name in ("X", "y")]
    return all(np.array_equal(_dense(x), _dense(y)) for x, y in pairs)


def _dense(x):
    return x if isinstance(x, np.ndarray) else x.toarray()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("room", [0, 3_000, 10**9])
def test_what_comes_out_is_what_went_in(scratch, sparse, room):
    shards = [random_shard(n=10 + k, d=5, seed=k, sparse=sparse) for k in range(9)]
    store = BlockStore(room)
    tickets = [store.put(shard) for shard in shards]
    kept = sum(isinstance(ticket, Kept) for ticket in tickets)
    assert {0: kept == 0, 3_000: 0 < kept < 9, 10**9: kept == 9}[room]
    for _ in range(2):
        found = [(shard.n, np.array(_dense(shard.X))) for shard in store.stream(tickets)]
        assert sorted(n for n, _ in found) == list(range(10, 19))
        for n, X in found:
            assert np.array_equal(X, _dense(shards[n - 10].X))
    assert all(same(store.get(t), shard) for t, shard in zip(tickets, shards, strict=True))
    store.close()


def test_a_block_from_the_file_cannot_be_written_to(scratch):
    store = BlockStore(0)
    shard = store.get(store.put(random_shard()))
    with pytest.raises(ValueError, match="read-only"):
        shard.X[0, 0] = 7.0
    store.close()


def test_the_file_has_no_name_and_is_gone_after_closing(scratch):
    store = BlockStore(0)
    ticket = store.put(random_shard())
    assert isinstance(ticket, Spilled)
    assert list(scratch.iterdir()) == []
    store.close()
    with pytest.raises(DataError, match="closed"):
        store.get(ticket)


def test_a_full_disk_is_refused_with_the_way_out(scratch, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 10, 0))
    store = BlockStore(0)
    with pytest.raises(DataError, match="TMPDIR"):
        store.put(random_shard())


def test_a_file_cut_short_is_noticed(scratch):
    store = BlockStore(0)
    ticket = store.put(random_shard())
    store._file.truncate(100)
    with pytest.raises(DataError, match="cut short"):
        store.get(ticket)
    store.close()


def test_one_ahead_keeps_order_and_passes_errors_on():
    def items():
        yield from range(5)
        raise DataError("at the sixth")

    found = []
    with pytest.raises(DataError, match="at the sixth"):
        found.extend(one_ahead(items()))
    assert list(islice(one_ahead(iter(range(100))), 3)) == [0, 1, 2]
    assert list(one_ahead(iter(()))) == []


def test_one_ahead_yields_all_before_an_error():
    def items():
        yield from range(5)
        raise DataError("at the sixth")

    found = []

    def collect():
        for item in one_ahead(items()):
            found.append(item)  # noqa: PERF402

    with pytest.raises(DataError):
        collect()
    assert found == [0, 1, 2, 3, 4]


def test_the_folder_of_temporary_files_is_the_one_that_is_used(scratch):
    assert Path(tempfile.gettempdir()) == scratch
