"""What a ledger knows records by: the same however they are cut, read and meant."""

import gzip
import os
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ppadmm.data import Categorical, Label, Numeric, Schema, multiset, open_stream
from ppadmm.data import fingerprint as fingerprints
from ppadmm.data.fingerprint import fingerprint, matrix_fingerprint, table_fingerprint
from ppadmm.datasets import load
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


def test_the_order_of_rows_does_not_show():
    whole = table_fingerprint([TABLE])
    for order in ([5, 4, 3, 2, 1, 0], [1, 0, 2, 3, 5, 4]):
        assert table_fingerprint([TABLE.take(order)]) == whole
    for rows in ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 4], [0, 1, 2, 3, 4, 5, 5]):
        assert table_fingerprint([TABLE.take(rows)]).digest != whole.digest


def test_how_often_a_row_is_there_counts():
    found = [[1, 1, 2], [1, 2, 2], [1, 2], [1, 1, 2, 2], [2, 2, 1, 1, 1]]
    assert len({table_fingerprint([pa.table({"x": x})]).digest for x in found}) == len(found)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "", "1"])), min_size=1),
       st.randoms(use_true_random=False))  # fmt: skip
def test_two_tables_are_the_same_if_and_only_if_their_multisets_are(rows, random):
    def known(pairs):
        return table_fingerprint(
            [pa.table({"x": [x for x, _ in pairs], "u": [u for _, u in pairs]})]
        )

    shuffled = random.sample(rows, len(rows))
    assert known(shuffled) == known(rows)
    other = [*shuffled[:-1], (shuffled[-1][0] + 1, shuffled[-1][1])]
    assert known(other).digest != known(rows).digest


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(multiset, "CHUNK", 100)
    monkeypatch.setattr(fingerprints, "BATCH_ROWS", 37)


@pytest.mark.parametrize("distinct", [1, 7, 5000])
@pytest.mark.usefixtures("small_chunks")
def test_hashes_on_disk_give_the_same(distinct, monkeypatch):
    rng = np.random.default_rng(distinct)
    table = pa.table({"x": rng.integers(0, distinct, 5000), "u": ["a", "b"] * 2500})
    whole = table_fingerprint([table])
    assert table_fingerprint([table.take(rng.permutation(5000))], room=0) == whole
    monkeypatch.setattr(multiset, "CHUNK", 10**9)
    assert table_fingerprint([table], room=0) == whole


class TestSamples:
    def test_of_few_rows_all_distinct_ones_are_in_it(self):
        known = table_fingerprint([pa.table({"x": [1, 2, 2, 3]})])
        assert (len(list(known.pieces())), known.rate, known.rows) == (3, 1.0, 4)

    def test_of_many_a_share_that_depends_on_each_row_alone(self, monkeypatch):
        monkeypatch.setattr(fingerprints, "SAMPLE", 500)
        x = np.arange(4000)
        many = table_fingerprint([pa.table({"x": x})])
        assert many.rate == 0.125
        assert 350 < len(list(many.pieces())) < 650
        changed = table_fingerprint([pa.table({"x": np.append(x[1:], 9999)})])
        assert len(set(many.pieces()) ^ set(changed.pieces())) <= 2

    def test_it_is_not_shown(self):
        assert repr(table_fingerprint([TABLE])) == "Fingerprint of 6 rows"


class TestMatrices:
    X = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, -0.0], [0.0, 1.5, 0.0], [0.0, 0.0, 0.0]])
    labels = ("a", "b", "a", "c")

    def test_dense_sparse_and_shuffled_rows_are_the_same(self):
        whole = matrix_fingerprint(self.X, self.labels)
        loose = csr_array(self.X)
        loose.data = np.append(loose.data, 0.0)
        loose.indices = np.append(loose.indices, 1)
        loose.indptr = loose.indptr + np.array([0, 0, 0, 0, 1], dtype=loose.indptr.dtype)
        order = [3, 1, 0, 2]
        others = [csr_array(self.X), loose, self.X.astype(np.float32), csr_array(self.X)[order]]
        labels = [self.labels] * 3 + [[self.labels[k] for k in order]]
        for X, y in zip(others, labels, strict=True):
            assert matrix_fingerprint(X, y) == whole

    def test_every_number_its_place_and_its_label_count(self):
        other = self.X.copy()
        other[3, 2] = 1e-300
        found = {
            matrix_fingerprint(self.X, self.labels).digest,
            matrix_fingerprint(other, self.labels).digest,
            matrix_fingerprint(self.X[:, ::-1], self.labels).digest,
            matrix_fingerprint(np.hstack([self.X, np.zeros((4, 1))]), self.labels).digest,
            matrix_fingerprint(self.X, ("b", "a", "a", "c")).digest,
            matrix_fingerprint(self.X[:3], self.labels[:3]).digest,
        }
        assert len(found) == 6

    def test_coded_records_are_their_rows(self):
        data = load("synthetic")
        some, y = data.X[:300], data.y[:300].tolist()
        whole = matrix_fingerprint(some.toarray(), y)
        assert matrix_fingerprint(some, y).digest == whole.digest

    def test_labels_of_any_kind(self):
        kinds = [(1, 2, 1, 3), (True, False, True, True), (1, "x", None, 2.5)]
        assert len({matrix_fingerprint(self.X, labels).digest for labels in kinds}) == 3
        numbers = [(1, 2, 1, 3), (1.0, 2.0, 1.0, 3.0), ("1", "2", "01", "3")]
        assert len({matrix_fingerprint(self.X, labels).digest for labels in numbers}) == 1


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
    found = [["a", "bc"], ["ab", "c"], ["abc", None], ["a", "tbc"], ["at", "bc"], ["a", "b"]]
    assert len({table_fingerprint([pa.table({"u": u})]) for u in found}) == len(found)
    pairs = [("a", "bc"), ("ab", "c"), ("abc", None), (None, "abc"), ("", "abc "), ("1", "x")]
    tables = [pa.table({"u": [u], "w": [w]}) for u, w in pairs]
    assert len({table_fingerprint([table]) for table in tables}) == len(pairs) - 1


def write(path, ward=("01", "02", "1", "01")):
    pa.csv.write_csv(pa.table({"ward": ward, "ill": ["yes", "no", "no", "yes"]}), path)
    return path


def test_a_csv_file_is_the_same_under_every_schema(tmp_path):
    path = write(tmp_path / "a.csv")
    numbers, wards = load(path, schema=NUMBERS), load(path, schema=WARDS)
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
