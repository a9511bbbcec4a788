"""Labels as places in a public list of classes; no label changes how another is read."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppadmm.data.columns import number_of
from ppadmm.data.matching import EXACT
from ppadmm.data.tables import mixed
from ppadmm.errors import DataError

_TRUTH = {"false": False, "0": False, "true": True, "1": True}


def refuse_mixed(what: str, values: Any) -> None:
    """Refuse a list that NumPy would turn into texts as soon as one of its values is one."""
    loose = isinstance(values, list | tuple) or str(getattr(values, "dtype", "")) == "object"
    if loose and (found := mixed(list(values), nan_is_missing=True, first=0)):
        raise DataError(f"The {what} {found}.")


def places(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the place of every label among sorted classes; another label is refused by record."""
    if y.dtype.kind == "f" and (np.abs(y) >= EXACT).any():
        raise DataError(
            f"A label is a float of {EXACT:,} or more, which may stand for several whole numbers; "
            "give the labels as texts."
        )
    numeric = [_is_numeric(values) for values in (y, classes)]
    known = np.isin(y, classes) if numeric[0] == numeric[1] else np.zeros(len(y), dtype=bool)
    if not known.all():
        raise DataError(
            f"The label of record {int(np.argmin(known))} is not among the classes "
            f"{classes.tolist()}; correct it, or name it in classes."
        )
    return np.searchsorted(classes, y)


def classes_like(names: Sequence[str], y: NDArray[Any]) -> NDArray[Any]:
    """Return the names of classes as values of the same kind as the labels: as numbers, say.

    Whole numbers whether the labels are 1 or 1.0: that may depend on one of them.
    """
    if not _is_numeric(y):
        return np.asarray(names, dtype=object)
    values: list[Any] = [_read(name, y.dtype.kind == "b") for name in names]
    if None in values or len(set(values)) < len(values):
        raise DataError(
            f"The schema's classes {list(names)} do not read as different labels of type "
            f"{y.dtype}; give classes=[…]."
        )
    return np.array(values)


def _read(name: str, truth: bool) -> float | int | bool | None:
    if truth:
        return _TRUTH.get(name.lower())
    number = number_of(name)
    if number is None:
        return None
    return float(number) if "." in number else int(number)


def _is_numeric(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "biuf"
