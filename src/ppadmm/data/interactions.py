"""Products of two columns of a schema: age may count otherwise for women than for men.

A product has one feature for every pair of places of its two columns, and in a row the value of a
feature is that of the one place times that of the other. The place of a missing value is left out:
where one of the two cells is missing, the product is 0 everywhere. So a row still follows from its
own record and the schema alone, and is scaled with all its entries.

Rows are stored as `Coded` has them, without a case of their own. A product of 0 and 1 is a code.
One with a curve is two neighbouring features, because the knots of the curve are counted fastest.
Two curves have four entries: two neighbours at each of two neighbouring knots of the first curve.
One of these two knots has an even number and one an odd, so all features of even knots stand first
and those of odd ones after them: each half is a curve of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ppadmm.data.features import Categorical, Column, Entries, Parsed, check_name
from ppadmm.data.shard import Vector
from ppadmm.errors import DataError

KNOTS = 3
"""Knots of a curve, or steps, within a product that names none."""
MOST_FEATURES, MOST_IN_ALL = 400, 2_000
"""Of one interaction, and of all together: every feature adds noise."""


@dataclass(frozen=True)
class Interaction:
    """Two columns whose product is a feature group of its own.

    `knots` is how many knots or steps the columns have within the product: one number for both, or
    one for each; a line or a category has no use for its number. Without it there are three, or as
    many as the column has where these are fewer.
    """

    columns: tuple[str, str]
    knots: int | tuple[int, int] | None = None

    def __post_init__(self) -> None:
        names = self.columns
        if not isinstance(names, list | tuple) or len(names) != 2:
            raise DataError(f"Expected an interaction of two columns, got {names!r}.")
        for name in names:
            check_name(name)
        if names[0] == names[1]:
            raise DataError(f"Expected an interaction of two columns, got {names[0]!r} twice.")
        object.__setattr__(self, "columns", tuple(names))
        object.__setattr__(self, "knots", self._checked_knots())

    def _checked_knots(self) -> int | tuple[int, int] | None:
        given: object = self.knots
        each = given if isinstance(given, list | tuple) and len(given) == 2 else (given,)
        if given is not None and not all(map(_is_whole, each)):
            raise DataError(
                f"Interaction {self.name!r}: expected knots to be a whole number or a list of "
                f"two, got {given!r}."
            )
        return cast(tuple[int, int], tuple(each)) if len(each) == 2 else self.knots

    @property
    def name(self) -> str:
        """Both columns, as features spell them."""
        return "×".join(self.columns)

    def of(self, columns: Mapping[str, Column]) -> "Product":
        """Return the product of the two among these columns."""
        for name in self.columns:
            if name not in columns:
                raise DataError(
                    f"Interaction {self.name!r}: {name!r} is no feature column of the schema; "
                    "list it under columns, or remove the interaction."
                )
        both = [columns[name] for name in self.columns]
        if self.knots is not None and all(isinstance(c, Categorical) for c in both):
            raise DataError(f"Interaction {self.name!r}: categories have no knots; remove knots.")
        asked = self.knots if isinstance(self.knots, tuple) else (self.knots, self.knots)
        try:
            return Product(*(_coarser(c, count) for c, count in zip(both, asked, strict=True)))
        except DataError as error:
            raise DataError(f"Interaction {self.name!r}: {error}") from None


@dataclass(frozen=True)
class Product:
    """Two columns, with the knots that they have here, and what their product is in a row."""

    first: Column
    second: Column

    @property
    def name(self) -> str:
        """Both columns, as features spell them."""
        return f"{self.first.name}×{self.second.name}"

    @property
    def reads(self) -> tuple[str, str]:
        """The names of the columns whose cells it is made of."""
        return self.first.name, self.second.name

    @cached_property
    def _nested(self) -> tuple[Column, Column]:
        """The columns, that whose places are counted fastest last: a curve, if there is one."""
        bent_first = _is_bent(self.first) and not _is_bent(self.second)
        return (self.second, self.first) if bent_first else (self.first, self.second)

    @property
    def width(self) -> int:
        """The number of features."""
        return len(places_of(self.first)) * len(places_of(self.second))

    @property
    def group(self) -> int:
        """Where the product stands in a row: among lines, curves, or groups of 0 and 1."""
        kinds = {_kind(self.first), _kind(self.second)}
        if kinds == {"chosen"}:
            return 2
        return 0 if self.width == 1 else 1

    @property
    def count(self) -> int:
        """How many features of a row are not 0: two for each curve."""
        return (1 + _is_bent(self.first)) * (1 + _is_bent(self.second))

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Which places of the first and of the second column each feature stands for."""
        slow, fast = self._nested
        rows = range(len(places_of(slow)))
        order = [*rows[::2], *rows[1::2]] if _is_bent(slow) else rows
        nested = product(order, range(len(places_of(fast))))
        return tuple((i, j) if slow is self.first else (j, i) for i, j in nested)

    @property
    def features(self) -> tuple[str, ...]:
        """A name for each pair of places: age@40×sex=f."""
        first, second = places_of(self.first), places_of(self.second)
        return tuple(f"{first[i]}×{second[j]}" for i, j in self.pairs)

    def spread(self, first: Parsed, second: Parsed) -> Entries:
        """Return the places and values of every record; curves are pairs of neighbours."""
        cells = {self.first.name: first, self.second.name: second}
        slow, fast = (_present(c, cells[c.name]) for c in self._nested)
        size = len(places_of(self._nested[1]))
        if _is_bent(self._nested[0]):
            slow = _even_first(slow, len(places_of(self._nested[0])))
        n, count = len(slow.values), self.count
        found = Entries(
            (slow.places[:, :, None] * size + fast.places[:, None, :]).reshape(n, count),
            (slow.values[:, :, None] * fast.values[:, None, :]).reshape(n, count),
        )
        return _as_pair(found, self.width) if self.group == 1 and count == 1 else found


def products_of(
    interactions: Sequence[Interaction], columns: Mapping[str, Column]
) -> tuple[Product, ...]:
    """Return the products of columns; a pair that is listed twice, or too large, is refused."""
    seen: set[frozenset[str]] = set()
    found = []
    for one in interactions:
        if not isinstance(one, Interaction):
            raise DataError(f"Expected an Interaction of two columns, got {one!r}.")
        if (pair := frozenset(one.columns)) in seen:
            raise DataError(f"Interaction {one.name!r} is listed twice; remove one.")
        seen.add(pair)
        made = one.of(columns)
        if made.width > MOST_FEATURES:
            raise DataError(
                f"Interaction {one.name!r}: expected at most {MOST_FEATURES} features, got "
                f"{made.width:,}; give it fewer knots or its columns fewer categories."
            )
        found.append(made)
    if (total := sum(made.width for made in found)) > MOST_IN_ALL:
        raise DataError(
            f"Expected at most {MOST_IN_ALL:,} features of interactions in all, got {total:,}; "
            "leave some out or give them fewer knots."
        )
    return tuple(found)


def places_of(column: Column) -> tuple[str, ...]:
    """Return the features of a column that a product has: all but that of a missing value."""
    if isinstance(column, Categorical) or column.shape == "line":
        return column.features
    return column.features[:-1]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(column: Column) -> str:
    """Say what a column is in a product: a line, a bent curve, or one of its places is chosen."""
    if isinstance(column, Categorical) or column.shape == "steps":
        return "chosen"
    if column.shape == "line":
        return "line"
    return "chosen" if column.is_flat else "bent"


def _is_bent(column: Column) -> bool:
    return _kind(column) == "bent"


def _coarser(column: Column, count: int | None) -> Column:
    """Return a column with so many knots, or few; with its own where these are as many."""
    if isinstance(column, Categorical) or column.shape == "line":
        return column
    own = len(places_of(column))
    if own == count or column.is_flat or (count is None and own <= KNOTS):
        return column
    return replace(column, knots=count if count is not None else KNOTS)


def _present(column: Column, cells: Parsed) -> Entries:
    """Return the entries of a column, all 0 at its first place where a cell is missing."""
    places, values = column.spread(cells)
    if _kind(column) == "chosen":
        places, values = places[:, :1], np.ones((len(places), 1))
    here = cells.present[:, None]
    return Entries(np.where(here, places, np.arange(places.shape[1])), np.where(here, values, 0.0))


def _even_first(entries: Entries, knots: int) -> Entries:
    """Count even knots before odd ones, and name the even one of the two first."""
    places, values = entries
    turned = (places[:, 0] % 2 == 1)[:, None]
    places, values = (np.where(turned, part[:, ::-1], part) for part in (places, values))
    return Entries(_even_number(places, knots), values)


def _even_number(places: NDArray[np.int64], knots: int) -> NDArray[np.int64]:
    return np.where(places % 2 == 0, places // 2, (knots + 1) // 2 + places // 2)


def _as_pair(entries: Entries, width: int) -> Entries:
    """Write one entry as two neighbours of which one is 0, within the features of the product."""
    place, value = entries.places[:, 0], entries.values[:, 0]
    low = np.minimum(place, width - 2)
    values: Vector = np.column_stack([value * (place == low), value * (place != low)])
    return Entries(np.column_stack([low, low + 1]), values)
