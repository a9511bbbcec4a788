"""Columns to feature rows of norm ≤ 1.

Guarantee: row i of every result depends on record i and on the (public) arguments alone, so
changing one record changes one row.
"""

from collections.abc import Collection, Sequence
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppadmm.data.coded import Coded
from ppadmm.data.columns import Mask
from ppadmm.data.matching import MISSING, UNKNOWN, name_codes
from ppadmm.data.shard import Matrix, Plain, Vector, as_matrix, check_finite, row_norms, scale_rows
from ppadmm.errors import DataError

SHRINK = 1 - 1e-12
"""Keeps a computed norm ≤ 1 whatever the order of summation."""


def normalise_rows(X: Matrix) -> Matrix:
    """xᵢ ← (1 − 10⁻¹²)·xᵢ/‖xᵢ‖ (n, d), stored as X is; zero rows stay.

    Guarantee: every computed row norm is ≤ 1, and no row looks at another.
    """
    X = as_matrix(X)
    check_finite(X)
    if isinstance(X, Coded):
        return X.scaled(SHRINK / np.asarray(X.norms()))
    # By the largest entry first: squares of very large or small entries leave float64.
    X = _divide_rows(X, _largest(X))
    return scale_rows(_divide_rows(X, row_norms(X)), np.full(X.shape[0], SHRINK))


def unit_interval(x: Vector, low: float, high: float, scale: str) -> Vector:
    """Clip to [low, high] and map to [0, 1]: (x−low)/(high−low), or log1p of both.

    With scale `signed`, to [−1, 1], see `signed_unit`.
    """
    if scale == "signed":
        return signed_unit(x, np.asarray(low), np.asarray(high))
    span = high - low
    if span == 0:
        return np.zeros_like(x)
    above = np.clip(x, low, high) - low
    if scale == "log":
        return cast(Vector, np.log1p(above) / np.log1p(span))
    return above / span


def signed_unit(x: Vector, low: Vector, high: Vector) -> Vector:
    """Clip to [low, high] and map to [−1, 1] so that 0 stays 0; bounds broadcast against x."""
    shift, unit = signed_frame(low, high)
    safe = np.where(unit == 0.0, 1.0, unit)
    return np.where(unit == 0.0, 0.0, (np.clip(x, low, high) - shift) / safe)


def signed_frame(low: Vector, high: Vector) -> tuple[Vector, Vector]:
    """Return shift and unit of z = (x − shift)/unit.

    (0, max(|low|, |high|)) where 0 lies within the bounds, else the bound next to 0 and the span.
    So a zero, which lies within or is clipped to that bound, is mapped to 0: CSR stays CSR.
    """
    shift = np.where(low > 0.0, low, np.where(high < 0.0, high, 0.0))
    unit = np.where(shift == 0.0, np.maximum(np.abs(low), np.abs(high)), high - low)
    return shift, unit


def category_codes(
    cells: Any,
    name: str,
    categories: tuple[str, ...],
    missing: Collection[str],
    alike: Sequence[int] = (),
    other: int | None = None,
) -> tuple[NDArray[np.int64], Mask]:
    """Return the position of each cell among `categories` and where it is present.

    What is on no list is at `other`, or refused. Names with the same number in `alike` mean the
    same.
    """
    codes = name_codes(cells, f"Column {name!r}", categories, missing, alike)
    if other is not None:
        codes = np.where(codes == UNKNOWN, other, codes)
    if (codes == UNKNOWN).any():
        row = int(np.argmax(codes == UNKNOWN)) + 1
        raise DataError(
            f"Column {name!r}, row {row} is not among the categories; correct it, add it to the "
            "schema's categories or list it under its missing markers."
        )
    return np.maximum(codes, 0), codes != MISSING


def label_codes(
    cells: Any,
    name: str,
    classes: tuple[str, ...],
    missing: Collection[str],
    alike: Sequence[int] = (),
) -> NDArray[np.int64]:
    """Return the place of each label among `classes` (n,); any other, or none, is refused."""
    codes = name_codes(cells, f"Label {name!r}", classes, missing, alike)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        what = "is missing" if codes[row] == MISSING else "is not one of the classes"
        raise DataError(
            f"Label {name!r}, row {row + 1} {what}; correct it, remove the record, or add it to "
            "the schema's label."
        )
    return codes


def assemble(places: NDArray[np.int64], values: Vector, d: int, sparse: bool) -> Matrix:
    """X (n, d) with X[i, places[i, k]] = values[i, k]; places (n, m) ascend along a row."""
    n, m = places.shape
    if not sparse:
        X = np.zeros((n, d))
        np.put_along_axis(X, places, values, axis=1)
        return X
    index = np.int32 if max(d, n * m) < 2**31 else np.int64
    at, ends = places.ravel().astype(index), np.arange(0, n * m + 1, m, dtype=index)
    csr = sp.csr_array((values.ravel(), at, ends), shape=(n, d))
    csr.eliminate_zeros()
    return cast(Matrix, csr)


def _largest(X: Plain) -> Vector:
    """maxⱼ |xᵢⱼ| (n,)."""
    if isinstance(X, np.ndarray):
        return cast(Vector, np.abs(X).max(axis=1, initial=0.0))
    return np.asarray(abs(X).max(axis=1).todense(), dtype=np.float64).ravel()


def _divide_rows(X: Plain, divisors: Vector) -> Plain:
    """Divide, never multiply by a reciprocal: 1/x overflows for subnormal x."""
    safe = np.where(divisors == 0, 1.0, divisors)
    if isinstance(X, np.ndarray):
        return X / safe[:, None]
    data = X.data / np.repeat(safe, np.diff(X.indptr))
    return cast(Plain, sp.csr_array((data, X.indices, X.indptr), shape=X.shape))
