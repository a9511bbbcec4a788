"""Records with one-hot groups, kept as category codes: never a zero is stored."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppadmm.records import HoldsRecords

Numbers = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Coded(HoldsRecords):
    """Rows x = scale·(numeric, one-hot groups, 1), n of d features, as `Schema` lays them out.

    numeric (n, p) are the first p features; codes (n, G) hold, per one-hot group, the number of the
    feature that is 1, or d where the value is missing; the last feature is the constant 1;
    scale (n,) > 0 makes ‖x‖ ≤ 1. A row takes 8p + 2G + 8 bytes instead of 8d.
    """

    numeric: Numbers
    codes: Any
    scale: Numbers
    d: int

    @classmethod
    def of(cls, numeric: Numbers, codes: Any, d: int, shrink: float) -> "Coded":
        """Scale rows to norm `shrink`; the constant 1 keeps every norm ≥ 1."""
        squares = np.einsum("ij,ij->i", numeric, numeric) + (codes < d).sum(axis=1) + 1.0
        small = np.ascontiguousarray(codes, dtype=np.min_scalar_type(max(d, 256)))
        return cls(np.ascontiguousarray(numeric), small, shrink / np.sqrt(squares), d)

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

    def __getitem__(self, rows: Any) -> "Coded":
        """Return some of the rows."""
        return Coded(self.numeric[rows], self.codes[rows], self.scale[rows], self.d)

    def scaled(self, factors: Numbers) -> "Coded":
        """diag(factors)·X."""
        return Coded(self.numeric, self.codes, factors * self.scale, self.d)

    def astype(self, dtype: Any) -> "Coded":
        """Return the rows in another precision."""
        return Coded(self.numeric.astype(dtype), self.codes, self.scale.astype(dtype), self.d)

    def norms(self) -> Numbers:
        """‖xᵢ‖ (n,)."""
        squares = np.einsum("ij,ij->i", self.numeric, self.numeric)
        present = (self.codes < self.d).sum(axis=1) + 1.0
        return cast(Numbers, np.abs(self.scale) * np.sqrt(squares + present))

    @cached_property
    def one_hot(self) -> Any:
        """The one-hot groups as a sparse 0/1 matrix (n, d)."""
        present = self.codes < self.d
        ends = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
        ones = np.ones(int(ends[-1]), dtype=self.dtype)
        return sp.csr_array((ones, self.codes[present].astype(np.int32), ends), shape=self.shape)

    def __matmul__(self, right: Any) -> Any:
        """X·right; (d,) → (n,) or (d, R) → (n, R)."""
        p = self.numeric.shape[1]
        product = self.numeric @ right[:p] + right[-1]
        if self.codes.shape[1]:
            product += self.one_hot @ right
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
        if self.codes.shape[1]:
            hot = sp.csr_array(self.one_hot.multiply(w[:, None]))
            gram += (self.one_hot.T @ hot).toarray()
            cross = hot.T @ self.numeric
            gram[:, :p] += cross
            gram[:p, :] += cross.T
            gram[-1] += hot.sum(axis=0)
            gram[:, -1] += hot.sum(axis=0)
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
        return np.ascontiguousarray(dense[:, : self.d] * self.scale[:, None])

    def tocsr(self) -> Any:
        """Return the rows as a CSR matrix (n, d)."""
        numeric = sp.csr_array(self.numeric)
        gap = sp.csr_array((len(self), self.d - 1 - numeric.shape[1]), dtype=self.dtype)
        rest = sp.csr_array(np.ones((len(self), 1), dtype=self.dtype))
        rows = sp.hstack([numeric, gap, rest], format="csr") + self.one_hot
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
        if X.codes.shape[1]:
            product += X.one_hot.T @ scaled
        product[:p] += X.numeric.T @ scaled
        product[-1] += scaled.sum(axis=0)
        return product


def stack(parts: list[Coded]) -> Coded:
    """Return the rows of all parts, in order."""
    return Coded(
        np.concatenate([part.numeric for part in parts]),
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.scale for part in parts]),
        parts[0].d,
    )
