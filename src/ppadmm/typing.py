"""Shared type names."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]
Matrix: TypeAlias = "Array | csr_array[Any]"
