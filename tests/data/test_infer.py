import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ppadmm.data import Categorical, Label, Numeric, infer_schema
from ppadmm.errors import DataError

TABLE = {
    "age": [20, 60, None],
    "flag": [True, False, None],
    "colour": ["red", "?", "blue"],
    "same": [7.0, 7.0, 7.0],
    "nothing": pa.nulls(3),
    "blank": ["", "?", None],
    "y": [0, 1, 1],
}


def test_bounds_categories_and_classes_are_read_off_and_not_confirmed():
    schema = infer_schema(TABLE, "y")
    assert not schema.confirmed
    assert schema.columns == (
        Numeric("age", 20, 60, whole=True),
        Categorical("flag", ("false", "true")),
        Categorical("colour", ("blue", "red")),
        Numeric("same", 7, 7, whole=True),
        Numeric("nothing", 0, 0, whole=True),
        Numeric("blank", 0, 0),
    )
    assert schema.label == Label("y", ("1",), ("0",))


def test_a_draft_encodes_its_own_table():
    X, y = infer_schema(TABLE, "y").encode(TABLE)
    assert np.isfinite(X).all()
    assert y.tolist() == [-1, 1, 1]


def test_pandas_categories_and_missing_numbers():
    frame = pd.DataFrame({"a": [1.0, np.nan], "c": pd.Categorical(["x", "y"]), "y": [True, False]})
    schema = infer_schema(frame, "y")
    assert schema.columns == (Numeric("a", 1, 1, whole=True), Categorical("c", ("x", "y")))
    assert schema.encode(frame)[1].tolist() == [1, -1]


@pytest.mark.parametrize(
    ("values", "positive"),
    [
        ([2, 10], "10"),
        (["2", "10"], "2"),
        (["no", "yes"], "yes"),
        ([-1, 1], "1"),
        ([0.0, 1.0], "1"),
        ([False, True], "true"),
        (["<=50K", ">50K"], ">50K"),
    ],
)
def test_the_larger_class_is_positive(values, positive):
    assert infer_schema({"x": [1, 2], "y": values}, "y").label.positive == (positive,)


def test_columns_can_be_dropped():
    schema = infer_schema(TABLE, "y", drop=["age", "flag", "blank"])
    assert [c.name for c in schema.columns] == ["colour", "same", "nothing"]
    with pytest.raises(DataError, match="no column 'ages'"):
        infer_schema(TABLE, "y", drop=["ages"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": [1, 1, 1]}, "has only one class; two or more"),
        ({"y": [1, None, 0]}, "'y', row 2 is missing"),
        ({"y": [1.0, float("nan"), 0.0]}, "'y', row 2: expected a finite number"),
        ({"age": [1.0, float("inf"), 0.0]}, "'age', row 2: expected a finite number; correct"),
        ({"age": pa.array([1, 2, 3], pa.date32())}, "'age' holds date32"),
    ],
)
def test_what_cannot_be_drafted_is_explained(columns, message):
    with pytest.raises(DataError, match=message):
        infer_schema(TABLE | columns, "y")


def test_too_many_categories_are_refused():
    names = [f"id-{i}" for i in range(1001)]
    with pytest.raises(DataError, match=r"'name' has 1001 different texts.*drop the column"):
        infer_schema({"name": names, "y": [0, 1] + [1] * 999}, "y")


def test_a_stray_text_among_numbers_is_named():
    ages = [str(20 + i) for i in range(9)] + ["abc"]
    with pytest.raises(DataError, match="'age', row 10: expected a finite number; correct"):
        infer_schema({"age": ages, "y": [0, 1] * 5}, "y")


def test_a_label_alone_is_not_enough():
    with pytest.raises(DataError, match="at least one column"):
        infer_schema({"y": [0, 1]}, "y")
