"""What a model says of every column, in the column's own units: curves, categories, steps, lines.

An interaction is a part like a column; its places are pairs.

A record's score is θᵀx/‖x‖, x the features before rows are divided by their length. It is a sum
over the columns. What a column adds depends on the record's own length, so effects are given at a
public length, that of a record whose values are spread evenly (`reference_length`).

θ fixes a column's curve up to a constant: features that add up to one and the intercept say the
same. So every column is centred: the plain mean over its places is taken off and given to the
intercept. So is an interaction as a whole, and what it says is beside what its two columns say
alone. All of that is linear in θ: `column_effects(schema, np.eye(d))` has the coefficients.
"""

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from ppadmm.arrays import Array
from ppadmm.data.encode import unit_interval
from ppadmm.data.features import Categorical, Column, Numeric
from ppadmm.data.interactions import Product, places_of
from ppadmm.data.schema import Schema
from ppadmm.errors import InputError

Kind = Literal["line", "curve", "steps", "category", "interaction"]
HATS = 2.0 / 3.0
"""Mean of (1 − t)² + t² over t in [0, 1]: a curve's part of ‖x‖²."""


@dataclass(frozen=True, eq=False)
class ColumnEffect:
    """What the values of a column add to the score of a record of reference length.

    places : the knots of a curve, the two ends of a line (one if they are the same), the names of
    categories, or where steps begin and end: there is one end more than there are steps. Numbers
    are in the units of the column. Between knots the effect is straight on the column's `scale`,
    which is that of `Numeric`: linear and signed are straight in the units, log is not. Of an
    interaction they are pairs, all of the second column for each place of the first: a table is
    `values.reshape(*shape)`. A step is a text there.

    values : (P,), or (K, P) for a model of K classes, centred: their mean over P is 0.

    missing : what a missing cell adds, () or (K,). A line or a category has no place for it; there
    it is what no entry at all adds.

    shape : (P,); of an interaction, how many places each of its columns has.
    """

    name: str
    kind: Kind
    places: tuple[float, ...] | tuple[str, ...] | tuple[tuple[Any, Any], ...]
    values: Array
    missing: Array
    scale: Literal["linear", "log", "signed"] = "linear"

    @property
    def shape(self) -> tuple[int, ...]:
        """How the values are laid out: one after another, or as a table of an interaction."""
        if self.kind != "interaction":
            return (self.values.shape[-1],)
        first = [pair[0] for pair in cast(tuple[tuple[Any, Any], ...], self.places)]
        rows = len(dict.fromkeys(first))
        return rows, len(first) // rows

    @property
    def range(self) -> float:
        """How far the column can move the score: the largest value less the smallest, of a class.

        It is the same for a line and for the curve that is that line.
        """
        return float(np.ptp(self.values, axis=-1).max())


@dataclass(frozen=True)
class _Part:
    """A column or a product of two, and where its features begin in a row."""

    column: Column | Product
    start: int

    @property
    def features(self) -> slice:
        return slice(self.start, self.start + self.column.width)

    @cached_property
    def places(self) -> tuple[Any, ...]:
        c = self.column
        if isinstance(c, Product):
            return tuple(itertools.product(_places_within(c.first), _places_within(c.second)))
        if isinstance(c, Categorical):
            return (*c.categories, "other") if c.other else c.categories
        if c.shape == "curve":
            return c.places
        ends = (c.low,) if c.is_flat and c.shape == "line" else (c.low, c.high)
        return ends if c.shape == "line" else (c.low, *c.places, c.high)

    @cached_property
    def rows(self) -> Array:
        """The features of every place, then of a missing cell, (P + 1, width)."""
        c = self.column
        if isinstance(c, Product):
            return _pair_rows(c)
        if isinstance(c, Categorical):
            return np.eye(c.width + 1, c.width)
        return np.append(_ends(c), 0.0)[:, None] if c.shape == "line" else np.eye(c.width)

    @cached_property
    def mean(self) -> Array:
        """The mean of the places' features, (width,)."""
        return np.asarray(self.rows[:-1].mean(axis=0))

    @property
    def kind(self) -> Kind:
        if isinstance(self.column, Product):
            return "interaction"
        return "category" if isinstance(self.column, Categorical) else self.column.shape

    def effect(self, theta: Array, length: float) -> ColumnEffect:
        found = theta[..., self.features] @ (self.rows - self.mean).T / length
        scale = self.column.scale if isinstance(self.column, Numeric) else "linear"
        return ColumnEffect(
            self.column.name, self.kind, self.places, found[..., :-1], found[..., -1], scale
        )


def column_effects(schema: Schema, theta: ArrayLike) -> tuple[ColumnEffect, ...]:
    """Return the effect of every column, then of every interaction, for θ (d,) or (K, d).

    Both are in the order of the schema.

    Examples
    --------
    >>> from ppadmm.data import Label
    >>> age = Numeric("age", 0, 100, shape="curve", knots=3)
    >>> schema = Schema((age,), Label("ill", ("yes",), ("no",)))
    >>> (effect,) = column_effects(schema, [0.0, 1.0, 2.0, 0.0, 5.0])
    >>> effect.places, (effect.values * reference_length(schema)).round(6).tolist()
    ((0.0, 50.0, 100.0), [-1.0, 0.0, 1.0])
    """
    point, length = _checked(schema, theta), reference_length(schema)
    return tuple(part.effect(point, length) for part in _parts(schema))


def centred_intercept(schema: Schema, theta: ArrayLike) -> Array:
    """Return what every record of reference length starts from, the columns' means included.

    () for θ (d,), (K,) for θ (K, d). With the effects of its columns it is a record's score.
    """
    return score_parts(schema, theta)[..., -1, -1] / reference_length(schema)


def score_parts(schema: Schema, theta: ArrayLike) -> Array:
    """Split θ (d,) into one vector per part, as `column_effects` has them, and one more.

    That is for the intercept.

    They are the columns of a matrix (d, C + 1), or (K, d, C + 1) for θ (K, d), and add up to θ: so
    X @ score_parts is what each column adds to the score of each encoded record, centred as
    `column_effects` is.
    """
    point, parts = _checked(schema, theta), _parts(schema)
    found = np.zeros((*point.shape, len(parts) + 1))
    for k, part in enumerate(parts):
        own = point[..., part.features]
        found[..., part.features, k] = own
        found[..., -1, k] = -own @ part.mean
    found[..., -1, -1] = point[..., -1] - found[..., -1, :-1].sum(axis=-1)
    return found


def reference_length(schema: Schema) -> float:
    """‖x‖ of a record whose values are spread evenly, from the schema alone.

    Every cell is present and ‖x‖² is its mean: 2/3 for a curve, 1 for a category and for steps, 1/3
    for a line (less if 0 is between unequal signed bounds), 1 for the intercept, and for an
    interaction the product of its columns'.
    """
    own = sum(_mean_square(c) for c in schema.columns)
    pairs = sum(_mean_square(made.first) * _mean_square(made.second) for made in schema.products)
    return math.sqrt(1.0 + own + pairs)


def length_range(schema: Schema) -> tuple[float, float]:
    """Return the least and largest ‖x‖ that a record can have, cells missing or not.

    An effect of a record is that of `column_effects` times reference length over own length. With
    interactions of curves the least is a bound that no record need reach.
    """
    least, most = zip(*(_square_range(c) for c in schema.columns), strict=True)
    pairs = (
        _square_range(made.first)[1] * _square_range(made.second)[1] for made in schema.products
    )
    return math.sqrt(1.0 + sum(least)), math.sqrt(1.0 + sum(most) + sum(pairs))


def _parts(schema: Schema) -> tuple[_Part, ...]:
    """Return columns and products in the schema's order; rows have them in that of `layout`."""
    starts, start = {}, 0
    for part in schema.layout:
        starts[part.name] = start
        start += part.width
    return tuple(_Part(c, starts[c.name]) for c in (*schema.columns, *schema.products))


def _places_within(column: Column) -> tuple[Any, ...]:
    """Return the places of a column that a product has; of steps, both ends as a text."""
    if isinstance(column, Numeric) and column.shape == "steps":
        return tuple(name.removeprefix(column.name) for name in places_of(column))
    return _Part(column, 0).places


def _pair_rows(made: Product) -> Array:
    """Return the features of every pair of places, then of missing cells, (P + 1, width)."""
    one, two = (_Part(c, 0).rows[:-1, : len(places_of(c))] for c in (made.first, made.second))
    table = np.einsum("ai,bj->abij", one, two).reshape(len(one) * len(two), *one.shape[1:], -1)
    first, second = np.array(made.pairs).T
    return np.vstack([table[:, first, second], np.zeros(made.width)])


def _checked(schema: Schema, theta: ArrayLike) -> Array:
    point = np.asarray(theta, dtype=np.float64)
    if point.ndim not in (1, 2) or point.shape[-1] != schema.dimension:
        raise InputError(
            f"Expected a model of {schema.dimension} coefficients, as the schema has features, or "
            f"of so many per class, got shape {point.shape}."
        )
    return point


def _ends(column: Numeric) -> Array:
    """Return a line's bounds on its scale, (2,), or (1,) if they are the same."""
    ends = np.unique([column.low, column.high])
    return np.asarray(unit_interval(ends, column.low, column.high, column.scale))


def _mean_square(column: Column) -> float:
    """E ‖x‖² of the column's features for values spread evenly."""
    if column.group == 2:
        return 1.0
    if isinstance(column, Numeric) and column.shape == "line":
        a, b = _ends(column)[[0, -1]].tolist()
        return float(a * a + a * b + b * b) / 3.0
    return HATS if column.width > 2 else 1.0


def _square_range(column: Column) -> tuple[float, float]:
    """Return the least and largest ‖x‖² of the column's features."""
    if isinstance(column, Categorical):
        return 0.0, 1.0
    if column.shape == "line":
        return 0.0, float(np.square(_ends(column)).max())
    return (0.5 if column.shape == "curve" and column.width > 2 else 1.0), 1.0


def effect_sizes(schema: Schema) -> tuple[ColumnEffect, ...]:
    """Return, in place of every effect, the norm of the contrast q that it is: the effect is qᵀθ.

    Noise of variance v in every coordinate of θ has the variance v·‖q‖² in an effect.
    """
    length, found = reference_length(schema), []
    for part, effect in zip(_parts(schema), _flat(schema), strict=True):
        norms = np.linalg.norm(part.rows - part.mean, axis=1) / length
        found.append(replace(effect, values=norms[:-1], missing=norms[-1]))
    return tuple(found)


def _flat(schema: Schema) -> tuple[ColumnEffect, ...]:
    return column_effects(schema, np.zeros(schema.dimension))
