"""Which of a public list of names a cell is.

What a library takes a column for depends on all of its cells: one missing cell turns whole numbers
into floats, one text turns numbers into texts, one number turns truth values into 0 and 1. Which
name a cell is must not depend on that:

- a text is the name that is spelt like it, and 1.0 is 1 where only 1 is on the list;
- a number is the name that is the same number, whether it comes as 1, 1.0 or 1.00;
- true and false, in small or large letters, are names of the numbers 1 and 0.

Where two names are the same number, a column of numbers cannot tell them apart: it is refused,
whatever its cells are.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ppadmm.data.columns import as_double, distinct, is_text, number_of, spelt, texts, whole
from ppadmm.errors import DataError

MISSING, UNKNOWN = -1, -2
EXACT = 2**53
"""From here on a float may stand for several whole numbers."""
_TRUTH = {"false": "0", "true": "1"}
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
    known = _by_number(what, names, tuple(missing), tuple(alike))
    values, at = distinct(cells)
    found = np.array([*(known.get(spelt(value + 0), UNKNOWN) for value in values), MISSING])
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
def _by_number(what: str, names: Names, missing: Names, alike: tuple[int, ...]) -> dict[str, int]:
    """Return the place of every name, or MISSING, by the number that it is, else by itself."""
    known: dict[str, tuple[int, str]] = {}
    groups = dict(enumerate(alike)) | {MISSING: MISSING}
    listed = [(MISSING, marker) for marker in missing]
    listed += [(k, name) for k, name in enumerate(names) if name not in missing]
    for place, name in listed:
        number = _TRUTH.get(name.lower()) or number_of(name) or name
        first, earlier = known.setdefault(number, (place, name))
        if groups.get(first, first) != groups.get(place, place):
            raise DataError(
                f"{what} holds numbers or truth values, where {earlier!r} and {name!r} of the "
                "schema are the same; write the column as text."
            )
    return {number: place for number, (place, _) in known.items()}


def _refuse_inexact(cells: Any, what: str) -> None:
    values = as_double(cells).to_numpy(zero_copy_only=False)
    large = np.isfinite(values) & (np.abs(values) >= EXACT)
    if large.any():
        raise DataError(
            f"{what}, row {int(np.argmax(large)) + 1}: a float of {EXACT:,} or more may stand for "
            "several whole numbers; write the column as text."
        )
