"""Which name a cell is: by its spelling, or as a number by its value; never by other cells."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.data import Categorical, Classes, Label, Numeric, Schema, as_table
from ppadmm.data.columns import number_of, spelt
from ppadmm.data.matching import MISSING, UNKNOWN, name_codes
from ppadmm.datasets import load
from ppadmm.errors import DataError


def codes(cells, *names, missing=("", "?", "-9"), alike=()):
    array = cells if isinstance(cells, pa.Array) else pa.array(cells)
    return name_codes(array, "Column 'c'", names, missing, alike).tolist()


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["250", "250.0", "E11", "251"], [0, 1, 2, UNKNOWN]),
        (["250.00", "E11.0", "?", "-9", "-9.0", None], [0, UNKNOWN, *[MISSING] * 4]),
        (["0250", "2.5e2", "+250", "nan"], [UNKNOWN] * 4),
        (pa.nulls(2), [MISSING] * 2),
    ],
)
def test_texts_are_compared_by_spelling(cells, expected):
    assert codes(cells, "250", "250.0", "E11") == expected


@pytest.mark.parametrize(
    "cells",
    [
        [1, 100, None, -9, 7, 0],
        [1.0, 100.0, None, -9.0, 7.0, -0.0],
        [Decimal("1.00"), Decimal(100), None, Decimal("-9.0"), Decimal("7"), Decimal("0.000")],
        pa.array([1, 100, None, -9, 7, 0], pa.int8()),
        pa.array([1, 100, None, -9, 7, 0], pa.float16()),
        pa.array([1, 100, None, -9, 7, 0]).cast(pa.decimal256(60, 30)),
    ],
)
def test_numbers_are_compared_by_value(cells):
    expected = [0, 1, MISSING, MISSING, UNKNOWN, 2]
    assert codes(cells, "01", "1E2", "0.00", "x") == expected


def test_large_whole_numbers_are_the_same_as_floats_until_floats_cannot_tell_them_apart():
    names = ("1000000000000000", "9007199254740993", "0.1")
    assert codes([10**15, 2**53 + 1, None], *names) == [0, 1, MISSING]
    assert codes([1e15, 0.1, None], *names) == [0, 2, MISSING]
    with pytest.raises(DataError, match=r"'c', row 2: a float of 9,007,199,254,740,992 or more"):
        codes([1.0, 2.0**53, None], *names)
    assert codes([np.inf, np.nan], *names, "nan") == [UNKNOWN, 3]


def test_truth_values_are_true_and_false_or_one_and_zero():
    for names in (("true", "false"), ("True", "FALSE"), ("1", "0"), ("01", "false")):
        for cells in ([True, False, None], [1, 0, None], [1.0, 0.0, None]):
            assert codes(cells, *names) == [0, 1, MISSING]
    assert codes([True, False], "yes", "no") == [UNKNOWN] * 2


@pytest.mark.parametrize("names", [("250", "250.0"), ("1", "01"), ("1E2", "100"), ("1", "true")])
@pytest.mark.parametrize("cells", [[7], [7.5], [None, True]])
def test_names_that_a_column_of_numbers_cannot_tell_apart_are_refused(names, cells):
    words = f"'c' holds numbers or truth values, where {names[0]!r} and {names[1]!r} .* as text"
    with pytest.raises(DataError, match=words):
        codes(cells, *names)
    assert codes(list(names), *names) == [0, 1]
    assert codes([7, None, True][:1], *names, alike=(3, 3)) == [UNKNOWN]


def test_a_marker_and_a_name_that_are_the_same_number_are_refused_too():
    with pytest.raises(DataError, match=r"'-9' and '-9\.0' of the schema are the same"):
        codes([1], "-9.0", "1")
    assert codes(["-9.0", "-9"], "-9.0", "1") == [0, MISSING]
    assert codes([1, -9], "-9", "1") == [1, MISSING]


def test_a_class_may_have_several_spellings_of_one_number():
    both = Label("y", positive=("1", "1.0"), negative=("0", "0.0"))
    for cells in ([1, 0], [1.0, 0.0], ["1.0", "0"], [True, False]):
        assert both.encode(pa.array(cells), ()).tolist() == [1.0, -1.0]
    with pytest.raises(DataError, match="Label 'y' holds numbers"):
        Label("y", ("1",), ("01",)).encode(pa.array([1]), ())


@given(st.integers(-(10**18), 10**18), st.integers(0, 12))
def test_equal_numbers_are_spelt_alike(whole, zeros):
    exact = Decimal(whole).scaleb(-zeros)
    assert spelt(exact) == spelt(exact + Decimal("0." + "0" * 20)) == number_of(str(exact))
    if abs(whole) < 2**53:
        assert spelt(float(whole)) == spelt(whole) == str(whole)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_spelt_as_what_it_is(x):
    assert float(spelt(x)) == x
    assert number_of(repr(x)) == spelt(x)


@pytest.mark.parametrize(
    "text", ["1_000", "１", " 1", "0x10", "nan", "1e99999", "1e-9999", "", "."]
)
def test_what_is_no_number(text):
    assert number_of(text) is None


# What a library does to the other cells of a column.

CLASSES = Schema((Numeric("age", 0, 100),), Classes("code", ("250.0", "250", "E11")))
PLAIN = Schema((Numeric("age", 0, 100),), Classes("code", ("250", "251", "E11")))


def test_a_file_that_pandas_read_first_is_refused_where_pandas_lost_the_spelling(tmp_path):
    """With the last label E11 pandas reads texts, with 250 it reads numbers."""
    for last, word in (("E11", None), ("250", "Label 'code' holds numbers or truth values")):
        (tmp_path / "a.csv").write_text(f"age,code\n1,250.0\n2,250\n3,{last}\n")
        if word is None:
            assert load(pd.read_csv(tmp_path / "a.csv"), schema=CLASSES).y.tolist() == [0, 1, 2]
        else:
            with pytest.raises(DataError, match=word):
                load(pd.read_csv(tmp_path / "a.csv"), schema=CLASSES)
        frame = pd.read_csv(tmp_path / "a.csv", dtype=str)
        assert load(frame, schema=CLASSES).y.tolist() == [0, 1, 2 if last == "E11" else 1]


def test_a_missing_cell_does_not_change_the_names_of_the_others():
    for cells in ([250, 251, 250], [250, 251, None], [250.0, 251.0, np.nan]):
        frame = pd.DataFrame({"c": cells})
        found = Categorical("c", ("250", "251")).entries(as_table(frame), ())
        assert found.places[:2, 0].tolist() == [0, 1]
        assert found.values[:2, 0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([True, 2.5], "mixes truth values and numbers .row 2 is"),
        ([None, 2.5, True], "mixes numbers and truth values .row 3 is"),
        ([1, np.bool_(True)], "mixes numbers and truth values"),
        (["a", "b", 3], "mixes texts and numbers .row 3 is"),
        (["a", b"a"], "mixes texts and cells of type bytes"),
        (pd.Categorical([2.5, True]), "mixes numbers and truth values"),
        (np.array([1, "Maria-Muster"], dtype=object), "mixes numbers and texts"),
        ([1, 2**70], "numbers too large"),
        ([2**53 + 1, 0.5], "numbers too large"),
    ],
)
def test_columns_of_several_kinds_are_refused_and_not_quoted(column, words):
    frames = [{"x": column}, pd.DataFrame({"x": pd.Series(column, dtype=object)})]
    if isinstance(column, pd.Categorical):
        frames = [pd.DataFrame({"x": column})]
    for frame in frames:
        with pytest.raises(DataError, match=f"into a table: column 'x' .*{words}") as caught:
            as_table(frame)
        assert "Maria-Muster" not in str(caught.value)


def test_missing_cells_of_pandas_are_no_kind_of_their_own():
    column = pd.Series(["a", None, np.nan, pd.NA, pd.NaT], dtype=object)
    assert as_table(pd.DataFrame({"x": column}))["x"].null_count == 4
