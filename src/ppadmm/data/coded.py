"""Records with curves and one-hot groups, kept as codes: never a zero is stored."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppadmm.records import HoldsRecords

Numbers = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Coded(HoldsRecords):
    """Rows x = scale·(numeric, curves, one-hot groups, 1), n of d features, as `Schema` has them.

    numeric (n, p) are the first p features. A curve is two neighbouring features: knots (n, C)
    hold the number of the first, weights (n, C, 2) both values. codes (n, G) hold, per one-hot
    group, the number of the feature that is 1, or d where the value is missing; the last feature is
    the constant 1; scale (n,) > 0 makes ‖x‖ ≤ 1. A row takes 8p + 18C + 2G + 8 bytes, not 8d.
    """

    numeric: Numbers
    codes: Any
    scale: Numbers
    d: int
    knots: Any = None
    weights: Any = None

    def __post_init__(self) -> None:
        if self.knots is None:
            n = len(self.scale)
            object.__setattr__(self, "knots", np.zeros((n, 0), dtype=np.uint16))
            object.__setattr__(self, "weights", np.zeros((n, 0, 2), dtype=self.scale.dtype))

    @classmethod
    def of(
        cls,
        numeric: Numbers,
        codes: Any,
        d: int,
        shrink: float,
        knots: Any = None,
        weights: Any = None,
    ) -> "Coded":
        """Scale rows to norm `shrink`; the constant 1 keeps every norm ≥ 1."""
        small, whole = np.min_scalar_type(max(d, 256)), np.ascontiguousarray
        raw = cls(
            whole(numeric),
            whole(codes, dtype=small),
            np.ones(len(numeric)),
            d,
            None if knots is None else whole(knots, dtype=small),
            None if weights is None else whole(weights),
        )
        return raw.scaled(shrink / raw.norms())

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return len(self.scale), self.d

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the numbers."""
        return self.scale.dtype

    def __len__(self) -> int:
        return len(self.scale)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """All that is stored, a row for each record."""
        return self.numeric, self.codes, self.scale, self.knots, self.weights

    def mapped(self, change: Callable[[Any], Any]) -> "Coded":
        """Return the rows with every array changed in the same way."""
        numeric, codes, scale, knots, weights = map(change, self.arrays)
        return Coded(numeric, codes, scale, self.d, knots, weights)

    def __getitem__(self, rows: Any) -> "Coded":
        """Return some of the rows."""
        return self.mapped(lambda array: array[rows])

    def scaled(self, factors: Numbers) -> "Coded":
        """diag(factors)·X."""
        return replace(self, scale=factors * self.scale)

    def astype(self, dtype: Any) -> "Coded":
        """Return the rows in another precision."""
        return self.mapped(lambda array: array if array.dtype.kind == "u" else array.astype(dtype))

    def norms(self) -> Numbers:
        """‖xᵢ‖ (n,)."""
        squares = np.einsum("ij,ij->i", self.numeric, self.numeric)
        squares = squares + np.einsum("ijk,ijk->i", self.weights, self.weights)
        present = (self.codes < self.d).sum(axis=1) + 1.0
        return cast(Numbers, np.abs(self.scale) * np.sqrt(squares + present))

    @cached_property
    def sparse(self) -> Any:
        """The curves and one-hot groups as a sparse matrix (n, d)."""
        n, C = self.knots.shape
        first = self.knots.astype(np.int32)
        curves = np.stack([first, first + 1], axis=2).reshape(n, 2 * C)
        places = np.hstack([curves, self.codes.astype(np.int32)])
        ones = np.ones(self.codes.shape, dtype=self.dtype)
        values = np.hstack([self.weights.reshape(n, 2 * C), ones])
        present = (places < self.d) & (values != 0.0)
        ends = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
        return sp.csr_array((values[present], places[present], ends), shape=self.shape)

    @property
    def is_coded(self) -> bool:
        """Whether there are curves or one-hot groups at all."""
        return bool(self.codes.shape[1] or self.knots.shape[1])

    def __matmul__(self, right: Any) -> Any:
        """X·right; (d,) → (n,) or (d, R) → (n, R)."""
        p = self.numeric.shape[1]
        product = self.numeric @ right[:p] + right[-1]
        if self.is_coded:
            product += self.sparse @ right
        return product * (self.scale if right.ndim == 1 else self.scale[:, None])

    @property
    def T(self) -> "Transposed":  # noqa: N802 (as NumPy calls it)
        """Xᵀ, to multiply with."""
        return Transposed(self)

    def weighted_gram(self, weights: Numbers) -> Numbers:
        """Xᵀ diag(w) X (d, d), from sums over categories."""
        p, w = self.numeric.shape[1], weights * self.scale * self.scale
        gram = np.zeros((self.d, self.d), dtype=self.dtype)
        gram[:p, :p] = self.numeric.T @ (w[:, None] * self.numeric)
        if self.is_coded:
            part = sp.csr_array(self.sparse.multiply(w[:, None]))
            gram += (self.sparse.T @ part).toarray()
            cross = part.T @ self.numeric
            gram[:, :p] += cross
            gram[:p, :] += cross.T
            gram[-1] += part.sum(axis=0)
            gram[:, -1] += part.sum(axis=0)
        column = w @ self.numeric
        gram[:p, -1] += column
        gram[-1, :p] += column
        gram[-1, -1] += w.sum()
        return gram

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Numbers:
        """Write the rows out where an array is wanted."""
        return self.toarray().astype(dtype or self.dtype, copy=False)

    def toarray(self) -> Numbers:
        """Return the rows as a dense matrix (n, d)."""
        n, p = self.numeric.shape
        dense = np.zeros((n, self.d + 1), dtype=self.dtype)
        dense[:, :p], dense[:, self.d - 1] = self.numeric, 1.0
        np.put_along_axis(dense, self.codes.astype(np.intp), 1.0, axis=1)
        rows = np.arange(n)
        for c in range(self.knots.shape[1]):
            for side in (0, 1):
                dense[rows, self.knots[:, c].astype(np.intp) + side] += self.weights[:, c, side]
        return np.ascontiguousarray(dense[:, : self.d] * self.scale[:, None])

    def tocsr(self) -> Any:
        """Return the rows as a CSR matrix (n, d)."""
        numeric = sp.csr_array(self.numeric)
        gap = sp.csr_array((len(self), self.d - 1 - numeric.shape[1]), dtype=self.dtype)
        rest = sp.csr_array(np.ones((len(self), 1), dtype=self.dtype))
        rows = sp.hstack([numeric, gap, rest], format="csr") + self.sparse
        return sp.csr_array(sp.diags_array(self.scale) @ rows)


@dataclass(frozen=True)
class Transposed(HoldsRecords):
    """Xᵀ of coded rows, to multiply with."""

    rows: Coded

    def __matmul__(self, right: Any) -> Any:
        """Xᵀ·right; (n,) → (d,) or (n, R) → (d, R)."""
        X = self.rows
        scaled = right * (X.scale if right.ndim == 1 else X.scale[:, None])
        p = X.numeric.shape[1]
        product = np.zeros((X.d, *right.shape[1:]), dtype=scaled.dtype)
        if X.is_coded:
            product += X.sparse.T @ scaled
        product[:p] += X.numeric.T @ scaled
        product[-1] += scaled.sum(axis=0)
        return product


def stack(parts: list[Coded]) -> Coded:
    """Return the rows of all parts, in order."""
    numeric, codes, scale, knots, weights = (
        np.concatenate(same) for same in zip(*(part.arrays for part in parts), strict=True)
    )
    return Coded(numeric, codes, scale, parts[0].d, knots, weights)
