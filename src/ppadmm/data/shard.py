"""One organisation's records: rows with ‖x‖ ≤ 1, enforced once."""

from dataclasses import dataclass
from typing import Any, TypeAlias, Union, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppadmm import checks
from ppadmm.data.coded import Coded, stack
from ppadmm.errors import DataError
from ppadmm.records import HoldsRecords

Vector: TypeAlias = NDArray[np.float64]
# A union of strings keeps scipy releases whose csr_array is not subscriptable at run time.
Plain: TypeAlias = Union[NDArray[np.float64], "sp.csr_array[np.float64, tuple[int, int]]"]
Matrix: TypeAlias = Plain | Coded


@dataclass(frozen=True)
class Shard(HoldsRecords):
    """Records X (n, d), dense, CSR or coded, with labels y (n,).

    Two classes are −1 and +1; more are 0 … K−1.

    Guarantees
    ----------
    Every value is finite, every computed row norm is ≤ 1 and every label is one of the classes,
    so that the gradient of one record's loss is bounded by the Lipschitz constant of the loss.
    Everything downstream trusts this and checks nothing again; the arrays are read-only.
    """

    X: Matrix
    y: Vector
    classes: int = 2

    def __post_init__(self) -> None:
        checks.count("classes", self.classes, at_least=2)
        X, y = as_matrix(self.X), _as_labels(self.y, self.classes)
        _check_shapes(X, y)
        check_finite(X)
        _check_norms(X)
        object.__setattr__(self, "X", _read_only(X))
        object.__setattr__(self, "y", _frozen(y))

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """Number of features, the intercept included."""
        return int(self.X.shape[1])

    def signed(self) -> Matrix:
        """V = y ⊙ X, rows v = y·x (n, d), stored as X is; ‖v‖ = ‖x‖ ≤ 1."""
        if self.classes != 2:
            raise DataError(f"Expected two classes, −1 and +1, got {self.classes}.")
        return scale_rows(self.X, self.y)

    def codes(self) -> NDArray[np.intp]:
        """Return the number of each record's class, from 0, (n,)."""
        numbers = (self.y + 1.0) / 2.0 if self.classes == 2 else self.y
        return numbers.astype(np.intp)


def as_matrix(X: object) -> Matrix:
    """X as float64: C-contiguous (n, d), CSR without duplicate entries, or coded."""
    if isinstance(X, Coded):
        _check_codes(X)
        exact = X.numeric.dtype == X.scale.dtype == X.weights.dtype == np.float64
        return X if exact else X.astype(np.float64)
    try:
        if sp.issparse(X):
            return _canonical(X)
        dense = np.ascontiguousarray(cast(Any, X), dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("Expected X to hold numbers only; encode text columns first.") from None
    if dense.ndim != 2:
        raise DataError(f"Expected X of shape (records, features), got shape {dense.shape}.")
    return dense


def row_norms(X: Matrix) -> Vector:
    """‖xᵢ‖₂ for every row (n,)."""
    if isinstance(X, Coded):
        return cast(Vector, X.norms())
    if isinstance(X, np.ndarray):
        return cast(Vector, np.sqrt(np.einsum("ij,ij->i", X, X)))
    squares = sp.csr_array((X.data**2, X.indices, X.indptr), shape=X.shape)
    return np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64).ravel())


def scale_rows(X: Matrix, factors: Vector) -> Matrix:
    """diag(factors)·X, stored as X is."""
    if isinstance(X, Coded):
        return X.scaled(factors)
    if isinstance(X, np.ndarray):
        return factors[:, None] * X
    data = X.data * np.repeat(factors, np.diff(X.indptr))
    return cast(Matrix, sp.csr_array((data, X.indices, X.indptr), shape=X.shape))


def check_finite(X: Matrix) -> None:
    """Refuse NaN and infinity, by row."""
    if isinstance(X, Coded):
        sound = np.isfinite(X.numeric).all(axis=1) & np.isfinite(X.weights).all(axis=(1, 2))
        bad: Any = ~(sound & np.isfinite(X.scale))
    elif isinstance(X, np.ndarray):
        bad = ~np.isfinite(X).all(axis=1)
    else:
        bad = np.zeros(X.shape[0], dtype=bool)
        bad[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[~np.isfinite(X.data)]] = True
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"Row {row} of X holds NaN or infinity; remove the record or mark the cell missing."
        )


def stack_rows(parts: list[Any]) -> Matrix:
    """Return the rows of all parts, stored as the first is."""
    if isinstance(parts[0], Coded):
        return stack(parts)
    if sp.issparse(parts[0]):
        return cast(Matrix, sp.vstack(parts, format="csr"))
    return cast(Matrix, np.vstack(parts))


def _check_codes(X: Coded) -> None:
    """Refuse codes by which a feature could be met twice: that would hide part of a row's norm.

    Features are the numbers, then one curve and one group after the other, then the constant.
    """
    end = _end_of_curves(X)
    for group, codes in enumerate(np.asarray(X.codes).T):
        given = codes != X.d
        beyond = given & ~((end <= codes) & (codes < X.d - 1))
        if beyond.any():
            raise DataError(
                f"Expected codes of group {group} between {end} and {X.d - 2}, or {X.d} for none, "
                f"got another in row {int(np.argmax(beyond))}; list the groups in the order "
                "of their features."
            )
        end = int(codes[given].max()) + 1 if given.any() else end


def _end_of_curves(X: Coded) -> int:
    """Return the first feature after the curves; each must lie beyond the one before it."""
    end = int(X.numeric.shape[1])
    for curve, first in enumerate(np.asarray(X.knots, dtype=np.int64).T):
        used = X.weights[:, curve] != 0.0
        low = np.where(used[:, 0], first, first + 1)
        high = np.where(used[:, 1], first + 1, first)
        beyond = used.any(axis=1) & ~((end <= low) & (high < X.d - 1))
        if beyond.any():
            raise DataError(
                f"Expected knots of curve {curve} between {end} and {X.d - 2}, got another in row "
                f"{int(np.argmax(beyond))}; list the curves in the order of their features."
            )
        end = int(high[used.any(axis=1)].max(initial=end - 1)) + 1
    return end


def _canonical(X: Any) -> Matrix:
    """CSR with sorted, unique column indices: duplicates would hide part of a row's norm."""
    csr = sp.csr_array(X, dtype=np.float64)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return cast(Matrix, csr)


def _as_labels(y: object, classes: int) -> Vector:
    allowed = np.array([-1.0, 1.0]) if classes == 2 else np.arange(float(classes))
    spelt = "−1 and +1" if classes == 2 else f"0 … {classes - 1}"
    try:
        labels = np.ascontiguousarray(cast(Any, y), dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"Expected labels {spelt}; map the classes to them first.") from None
    if labels.ndim != 1:
        raise DataError(f"Expected labels of shape (records,), got shape {labels.shape}.")
    bad = ~np.isin(labels, allowed)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"Expected labels {spelt}, got another in row {row}; map the classes to them."
        )
    return labels


def _check_shapes(X: Matrix, y: Vector) -> None:
    if X.shape[0] != y.shape[0]:
        raise DataError(f"Expected one label per row, got {X.shape[0]} rows and {len(y)} labels.")
    if X.shape[0] == 0:
        raise DataError("Expected at least 1 record, got none; leave this agent out.")
    if X.shape[1] == 0:
        raise DataError("Expected at least 1 feature, got none.")


def _check_norms(X: Matrix) -> None:
    with np.errstate(over="ignore"):
        norms = row_norms(X)
    row = int(np.argmax(norms))
    if norms[row] > 1:
        raise DataError(
            f"Expected rows of norm ≤ 1, got a longer one in row {row}; pass X through "
            "normalise_rows first."
        )


def _frozen(a: Vector) -> Vector:
    """Return a read-only view: the caller's own array stays writeable."""
    view = a.view()
    view.flags.writeable = False
    return view


def _read_only(X: Matrix) -> Matrix:
    if isinstance(X, Coded):
        return X.mapped(_frozen)
    if isinstance(X, np.ndarray):
        return _frozen(X)
    return cast(Matrix, sp.csr_array((_frozen(X.data), X.indices, X.indptr), shape=X.shape))
