"""A first schema read off a table: a convenience that is not private until confirmed."""

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppadmm.data.columns import (
    column,
    has_decimal_comma,
    is_number,
    is_text,
    not_a_cell,
    not_a_number,
    numbers,
    parses,
    texts,
)
from ppadmm.data.schema import MISSING, Categorical, Classes, Column, Label, Numeric, Schema, Target
from ppadmm.data.tables import as_table
from ppadmm.errors import DataError

MOST_CATEGORIES = 1000
FEWEST_NUMBERS = 5
MOST_CLASSES = 100


def draft_schema(
    table: object, label: str, *, drop: Collection[str] = (), missing: tuple[str, ...] = MISSING
) -> Schema:
    """Infer bounds (observed minimum and maximum), categories and classes; leave out `drop`.

    Guarantee: none. The bounds are read off private records, hence `confirmed=False`; a person
    who knows the columns replaces them by public ones and confirms.
    """
    arrow = as_table(table)
    label_ = draft_label(column(arrow, label), label, missing)
    for name in drop:
        column(arrow, name)
    names = [name for name in arrow.column_names if name != label and name not in drop]
    columns = tuple(_draft_column(column(arrow, name), name, missing) for name in names)
    return Schema(columns, label_, missing, confirmed=False)


def _draft_column(cells: Any, name: str, missing: tuple[str, ...]) -> Column:
    if pa.types.is_boolean(cells.type) or is_text(cells.type):
        return _draft_categorical(cells, name, missing)
    if is_number(cells.type) or pa.types.is_null(cells.type):
        return _draft_numeric(cells, name, missing)
    raise not_a_cell(name, cells.type)


def _draft_numeric(cells: Any, name: str, missing: tuple[str, ...]) -> Numeric:
    values, present = numbers(cells, name, missing)
    seen = values[present] if present.any() else np.zeros(1)
    return Numeric(name, float(seen.min()), float(seen.max()))


def _draft_categorical(cells: Any, name: str, missing: tuple[str, ...]) -> Column:
    text, present = texts(cells, missing)
    categories = sorted(pc.unique(text.filter(pa.array(present))).to_pylist())
    _refuse_mixed(text, name, categories)
    if len(categories) > MOST_CATEGORIES:
        raise DataError(
            f"Column {name!r} has {len(categories)} different texts, too many for categories "
            f"(at most {MOST_CATEGORIES}); drop the column."
        )
    return Categorical(name, tuple(categories)) if categories else Numeric(name, 0.0, 0.0)


def _refuse_mixed(text: Any, name: str, categories: list[str]) -> None:
    """One stray text turns a CSV column of numbers into text: name it, do not one-hot numbers."""
    stray = [c for c in categories if not parses(c)]
    numeric = len(categories) - len([c for c in stray if not has_decimal_comma(c)])
    if stray and numeric >= FEWEST_NUMBERS and 2 * numeric > len(categories):
        row = min(pc.index(text, pa.scalar(c)).as_py() for c in stray)
        raise not_a_number(name, row, text[row].as_py())


def draft_label(cells: Any, name: str, missing: tuple[str, ...]) -> Target:
    """Return the classes of a label; of two the larger, or later by letter, is positive."""
    if pa.types.is_floating(cells.type):
        numbers(cells, name, missing)  # refuses NaN and infinity
    text, present = texts(cells, missing)
    if not present.all():
        row = int(np.argmin(present)) + 1
        raise DataError(f"Label {name!r}, row {row} is missing; remove the record.")
    classes = sorted(pc.unique(text).to_pylist(), key=_order(cells))
    if len(classes) == 1:
        raise DataError(f"Label {name!r} has only one class; two or more are needed.")
    if len(classes) > MOST_CLASSES:
        raise DataError(
            f"Label {name!r} has {len(classes)} values, too many for classes (at most "
            f"{MOST_CLASSES}); group them first, or say in a schema which values are positive "
            "and which negative."
        )
    if len(classes) > 2:
        return Classes(name, tuple(classes))
    return Label(name, positive=(classes[1],), negative=(classes[0],))


def _order(cells: Any) -> Any:
    numeric = is_number(cells.type) and not pa.types.is_boolean(cells.type)
    return float if numeric else str
