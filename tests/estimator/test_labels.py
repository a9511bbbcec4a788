"""Labels, groups and cells of an estimator: no record changes how another is read."""

import numpy as np
import pandas as pd
import pytest

from ppadmm import PrivateLogisticRegression
from ppadmm.data import Categorical, Classes, Label, Numeric, Schema
from ppadmm.errors import DataError, InputError
from ppadmm.estimator.encoders import BySchema
from ppadmm.estimator.labels import classes_like, places

SETTINGS = {"delta": 1e-3, "rounds": 3, "n_agents": 2, "graph": "complete", "random_state": 0}
SCHEMA = Schema(
    (Numeric("x", 0, 1), Categorical("c", ("1", "2", "E11"))), Label("y", ("2",), ("10",))
)
X = [[0.5, "1"], [0.25, "2"], [0.75, "1"], [0.1, "2"]]


def fitted(y, X=X, schema=SCHEMA, **options):
    return PrivateLogisticRegression(schema=schema, **{**SETTINGS, **options}).fit(X, y)


def test_classes_are_in_the_same_order_whether_labels_are_whole_or_not():
    """Of texts 10 comes first, of numbers 2: one text in a list turned all labels round."""
    whole, mixed = fitted([2, 10, 2, 10]), fitted([2, 10, 2.0, 10])
    assert whole.classes_.tolist() == mixed.classes_.tolist() == [2, 10]
    assert whole.classes_.dtype == mixed.classes_.dtype == np.int64
    assert np.array_equal(whole.coef_, mixed.coef_)
    with pytest.raises(DataError, match=r"list of labels mixes numbers and texts \(row 2 is"):
        fitted([2, 10, "2", 10])
    assert fitted(["2", "10", "2", "10"]).classes_.tolist() == ["10", "2"]


def test_classes_that_are_the_same_number_are_refused():
    schema = Schema(SCHEMA.columns, Classes("y", ("250", "250.0", "251")))
    with pytest.raises(DataError, match="do not read as different labels of type int64"):
        fitted([250, 251, 250, 251], schema=schema)
    with pytest.raises(DataError, match="do not read as different labels of type bool"):
        fitted([True, False] * 2, schema=schema)


@pytest.mark.parametrize(
    ("names", "y", "expected"),
    [
        (("10", "2"), np.array([2.0]), [10, 2]),
        (("0.5", "2"), np.array([2]), [0.5, 2.0]),
        (("False", "true"), np.array([True]), [False, True]),
        (("0", "1"), np.array([True]), [False, True]),
        (("b", "a"), np.array(["a"]), ["b", "a"]),
    ],
)
def test_names_become_labels_of_the_same_kind(names, y, expected):
    assert classes_like(names, y).tolist() == expected


def test_a_label_of_another_kind_or_too_large_is_refused_and_not_quoted():
    with pytest.raises(DataError, match="label of record 1 is not among the classes"):
        places(np.array(["a", "Maria"]), np.array(["a", "b"]))
    with pytest.raises(DataError, match="label of record 0 is not among the classes"):
        places(np.array(["2", "10"]), np.array([2, 10]))
    with pytest.raises(DataError, match=r"float of 9,007,199,254,740,992 or more"):
        places(np.array([0.0, 2.0**53]), np.array([0, 2**53, 2**53 + 1]))


def test_given_classes_and_groups_are_of_one_kind():
    numbers = np.random.default_rng(0).random((4, 2))
    with pytest.raises(InputError, match="list of classes mixes numbers and texts"):
        fitted([0, 1, 0, 1], X=numbers, schema=None, bounds=(0, 1), classes=[0, "1"])
    options = {**SETTINGS, "bounds": (0, 1), "classes": [0, 1]}
    with pytest.raises(DataError, match="list of groups mixes texts and numbers"):
        PrivateLogisticRegression(**options).fit(numbers, [0, 1, 0, 1], groups=["a", "a", 1, 1])


def test_a_text_in_a_list_of_records_does_not_turn_the_numbers_of_others_into_texts():
    encoder = BySchema(SCHEMA)
    whole = encoder.encode([[0.5, 1.0], [0.25, 2.0]])
    assert np.array_equal(encoder.encode([[0.5, 1], [0.25, 2.0]]), whole)
    assert np.array_equal(encoder.encode([["0.5", 1.0], ["0.25", 2.0]]), whole)
    with pytest.raises(DataError, match="column 'x' mixes numbers and texts"):
        encoder.encode([[0.5, 1.0], ["?", 2.0]])


@pytest.mark.parametrize("cell", ["Maria-Muster", "0,5"])
def test_a_text_among_numbers_is_not_quoted(cell):
    records = np.array([[0.5, 1.0], [0.25, cell]], dtype=object)
    for X in (records, records.tolist(), pd.DataFrame(records)):
        with pytest.raises(DataError, match="some cell is a text") as caught:
            fitted([0, 1], X=X, schema=None, bounds=(0, 1), classes=[0, 1])
        assert cell not in str(caught.value)
