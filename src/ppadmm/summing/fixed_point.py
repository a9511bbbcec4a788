"""Numbers as integers modulo 2⁶⁴, and the share of noise that each site adds to its own.

A coordinate v, |v| ≤ `bound`, becomes round(v/γ) plus round(sZ), Z standard normal: exactly an
integer. γ = 2ᵉ is so large that a site's number stays below 2⁵² but for a probability of 10⁻³⁰⁰, so
doubles hold it exactly, and the sum over 2¹⁰ sites below 2⁶³: what is opened is the sum itself and
not its remainder. Were it larger it would wrap round, which is post-processing and costs no ε.

`distance` bounds how far a sum of such noises is from what follows from one Gaussian number of the
same variance (docs/privacy.md, section 19).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppadmm.arrays import Array
from ppadmm.errors import InputError
from ppadmm.noise import total_variation

Words = NDArray[np.uint64]
EXACT = 2.0**52
TAILS = 40.0
"""Standard deviations beyond which a noise lies with a probability below 10⁻³⁰⁰."""
MOST_SITES = 1 << 10
LEAST = 2.0**16
"""The least s: below it noise is too coarse against the range of the values."""


@dataclass(frozen=True)
class FixedPoint:
    """The grid γ = 2**exponent of a sum, the noise s of a site on it, and the largest value."""

    exponent: int
    scale: float
    bound: float

    @property
    def grid(self) -> float:
        """γ."""
        return math.ldexp(1.0, self.exponent)

    @property
    def sigma(self) -> float:
        """A site's noise in the units of the values."""
        return self.scale * self.grid

    def encode(self, values: Array) -> Array:
        """Return the nearest integers, as doubles that hold them exactly; beyond the bound, it."""
        clipped = np.clip(values, -self.bound, self.bound)
        return np.rint(np.ldexp(clipped, -self.exponent))

    def decode(self, total: Words) -> Array:
        """Return what a sum modulo 2⁶⁴ stands for."""
        return np.ldexp(total.view(np.int64).astype(np.float64), self.exponent)


def fixed_point(
    sensitivity: float, ratio: float, bound: float, size: int, honest: int
) -> FixedPoint:
    """Return the grid and noise with which a sum of `size` numbers has Δ/σ ≤ `ratio`.

    One record moves the sum by at most `sensitivity`, and by √size more on the grid. The noises of
    `honest` sites protect it.
    """
    share = ratio * math.sqrt(honest)
    wanted = sensitivity / share
    exponent = math.frexp((bound + TAILS * wanted) / EXACT)[1] + 1  # room for the √size
    scale = (math.ldexp(sensitivity, -exponent) + math.sqrt(size)) / share
    if scale < LEAST:
        raise InputError(
            f"Noise of {wanted:.3g} is too fine against values of up to {bound:.3g} to be added "
            "up in 64 bits; choose a smaller ε or fewer records."
        )
    if math.ldexp(bound, -exponent) + 1.0 + TAILS * scale > EXACT:
        raise InputError(
            f"Noise of {wanted:.3g} is too wide to be added up in 64 bits; choose a larger ε."
        )
    return FixedPoint(exponent, scale, bound)


def distance(size: int, scale: float, sites: int) -> float:
    """Bound the total variation between the noise of a sum and what follows from one Gaussian.

    A sampler of discrete Gaussians (OpenDP's) is within size/(8s²) of rounded ones, at each site.
    The sum of N rounded ones is within 1.1·size·N·exp(−π²s²) of a function of one Gaussian vector
    of variance Ns² (docs/privacy.md, section 19). The last size/(8s²) is for that: it is more from
    s = 1 on for 1024 sites.
    """
    return (sites + 1) * total_variation(size, scale, 1.0)


def as_words(integers: Array) -> Words:
    """Return integers that doubles hold exactly as numbers modulo 2⁶⁴."""
    return integers.astype(np.int64).view(np.uint64)
