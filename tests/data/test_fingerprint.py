"""What a ledger knows records by: the same however they are cut, read and meant."""

import gzip
import os
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ppadmm.data import Categorical, Label, Numeric, Schema, load, open_stream
from ppadmm.data.fingerprint import fingerprint, table_fingerprint
from ppadmm.errors import DataError

LABEL = Label("ill", ("yes",), ("no",))
NUMBERS = Schema((Numeric("ward", 0, 99),), LABEL)
WARDS = Schema((Categorical("ward", ("01", "02", "1")),), LABEL, missing=("",))
TABLE = pa.table(
    {
        "ward": ["01", None, "", "é", "22", "3"],
        "x": [1.5, None, float("inf"), -0.0, 1e-300, 3.0],
        "n": pa.array([1, None, 3, 4, 5, 6], pa.int64()),
        "b": [True, False, None, True, True, False],
        "raw": [b"\xff", b"", None, b"a", b"b", b"c"],
        "when": pa.array([0, 1, None, 3, 4, 5], pa.timestamp("ns")),
        "list": [[1], [], None, [2, 3], [4], [5]],
        "money": [Decimal("1.10"), None, Decimal("2.00"), *[Decimal("3.30")] * 3],
        "kind": pa.array(["a", "b", None, "a", "a", "b"]).dictionary_encode(),
        "none": pa.nulls(6),
    }
)


def test_no_cut_between_pieces_shows():
    whole = table_fingerprint([TABLE])
    for cut in range(1, 6):
        pieces = [TABLE.slice(0, cut), TABLE.slice(cut)]
        assert table_fingerprint(pieces) == whole
        assert table_fingerprint([pa.concat_tables(pieces)]) == whole
    assert table_fingerprint([TABLE.select(TABLE.column_names[::-1])]) == whole


@pytest.mark.parametrize("name", [name for name in TABLE.column_names if name != "none"])
def test_every_value_its_place_and_its_name_count(name):
    whole, j = table_fingerprint([TABLE]), TABLE.column_names.index(name)
    values, kind = TABLE.column(name).to_pylist(), TABLE.column(name).type
    kind = kind.value_type if name == "kind" else kind
    for k in range(5):
        swapped = [*values[:k], values[k + 1], values[k], *values[k + 2 :]]
        if [v or None for v in swapped] != [v or None for v in values]:
            other = TABLE.set_column(j, name, pa.array(swapped, kind))
            assert table_fingerprint([other]) != whole
    assert table_fingerprint([TABLE.rename_columns({name: name + "'"})]) != whole
    assert table_fingerprint([TABLE.drop_columns([name])]) != whole
    assert table_fingerprint([TABLE.slice(1)]) != whole


@pytest.mark.parametrize(
    "spellings",
    [
        [["01", "2"], ["1.0", " 2e0 "], [1, 2], [1.0, 2.0], [Decimal("1.00"), Decimal("2.00")]],
        [["", "x"], [None, "x"], ["nan", "x "], [b"", b"x"]],
        [[True, False], ["true", "false"]],
        [[0.0, None], [-0.0, float("nan")], ["-0", ""]],
    ],
)
def test_a_value_has_one_spelling(spellings):
    assert len({table_fingerprint([pa.table({"x": values})]) for values in spellings}) == 1


def test_texts_that_run_together_are_told_apart():
    found = [["a", "bc"], ["ab", "c"], ["abc", None], [None, "abc"], ["a", "tbc"], ["at", "bc"]]
    assert len({table_fingerprint([pa.table({"u": u})]) for u in found}) == len(found)


def write(path, ward=("01", "02", "1", "01")):
    pa.csv.write_csv(pa.table({"ward": ward, "ill": ["yes", "no", "no", "yes"]}), path)
    return path


def test_a_csv_file_is_the_same_under_every_schema(tmp_path):
    path = write(tmp_path / "a.csv")
    numbers, wards = load(path, schema=NUMBERS), load(path, schema=WARDS)
    assert numbers.table["ward"].to_pylist() != wards.table["ward"].to_pylist()
    assert fingerprint(numbers) == fingerprint(wards)
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert fingerprint(load(packed, schema=WARDS)) == fingerprint(wards)
    other = load(write(tmp_path / "b.csv", ("01", "02", "1", "2")), schema=NUMBERS)
    assert fingerprint(other) != fingerprint(numbers)


def test_a_csv_file_that_changed_since_it_was_read_is_refused(tmp_path):
    data = load(write(tmp_path / "a.csv"), schema=NUMBERS)
    with (tmp_path / "a.csv").open("a") as file:
        file.write('"02","no"\n')
    with pytest.raises(DataError, match=r"a\.csv' changed while it was read"):
        fingerprint(data)
    os.unlink(tmp_path / "a.csv")  # noqa: PTH108
    with pytest.raises(DataError, match="changed while it was read"):
        fingerprint(data)


def test_a_stream_is_the_same_as_the_file_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    n = 40_000
    table = pa.table(
        {" ward": rng.uniform(0, 99, n), "ill": rng.choice(["yes", "no"], n), "unused": range(n)}
    )
    path = tmp_path / "big.parquet"
    pq.write_table(table, path, row_group_size=999)
    whole = fingerprint(load(path, schema=NUMBERS))
    assert fingerprint(open_stream(str(path), NUMBERS)) == whole
    (tmp_path / "parts").mkdir()
    for k in range(4):
        part = table.slice(k * n // 4, n // 4)
        pq.write_table(part, tmp_path / "parts" / f"{k}.parquet")
    assert fingerprint(open_stream(str(tmp_path / "parts"), NUMBERS)) == whole
    pq.write_table(table.slice(1), path)
    assert fingerprint(open_stream(str(path), NUMBERS)) != whole
