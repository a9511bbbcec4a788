"""Scaled noise on a grid, and its sum with a value: in whole numbers, whatever their size.

Noise of scale σ on the grid g = 2ᵏ is ±⌊(σ/g)·(whole + 0.digits…) + ½⌋ times g. σ/g is M/2ʲ, a
fraction, because σ is a double. Digits are drawn until the integer is certain. The double that
leaves is the nearest to (value on the grid + noise), a function of that sum alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ppadmm.arrays import Array
from ppadmm.errors import InputError
from ppadmm.sampling import choice
from ppadmm.sampling.lanes import BITS, joined
from ppadmm.sampling.stock import Deviates, Store

FINEST = 900
"""Exponents k up to this size leave doubles room on either side."""


@dataclass(frozen=True)
class Scaled:
    """σ/g = multiplier/2^shift with shift ≥ 1, and g = 2^exponent."""

    multiplier: int
    shift: int
    exponent: int

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, scale: float, exponent: int) -> "Scaled":
        """Return σ in units of the grid, exactly."""
        if not scale > 0.0 or not math.isfinite(scale):
            raise InputError(f"Expected scale > 0, got {scale!r}.")
        multiplier, parts = scale.as_integer_ratio()
        shift = parts.bit_length() - 1 + exponent
        return cls(multiplier << max(1 - shift, 0), max(shift, 1), exponent)

    @property
    def narrow(self) -> bool:
        """Whether `release` of the kernels has room for it in words of 64 bits."""
        small = self.multiplier < 1 << 57 and self.shift <= 61
        return small and abs(self.exponent) <= FINEST


def release(values: Array, scale: float, exponent: int, law: str, store: Store) -> Array:
    """Return values + noise on the grid 2^exponent; values (d,)."""
    grid, noise = Scaled.of(scale, exponent), store.take(law, len(values))
    found = np.empty(len(values))
    for i in _released(values, noise, grid, found):
        found[i] = exactly(float(values[i]), grid, noise, i, store.word)
    noise.wipe()
    return found


def _released(values: Array, noise: Deviates, grid: Scaled, found: Array) -> list[int]:
    """Fill in what is decided in 64 bits and return the places of the rest."""
    if not grid.narrow:
        return list(range(len(values)))
    run = choice.kernels(0).release
    unit = 2.0**grid.exponent
    given = noise.negative, noise.whole, noise.digit
    decided = run(values, *given, grid.multiplier, grid.shift, unit, found)
    return [] if decided.all() else np.flatnonzero(~decided).tolist()


def exactly(value: float, grid: Scaled, noise: Deviates, i: int, word: Callable[[], int]) -> float:
    """Return one value + noise, in Python's integers."""
    size = rounded(grid, int(noise.whole[i]), noise.digits(i), word)
    total = round(Fraction(value) / Fraction(2) ** grid.exponent)
    total += -size if noise.negative[i] else size
    return nearest(total, grid.exponent)


def rounded(grid: Scaled, whole: int, digits: list[int], word: Callable[[], int]) -> int:
    """Return ⌊(σ/g)·(whole + 0.digits…) + ½⌋, with as many more digits as it takes."""
    while True:
        places = BITS * len(digits) + grid.shift
        least = grid.multiplier * ((whole << BITS * len(digits)) + joined(digits))
        least += 1 << places - 1
        if least >> places == least + grid.multiplier - 1 >> places:
            return least >> places
        digits.append(word())


def nearest(total: int, exponent: int) -> float:
    """Return the double nearest to total·2^exponent, to even if there are two."""
    try:
        return float(total << exponent) if exponent >= 0 else total / (1 << -exponent)
    except OverflowError as error:
        raise InputError("The noise and the value are too large together for a double.") from error
