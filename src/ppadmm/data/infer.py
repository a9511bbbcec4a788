"""A first schema read off a table: a convenience that is not private until confirmed.

Here, and nowhere else, is anything inferred from all records: what kind a column of texts is, too.
"""

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppadmm.data.columns import (
    column,
    decoded,
    has_decimal_comma,
    is_number,
    is_text,
    not_a_cell,
    not_a_number,
    numbers,
    parses,
    texts,
    whole,
)
from ppadmm.data.features import Categorical, Column, Numeric
from ppadmm.data.schema import MISSING, Schema, Target, target_of
from ppadmm.data.tables import as_table
from ppadmm.errors import DataError

MOST_CATEGORIES = 1000
FEWEST_NUMBERS = 5
MOST_CLASSES = 100
_KINDS = (pa.float64(), pa.date32(), pa.timestamp("s"), pa.timestamp("ns"))
_IDENTIFIERS = {"id", "ids", "identifier", "key", "mrn", "no", "nr", "number", "pid", "ssn", "uuid"}
_PERSONS = ("case", "client", "member", "patient", "person", "record", "subject", "user", "visit")


def infer_schema(
    table: object,
    label: str,
    *,
    drop: Collection[str] = (),
    missing: tuple[str, ...] = MISSING,
    infer: bool = False,
) -> Schema:
    """Infer bounds (observed minimum and maximum), categories and classes; leave out `drop`.

    Columns that are called identifiers are left out, too. With `infer`, texts that all read as
    numbers or dates are taken for such, as in a CSV file.

    Guarantee: none. The bounds are read off private records, hence `confirmed=False`; a person
    who knows the columns replaces them by public ones and confirms.
    """
    arrow = as_table(table)
    typed = inferred(arrow, missing) if infer else arrow
    label_ = draft_label(column(arrow, label), label, missing, is_numeric(typed, label))
    for name in drop:
        column(arrow, name)
    names = [name for name in arrow.column_names if name != label and name not in drop]
    used = [name for name in names if not is_called_identifier(name)]
    if names and not used:
        raise DataError(
            f"No column besides the label can be a feature: {names[0]!r} is called an identifier; "
            "rename it, or give a schema."
        )
    columns = tuple(_draft_column(column(typed, name), name, missing) for name in used)
    return Schema(columns, label_, missing, confirmed=False)


def inferred(table: Any, missing: tuple[str, ...]) -> Any:
    """Return columns of texts as numbers, dates or times where all of their cells are such."""
    columns = [_inferred(pa.concat_arrays(c.chunks), missing) for c in table.columns]
    return pa.table(columns, names=table.column_names)


def _inferred(cells: Any, missing: tuple[str, ...]) -> Any:
    if not is_text(cells.type):
        return cells
    text, present = texts(pc.utf8_trim_whitespace(cells), missing)
    if not present.any():
        return pa.nulls(len(cells))
    text = pc.if_else(pa.array(present), text, pa.scalar(None, pa.string()))
    for kind in _KINDS:
        try:
            return pc.cast(text, kind)
        except pa.ArrowInvalid:
            continue
    return cells


def is_called_identifier(name: str) -> bool:
    """Whether a name ends in id, number or the like: patient_id, patientId, Fall-Nr."""
    words = words_of(name) or [""]
    persons = {f"{person}id" for person in _PERSONS}
    return words[0] == "id" or words[-1] in _IDENTIFIERS or words[-1] in persons


def words_of(name: str) -> list[str]:
    """Return the words of a name in small letters, also of one in camel case."""
    return re.findall(r"[^\W\d_]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def is_numeric(table: Any, name: str) -> bool:
    """Whether a column is of numbers, truth values not counted."""
    type_ = decoded(table.column(name).chunk(0)).type
    return is_number(type_) and not pa.types.is_boolean(type_)


def _draft_column(cells: Any, name: str, missing: tuple[str, ...]) -> Column:
    if pa.types.is_boolean(cells.type) or is_text(cells.type):
        return _draft_categorical(cells, name, missing)
    if not (is_number(cells.type) or pa.types.is_null(cells.type)):
        raise not_a_cell(name, cells.type)
    values, present = numbers(cells, name, missing)
    seen = values[present] if present.any() else np.zeros(1)
    whole_numbers = bool((seen == np.round(seen)).all())
    return Numeric(name, float(seen.min()), float(seen.max()), whole=whole_numbers)


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
        raise not_a_number(name, row)


def draft_label(cells: Any, name: str, missing: tuple[str, ...], numeric: bool) -> Target:
    """Return the classes of a label; of two the larger, or later by letter, is positive."""
    if numeric:
        numbers(cells, name, missing)  # refuses NaN and infinity
    text, present = texts(cells, missing)
    if not present.all():
        row = int(np.argmin(present)) + 1
        raise DataError(f"Label {name!r}, row {row} is missing; remove the record.")
    classes = pc.unique(whole(text) if numeric else text).to_pylist()
    if len(classes) == 1:
        raise DataError(f"Label {name!r} has only one class; two or more are needed.")
    if len(classes) > MOST_CLASSES:
        raise DataError(
            f"Label {name!r} has {len(classes)} values, too many for classes (at most "
            f"{MOST_CLASSES}); group them first, or say in a schema which values are positive "
            "and which negative."
        )
    classes.sort(key=(lambda text: (float(text), text)) if numeric else None)
    return target_of(name, classes)
