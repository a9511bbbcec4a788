"""Shared type names."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]
Matrix: TypeAlias = Any
"""Rows (n, d) that can be multiplied: dense, CSR or `ppadmm.data.coded.Coded`."""
