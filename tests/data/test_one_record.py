"""Replacing one record changes one encoded row and nothing else, the whole way from bytes to rows.

The strongest form is tested where it can be: row i of a file is the row of a file that holds record
i alone. Whatever is inferred from several records breaks that.
"""

import gzip
import os
from decimal import Decimal
from itertools import chain

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import issparse

from ppadmm.data import (
    Categorical,
    Classes,
    Interaction,
    Numeric,
    Partition,
    Schema,
    assign,
    open_stream,
    split,
)
from ppadmm.data.stream import blocks, parquet
from ppadmm.data.stream.store import Kept
from ppadmm.datasets import load
from ppadmm.errors import DataError

CODES = ("250.0", "250", "E11", "01", "1", "TRUE", "true", "2020-01-01", "ü", "a,b", 'q"q', "x\ny")
SCHEMA = Schema(
    (
        Numeric("age", -50, 150, shape="curve"),
        Numeric("dose", 0, 10, "log"),
        Categorical("code", CODES),
    ),
    Classes("ill", ("250.0", "250", "E11")),
    missing=("", "?", "-9", "n.a."),
    agents=(Categorical("site", ("1", "2", "03")),),
    interactions=(Interaction(("age", "code")), Interaction(("dose", "age"), (3, 4))),
)
NAMES = ("age", "dose", "code", "note", "site", "ill")
TIMES = 20 if os.environ.get("PPADMM_FULL") else 1
SECRET = "Maria-Muster"
"""No message may quote this cell."""

NUMBERS = ["1", "1.0", "007", "1e2", "-0", " 5 ", "", "?", "-9", "-9.0", "n.a.", "0.1", "1e-400"]
NUMBERS += ["12345678901234567890", "+3", ".5", "99999", "-1e300"]
NO_NUMBERS = ["nan", "inf", "NA", "0x10", "TRUE", "1,5", "2020-01-01", SECRET, "1 2", "١"]


def cells(good, bad):
    """Mostly cells that can be read, so that most files can."""
    return st.sampled_from([*good * (1 + 40 * len(bad) // len(good)), *bad])


RECORDS = st.fixed_dictionaries(
    {
        "age": cells(NUMBERS, NO_NUMBERS),
        "dose": cells(NUMBERS, NO_NUMBERS),
        "code": cells([*CODES, " E11 ", "?", "", "250.00"], ["E12", "nan", SECRET, "2020-01-02"]),
        "note": st.one_of(
            st.sampled_from(["", "12", "1.5", "2020-01-01", "true", '"', "\r", "\r\n", "\ufeff"]),
            st.text(max_size=8),
        ),
        "site": cells(["1", "2", "03"], ["", "3"]),
        "ill": cells(["250.0", "250", "E11", " 250 "], ["", "250.5", SECRET]),
    }
)
FILES = st.fixed_dictionaries(
    {
        "end": st.sampled_from(["\n", "\r\n", "\r"]),
        "mark": st.booleans(),
        "all_quoted": st.booleans(),
        "last_end": st.booleans(),
        "zipped": st.booleans(),
    }
)


def line(record, all_quoted=False):
    def written(cell):
        if all_quoted or set(cell) & set('",\r\n'):
            return '"' + cell.replace('"', '""') + '"'
        return cell

    return ",".join(written(record[name]) for name in NAMES)


def csv_bytes(records, end="\n", mark=False, all_quoted=False, last_end=True, zipped=False):
    lines = [",".join(NAMES), *(line(record, all_quoted) for record in records)]
    text = ("\ufeff" if mark else "") + end.join(lines) + (end if last_end else "")
    raw = text.encode()
    return gzip.compress(raw, mtime=0) if zipped else raw


def rows_of(data):
    """All encoded rows with their labels (n, d + 1), and who trains on, tests and holds which."""
    rows = np.column_stack([np.asarray(data.X), data.y])
    train, test = split(data, 7)
    whose = assign(data, np.arange(data.n), Partition.parse("column:site"), 3, 7)
    even = assign(data, train, Partition(), min(2, len(train)), 7)
    return rows, (train.tolist(), test.tolist()), whose, even


def _checked(message):
    """One line that quotes no cell."""
    assert SECRET not in message
    assert "\n" not in message
    return message


def read(path, content):
    """Return rows and sites, or the message of a refusal."""
    path.write_bytes(content)
    try:
        rows, cut, whose, even = rows_of(load(path, schema=SCHEMA))
    except DataError as error:
        return _checked(str(error))
    site = np.full(len(rows), -1)
    for k, part in enumerate(whose.parts):
        site[part] = k
    return rows, site.tolist(), cut, [part.tolist() for part in even.parts]


def alone(path, record):
    """Return the row and the site of a record that shares its file with nobody but itself."""
    found = read(path, csv_bytes([record, record]))
    return found if isinstance(found, str) else (found[0][0], found[1][0])


@given(st.lists(RECORDS, min_size=2, max_size=6), FILES)
@settings(max_examples=150 * TIMES)
def test_a_row_of_a_csv_file_is_that_of_its_record_alone(tmp_path_factory, records, how):
    folder = tmp_path_factory.getbasetemp()
    whole = read(folder / ("a.csv.gz" if how["zipped"] else "a.csv"), csv_bytes(records, **how))
    own = [alone(folder / "one.csv", record) for record in records]
    bad = [k for k, found in enumerate(own, 1) if isinstance(found, str)]
    if bad:
        assert isinstance(whole, str)
        assert any(f"row {k}" in whole for k in bad)
        return
    rows, sites, cut, _ = whole
    assert np.array_equal(rows, [row for row, _ in own])
    assert sites == [site for _, site in own]
    assert sorted(cut[0] + cut[1]) == list(range(len(records)))


@given(st.lists(RECORDS, min_size=3, max_size=6), RECORDS, st.integers(0, 5), FILES)
@settings(max_examples=150 * TIMES)
def test_replacing_a_record_of_a_csv_file_changes_one_row(tmp_path_factory, records, other, k, how):
    name = "b.csv.gz" if how["zipped"] else "b.csv"
    path, k = tmp_path_factory.getbasetemp() / name, k % len(records)
    before = read(path, csv_bytes(records, **how))
    after = read(path, csv_bytes([*records[:k], other, *records[k + 1 :]], **how))
    if not isinstance(before, str) and not isinstance(after, str):
        kept = np.arange(len(records)) != k
        assert np.array_equal(before[0][kept], after[0][kept])
        assert np.array_equal(np.array(before[1])[kept], np.array(after[1])[kept])
        assert before[2:] == after[2:]


GOOD = {"age": "1", "dose": "2", "code": "E11", "note": "plain", "site": "1", "ill": "250"}
FILE = [GOOD, GOOD | {"code": "a,b", "age": "7"}, GOOD | {"note": "x\ny", "ill": "E11"}, GOOD]


@given(st.integers(0, 3), st.text(alphabet='",1 aE?-.\x00ü', max_size=25))
@example(1, '"1,2,E11,x,1,250')
@example(1, '"1,2,E11,x,1,250",,,')
@example(0, '1,2,E11,"""",1,250')
@example(0, '1,2,E11,a"b,"c,250')
@example(3, "")
@example(3, ",,,,,")
@settings(max_examples=150 * TIMES)
def test_any_line_in_place_of_a_record_changes_that_row_or_the_file_is_refused(
    tmp_path_factory, k, other
):
    path = tmp_path_factory.getbasetemp() / "c.csv"
    head, *lines = [",".join(NAMES), *map(line, FILE)]
    before = read(path, "\n".join([head, *lines, ""]).encode())
    lines[k] = other
    after = read(path, "\n".join([head, *lines, ""]).encode())
    if not isinstance(after, str):
        kept = np.arange(len(FILE)) != k
        assert np.array_equal(before[0][kept], after[0][kept])
        assert before[2:] == after[2:]


def test_one_label_does_not_change_how_the_others_are_read(tmp_path):
    """The attack that was found: 984 of 2,001 labels changed with one record."""
    schema = Schema((Numeric("age", 0, 100),), SCHEMA.label)
    rng = np.random.default_rng(1)
    rows = [f"{rng.integers(0, 99)},{code}" for code in rng.choice(["250.0", "250"], 2000)]
    labels = []
    for last in ("E11", "250"):
        (tmp_path / "a.csv").write_text("\n".join(["age,ill", *rows, f"50,{last}", ""]))
        labels.append(load(tmp_path / "a.csv", schema=schema).y)
    assert np.flatnonzero(labels[0] != labels[1]).tolist() == [2000]
    assert np.bincount(labels[0].astype(int)).min() == 1


# Frames, dicts, Arrow tables and Parquet files.


def listing(*names):
    return Schema(
        (Numeric("x", 0, 150), Categorical("c", names)),
        Classes("y", ("0", "1", "2.5")),
        missing=("", "?", "-9"),
    )


LISTS = {
    "plain": listing("250", "E11", "1", "0.5", "1000000000000000"),
    "truth": listing("250", "E11", "true", "FALSE", "0.5", "1000000000000000"),
    "leading zeros": listing("250", "E11", "001", "00", "0.50", "1E15"),
    "the same number twice": listing("250", "250.0", "E11", "True", "1", "0.5"),
}
FLOATS = [1, 1.5, None, -9, -9.0, 0.1, 7, np.float32(0.1), np.int8(3), np.float64(0.3)]
DECIMALS = [Decimal("13.22"), Decimal("1e-12"), Decimal("7"), 1, -9, None, Decimal("123.456")]
TEXTS = ["3", "?", "1e2", None, "-9.0", "0.1"]
KINDS = {
    "x": [FLOATS, DECIMALS, TEXTS, [True, None, False], [float("nan"), 1.0, None, 2]],
    "c": [
        [250, 250.0, None, 0.5, 10**15, 1e15, 1.0, 1, -9, -9.0, np.float32(0.5), np.int8(1)],
        [Decimal("0.500"), Decimal(1), 250, None, Decimal("250.0"), Decimal("1e15")],
        ["250", " E11", "250.0", "250.00", "?", None, "01", "true", "-9.0"],
        [True, False, None, np.bool_(True)],
    ],
    "y": [[0, 1, 1.0, 2.5], [Decimal("2.50"), 1, 0], ["0", "1.0", "2.5", " 1"]],
}
COLUMNS = tuple(KINDS)


@st.composite
def tables(draw):
    """Columns of one kind each, as most are, or now and then of several."""
    n, found = draw(st.integers(2, 5)), {}
    for name, kinds in KINDS.items():
        kind = draw(st.sampled_from([*kinds, *kinds, list(chain(*kinds))]))
        found[name] = draw(st.lists(st.sampled_from(kind), min_size=n, max_size=n))
    return [dict(zip(COLUMNS, cells, strict=True)) for cells in zip(*found.values(), strict=True)]


def columns(records):
    return {name: [record[name] for record in records] for name in COLUMNS}


def from_parquet(frame):
    pq.write_table(
        frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame), "a.parquet"
    )
    return "a.parquet"


MAKERS = {
    "dict": lambda cells: cells,
    "arrow": pa.table,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "parquet": lambda cells: from_parquet(pa.table(cells)),
    "pandas parquet": lambda cells: from_parquet(pd.DataFrame(cells)),
}
LIBRARIES = (pa.ArrowException, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError)
"""What a library refuses before we see it."""


def encoded(make, schema, records):
    """Return the rows with labels, or None where they are refused."""
    try:
        frame = make(columns(records))
    except LIBRARIES:
        return None
    try:
        data = load(frame, schema=schema)
    except DataError:
        return None
    return np.column_stack([np.asarray(data.X), data.y])


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("names", LISTS)
@given(tables())
@example([{"x": True, "c": True, "y": 1}, {"x": 1, "c": 0.5, "y": 0}])
@example([{"x": 1, "c": 0.5, "y": 0}, {"x": 1, "c": True, "y": 1}])
@example([{"x": 1, "c": 1, "y": 1}, {"x": 1, "c": np.bool_(True), "y": 0}])
@example([{"x": Decimal("13.22"), "c": 1, "y": 1}, {"x": Decimal("1e-12"), "c": None, "y": 1}])
@example([{"x": 1, "c": Decimal("250"), "y": 1}, {"x": 1, "c": Decimal("0.5"), "y": 1}])
@example([{"x": 1, "c": 10**15, "y": 1}, {"x": 1, "c": 0.5, "y": 0}])
@example([{"x": 1, "c": 250, "y": 1}, {"x": 1, "c": None, "y": 0}])
@settings(max_examples=30 * TIMES)
def test_a_row_of_a_frame_is_that_of_its_record_alone(kind, names, records):
    make, schema = MAKERS[kind], LISTS[names]
    whole = encoded(make, schema, records)
    if whole is not None:
        own = [encoded(make, schema, [record, record]) for record in records]
        assert all(found is not None for found in own)
        assert np.array_equal(whole, [found[0] for found in own])


# Streams: the same rows, cut in the same places.

GROUPS = Schema(
    (Numeric("x", 0, 1), *(Categorical(f"c{j}", tuple("abcdefghijkl")) for j in range(40))),
    Classes("y", ("0", "1", "2.5")),
)
"""Many categories of which few are present: rows are stored as CSR."""


def stream_of(path, table, schema, memory=16 * 10**6, **options):
    pq.write_table(table, path, **options)
    data = open_stream(str(path), schema, memory)
    return data, data.whole()


def blocks_of(stream):
    """Whether each block stayed in memory, and its rows with labels."""
    places = [isinstance(ticket, Kept) for ticket in stream.tickets]
    blocks = [
        np.column_stack([block.X.toarray() if issparse(block.X) else block.X, block.y])
        for block in stream.blocks()
    ]
    return places, [block.copy() for block in blocks]


@given(tables())
@example([{"x": Decimal("13.22"), "c": 1, "y": 1}, {"x": Decimal("1e-12"), "c": None, "y": 1}])
@settings(max_examples=40 * TIMES)
def test_a_row_of_a_stream_is_that_of_its_record_alone(records):
    def streamed(some):
        try:
            _, stream = stream_of("s.parquet", pa.table(columns(some)), LISTS["plain"])
        except (DataError, *LIBRARIES):
            return None
        rows = np.concatenate(blocks_of(stream)[1])
        stream.close()
        return rows

    whole = streamed(records)
    if whole is not None:
        assert np.array_equal(whole, [streamed([record, record])[0] for record in records])


assert GROUPS.is_sparse()


def wide(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    columns = {f"c{j}": rng.choice(list("abcdefgh"), n).tolist() for j in range(40)}
    return {"x": rng.random(n).tolist(), **columns, "y": rng.choice(["0", "1", "2.5"], n).tolist()}


@pytest.mark.parametrize("other", ["missing", "long", "other row groups"])
def test_one_record_does_not_move_the_cuts_of_a_stream(tmp_path, monkeypatch, other):
    """A row with many missing cells is shorter, a page with a long text is longer."""
    monkeypatch.setattr("ppadmm.data.stream.blocks.BLOCK", 40_000)
    monkeypatch.setattr("ppadmm.data.stream.blocks.KEPT", 0.05)
    schema = GROUPS if other != "long" else Schema(GROUPS.columns[:3], GROUPS.label)
    cells = wide()
    found = []
    for changed in (False, True):
        rows = {"row_group_size": 70 if changed and other == "other row groups" else 700}
        if changed and other == "missing":
            for j in range(40):
                cells[f"c{j}"][5] = None
        if changed and other == "long":
            cells["c0"][5] = " " * 30_000 + cells["c0"][5]
        data, stream = stream_of(tmp_path / "a.parquet", pa.table(cells), schema, **rows)
        found.append((data.free, *blocks_of(stream)))
        stream.close()
    (free, places, before), (free_too, places_too, after) = found
    assert free == free_too
    assert places == places_too
    assert len(before) > 1
    assert [len(block) for block in before] == [len(block) for block in after]
    changes = [np.flatnonzero((a != b).any(axis=1)) for a, b in zip(before, after, strict=True)]
    assert sum(map(len, changes)) == (other == "missing")


def test_one_record_does_not_decide_what_stays_in_memory():
    """With room for all but a byte of a block, a shorter row would let it stay."""
    table = wide(200)
    room, kept = 0, []
    for missing in (False, True):
        for j in range(40 if missing else 0):
            table[f"c{j}"][5] = None
        X, y = GROUPS.encode(table)
        size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes
        assert size <= (len(y) + 1) * blocks.row_bytes(GROUPS)
        room = room or size - 1
        writer = blocks.Writer(GROUPS, 1, 10**9)
        writer.store._room = room
        writer.add(X, y, np.zeros(len(y), dtype=np.int32))
        stream = writer.of([0])
        kept.append([isinstance(ticket, Kept) for ticket in stream.tickets])
        stream.close()
    assert kept == [[False], [False]]


def test_batches_have_the_same_rows_whatever_the_row_groups():
    rows = pa.table({"x": range(300)})
    for size in (1, 50, 64, 100, 300):
        tables_ = list(parquet._joined(rows.to_batches(max_chunksize=size), 64))
        assert [table.num_rows for table in tables_] == [64, 64, 64, 64, 44]
        assert pa.concat_tables(tables_).equals(rows)
