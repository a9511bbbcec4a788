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
    with np.errstate(over="ignore"):
        if len(rows) == 1:  # a deployment: the same number as below in fewer steps
            return np.array([math.sqrt(rows[0].dot(rows[0]))])
        return np.asarray(np.sqrt(np.vecdot(rows, rows)))
