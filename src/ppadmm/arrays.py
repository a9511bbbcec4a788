"""Shared type names, and the norm that bounds speak of."""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]
Matrix: TypeAlias = Any
"""Rows (n, d) that can be multiplied: dense, CSR or `ppadmm.data.coded.Coded`."""


def norms(rows: Array) -> Array:
    """Return the Euclidean norm of every row (R, d), infinite where its square is no double."""
    if len(rows) == 1:  # a deployment: the same number as below, for a third of the time
        row = rows[0]
        return np.array([math.sqrt(row.dot(row))])
    with np.errstate(over="ignore"):
        return np.asarray(np.sqrt(np.vecdot(rows, rows)))
