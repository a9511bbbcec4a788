"""Columns of a schema, and what a cell of each becomes: a line, a curve, steps or a category.

Every column turns a cell into one or two entries of a row, by public knowledge alone. A curve is
piecewise linear: between two neighbouring knots at gₖ and gₖ₊₁ a value u on the column's scale has
the weights 1 − t and t, t = (u − gₖ)/(gₖ₊₁ − gₖ), and nothing anywhere else.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ppadmm.data.columns import Mask, column, numbers
from ppadmm.data.encode import category_codes, unit_interval
from ppadmm.data.shard import Vector
from ppadmm.errors import DataError
from ppadmm.records import holds_records

SCALES = ("linear", "log", "signed")
SHAPES = ("line", "curve", "steps")
KNOTS = 6
"""Steps, or knots of a curve that no run has chosen yet, where a column names none."""
MOST_KNOTS = 1000
ABSENT = "missing"
"""What the place of a missing value is called."""


@holds_records
class Entries(NamedTuple):
    """What a column is in each row: features (n, k), counted within the column, and values (n, k).

    k is 2 for a curve and 1 otherwise.
    """

    places: NDArray[np.int64]
    values: Vector


@holds_records
class Parsed(NamedTuple):
    """Cells of a column: numbers on its scale or places of categories, and which are present.

    Both are (n,). How many knots a column has makes no difference to them.
    """

    values: Any
    present: Mask


@dataclass(frozen=True)
class Numeric:
    """A number with public bounds: clipped to [low, high], then mapped to [0, 1].

    linear: (x − low)/(high − low);  log: log1p(x − low)/log1p(high − low);  signed: to [−1, 1],
    x/max(|low|, |high|), or the distance from the bound next to 0 over the span.

    As a `line` that number is one feature, and missing is 0. As a `curve` it is the weights of two
    neighbouring `knots`, as `steps` one of so many intervals; there a missing value has a place of
    its own. `knots` is how many there are, at equal distances on the scale, or the knots themselves
    in the units of the column (for steps: where one ends and the next begins). A curve that says
    nothing of them gets as many as a run chooses (`with_knots`).

    `whole` says that the column holds whole numbers: a curve then has a knot for every second of
    them at the most, and what would have fewer than three is a line.
    """

    name: str
    low: float
    high: float
    scale: Literal["linear", "log", "signed"] = "linear"
    shape: Literal["line", "curve", "steps"] = "curve"
    knots: int | tuple[float, ...] | None = None
    missing: tuple[str, ...] = ()
    whole: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "low", _bound(self.name, "low", self.low))
        object.__setattr__(self, "high", _bound(self.name, "high", self.high))
        if self.low > self.high:
            raise DataError(
                f"Column {self.name!r}: expected low ≤ high, got {self.low} and {self.high}."
            )
        if not math.isfinite(self.high - self.low):
            raise DataError(
                f"Column {self.name!r}: the bounds {self.low} and {self.high} are too far apart "
                "for a computer's numbers; give closer ones."
            )
        for what, known in (("scale", SCALES), ("shape", SHAPES)):
            if getattr(self, what) not in known:
                raise DataError(
                    f"Column {self.name!r}: unknown {what} {getattr(self, what)!r}; choose "
                    f"{', '.join(known[:-1])} or {known[-1]}."
                )
        object.__setattr__(self, "knots", self._checked_knots())
        object.__setattr__(self, "missing", _own_markers(self.name, self.missing))
        _require_truth(self.name, "whole", self.whole)
        if self.is_open and self._most_knots < 3:
            object.__setattr__(self, "shape", "line")

    @property
    def _most_knots(self) -> int:
        return 1 + int(self.high - self.low) // 2 if self.whole else MOST_KNOTS

    def with_knots(self, count: int) -> "Numeric":
        """Return the column with `count` knots if it is a curve that names none; a line for 0."""
        if not self.is_open:
            return self
        if self.is_flat or count < 2:
            return replace(self, shape="line")
        return replace(self, knots=min(count, self._most_knots))

    @property
    def is_open(self) -> bool:
        """Whether it is a curve whose knots nobody has named."""
        return self.shape == "curve" and self.knots is None

    def _checked_knots(self) -> int | tuple[float, ...] | None:
        """Refuse knots that are no public list of places, or that a line has no use for."""
        knots, least = self.knots, 2 if self.shape == "curve" else 1
        if knots is None:
            return None
        if self.shape == "line":
            raise DataError(f'Column {self.name!r}: a line has no knots; write shape = "curve".')
        if isinstance(knots, int) and not isinstance(knots, bool):
            if not max(least, 2) <= knots <= MOST_KNOTS:
                raise DataError(
                    f"Column {self.name!r}: expected 2 to {MOST_KNOTS:,} knots, got {knots}."
                )
            return knots
        if not isinstance(knots, list | tuple) or len(knots) < least:
            raise DataError(
                f"Column {self.name!r}: expected knots to be a number or a list of {least} or "
                f"more, got {knots!r}."
            )
        places = tuple(_bound(self.name, "a knot", knot) for knot in knots)
        inside = all(self.low <= knot <= self.high for knot in places)
        if not inside or not all(a < b for a, b in pairwise(places)):
            raise DataError(
                f"Column {self.name!r}: expected knots that grow, between low and high, got "
                f"{list(places)}."
            )
        return places

    @property
    def reads(self) -> tuple[str]:
        """The name of the column whose cells it is made of."""
        return (self.name,)

    @property
    def is_flat(self) -> bool:
        """Whether low and high are one: there is nothing to bend."""
        return self.low == self.high

    @property
    def group(self) -> int:
        """Where the column stands in a row: lines first, then curves, then groups of 0 and 1."""
        return {"line": 0, "curve": 1, "steps": 2}[self.shape]

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.features)

    @cached_property
    def places(self) -> tuple[float, ...]:
        """The knots, or the inner ends of the steps, in the units of the column."""
        if isinstance(self.knots, tuple):
            return self.knots
        count = self.knots or min(KNOTS, self._most_knots)
        if self.is_flat:
            return (self.low,) if self.shape == "curve" else ()
        inner = np.linspace(self.low, self.high, count + self._more)
        if self.scale == "log":
            ends = np.linspace(0.0, math.log1p(self.high - self.low), count + self._more)
            inner = self.low + np.expm1(ends)
        inner[0], inner[-1] = self.low, self.high
        return tuple((inner if self.shape == "curve" else inner[1:-1]).tolist())

    @property
    def _more(self) -> int:
        return 0 if self.shape == "curve" else 1

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features: the column's own, or one for each knot or step."""
        if self.shape == "line":
            return (self.name,)
        absent = f"{self.name}={ABSENT}"
        if self.shape == "curve":
            return (*(f"{self.name}@{knot:.6g}" for knot in self.places), absent)
        ends = [f"{end:.6g}" for end in (self.low, *self.places, self.high)]
        return (*(f"{self.name}[{a},{b})" for a, b in pairwise(ends)), absent)

    def parse(self, table: Any, missing: tuple[str, ...]) -> Parsed:
        """Return every cell on the scale."""
        x, present = numbers(column(table, self.name), self.name, (*missing, *self.missing))
        return Parsed(self._unit(x), present)

    def spread(self, cells: Parsed) -> Entries:
        """Return the place and value of every cell."""
        unit, present = cells
        if self.shape == "line":
            values = np.where(present, unit, 0.0)
            return Entries(np.zeros((len(unit), 1), dtype=np.int64), values[:, None])
        if self.shape == "steps":
            places = np.searchsorted(self._grid, unit, side="right")
            steps = np.where(present, places, self.width - 1)
            return Entries(steps[:, None], np.ones((len(unit), 1)))
        return self._curve(unit, present)

    def entries(self, table: Any, missing: tuple[str, ...]) -> Entries:
        """Return the place and value of every cell of a table."""
        return self.spread(self.parse(table, missing))

    def _curve(self, unit: Vector, present: Mask) -> Entries:
        """Return the knot at or below a value, the next one, and the weights of both."""
        grid = self._grid
        if len(grid) == 1:
            knot, t = np.zeros(len(unit), dtype=np.int64), np.where(present, 0.0, 1.0)
        else:
            knot = np.clip(np.searchsorted(grid, unit, side="right") - 1, 0, len(grid) - 2)
            t = np.clip((unit - grid[knot]) / (grid[knot + 1] - grid[knot]), 0.0, 1.0)
            knot, t = np.where(present, knot, len(grid) - 1), np.where(present, t, 1.0)
        return Entries(np.column_stack([knot, knot + 1]), np.column_stack([1.0 - t, t]))

    @cached_property
    def _grid(self) -> Vector:
        """The knots on the scale, (K,)."""
        return self._unit(np.array(self.places, dtype=np.float64))

    def _unit(self, x: Vector) -> Vector:
        return unit_interval(x, self.low, self.high, self.scale)


@dataclass(frozen=True)
class Categorical:
    """One of a public list of categories, one-hot; missing is all zeros.

    `synonyms` has other spellings of a category, {"female": ["F", "f"]}. With `other` whatever is
    on no list has a place of its own; without, it is refused. `missing` are markers of this column
    alone.
    """

    name: str
    categories: tuple[str, ...]
    synonyms: Any = ()
    other: bool = False
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        categories = strings(f"Column {self.name!r}: categories", self.categories)
        object.__setattr__(self, "categories", categories)
        object.__setattr__(self, "synonyms", self._checked_synonyms())
        object.__setattr__(self, "missing", _own_markers(self.name, self.missing))
        _require_truth(self.name, "other", self.other)
        if self.other and "other" in categories:
            raise DataError(
                f"Column {self.name!r}: 'other' is a category, so other = true has no name; rename "
                "the category."
            )

    def _checked_synonyms(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Refuse spellings of no category, or of two."""
        given = self.synonyms.items() if isinstance(self.synonyms, Mapping) else self.synonyms
        what = f"Column {self.name!r}: synonyms"
        pairs = tuple((name, strings(f"{what} of {name!r}", words)) for name, words in given)
        for name, _ in pairs:
            if name not in self.categories:
                raise DataError(f"{what}: {name!r} is none of the categories.")
        words = [word for _, more in pairs for word in more]
        if (twice := repeated([*self.categories, *words])) is not None:
            raise DataError(f"{what}: {twice!r} is spelt for two categories; remove one.")
        return pairs

    @property
    def reads(self) -> tuple[str]:
        """The name of the column whose cells it is made of."""
        return (self.name,)

    @property
    def group(self) -> int:
        """Where the column stands in a row: after numbers and curves."""
        return 2

    @property
    def features(self) -> tuple[str, ...]:
        """One name per category: column=category."""
        names = (*self.categories, "other") if self.other else self.categories
        return tuple(f"{self.name}={category}" for category in names)

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.features)

    @cached_property
    def _spellings(self) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """Return all spellings, and the category that each is."""
        also = [(word, name) for name, words in self.synonyms for word in words]
        places = [*range(len(self.categories)), *(self.categories.index(name) for _, name in also)]
        return (*self.categories, *(word for word, _ in also)), np.array(places, dtype=np.int64)

    def parse(self, table: Any, missing: tuple[str, ...]) -> Parsed:
        """Return the place of every cell's category."""
        names, places = self._spellings
        marks = (*missing, *self.missing)
        cells = column(table, self.name)
        codes, present = category_codes(
            cells, self.name, names, marks, places.tolist(), len(names) if self.other else None
        )
        return Parsed(np.append(places, len(self.categories))[codes], present)

    def spread(self, cells: Parsed) -> Entries:
        """Return the place of the category, and 1 (0 if missing)."""
        return Entries(cells.values[:, None], cells.present.astype(np.float64)[:, None])

    def entries(self, table: Any, missing: tuple[str, ...]) -> Entries:
        """Return the place and value of every cell of a table."""
        return self.spread(self.parse(table, missing))


Column: TypeAlias = Numeric | Categorical


def _require_truth(name: str, what: str, value: object) -> None:
    if not isinstance(value, bool):
        raise DataError(f"Column {name!r}: expected {what} to be true or false, got {value!r}.")


def _own_markers(name: str, values: object) -> tuple[str, ...]:
    return strings(f"Column {name!r}: missing", values, at_least=0)


def check_name(name: object) -> None:
    """Refuse what is no name of a column."""
    if not isinstance(name, str) or not name:
        raise DataError(
            f"Expected a column name, got {name!r}; name the column, or remove it from the table "
            "(exported row numbers often have no name)."
        )


def _bound(name: str, which: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise DataError(f"Column {name!r}: expected {which} to be a number, got {value!r}.")
    if not math.isfinite(value):
        raise DataError(f"Column {name!r}: expected {which} to be finite, got {value!r}.")
    return float(value)


def strings(what: str, values: object, at_least: int = 1) -> tuple[str, ...]:
    """Check a list of texts and trim them, as cells are trimmed."""
    if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
        raise DataError(f"{what}: expected a list of texts, got {values!r}.")
    if len(values) < at_least:
        raise DataError(f"{what}: expected at least {at_least} value, got none.")
    trimmed = tuple(v.strip() for v in values)
    if (twice := repeated(trimmed)) is not None:
        raise DataError(f"{what}: {twice!r} is listed twice; remove one.")
    return trimmed


def repeated(values: Sequence[str]) -> str | None:
    """Return a text that is there twice, if any is."""
    return next((value for value, times in Counter(values).items() if times > 1), None)
