"""Which files are whose, and what every site holds out."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.data import Partition, deal, find_sites, open_stream
from ppadmm.data.features import Categorical, Numeric
from ppadmm.data.fingerprint import fingerprint
from ppadmm.data.partition import held_out_by_site
from ppadmm.data.schema import Label, Schema
from ppadmm.data.sites import called, is_streamed
from ppadmm.datasets import load
from ppadmm.errors import DataError, InputError
from ppadmm.problem import loss_for
from ppadmm.runs.federation import build_federation

SCHEMA = Schema(
    (Numeric("age", 0, 100),),
    Label("ill", ("yes",), ("no",)),
    agents=(Categorical("ward", ("a", "b", "c")),),
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def people(n, first=0):
    return {
        "age": [str((7 * i + first) % 100) for i in range(n)],
        "ward": ["ab"[i % 2] for i in range(n)],
        "ill": ["yes" if i % 3 else "no" for i in range(n)],
    }


def write(path, columns):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.table(columns), path)
        return
    lines = [",".join(columns), *(",".join(row) for row in zip(*columns.values(), strict=True))]
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def names(given):
    return [(site.name, [str(path) for path in site.paths]) for site in find_sites(given)]


def test_each_file_or_folder_is_a_site():
    write("sites/b.csv", people(2))
    write("sites/a.csv.gz", people(2))
    write("sites/c/2.csv", people(2))
    write("sites/c/1/x.csv", people(2))
    write("sites/_old.csv", people(2))
    Path("sites/.hidden.csv").write_text("no")
    Path("sites/readme.txt").write_text("no")
    Path("sites/empty").mkdir()
    assert names("sites") == [
        ("a", ["sites/a.csv.gz"]),
        ("b", ["sites/b.csv"]),
        ("c", ["sites/c/1/x.csv", "sites/c/2.csv"]),
    ]
    assert names(["sites/c", "sites/b.csv"])[0] == (
        "c",
        ["sites/c/1/x.csv", "sites/c/2.csv"],
    )
    assert names("sites/b.csv") == [("b", ["sites/b.csv"])]
    assert not is_streamed("sites")
    assert called("sites") == "sites"
    assert called(["sites/c", "sites/b.csv", "x.csv", "y.csv", "z.csv"]) == "c, b, x and 2 more"


def test_what_is_no_set_of_sites_is_refused_before_anything_is_read():
    for path in ("a.csv", "other/a.csv", "b.csv", "c.parquet", "mixed/1.csv", "mixed/2.parquet"):
        write(path, people(2))
    Path("link.csv").symlink_to("a.csv")
    Path("notes.txt").write_text("no")
    Path("bare").mkdir()
    for given_, words in {
        ("a.csv", "a.csv"): "'a.csv' is given twice; name it once",
        ("a.csv", "link.csv"): "'link.csv' is given twice, also as 'a.csv'",
        ("a.csv", "other/a.csv"): "Two agents would be called 'a' .'a.csv' and 'other/a.csv'",
        ("a.csv", "c.parquet"): "files of one kind, got CSV .'a.csv'. and Parquet .'c.parquet'",
        ("mixed",): "files of one kind",
        ("a.csv", "none.csv"): "There is no file 'none.csv'",
        ("a.csv", "nothing"): "There is no file or folder 'nothing'",
        ("a.csv", "notes.txt"): "Cannot tell the format of 'notes.txt'",
        ("a.csv", "bare"): "The folder 'bare' holds no .csv",
        ("bare",): "The folder 'bare' holds no .csv",
    }.items():
        with pytest.raises(DataError, match=words):
            find_sites(given_)
    with pytest.raises(InputError, match="several paths, got 7"):
        find_sites(7)
    with pytest.raises(InputError, match="got none"):
        find_sites([])


def test_files_in_memory_are_the_records_of_one_table():
    write("a.csv", people(30))
    write("b.csv", people(20, 5) | {"unlisted": ["x"] * 20})
    write("c.csv", {name: [] for name in people(0)})
    data = load(["a.csv", "b.csv", "c.csv"], schema=SCHEMA)
    assert (data.name, data.n, data.table) == ("a, b, c", 50, None)
    alone = [load(path, schema=SCHEMA) for path in ("a.csv", "b.csv")]
    assert np.array_equal(np.asarray(data.X), np.vstack([np.asarray(one.X) for one in alone]))
    dealt, test = deal(data, Partition("files"), 5, 0)
    assert dealt.names == ("a", "b", "c")
    assert [len(part) for part in dealt.parts] == [24, 16, 0]
    assert "the file that it is in" in dealt.caveat
    rows = np.sort(np.concatenate([*dealt.parts, test]))
    assert np.array_equal(rows, np.arange(50))
    assert dealt.parts[0].max() < 30 <= dealt.parts[1].min()


def test_the_rows_of_a_file_are_known_by_themselves():
    write("a.csv", people(30))
    write("b.csv", people(20, 5) | {"unlisted": ["x"] * 20})
    both = fingerprint(load(["a.csv", "b.csv"], schema=SCHEMA))
    assert both.digest == fingerprint(load(["b.csv", "a.csv"], schema=SCHEMA)).digest
    for path in ("a.csv", "b.csv"):
        own = fingerprint(load(path, schema=SCHEMA))
        assert set(own.pieces()) <= set(both.pieces())


def test_a_column_deals_over_all_files():
    write("a.csv", people(30))
    write("b.csv", people(20, 5))
    dealt, _ = deal(load(["a.csv", "b.csv"], schema=SCHEMA), Partition("column", "ward"), 5, 0)
    assert dealt.names == ("a", "b", "c")
    assert [len(part) for part in dealt.parts] == [20, 20, 0]
    write("b.csv", people(20, 5) | {"ward": ["b"] * 19 + ["z"]})
    with pytest.raises(DataError, match=r"File 'b.csv': Column 'ward', row 20 is not among"):
        deal(load(["a.csv", "b.csv"], schema=SCHEMA), Partition("column", "ward"), 5, 0)


def test_what_cannot_be_read_names_the_file():
    write("a.csv", people(3))
    write("bad.csv", people(3) | {"age": ["1", "2", "old"]})
    write("few.csv", {"age": ["1"], "ill": ["yes"]})
    write("other.csv", {"ill": ["yes"]})
    Path("empty.csv").touch()
    for path, words in {
        "bad.csv": "File 'bad.csv': Column 'age', row 3: expected a finite number",
        "other.csv": "File 'other.csv': The table has no column 'age'",
        "empty.csv": "The file 'empty.csv' is empty",
    }.items():
        with pytest.raises(DataError, match=words):
            load(["a.csv", path], schema=SCHEMA)
    with pytest.raises(DataError, match=r"'a.csv' and 'few.csv' have different columns .*'ward'"):
        load(["a.csv", "few.csv"], label="ill")
    assert load(["a.csv", "few.csv"], schema=SCHEMA).n == 4


def test_a_draft_looks_at_all_files():
    write("a.csv", people(3))
    write("b.csv", {"ill": ["no", "yes"], "age": ["250", "3"], "ward": ["a", "c"]})
    data = load(["a.csv", "b.csv"], label="ill", drop=["ward"])
    assert not data.schema.confirmed
    assert data.schema.columns == (Numeric("age", 0, 250, whole=True),)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.integers(1, 400))
def test_what_sites_hold_out(sizes, test):
    possible = sum(max(size - 1, 0) for size in sizes)
    if not possible:
        with pytest.raises(DataError, match="a site with 2 records or more"):
            held_out_by_site(sizes, test)
        return
    shares = held_out_by_site(sizes, test)
    assert sum(shares) == min(test, possible)
    assert all(0 <= share <= max(size - 1, 0) for share, size in zip(shares, sizes, strict=True))
    if test < possible and min(sizes) > 1:
        exact = [test * size / sum(sizes) for size in sizes]
        slack = sum(max(0, e - (n - 1)) for e, n in zip(exact, sizes, strict=True))
        assert all(abs(s - e) <= 1 + slack for s, e in zip(shares, exact, strict=True))


@pytest.mark.parametrize("how", ["files", "column:ward"])
def test_what_is_held_out_follows_from_sizes_alone(how):
    """Records of one site with one value in the column are exchanged for others: same rows."""
    write("a.csv", people(30))
    write("b.csv", people(3))
    paths, partition = ["a.csv", "b.csv"], Partition.parse(how)
    first, test = deal(load(paths, schema=SCHEMA), partition, 5, 3)
    other = {**people(30, 50), "ill": ["yes"] * 30}
    write("a.csv", other)
    second, again = deal(load(paths, schema=SCHEMA), partition, 5, 3)
    assert np.array_equal(test, again)
    pairs = zip(first.parts, second.parts, strict=True)
    assert all(np.array_equal(one, two) for one, two in pairs)
    assert all(len(part) for part in first.parts if how == "files")


@pytest.mark.parametrize("how", ["files", "column:ward", "even"])
def test_a_stream_of_the_same_files_is_dealt_alike(how):
    for name, n in (("a", 30), ("b", 3), ("c", 7)):
        write(f"sites/{name}.parquet", people(n))
    partition = Partition.parse(how)
    loss = loss_for("logistic", 2, "auto")
    dealt, test = deal(load("sites", schema=SCHEMA), partition, 3, 1)
    assert is_streamed("sites")
    stream = build_federation(open_stream("sites", SCHEMA), 3, "ring", loss, 1, None, how)
    assert stream.names == dealt.names
    assert list(stream.records) == [len(part) for part in dealt.parts]
    assert stream.held_out.n == len(test)
    data = load("sites", schema=SCHEMA)
    for part, rows in zip(stream.parts, dealt.parts, strict=True):
        if part is None:
            assert len(rows) == 0
            continue
        streamed = np.vstack([np.asarray(block.X) for block in part.blocks()])
        wanted = np.asarray(data.X)[rows] * data.y[rows, None]  # blocks hold y·x
        np.testing.assert_allclose(np.sort(streamed, axis=0), np.sort(wanted, axis=0), rtol=1e-9)
    stream.close()
