"""From what a user passes as X to rows of norm ≤ 1, by public knowledge alone, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppadmm.arrays import Array
from ppadmm.data import Matrix, Numeric, Schema, Target, as_table, normalise_rows
from ppadmm.data.encode import signed_frame, signed_unit
from ppadmm.data.fingerprint import Fingerprint, matrix_fingerprint, table_fingerprint
from ppadmm.data.schema import target_of
from ppadmm.errors import DataError


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

    def columns(self, names: Sequence[str]) -> tuple[Numeric, ...]:
        """Return the bounds as columns of a schema."""
        bounds = zip(names, self.low.tolist(), self.high.tolist(), strict=True)
        return tuple(Numeric(name, low, high, "signed") for name, low, high in bounds)


@dataclass(frozen=True)
class BySchema:
    """Columns as a schema says: a frame by their names, an array in the schema's order."""

    schema: Schema

    def encode(self, X: Any) -> Matrix:
        """See `ppadmm.data.Schema`."""
        return self.schema.encode_features(self._table(X))

    def linear(self, theta: Array) -> tuple[Array, Array]:
        """Per encoded feature, in the order of `schema.feature_names`."""
        return theta[:, :-1].copy(), theta[:, -1].copy()

    def fingerprint(self, X: Any, labels: NDArray[Any]) -> Fingerprint:
        """Of the cells, of columns that are no features, too, and of the labels as one more."""
        table = self._table(X)
        label = as_table({self.schema.label.name: labels.tolist()})
        return table_fingerprint([table.append_column(label.schema.field(0), label.column(0))])

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


Encoder: TypeAlias = Box | BySchema
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
    return Box(np.ravel(_dense(X.min(axis=0))), np.ravel(_dense(X.max(axis=0))))


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


def target(names: Sequence[str], features: Sequence[str]) -> Target:
    """Return the classes as the label of a schema, under a name that no feature has."""
    name = "label"
    while name in features:
        name += "_"
    return target_of(name, names)
