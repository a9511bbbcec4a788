"""The samplers of `lanes` in NumPy: the same numbers from the same words as `compiled`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ppadmm.arrays import Array

RAN_OUT, TIED = -1, -2
"""As in `compiled`."""

Words: TypeAlias = NDArray[np.uint64]
Wholes: TypeAlias = NDArray[np.int64]
Signs: TypeAlias = NDArray[np.bool_]
Lanes: TypeAlias = NDArray[np.intp]

_HALF = np.uint64(1 << 63)
_LOW = np.uint64(0xFFFFFFFF)
_ONE, _TWO, _32 = np.uint64(1), np.uint64(2), np.uint64(32)
_WIDEST = 32
"""Noise whose whole part is this or more is for `grid.exactly`."""
_FALL, _PASS, _PART, _NARROW, _FRACTION, _SIGN, _DONE = range(7)


class Tie(Exception):  # noqa: N818  (no error: `lanes` takes over)
    """Two words are so near each other that `lanes` must look at them."""


@dataclass
class Progress:
    """How far each lane is: what its next word is for, and what that is compared with."""

    negative: Signs
    whole: Wholes
    digit: Words
    stage: NDArray[np.int8] = field(init=False)
    left: Wholes = field(init=False)
    even: NDArray[np.bool_] = field(init=False)
    u: Words = field(init=False)
    v: Words = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.whole)
        self.whole[:] = 0
        self.stage = np.full(n, _FRACTION, np.int8)
        self.left = np.zeros(n, np.int64)
        self.even = np.ones(n, np.bool_)
        self.u, self.v = np.empty(n, np.uint64), np.empty(n, np.uint64)

    def below_one(self, i: Lanes) -> Words:
        """Return y, the fraction of |z − 1|."""
        return np.where(self.whole[i] > 0, self.digit[i], ~self.digit[i])


Step: TypeAlias = Callable[[Progress, Lanes, Words], None]


def normal(words: Words, negative: Signs, whole: Wholes, digit: Words) -> int:
    """Fill the arrays with normal deviates; return how many words that took."""
    steps: dict[int, Step] = {_FALL: _propose, _PASS: _pass, _PART: _part, _NARROW: _narrow}
    return _run(words, Progress(negative, whole, digit), steps)


def exponential(words: Words, negative: Signs, whole: Wholes, digit: Words) -> int:
    """Fill the arrays with exponential deviates of either sign; return how many words it took."""
    return _run(words, Progress(negative, whole, digit), {_FALL: _end})


def _run(words: Words, at: Progress, steps: dict[int, Step]) -> int:
    steps = {**steps, _FRACTION: _fraction, _SIGN: _sign}
    lanes, used = np.arange(len(at.whole)), 0
    while len(lanes):
        if used + len(lanes) > len(words):
            return RAN_OUT
        try:
            _advance(at, lanes, words[used : used + len(lanes)], steps)
        except Tie:
            return TIED
        used += len(lanes)
        lanes = lanes[at.stage[lanes] != _DONE]
    return used


def _advance(at: Progress, lanes: Lanes, words: Words, steps: dict[int, Step]) -> None:
    stages = at.stage[lanes]
    for stage, step in steps.items():
        chosen = np.flatnonzero(stages == stage)
        if len(chosen):
            step(at, lanes[chosen], words[chosen])


def _fraction(at: Progress, i: Lanes, w: Words) -> None:
    at.digit[i] = at.u[i] = w
    at.stage[i] = _FALL


def _end(at: Progress, i: Lanes, w: Words) -> None:
    at.stage[_proposed(at, i, w)] = _SIGN


def _propose(at: Progress, i: Lanes, w: Words) -> None:
    found = _proposed(at, i, w)
    j = np.maximum(at.whole[found] - 1, 0)
    at.stage[found] = np.where(j > 0, _PASS, _PART)
    at.left[found] = np.where(j > 0, j * j, 1)
    at.u[found] = np.where(j > 0, _HALF, at.below_one(found))


def _pass(at: Progress, i: Lanes, w: Words) -> None:
    passed, failed = _trial(at, i, w)
    at.left[passed] -= 1
    at.u[passed] = _HALF
    over = passed[at.left[passed] == 0]
    at.left[over], at.stage[over] = at.whole[over], _PART
    at.u[over] = at.digit[over]
    _restart(at, failed)


def _part(at: Progress, i: Lanes, w: Words) -> None:
    fell = _less(w, at.u[i])
    on = i[fell]
    at.v[on], at.stage[on] = w[fell], _NARROW
    _end_part(at, i[~fell])


def _narrow(at: Progress, i: Lanes, w: Words) -> None:
    j = np.maximum(at.whole[i] - 1, 0)
    below = _below(w, (2 * j + 2).astype(np.uint64), at.below_one(i))
    at.stage[i] = _PART
    on = i[below]
    at.u[on] = at.v[on]
    at.even[on] ^= True
    _end_part(at, i[~below])


def _sign(at: Progress, i: Lanes, w: Words) -> None:
    at.negative[i] = w >= _HALF
    at.stage[i] = _DONE


def _proposed(at: Progress, i: Lanes, w: Words) -> Lanes:
    """Go on with exponential deviates; return the lanes that have theirs."""
    passed, failed = _trial(at, i, w)
    at.whole[failed] += 1
    at.stage[failed] = _FRACTION
    return passed


def _trial(at: Progress, i: Lanes, w: Words) -> tuple[Lanes, Lanes]:
    """Go on falling; return the lanes that ended after an even number of steps, and an odd one."""
    fell = _less(w, at.u[i])
    on, over = i[fell], i[~fell]
    at.u[on] = w[fell]
    at.even[on] ^= True
    passed = at.even[over]
    at.even[over] = True
    return over[passed], over[~passed]


def _end_part(at: Progress, i: Lanes) -> None:
    even = at.even[i]
    at.even[i] = True
    passed = i[even]
    at.left[passed] -= 1
    at.u[passed] = at.below_one(passed)
    at.stage[passed[at.left[passed] == 0]] = _SIGN
    _restart(at, i[~even])


def _restart(at: Progress, i: Lanes) -> None:
    at.whole[i], at.stage[i] = 0, _FRACTION


def _less(w: Words, u: Words) -> NDArray[np.bool_]:
    if (w == u).any():
        raise Tie
    return w < u


def _below(w: Words, c: Words, y: Words) -> NDArray[np.bool_]:
    """Whether w·c < (c − 2)·2⁶⁴ + y; the product has 128 bits."""
    low = w * c
    high = ((w >> _32) * c + (((w & _LOW) * c) >> _32)) >> _32
    if ((low > ~c) | ((low <= y) & (y - low <= c))).any():
        raise Tie
    return np.asarray((high + _TWO < c) | ((high + _TWO == c) & (low < y)))


def release(
    values: Array,
    negative: Signs,
    whole: Wholes,
    digit: Words,
    M: int,
    j: int,
    unit: float,
    found: Array,
) -> NDArray[np.bool_]:
    """Do as `compiled.release`.

    Where all noise is below 2⁵³ it is a double, as `point` is: their sum in floating point is then
    the one rounding. Noise is a whole number up to there, so that a zero has no sign.
    """
    m, shift, half = _constants(M, j)
    least = m * whole.view(np.uint64)
    least += _upper(M, digit)
    least += half
    size = least >> shift
    decided = (whole < _WIDEST) & (np.abs(values) < 2.0**83 * unit)
    certain = m * digit <= ~m
    if not certain.all():
        decided &= certain | (size == (least + _ONE) >> shift)
    noise = size.view(np.int64)
    np.negative(noise, out=noise, where=negative)
    point = np.rint((values if decided.all() else np.where(decided, values, 0.0)) / unit)
    exact = _WIDEST * M >> j < 1 << 53
    total = point + noise if exact else _sum(point, noise)
    np.multiply(total, unit, out=found)
    return decided


@lru_cache(maxsize=64)
def _constants(M: int, j: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return M, j and 2ʲ⁻¹ as words; a run has two of each, in every round."""
    return np.uint64(M), np.uint64(j), np.uint64(1 << j - 1)


def _upper(M: int, digit: Words) -> Words:
    """Return ⌊M·digit/2⁶⁴⌋, from products of 32 bits each; no sum is beyond 64 bits."""
    (m_high, _, _), (m_low, _, _) = _constants(M >> 32, 1), _constants(M & 0xFFFFFFFF, 1)
    high, low = digit >> _32, digit & _LOW
    first = m_low * low
    first >>= _32
    first += m_low * high
    second = m_high * low
    second += first & _LOW
    high *= m_high
    high += first >> _32
    high += second >> _32
    return high


def _sum(point: Array, noise: Wholes) -> Array:
    """Return point + noise, rounded once: two halves are added in whole numbers first."""
    mask = np.int64(0xFFFFFFFF)
    upper = np.floor(point / 2.0**32)
    low = (point - upper * 2.0**32).astype(np.int64) + (noise & mask)
    top = upper.astype(np.int64) + (noise >> 32) + (low >> 32)
    return np.asarray(top.astype(np.float64) * 2.0**32 + (low & mask))
