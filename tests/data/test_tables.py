import gzip
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ppadmm.data import as_table, read_table
from ppadmm.errors import DataError

CSV = b"age, colour,code,flag\n1,red,01,true\n?,blue,02,false\n,,03,true\n"


def test_csv_plain_and_zipped(tmp_path):
    (tmp_path / "a.csv").write_bytes(CSV)
    (tmp_path / "b.CSV.gz").write_bytes(gzip.compress(CSV))
    plain, zipped = read_table(tmp_path / "a.csv"), read_table(str(tmp_path / "b.CSV.gz"))
    assert plain.equals(zipped)
    assert plain.column_names == ["age", "colour", "code", "flag"]
    assert plain["age"].to_pylist() == [1, None, None]
    assert plain["flag"].to_pylist() == ["true", "false", "true"]


def test_text_columns_and_markers_are_the_callers_choice(tmp_path):
    (tmp_path / "a.csv").write_bytes(CSV)
    table = read_table(tmp_path / "a.csv", text=["code"], missing=["1", "?", ""])
    assert table["code"].to_pylist() == ["01", "02", "03"]
    assert table["age"].null_count == 3


def test_nan_in_csv_stays_visible(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\nnan,1\n2,0\n")
    assert np.isnan(read_table(tmp_path / "a.csv")["x"].to_pylist()[0])


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
        ("a.csv", b"x,y\n1,2,3\n", "Cannot read .* as csv: .*Expected 2 columns"),
        ("a.csv", b"\n\n", "Cannot read .* as csv"),
        ("a.csv.gz", b"not zipped", "Cannot read .* as csv"),
        ("a.csv.gz", gzip.compress(b"x\n" * 99999)[:80], "Cannot read|holds no records"),
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


def test_polars_frames_give_their_own_arrow_table():
    class Frame:
        def to_arrow(self):
            return pa.table({"x": pa.array(["a"], pa.large_string())})

    Frame.__module__ = "polars.dataframe.frame"
    assert as_table(Frame())["x"].to_pylist() == ["a"]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ([1, 2], "Expected a pandas or polars frame.*got list"),
        (types.SimpleNamespace(), "got SimpleNamespace"),
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
