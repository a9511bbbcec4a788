"""Which of a public list of names a cell is.

What a library takes a column for depends on all of its cells: one missing cell turns whole numbers
into floats, one text turns numbers into texts. So a name must not depend on it:

- a text is the name that is spelt like it, and 1.0 is 1 where only 1 is on the list;
- a number is the name that is the same number, whether it comes as 1, 1.0 or 1.00;
- a truth value is the name that reads true or false in small or large letters.

Where two names are the same number, a column of numbers cannot tell them apart: it is refused,
whatever its cells are.
"""

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ppadmm.data.columns import distinct, is_text, mask, number_of, spelt, texts, whole
from ppadmm.errors import DataError

MISSING, UNKNOWN = -1, -2
EXACT = 2**53
"""From here on a float may stand for several whole numbers."""
Codes: TypeAlias = NDArray[np.int64]
Names: TypeAlias = tuple[str, ...]


def name_codes(
    cells: Any, what: str, names: Names, missing: Collection[str], alike: Sequence[int] = ()
) -> Codes:
    """Return the place of each cell among `names` (n,), or MISSING or UNKNOWN.

    Names with the same number in `alike` mean the same, so they may be the same number; without it
    no two do. `what` names the column in an error.
    """
    if pa.types.is_null(cells.type):
        return np.full(len(cells), MISSING, dtype=np.int64)
    if is_text(cells.type):
        return _places_of_texts(cells, names, missing)
    if pa.types.is_floating(cells.type):
        _refuse_inexact(cells, what)
    read = _truth if pa.types.is_boolean(cells.type) else number_of
    known = _by_value(what, read, names, tuple(missing), tuple(alike))
    values, at = distinct(cells)
    found = np.array([*(known.get(spelt(value), UNKNOWN) for value in values), MISSING])
    return found[at]


def _places_of_texts(cells: Any, names: Names, missing: Collection[str]) -> Codes:
    text, present = texts(cells, missing)
    found = np.where(present, _index(text, names), MISSING)
    lost = np.flatnonzero(found == UNKNOWN)
    if len(lost):
        rest, present = texts(whole(text.take(pa.array(lost))), missing)
        found[lost] = np.where(present, _index(rest, names), MISSING)
    return found


def _index(text: Any, names: Names) -> Codes:
    found = pc.index_in(text, value_set=pa.array(names, pa.string()))
    return np.asarray(pc.fill_null(found, UNKNOWN), dtype=np.int64)


@lru_cache(maxsize=32)
def _by_value(
    what: str,
    read: Callable[[str], str | None],
    names: Names,
    missing: Names,
    alike: tuple[int, ...],
) -> dict[str, int]:
    """Return the place of every name, or MISSING, by the number or truth value that it reads as."""
    known: dict[str, tuple[int, str]] = {}
    groups = dict(enumerate(alike)) | {MISSING: MISSING}
    listed = [(MISSING, marker) for marker in missing]
    listed += [(k, name) for k, name in enumerate(names) if name not in missing]
    for place, name in listed:
        first, earlier = known.setdefault(read(name) or name, (place, name))
        if groups.get(first, first) != groups.get(place, place):
            raise DataError(
                f"{what} holds numbers or truth values, not texts, and {earlier!r} and {name!r} of "
                "the schema are the same there; write the column as text."
            )
    return {value: place for value, (place, _) in known.items()}


def _truth(name: str) -> str | None:
    return name.lower() if name.lower() in ("true", "false") else None


def _refuse_inexact(cells: Any, what: str) -> None:
    large = mask(pc.fill_null(pc.greater_equal(pc.abs(cells), float(EXACT)), False))
    large &= mask(pc.fill_null(pc.is_finite(cells), False))
    if large.any():
        raise DataError(
            f"{what}, row {int(np.argmax(large)) + 1}: a float of {EXACT:,} or more may stand for "
            "several whole numbers; write the column as text."
        )
