"""OpenDP's samplers, for those who choose them: a discrete Gaussian or Laplace law on the grid."""

from functools import lru_cache
from typing import Any

import numpy as np

from ppadmm.arrays import Array
from ppadmm.errors import InputError


def release(values: Array, scale: float, exponent: int, law: str) -> Array:
    """Return values + noise on the grid 2^exponent; values (d,)."""
    measurement = _measurement(law, values.size, scale, exponent)
    released = np.asarray(measurement(values.tolist()), dtype=np.float64)
    if released.shape != values.shape or not np.isfinite(released).all():
        raise InputError("OpenDP returned a value of the wrong shape or not finite.")
    return released


@lru_cache(maxsize=256)
def _measurement(law: str, size: int, scale: float, k: int) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
    if law == "exponential":
        return dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale, k=k)
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale, k=k)
