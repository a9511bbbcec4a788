"""Parquet files as streams: batches, errors that name file and row, files that change."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ppadmm.data import Categorical, Label, Numeric, Partition, Schema, open_stream
from ppadmm.data.stream import parquet
from ppadmm.data.stream.streamed import LEAST_MEMORY, batch_rows
from ppadmm.errors import DataError, InputError

N = 500
SCHEMA = Schema(
    (Numeric("age", 0, 100), Numeric("dose, row 7", 0, 1), Categorical("sex", ("f", "m"))),
    Label("ill", ("yes",), ("no",)),
)


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n).astype(float)
    return {
        "age": age.tolist(),
        "dose, row 7": rng.random(n).tolist(),
        "unused": ["x"] * n,
        "sex": rng.choice(["f", "m"], n).tolist(),
        "ill": np.where(age > 50, "yes", "no").tolist(),
    }


def write(path, table, rows=60):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(table), path, row_group_size=rows)
    return str(path)


def dealt(path, partition="even", agents=3, seed=4, memory=2 * LEAST_MEMORY):
    return open_stream(str(path), SCHEMA, memory).deal(Partition.parse(partition), agents, seed)


def rows_of(stream):
    """All rows x (not y·x) with their labels, sorted."""
    rows = []
    for shard in stream.blocks():
        signs = shard.y[:, None] if stream.signed else 1.0
        rows.append(np.column_stack([np.array(shard.X) * signs, shard.y]))
    return np.concatenate(rows)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr("ppadmm.data.stream.streamed.batch_rows", lambda schema, memory: 50)


@pytest.mark.parametrize("row_group", [1, 60, 10_000])
@pytest.mark.usefixtures("small_batches")
def test_all_records_arrive_encoded_as_in_memory(row_group):
    path = write("a.parquet", people(), row_group)
    streams = dealt(path)
    X, y = SCHEMA.encode(pq.read_table(path))
    assert [part.n for part in streams.parts] == [134, 133, 133]
    assert streams.test.n == 100
    test = rows_of(streams.test)
    train = [shard.X.copy() for part in streams.parts for shard in part.blocks()]
    signed = np.concatenate([*train, test[:, :-1] * test[:, -1:]])
    assert np.array_equal(np.sort(signed, axis=0), np.sort(X * y[:, None], axis=0))
    assert all(shard.signed() is shard.X for part in streams.parts for shard in part.blocks())
    assert sum(part.counts for part in (*streams.parts, streams.test)).tolist() == [
        int((y < 0).sum()),
        int((y > 0).sum()),
    ]
    streams.test.close()


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("age", "old", "Column 'age', row 321: expected a finite number; correct"),
        ("dose, row 7", "?!", "Column 'dose, row 7', row 321: expected a finite number"),
        ("sex", "x", "Column 'sex', row 321 is not among the categories"),
        ("ill", "maybe", "Label 'ill', row 321 is not one of the classes"),
    ],
)
@pytest.mark.usefixtures("small_batches")
def test_a_bad_cell_in_the_middle_is_named_with_its_file_and_row(column, cell, words):
    write("sites/a.parquet", people())
    table = people()
    table[column] = [str(value) for value in table[column]]
    table[column][320] = cell
    path = write("sites/b.parquet", table)
    with pytest.raises(DataError) as found:
        dealt("sites")
    assert str(found.value).startswith(f"File {path!r}: {words}")


@pytest.mark.usefixtures("small_batches")
def test_a_value_that_is_no_agent_is_named_with_its_row():
    table = people() | {"site": ["north"] * N}
    table["site"][N - 1] = None
    write("a.parquet", table)
    with pytest.raises(DataError, match=r"File 'a.parquet': Column 'site', row 500 is missing"):
        dealt("a.parquet", "column:site")


def test_rows_of_more_than_two_classes_keep_their_labels():
    schema = Schema((Numeric("age", 0, 100),), _classes())
    table = people() | {"ill": np.random.default_rng(0).choice(list("abc"), N).tolist()}
    write("a.parquet", table)
    streams = open_stream("a.parquet", schema).deal(Partition(), 2, 0)
    for part in streams.parts:
        labels = np.concatenate([shard.y for shard in part.blocks()])
        assert np.bincount(labels.astype(int)).tolist() == part.counts.tolist()
        assert not part.signed
    streams.test.close()


def _classes():
    from ppadmm.data import Classes

    return Classes("ill", ("a", "b", "c"))


def test_a_file_that_changes_while_it_is_read_is_refused(monkeypatch):
    path = write("a.parquet", people())
    data = open_stream(path, SCHEMA)
    original = parquet._joined

    def touched(batches, rows):
        yield from original(batches, rows)
        os.utime(path, ns=(1, 1))

    monkeypatch.setattr(parquet, "_joined", touched)
    with pytest.raises(DataError, match=r"'a.parquet' changed while it was read"):
        data.deal(Partition(), 2, 0)


def test_a_file_that_was_replaced_after_it_was_looked_at_is_refused():
    path = write("a.parquet", people())
    data = open_stream(path, SCHEMA)
    write("a.parquet", people(N + 1))
    with pytest.raises(DataError, match="changed while it was read"):
        data.deal(Partition(), 2, 0)
    Path(path).unlink()
    with pytest.raises(DataError, match="changed while it was read"):
        data.deal(Partition(), 2, 0)


def test_a_file_cut_off_in_the_middle_of_reading_is_called_changed(monkeypatch):
    path = write("a.parquet", people(50_000), rows=5_000)
    data = open_stream(path, SCHEMA)
    original = parquet._joined

    def cut(batches, rows):
        for k, table in enumerate(original(batches, rows)):
            if k == 1:
                os.truncate(path, 3_000)
            yield table

    monkeypatch.setattr(parquet, "_joined", cut)
    monkeypatch.setattr("ppadmm.data.stream.streamed.batch_rows", lambda schema, memory: 5_000)
    with pytest.raises(DataError, match="changed while it was read"):
        data.deal(Partition(), 2, 0)


def test_a_folder_is_read_in_order_of_names_and_each_entry_is_a_group():
    write("sites/west/2.parquet", people(30, 1))
    write("sites/west/1.pq", people(20, 2))
    write("sites/east.parquet", people(40, 3))
    write("sites/_old.parquet", people(99, 3))
    write("sites/.hidden/x.parquet", people(99, 3))
    Path("sites/read.me").write_text("notes")
    groups = parquet.find_groups("sites")
    assert [(group.name, group.rows) for group in groups] == [("east", 40), ("west", 50)]
    assert [file.path.name for file in groups[1].files] == ["1.pq", "2.parquet"]


def test_a_file_per_agent():
    write("sites/b.parquet", people(300, 1))
    write("sites/a.parquet", people(200, 2))
    write("sites/c.parquet", {name: [] for name in people(1)}, rows=1)
    streams = dealt("sites", "files")
    assert streams.dealt.names == ("a", "b", "c")
    assert streams.dealt.not_private_because is None
    assert "the file that it is in" in streams.dealt.caveat
    assert streams.parts[2] is None
    sizes = [part.n for part in streams.parts[:2]]
    assert sum(sizes) == 400
    assert streams.test.n == 100
    X, y = SCHEMA.encode(pq.read_table("sites/a.parquet"))
    own = {tuple(row) for row in X * y[:, None]}
    assert all(tuple(v) in own for shard in streams.parts[0].blocks() for v in shard.X)
    streams.test.close()


def test_two_agents_of_one_name_are_refused():
    write("sites/a.parquet", people())
    write("sites/a/1.parquet", people())
    with pytest.raises(DataError, match="Two agents would be called 'a'"):
        dealt("sites", "files")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("none.parquet", "There is no file 'none.parquet'"),
        ("adult", "Only Parquet files .* can be streamed, got 'adult'; leave memory out"),
        ("people.csv", "Only Parquet files"),
        ("empty", "holds no .csv, .csv.gz, .parquet or .pq file"),
        ("text.parquet", "Cannot read 'text.parquet' as parquet"),
        ("few.parquet", "'few.parquet': The table has no column 'sex'"),
    ],
)
def test_what_cannot_be_streamed_is_refused_before_anything_is_read(path, words):
    Path("empty").mkdir()
    Path("people.csv").write_text("a,b\n1,2\n")
    Path("text.parquet").write_text("no Parquet")
    write("few.parquet", {"age": [1.0], "dose, row 7": [1.0], "ill": ["yes"]})
    with pytest.raises(DataError, match=words):
        open_stream(path, SCHEMA)


def test_a_schema_enough_memory_and_a_deal_that_needs_no_labels_are_required():
    write("a.parquet", people())
    with pytest.raises(InputError, match="a schema is needed"):
        open_stream("a.parquet", None)
    with pytest.raises(InputError, match=r"at least 12,\d{3},\d{3} bytes.* 4 columns, got"):
        open_stream("a.parquet", SCHEMA, 12_000_000)
    with pytest.raises(InputError, match="cannot be dealt by its labels"):
        dealt("a.parquet", "dirichlet:1")


def test_batches_shrink_with_the_cap_and_grow_no_further_than_useful():
    wide = Schema(
        (Numeric("x", 0, 1), Categorical("c", tuple(map(str, range(5000))))), SCHEMA.label
    )
    dense = Schema(tuple(Numeric(f"x{i}", 0, 1) for i in range(300)), SCHEMA.label)
    assert batch_rows(dense, 32 * 10**6) < batch_rows(dense, 512 * 10**6) / 10
    assert batch_rows(wide, 512 * 10**6) == 2**16  # CSR: its 5,000 categories cost nothing
