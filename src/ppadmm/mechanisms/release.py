"""The only thing that a message can carry."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppadmm.arrays import Array


@dataclass(frozen=True)
class Release:
    """A value (R, d) that may leave the agent; `spoke` (R,) says which replicates send it.

    A silent replicate's row is the value it last released: neighbours have it already, and its
    silence is the answer of a test that was paid for.
    """

    value: Array
    spoke: NDArray[np.bool_]

    @classmethod
    def everyone(cls, value: Array) -> "Release":
        """Return a release of all replicates."""
        return cls(value, np.ones(len(value), dtype=bool))
