"""Arrow columns as numbers or as text, one cell at a time: no cell looks at another.

Rows are counted from 1, the header not included.
"""

import re
from collections.abc import Collection
from decimal import Context, Decimal
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ppadmm.data.shard import Vector
from ppadmm.errors import DataError

Mask = NDArray[np.bool_]
_EXACTLY = Context(prec=400)
"""More digits than a number of any type has."""
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,4})?", re.ASCII)


def column(table: Any, name: str) -> Any:
    """Column `name` as one Arrow array; dictionaries decoded, text trimmed, dates refused."""
    found = table.column_names.count(name)
    if found != 1:
        raise DataError(_wrong_column(name, found, table.column_names))
    cells = pa.concat_arrays([decoded(c) for c in table.column(name).chunks] or [pa.nulls(0)])
    if is_text(cells.type):
        return pc.utf8_trim_whitespace(pc.cast(cells, pa.string()))
    if not is_number(cells.type) and not pa.types.is_null(cells.type):
        raise not_a_cell(name, cells.type)
    return cells


def decoded(chunk: Any) -> Any:
    """Replace dictionary codes by their values."""
    return chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk


def is_text(type_: Any) -> bool:
    """Whether an Arrow type is one of its kinds of string."""
    return str(type_) in {"string", "large_string", "string_view"}


def is_number(type_: Any) -> bool:
    """Whether an Arrow type is a number (a truth value counts as 0 or 1)."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(kind(type_) for kind in kinds)


def parses(text: str) -> bool:
    """Whether a text reads as a number; NaN and infinity do, and are refused later by value."""
    try:
        pa.scalar(text).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def has_decimal_comma(text: str) -> bool:
    """Whether a text is a number as written where the comma parts the decimals: 1,5 or 1.234,5."""
    return bool(re.fullmatch(r"[-+]?(\d+|\d{1,3}(\.\d{3})+),\d+", text))


def spelt(value: bool | float | Decimal) -> str:
    """Return a number as text, the same for equal numbers of every type: 1, 1.0 and 1.00 are "1".

    Truth values are "true" and "false".
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not exact.is_finite():
        return str(float(value))
    return format(_EXACTLY.normalize(exact), "f") if exact else "0"


def number_of(text: str) -> str | None:
    """Return how `spelt` writes the number that a text is, None where it is none of usual size."""
    if not _NUMBER.fullmatch(text):
        return None
    exact = Decimal(text)
    return spelt(exact) if abs(exact.adjusted()) < 350 else None


def as_double(cells: Any) -> Any:
    """Return floats of any size as float64; other cells as they are."""
    return pc.cast(cells, pa.float64()) if pa.types.is_floating(cells.type) else cells


def distinct(cells: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the different values and the place of each cell among them; nulls come last."""
    coded = as_double(cells).dictionary_encode()
    values = coded.dictionary.to_pylist()
    return values, np.asarray(pc.fill_null(coded.indices, len(values)), dtype=np.int64)


def whole(text: Any) -> Any:
    """Return texts such as "1.0" without their decimals."""
    return pc.replace_substring_regex(text, r"^(-?\d+)\.0+$", r"\1")


def texts(cells: Any, missing: Collection[str]) -> tuple[Any, Mask]:
    """Return the cells as text and where they are present; numbers as `spelt`."""
    text = cells if is_text(cells.type) else _spelt(cells)
    marked = pc.is_in(text, value_set=pa.array(list(missing), pa.string()))
    return text, ~mask(pc.or_(pc.is_null(text), pc.fill_null(marked, False)))


def distinct_texts(cells: Any, missing: Collection[str]) -> list[str]:
    """Return the different texts of cells, without those that are missing."""
    text, present = texts(cells, missing)
    found: list[str] = pc.unique(text.filter(pa.array(present))).to_pylist()
    return found


def numbers(cells: Any, name: str, missing: Collection[str]) -> tuple[Vector, Mask]:
    """Return the cells as finite float64 and where they are present; absent cells are 0."""
    if pa.types.is_null(cells.type):
        return np.zeros(len(cells)), np.zeros(len(cells), dtype=bool)
    values, present = _parsed(cells, name, missing)
    present = present & ~_marked(values, missing)
    bad = present & ~np.isfinite(values)
    if bad.any():
        raise not_a_number(name, int(np.argmax(bad)))
    return np.where(present, values, 0.0), present


def mask(array: Any) -> Mask:
    """Arrow booleans without nulls as a numpy mask."""
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.bool_)


def not_a_number(name: str, row: int) -> DataError:
    """Error for cell `row` (from 0) of a numeric column."""
    return DataError(
        f"Column {name!r}, row {row + 1}: expected a finite number; correct the cell, leave it "
        "empty, or list it under the schema's missing markers."
    )


def not_a_cell(name: str, type_: Any) -> DataError:
    """Error for a column of dates, lists, bytes, …."""
    way_out = "convert it or leave it out"
    if pa.types.is_temporal(type_):
        way_out = "turn the dates into a number, such as years or days since an event, or " + (
            "leave the column out (ppadmm schema drafts a schema without it)"
        )
    return DataError(f"Column {name!r} holds {type_}, neither numbers nor text; {way_out}.")


def _spelt(cells: Any) -> Any:
    if not (pa.types.is_floating(cells.type) or pa.types.is_decimal(cells.type)):
        return pc.cast(cells, pa.string())
    values, at = distinct(cells)
    return pa.array([*map(spelt, values), None], pa.string()).take(pa.array(at))


def _parsed(cells: Any, name: str, missing: Collection[str]) -> tuple[Vector, Mask]:
    if pa.types.is_decimal(cells.type):
        # Arrow's own conversion depends in the last bit on the scale, hence on other cells.
        cells = pc.cast(cells, pa.string())
    if is_text(cells.type):
        text, present = texts(cells, missing)
        return _cast(pc.if_else(pa.array(present), text, pa.scalar("0")), name), present
    if not is_number(cells.type):
        raise not_a_cell(name, cells.type)
    values = pc.fill_null(pc.cast(cells, pa.float64(), safe=False), 0.0)
    return values.to_numpy(zero_copy_only=False), mask(pc.is_valid(cells))


def _cast(text: Any, name: str) -> Vector:
    try:
        values: Vector = pc.cast(text, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        row = next(i for i, value in enumerate(text.to_pylist()) if not parses(value))
        raise not_a_number(name, row) from None
    return values


def _marked(values: Vector, missing: Collection[str]) -> Mask:
    """Where a number equals a missing marker such as "-9" (or "nan")."""
    markers = _numbers_among(tuple(missing))
    marked: Mask = np.isin(values, markers)
    return marked | np.isnan(values) if np.isnan(markers).any() else marked


@lru_cache(maxsize=32)
def _numbers_among(markers: tuple[str, ...]) -> Vector:
    return np.array([float(marker) for marker in markers if parses(marker)])


def _wrong_column(name: str, found: int, names: list[str]) -> str:
    if found:
        return f"The table has {found} columns named {name!r}; rename them so that one remains."
    alike = get_close_matches(name.casefold(), [other.casefold() for other in names], 1)
    first = [other for other in names if other.casefold() in alike]
    names = first + [other for other in names if other not in first]
    some = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return f"The table has no column {name!r}; it has: {some}."
