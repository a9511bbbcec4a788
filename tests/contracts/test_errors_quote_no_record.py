"""An error says where it is, the row and the column, and quotes no cell."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from ppadmm import PrivateLogisticRegression
from ppadmm.data import Shard, infer_schema
from ppadmm.data.coded import Coded
from ppadmm.datasets.brazil import read_brazil
from ppadmm.datasets.named import load
from ppadmm.errors import DataError
from tests.planted import NAME

AGE = 77.123456789
LABEL = "Zebulonitis"
PUBLIC = {"bounds": ([0, 0], [130, 2]), "classes": ["no", "yes"], "delta": 1e-3, "n_agents": 2}


def rows(bad=None):
    X = np.full((20, 2), AGE / 1000)
    if bad is not None:
        X[7, 1] = bad
    return X


def labels(bad):
    return np.where(np.arange(20) == 7, bad, 1.0)


def coded(code):
    return Coded(rows(), np.full((20, 1), code), np.full(20, 0.1), 5)


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda: Shard(rows(), labels(AGE)), "row 7"),
        (lambda: Shard(rows(AGE), labels(1.0)), "row 7"),
        (lambda: Shard(rows(np.nan), labels(1.0)), "Row 7"),
        (lambda: Shard(csr_array(rows(AGE)), labels(1.0)), "row 7"),
        (lambda: Shard(rows(), labels(AGE), classes=3), "row 7"),
        (lambda: Shard(coded(77), labels(1.0)), "group 0"),
        (lambda: Shard(np.array([[NAME, AGE]] * 20, dtype=object), labels(1.0)), "numbers only"),
        (lambda: Shard(rows(), [NAME] * 20), "map the classes"),
        (lambda: infer_schema({"age": [AGE] * 9, "ill": [LABEL] * 9}, "ill"), "Label 'ill'"),
    ],
)
def test_rows_and_labels(make, place):
    refused(make, place)


def refused(make, place, kind=DataError):
    with pytest.raises(kind) as caught:
        make()
    text = str(caught.value)
    assert place in text
    for secret in (NAME, LABEL, "77.123", "77", "0.077", "7.71"):
        assert secret not in text


def as_kinds(table):
    """The same table as everything that scikit-learn takes."""
    return {
        "pandas": pd.DataFrame(table),
        "polars": pl.DataFrame(table, strict=False),
        "array": np.array(list(table.values()), dtype=object).T,
        "texts": np.array(list(table.values())).T.astype(str),
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "array", "texts"])
@pytest.mark.parametrize("method", ["fit", "predict"])
def test_a_cell_that_is_no_number(kind, method):
    ages, doses = ["50.5"] * 20, ["1.5"] * 20
    doses[7] = NAME
    X, y = as_kinds({"age": ages, "dose": doses})[kind], ["no", "yes"] * 10
    model = PrivateLogisticRegression(random_state=0, rounds=2, **PUBLIC)
    column = "'dose'" if kind in ("pandas", "polars") else "1"
    if method == "fit":
        refused(lambda: model.fit(X, y), f"Column {column}, row 7", ValueError)
    else:
        good = as_kinds({"age": ages, "dose": ages})[kind]
        good = good if kind in ("pandas", "polars") else good.astype(float)
        model.fit(good, y)
        refused(lambda: model.predict(X), f"Column {column}, row 7", ValueError)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.full(20, AGE), "Reshape your data"),
        (np.float64(AGE), "Reshape your data"),
        (np.full((20, 2), AGE + 0j), "Complex data not supported"),
        (np.full((20, 2, 2), AGE), "dim"),
        (np.where(np.arange(40).reshape(20, 2) == 7, np.nan, AGE), "NaN"),
    ],
)
def test_what_is_no_table(X, words):
    model = PrivateLogisticRegression(random_state=0, rounds=2, **PUBLIC)
    refused(lambda: model.fit(X, ["no", "yes"] * 10), words, ValueError)
    model.fit(np.full((20, 2), 1.0), ["no", "yes"] * 10)
    refused(lambda: model.predict(X), words, ValueError)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["no"] * 7 + [LABEL] + ["yes"] * 12, "The label of record 7 is not among the classes"),
        ([AGE] * 20, "Unknown label type"),
        ([[AGE, AGE]] * 20, "1d array"),
        ([["no"]] * 7 + [["no", LABEL]] + [["no"]] * 12, ""),
        ({LABEL, "no"}, ""),
        (LABEL, ""),
    ],
)
def test_labels_of_a_fit(y, words):
    model = PrivateLogisticRegression(random_state=0, rounds=2, **PUBLIC)
    refused(lambda: model.fit(rows(), y), words, (ValueError, TypeError))


def test_a_class_that_all_records_have():
    model = PrivateLogisticRegression(bounds=(0, 1), random_state=0)
    refused(lambda: model.fit(rows(), [LABEL] * 20), "got 1 class;")


def test_the_files_of_a_named_data_set(tmp_path):
    (tmp_path / "ipums_brazil.dat").write_text(f"1 2 {NAME}\n")
    refused(lambda: read_brazil(tmp_path), "Cannot read")
    (tmp_path / "adult.data").write_text(f"39, {NAME}\n")
    (tmp_path / "adult.test").write_text(f"39, {NAME}\n")
    refused(lambda: load("adult", data_dir=tmp_path), "malformed")


def test_a_fault_of_ours_is_told_without_its_words(command, monkeypatch, tmp_path):
    from ppadmm.runs import run as train

    def fail(*_):
        raise ValueError(f"could not convert {NAME}")

    monkeypatch.setattr(train, "open_data", fail)
    outcome = command("train", "--rounds", "2", "--no-save")
    assert outcome.code == 70
    assert NAME not in outcome.out + outcome.err
    assert "ValueError in ppadmm/runs/run.py, line" in outcome.err
    assert "--debug" in outcome.err
    assert "may quote records" in outcome.err
