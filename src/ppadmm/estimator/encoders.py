"""From what a user passes as X to rows of norm ≤ 1, by public knowledge alone, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppadmm.arrays import Array
from ppadmm.data import Matrix, Numeric, Schema, Target, as_table, normalise_rows
from ppadmm.data.columns import column as cells_of
from ppadmm.data.columns import numbers
from ppadmm.data.encode import signed_frame, signed_unit
from ppadmm.data.features import Column
from ppadmm.data.fingerprint import Fingerprint, matrix_fingerprint, table_fingerprint
from ppadmm.data.schema import target_of
from ppadmm.errors import DataError


@dataclass(frozen=True)
class Frame:
    """What is public about an array, besides its bounds: columns, classes, number of records."""

    names: Sequence[str]
    label: Target
    confirmed: bool
    records: int

    def schema(self, columns: tuple[Numeric, ...], missing: tuple[str, ...] = ()) -> Schema:
        """Return all of it as a schema."""
        return Schema(columns, self.label, missing=missing, confirmed=self.confirmed)


@dataclass(frozen=True, eq=False)
class Box:
    """Numbers clipped to public bounds low, high (d,), then `signed`: 0 stays 0, CSR stays CSR."""

    low: Array
    high: Array

    def encode(self, X: Any) -> Matrix:
        """(z, 1)/‖(z, 1)‖ with z = (clip(x) − shift)/unit."""
        ones = np.ones((X.shape[0], 1))
        if hasattr(X, "indptr"):
            data = signed_unit(X.data, self.low[X.indices], self.high[X.indices])
            rows = sp.csr_array((data, X.indices, X.indptr), shape=X.shape)
            return normalise_rows(sp.hstack([rows, sp.csr_array(ones)], format="csr"))
        return normalise_rows(np.hstack([signed_unit(X, self.low, self.high), ones]))

    def linear(self, theta: Array) -> tuple[Array, Array]:
        """In the units of X: xᵀcoef + intercept is θᵀ(z, 1) within the bounds."""
        shift, unit = signed_frame(self.low, self.high)
        slopes = np.divide(theta[:, :-1], unit, out=np.zeros_like(theta[:, :-1]), where=unit > 0)
        return slopes, theta[:, -1] - slopes @ shift

    def fingerprint(self, X: Any, labels: NDArray[Any]) -> Fingerprint:
        """Of the numbers before they are clipped, and of the labels."""
        return matrix_fingerprint(X, labels.tolist())

    def cells(self, X: Any) -> Any:
        """Return the numbers before they are clipped: what a process knows rows by."""
        return X

    def columns(self, names: Sequence[str]) -> tuple[Numeric, ...]:
        """Return the bounds as columns of a schema."""
        bounds = zip(names, self.low.tolist(), self.high.tolist(), strict=True)
        return tuple(Numeric(name, low, high, "signed", "line") for name, low, high in bounds)

    def curves(self, names: Sequence[str], knots: Sequence[Any]) -> tuple[Numeric, ...]:
        """Return the same as curves with knots."""
        bounds = zip(names, self.low.tolist(), self.high.tolist(), knots, strict=True)
        return tuple(Numeric(n, low, high, "linear", "curve", own) for n, low, high, own in bounds)


@dataclass(frozen=True)
class BySchema:
    """Columns as a schema says: a frame by their names, an array in the schema's order."""

    schema: Schema

    def encode(self, X: Any) -> Matrix:
        """See `ppadmm.data.Schema`."""
        return self.schema.encode_coded(self._table(X))

    def linear(self, theta: Array) -> tuple[Array, Array]:
        """Per encoded feature, in the order of `schema.feature_names`."""
        return per_feature(theta)

    def fingerprint(self, X: Any, labels: NDArray[Any]) -> Fingerprint:
        """Of the cells, of columns that are no features, too, and of the labels as one more."""
        table = self._table(X)
        label = as_table({self.schema.label.name: labels.tolist()})
        return table_fingerprint([table.append_column(label.schema.field(0), label.column(0))])

    def cells(self, X: Any) -> Any:
        """Return numbers before they are clipped, and categories as hashes of their names.

        So that another bound or shape of a column makes no other rows of them.
        """
        table, missing = self._table(X), self.schema.missing
        return np.column_stack([_cells(c, table, missing) for c in self.schema.columns])

    def _table(self, X: Any) -> Any:
        if hasattr(X, "columns") or isinstance(X, Mapping) or hasattr(X, "column_names"):
            return as_table(X)
        # A list keeps the type of each cell: one text would turn the numbers of all into texts.
        array = np.asarray(_dense(X), dtype=object if isinstance(X, list | tuple) else None)
        names = [column.name for column in self.schema.columns]
        if array.ndim != 2 or array.shape[1] != len(names):
            raise DataError(
                f"Expected X with the schema's {len(names)} columns, got shape {array.shape}; "
                "give a data frame to go by their names."
            )
        return as_table({name: array[:, j].tolist() for j, name in enumerate(names)})


@dataclass(frozen=True)
class Curves:
    """The numbers of an array as curves of a schema, column by column; NaN is missing."""

    schema: Schema

    def encode(self, X: Any) -> Matrix:
        """Return two weights per column, as `ppadmm.data.coded` keeps them."""
        names = [column.name for column in self.schema.columns]
        return self.schema.encode_coded(as_table({n: X[:, j] for j, n in enumerate(names)}))

    def linear(self, theta: Array) -> tuple[Array, Array]:
        """Per knot, in the order of `schema.feature_names`."""
        return per_feature(theta)

    def fingerprint(self, X: Any, labels: NDArray[Any]) -> Fingerprint:
        """As `Box` has it: a curve makes no other records of them."""
        return matrix_fingerprint(self.cells(X), labels.tolist())

    def cells(self, X: Any) -> Any:
        """Return the numbers before they are clipped, with one NaN for all."""
        return np.where(np.isnan(X), np.nan, X)


def per_feature(theta: Array) -> tuple[Array, Array]:
    """Return the coefficients and the intercept apart."""
    return theta[:, :-1].copy(), theta[:, -1].copy()


def _cells(column: Column, table: Any, missing: tuple[str, ...]) -> Array:
    """Return a column's cells as eight bytes each, NaN where they are missing, (n,)."""
    if isinstance(column, Numeric):
        marks = (*missing, *column.missing)
        values, present = numbers(cells_of(table, column.name), column.name, marks)
    else:
        known, there = column.entries(table, missing)
        values, present = _hashes(column.features)[known[:, 0]], there[:, 0] > 0.0
    return np.where(present, values, np.nan)


def _hashes(names: Sequence[str]) -> Array:
    digests = (blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(b"".join(digests), dtype=np.float64)


Encoder: TypeAlias = Box | BySchema | Curves
"""Maps records to rows; row i depends on record i and on public constants alone."""


def box(bounds: Any, names: Sequence[str]) -> Box:
    """Read bounds: (low, high), each a number or one per feature, or {name: (low, high)}."""
    if isinstance(bounds, Mapping):
        if lacking := [name for name in names if name not in bounds]:
            raise DataError(f"The bounds name no feature {lacking[0]!r}; give its (low, high).")
        bounds = tuple(zip(*(bounds[name] for name in names), strict=True))
    try:
        low, high = (np.asarray(side, dtype=np.float64) for side in bounds)
        low, high = (np.broadcast_to(side, (len(names),)).copy() for side in (low, high))
    except (TypeError, ValueError):
        raise DataError(
            f"Expected bounds (low, high), each a number or {len(names)} of them, or a dict of "
            f"pairs by feature, got {bounds!r}."
        ) from None
    return Box(low, high)


def observed_box(X: Any) -> Box:
    """Read the bounds off the records: nothing that is built on them is private."""
    if hasattr(X, "indptr"):
        return Box(np.ravel(_dense(X.min(axis=0))), np.ravel(_dense(X.max(axis=0))))
    # These pass over NaN, and give it where there is nothing else.
    low, high = np.fmin.reduce(X), np.fmax.reduce(X)
    return Box(np.nan_to_num(low), np.nan_to_num(high))


def knots_of(given: Any, names: Sequence[str], usual: int) -> list[Any]:
    """Read knots: a number, one per feature, or {name: knots}; `usual` where nothing is said."""
    if given is None or isinstance(given, int):
        return [usual if given is None else given] * len(names)
    if isinstance(given, Mapping):
        if strange := [name for name in given if name not in names]:
            raise DataError(f"The knots name {strange[0]!r}, which is no feature; leave it out.")
        found = [given.get(name) for name in names]
    else:
        found = list(given)
    if len(found) != len(names):
        raise DataError(
            f"Expected knots for {len(names)} features, a number or a list for each, got "
            f"{len(found)}; give one number for all, or a dict by feature."
        )
    return [usual if own is None else _plain(own) for own in found]


def _plain(knots: Any) -> Any:
    """Return NumPy's numbers and arrays as plain ones."""
    return knots.tolist() if hasattr(knots, "tolist") else knots


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


def target(names: Sequence[str], features: Sequence[str]) -> Target:
    """Return the classes as the label of a schema, under a name that no feature has."""
    name = "label"
    while name in features:
        name += "_"
    return target_of(name, names)
