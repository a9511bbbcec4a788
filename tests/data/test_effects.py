"""What a model says of every column: curves in the column's units, centred, at a public length."""

import math

import numpy as np
import pytest

from ppadmm.data import Categorical, Classes, Label, Numeric, Schema
from ppadmm.data.effects import (
    centred_intercept,
    column_effects,
    length_range,
    reference_length,
    score_parts,
)
from ppadmm.errors import InputError

LABEL = Label("ill", ("yes",), ("no",))
MIXED = Schema(
    (
        Categorical("sex", ("f", "m"), other=True),
        Numeric("gain", 0, 99, "log", "curve", knots=4),
        Numeric("weight", -2, 6, "signed", "line"),
        Numeric("age", 0, 100, shape="steps", knots=4),
        Numeric("height", 1, 2, shape="curve", knots=(1.2, 1.5, 1.9)),
        Numeric("flat", 3, 3, shape="line"),
        Numeric("hours", 0, 50, "log", "line"),
    ),
    LABEL,
)
"""Every kind of column, in another order than that of the features."""


def thetas(seed=0, shape=()):
    return np.random.default_rng(seed).normal(size=(*shape, MIXED.dimension))


def row_of(schema, cells):
    """The features of one record, not divided by their length."""
    X = schema.encode_features({name: [cell] for name, cell in cells.items()}, sparse=False)
    return X[0] / X[0, -1]


CELLS = {
    "sex": "m", "gain": 99, "weight": -2, "age": 80, "height": 1.5, "flat": 3, "hours": 50,
}  # fmt: skip


def effects_by_name(theta, schema=MIXED):
    return {effect.name: effect for effect in column_effects(schema, theta)}


def test_effects_are_in_the_order_of_the_schema_and_the_units_of_the_columns():
    found = effects_by_name(thetas())
    assert list(found) == [c.name for c in MIXED.columns]
    assert {name: effect.kind for name, effect in found.items()} == {
        "sex": "category", "gain": "curve", "weight": "line", "age": "steps", "height": "curve",
        "flat": "line", "hours": "line",
    }  # fmt: skip
    assert found["sex"].places == ("f", "m", "other")
    assert found["weight"].places == (-2, 6)
    assert found["age"].places == (0, 25, 50, 75, 100)
    assert found["height"].places == (1.2, 1.5, 1.9)
    assert found["flat"].places == (3,)
    assert found["gain"].places == pytest.approx((0, 10 ** (2 / 3) - 1, 10 ** (4 / 3) - 1, 99))
    assert [found[name].scale for name in ("gain", "weight", "sex")] == ["log", "signed", "linear"]


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("sex", ("f", "m", "x")),
        ("gain", (0, 10 ** (2 / 3) - 1, 10 ** (4 / 3) - 1, 99)),
        ("weight", (-2, 6)),
        ("age", (10, 30, 60, 90)),
        ("height", (1.2, 1.5, 1.9)),
        ("flat", (3,)),
        ("hours", (0, 50)),
    ],
)
def test_an_effect_is_what_the_encoded_record_s_score_changes_by(name, cells):
    """Against the encoder: two records that differ in one cell differ by what the effect says."""
    theta = thetas(1)
    effect, base = effects_by_name(theta)[name], row_of(MIXED, CELLS | {name: None}) @ theta
    changes = [row_of(MIXED, CELLS | {name: cell}) @ theta - base for cell in cells]
    expected = np.array(changes) / reference_length(MIXED)
    np.testing.assert_allclose(effect.values - effect.missing, expected, atol=1e-12)
    assert effect.values.mean() == pytest.approx(0, abs=1e-15)


def test_effects_and_intercept_add_up_to_the_score_at_the_reference_length():
    theta = thetas(2)
    found = effects_by_name(theta)
    at = {"sex": 1, "gain": 3, "weight": 0, "age": 3, "height": 1, "flat": 0, "hours": 1}
    total = sum(found[name].values[k] for name, k in at.items()) + centred_intercept(MIXED, theta)
    score = row_of(MIXED, CELLS) @ theta / reference_length(MIXED)
    assert total == pytest.approx(score, abs=1e-12)


def test_a_constant_that_the_intercept_may_hold_as_well_changes_nothing_shown():
    """A curve and the intercept fix each other up to a constant: centring takes it out."""
    schema = Schema((Numeric("age", 0, 100, shape="curve", knots=3),), LABEL)
    theta = np.array([0.3, -1.0, 2.0, 0.7, 0.1])
    moved = theta + np.array([1.0, 1.0, 1.0, 1.0, -1.0])
    (a,), (b,) = column_effects(schema, theta), column_effects(schema, moved)
    np.testing.assert_allclose(a.values, b.values, atol=1e-15)
    assert a.missing == pytest.approx(b.missing)
    before, after = centred_intercept(schema, theta), centred_intercept(schema, moved)
    assert before == pytest.approx(after)


def test_several_classes_have_effects_each():
    classes = Schema(MIXED.columns, Classes("ill", ("a", "b", "c")))
    theta = thetas(3, (3,))
    for effect, *alone in zip(
        column_effects(classes, theta),
        *(column_effects(MIXED, one) for one in theta),
        strict=True,
    ):
        assert effect.values.shape == (3, len(alone[0].values))
        np.testing.assert_allclose(effect.values, [one.values for one in alone], atol=1e-15)
        np.testing.assert_allclose(effect.missing, [one.missing for one in alone], atol=1e-15)
    assert centred_intercept(classes, theta).shape == (3,)


def test_the_unit_matrix_gives_the_coefficients_of_every_effect():
    theta = thetas(4)
    for effect, linear in zip(
        column_effects(MIXED, theta), column_effects(MIXED, np.eye(MIXED.dimension)), strict=True
    ):
        np.testing.assert_allclose(theta @ linear.values, effect.values, atol=1e-15)
        np.testing.assert_allclose(theta @ linear.missing, effect.missing, atol=1e-15)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_parts_of_a_score_add_up_to_it(shape):
    theta = thetas(5, shape)
    parts = score_parts(MIXED, theta)
    assert parts.shape == (*shape, MIXED.dimension, 8)
    np.testing.assert_allclose(parts.sum(axis=-1), theta, atol=1e-14)


def test_parts_are_the_effects_times_reference_length_over_own_length():
    theta = thetas(6)
    X = MIXED.encode_coded({name: [cell] for name, cell in CELLS.items()})
    factor = reference_length(MIXED) / np.linalg.norm(row_of(MIXED, CELLS))
    at = {"sex": 1, "gain": 3, "weight": 0, "age": 3, "height": 1, "flat": 0, "hours": 1}
    effects = effects_by_name(theta)
    expected = [effects[name].values[k] * factor for name, k in at.items()]
    found = (X @ score_parts(MIXED, theta))[0]
    np.testing.assert_allclose(found[:-1], expected, atol=1e-11)
    assert found[-1] == pytest.approx(centred_intercept(MIXED, theta) * factor)


def test_the_reference_length_is_the_mean_square_of_even_values():
    """Against a table of evenly spread values, encoded: the root of the mean of ‖x‖²."""
    grid = np.linspace(0, 1, 20_001)
    log = np.expm1(grid * math.log1p(99)), np.expm1(grid * math.log1p(50))
    table = {
        "sex": ["f"] * len(grid), "gain": log[0], "weight": -2 + 8 * grid, "age": 100 * grid,
        "height": 1.2 + 0.3 * grid, "flat": 3 + 0 * grid, "hours": log[1],
    }  # fmt: skip
    X = MIXED.encode_features(table, sparse=False)
    squares = 1.0 / X[:, -1] ** 2
    assert reference_length(MIXED) == pytest.approx(math.sqrt(squares.mean()), rel=1e-4)


@pytest.mark.parametrize(
    ("column", "square"),
    [
        (Numeric("x", 0, 9, shape="line"), 1 / 3),
        (Numeric("x", -9, 9, "signed", "line"), 1 / 3),
        (Numeric("x", 5, 9, "signed", "line"), 1 / 3),
        (Numeric("x", -1, 3, "signed", "line"), 7 / 27),
        (Numeric("x", 2, 2, shape="line"), 0),
        (Numeric("x", 0, 9, shape="curve"), 2 / 3),
        (Numeric("x", 2, 2, shape="curve"), 1),
        (Numeric("x", 0, 9, shape="steps"), 1),
        (Categorical("x", ("a", "b")), 1),
    ],
)
def test_what_a_column_is_to_the_reference_length(column, square):
    assert reference_length(Schema((column,), LABEL)) ** 2 == pytest.approx(1 + square)


def test_no_record_is_shorter_or_longer_than_the_range_says():
    least, most = length_range(MIXED)
    rng, n = np.random.default_rng(0), 2000
    table = {
        "sex": rng.choice(["f", "m", "?"], n), "gain": rng.uniform(0, 99, n),
        "weight": rng.uniform(-2, 6, n), "age": rng.uniform(0, 100, n),
        "height": rng.uniform(1, 2, n), "flat": [3] * n, "hours": rng.uniform(0, 50, n),
    }  # fmt: skip
    lengths = 1.0 / MIXED.encode_features(table, sparse=False)[:, -1]
    assert least <= lengths.min()
    assert lengths.max() <= most * (1 + 1e-9)
    short = {"sex": None, "gain": 10 ** (1 / 3) - 1, "weight": 0, "height": 1.35, "hours": 0}
    assert np.linalg.norm(row_of(MIXED, CELLS | short)) == pytest.approx(least)
    long = {"weight": 6, "gain": None}
    assert np.linalg.norm(row_of(MIXED, CELLS | long)) == pytest.approx(most)


def test_the_range_of_a_line_is_that_of_the_curve_that_is_it():
    line, curve = Numeric("x", 0, 9, shape="line"), Numeric("x", 0, 9, shape="curve", knots=4)
    (a,) = column_effects(Schema((line,), LABEL), [3.0, 5.0])
    (b,) = column_effects(Schema((curve,), LABEL), [-1.0, 0.0, 1.0, 2.0, 9.0, 5.0])
    ratio = reference_length(Schema((curve,), LABEL)) / reference_length(Schema((line,), LABEL))
    assert a.range == pytest.approx(b.range * ratio)
    (c,) = column_effects(Schema((line,), LABEL), [[3.0, 5.0], [-7.0, 1.0]])
    assert c.range == pytest.approx(a.range * 7 / 3)


def test_a_model_of_another_schema_is_refused():
    with pytest.raises(InputError, match=r"of 21 coefficients.* got shape \(5,\)"):
        column_effects(MIXED, np.zeros(5))
