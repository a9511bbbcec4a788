import datetime
import gzip
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ppadmm.data import Categorical, Numeric, as_table, read_table
from ppadmm.data.columns import column, texts
from ppadmm.errors import DataError

CSV = b"age, colour,code,flag\n1,red,01,true\n?,blue,02,false\n,,03,true\n"


def test_csv_plain_and_zipped(tmp_path):
    (tmp_path / "a.csv").write_bytes(CSV)
    (tmp_path / "b.CSV.gz").write_bytes(gzip.compress(CSV))
    plain, zipped = read_table(tmp_path / "a.csv"), read_table(str(tmp_path / "b.CSV.gz"))
    assert plain.equals(zipped)
    assert plain.column_names == ["age", "colour", "code", "flag"]
    assert plain["age"].to_pylist() == ["1", None, None]
    assert plain["flag"].to_pylist() == ["true", "false", "true"]


def test_cells_are_texts_and_markers_the_callers_choice(tmp_path):
    (tmp_path / "a.csv").write_bytes(CSV)
    table = read_table(tmp_path / "a.csv", missing=["1", "?", ""])
    assert table["code"].to_pylist() == ["01", "02", "03"]
    assert table["age"].null_count == 3


def test_nan_in_csv_stays_visible(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\nnan,1\n2,0\n")
    assert read_table(tmp_path / "a.csv")["x"].to_pylist() == ["nan", "2"]


@pytest.mark.parametrize("name", ["a.parquet", "a.pq"])
def test_parquet(tmp_path, name):
    table = pa.table({"x": [1, 2]})
    pq.write_table(table, tmp_path / name)
    assert read_table(tmp_path / name).equals(table)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", None, "There is no file"),
        ("a.csv", b"", "is empty"),
        ("a.csv", b"x,y\n", "holds no records"),
        ("a.csv", b"x,y\n1,2,3\n", "Cannot read .* as csv: row 1 has 3 cells and not 2"),
        ("a.csv", b"x,y\n1\n", "as many cells as the header"),
        ("a.csv", b"x;y\n1,5;2\n", "its cells are parted by ';'; save .* commas"),
        ("a.csv", b"x;y\n1;2\n", "parted by ';'; save .* commas"),
        ("a.csv", b"x\ty\n1\t2\n", r"parted by '\\t'; save .* commas"),
        ("a.csv.gz", gzip.compress(b"x;y\n1,5;2\n", mtime=0), "parted by ';'; save .* commas"),
        ("a.csv", "Größe,y\n1,2\n".encode("latin-1"), "not UTF-8; save it as such"),
        ("a.csv", "x,y\nÖl,2\n".encode("latin-1"), "not UTF-8; save it as such"),
        ("a.csv", b"\n\n", "Cannot read .* as csv"),
        ("a.csv.gz", b"not zipped", "Cannot read .* as csv"),
        ("a.csv.gz", gzip.compress(b"x\n" * 99999, mtime=0)[:80], "Cannot read|holds no records"),
        ("a.parquet", b"not parquet", "Cannot read .* as parquet"),
        ("a.pq", b"", "is empty"),
        ("a.xlsx", b"...", "Cannot tell the format"),
        ("a", b"...", "Cannot tell the format"),
    ],
)
def test_unreadable_files_are_explained_in_one_sentence(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    assert not str(caught.value).endswith("..")


def test_a_directory_is_not_a_table(tmp_path):
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(DataError, match="is a directory"):
        read_table(tmp_path / "a.csv")


def test_frames_become_tables():
    table = pa.table({"x": [1, 2]})
    assert as_table(table) is table
    assert as_table({"x": [1, 2]}).equals(table)
    assert as_table(pd.DataFrame({"x": [1, 2]}, index=[7, 8])).column_names == ["x"]
    assert as_table(pd.DataFrame({"x": [1.0, np.nan]}))["x"].null_count == 1
    assert as_table({"x": np.array([1.0, np.nan])})["x"].null_count == 0


def cells(frame, name):
    """A column as text, as the encoder sees it; None where it is missing."""
    text, present = texts(column(as_table(frame), name), ("", "?"))
    return [t if p else None for t, p in zip(text.to_pylist(), present, strict=True)]


PANDAS = pd.DataFrame(
    {
        "category": pd.Categorical(["a", None, "b"]),
        "code": pd.Categorical([1, 2, None]),
        "Int64": pd.array([1, None, 3], dtype="Int64"),
        "Float64": pd.array([1.5, None, 2.0], dtype="Float64"),
        "boolean": pd.array([True, None, False], dtype="boolean"),
        "bool": [True, False, True],
        "string": pd.array(["x", None, " y "], dtype="string"),
        "object": pd.Series(["x", np.nan, "y"], dtype=object),
        "arrow": pd.Series([1, 2, None], dtype="int64[pyarrow]"),
    }
)
POLARS = pl.DataFrame(
    {
        "category": pl.Series(["a", None, "b"], dtype=pl.Categorical),
        "enum": pl.Series(["a", None, "b"], dtype=pl.Enum(["b", "a"])),
        "int": [1, None, 3],
        "float": [1.5, None, 2.0],
        "bool": [True, None, False],
        "string": ["x", None, " y "],
        "decimal": pl.Series(["1.10", None, "2"]).cast(pl.Decimal(10, 2)),
    }
)


@pytest.mark.parametrize(
    ("frame", "name", "expected"),
    [
        (PANDAS, "category", ["a", None, "b"]),
        (PANDAS, "code", ["1", "2", None]),
        (PANDAS, "Int64", ["1", None, "3"]),
        (PANDAS, "Float64", ["1.5", None, "2"]),
        (PANDAS, "boolean", ["true", None, "false"]),
        (PANDAS, "bool", ["true", "false", "true"]),
        (PANDAS, "string", ["x", None, "y"]),
        (PANDAS, "object", ["x", None, "y"]),
        (PANDAS, "arrow", ["1", "2", None]),
        (POLARS, "category", ["a", None, "b"]),
        (POLARS, "enum", ["a", None, "b"]),
        (POLARS, "int", ["1", None, "3"]),
        (POLARS, "float", ["1.5", None, "2"]),
        (POLARS, "bool", ["true", None, "false"]),
        (POLARS, "string", ["x", None, "y"]),
        (POLARS, "decimal", ["1.1", None, "2"]),
    ],
)
def test_every_kind_of_column_in_a_frame(frame, name, expected):
    assert cells(frame, name) == expected


DAY = datetime.date(2020, 1, 1)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}),
        pd.DataFrame({"when": pd.Series([DAY], dtype=object)}),
        pd.DataFrame({"when": pd.Categorical(pd.to_datetime(["2020-01-01"]))}),
        pd.DataFrame({"when": pd.to_timedelta([1], unit="s")}),
        pl.DataFrame({"when": [DAY]}),
        pl.DataFrame({"when": [datetime.datetime(2020, 1, 1)]}),
        pl.DataFrame({"when": [datetime.time(1)]}),
    ],
    ids=lambda frame: f"{type(frame).__module__[:6]}-{frame['when'].dtype}",
)
def test_dates_are_refused_as_numbers_and_as_categories(frame):
    for c in (Numeric("when", 0, 1), Categorical("when", ("2020-01-01",))):
        with pytest.raises(DataError, match=r"'when' holds .*turn the dates into a number"):
            c.entries(as_table(frame), ())


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"x": [[1], [2]]}),
        pd.DataFrame({"x": pd.interval_range(0, 2)}),
        pd.DataFrame({"x": pd.period_range("2020", periods=2, freq="M")}),
        pl.DataFrame({"x": [b"a", b"b"]}),
    ],
)
def test_what_is_neither_number_nor_text_is_refused(frame):
    with pytest.raises(DataError, match=r"'x' holds .*neither numbers nor text; convert it"):
        column(as_table(frame), "x")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ([1, 2], "Expected a pandas or polars frame.*got list"),
        (types.SimpleNamespace(), "got SimpleNamespace"),
        (pl.LazyFrame({"x": [1]}), "call .collect"),
        (pl.Series([1]), "got Series"),
        (pd.Series([1]), "got Series"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "Duplicate column names"),
        ({"x": [1], "y": [1, 2]}, "Cannot turn the data into a table"),
        ({"x": 3}, "Cannot turn the data into a table"),
        (pd.DataFrame({"x": [1, "a"]}), "Cannot turn the data into a table"),
    ],
)
def test_what_is_not_a_table_is_refused(frame, message):
    with pytest.raises(DataError, match=message):
        as_table(frame)


def test_importing_the_package_imports_no_data_frames():
    code = "import sys, ppadmm.data; assert not {'pandas', 'polars'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_column_of_another_spelling_is_named_first():
    table = pa.table({f"c{k}": [1] for k in range(20)} | {"Hospital": [1]})
    with pytest.raises(DataError, match=r"no column 'hospitl'; it has: Hospital, c0, .*…"):
        column(table, "hospitl")


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_the_names(tmp_path):
    (tmp_path / "a.csv").write_bytes("\ufeffGröße (cm),y\r\n1,2\r\n".encode())
    assert read_table(tmp_path / "a.csv").column_names == ["Größe (cm)", "y"]
