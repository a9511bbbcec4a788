"""The samplers of `lanes`, compiled by numba.

Imported only where numba is in use. Nothing here is in floating point but the last step of
`release`, whose operations are exact but for the one rounding that makes a double.

No compiled function may call one of another file: numba notices a change in the file that a
function is in, and in no other.
"""

from typing import Any, TypeVar

import numpy as np
from numba import njit

F = TypeVar("F")

RAN_OUT, TIED = -1, -2
"""In place of how many words were used: there are too few, or `lanes` must look at them.

What may tie is said to: `lanes` decides, from the same words.
"""

_HALF = np.uint64(1 << 63)
_LOW = np.uint64(0xFFFFFFFF)
_TWO, _32 = np.uint64(2), np.uint64(32)
_FALL, _PASS, _PART, _NARROW, _FRACTION, _SIGN = range(6)
"""What the next word of a lane is for."""


def _jit(function: F) -> F:
    try:
        compiled: F = njit(function, cache=True, nogil=True, error_model="numpy")
    except RuntimeError:  # no folder to keep the machine code in: compile once per process
        compiled = njit(function, nogil=True, error_model="numpy")
    return compiled


@_jit
def normal(words: Any, negative: Any, whole: Any, digit: Any) -> int:
    """Fill the arrays with normal deviates; return how many words that took."""
    n = whole.shape[0]
    lanes = np.arange(n)
    stage = np.full(n, _FRACTION, np.int8)
    left = np.zeros(n, np.int64)
    even = np.ones(n, np.bool_)
    u = np.empty(n, np.uint64)
    v = np.empty(n, np.uint64)
    whole[:] = 0
    used, waiting = 0, n
    while waiting > 0:
        if used + waiting > words.shape[0]:
            return RAN_OUT
        kept = 0
        for p in range(waiting):
            i, w = lanes[p], words[used + p]
            lanes[kept] = i
            kept += 1
            s = stage[i]
            if s == _NARROW:
                c = np.uint64(2 * max(whole[i] - 1, 0) + 2)
                y = digit[i] if whole[i] > 0 else ~digit[i]
                low = w * c
                high = ((w >> _32) * c + (((w & _LOW) * c) >> _32)) >> _32
                if low > ~c or (low <= y and y - low <= c):
                    return TIED
                stage[i] = _PART
                if high + _TWO < c or (high + _TWO == c and low < y):
                    u[i] = v[i]
                    even[i] = not even[i]
                    continue
            elif s <= _PART:
                if w == u[i]:
                    return TIED
                if w < u[i]:
                    if s == _PART:
                        v[i] = w
                        stage[i] = _NARROW
                    else:
                        u[i] = w
                        even[i] = not even[i]
                    continue
            elif s == _FRACTION:
                digit[i] = w
                u[i] = w
                stage[i] = _FALL
                continue
            else:
                negative[i] = w >= _HALF
                kept -= 1
                continue
            passed = even[i]
            even[i] = True
            if s == _FALL:
                if not passed:
                    whole[i] += 1
                    stage[i] = _FRACTION
                elif whole[i] > 1:
                    left[i] = (whole[i] - 1) * (whole[i] - 1)
                    u[i] = _HALF
                    stage[i] = _PASS
                else:
                    left[i] = 1
                    u[i] = digit[i] if whole[i] > 0 else ~digit[i]
                    stage[i] = _PART
            elif not passed:
                whole[i] = 0
                stage[i] = _FRACTION
            else:
                left[i] -= 1
                if s == _PASS:
                    u[i] = _HALF
                    if left[i] == 0:
                        left[i] = whole[i]
                        u[i] = digit[i]
                        stage[i] = _PART
                else:
                    u[i] = digit[i] if whole[i] > 0 else ~digit[i]
                    if left[i] == 0:
                        stage[i] = _SIGN
        used += waiting
        waiting = kept
    return used


@_jit
def exponential(words: Any, negative: Any, whole: Any, digit: Any) -> int:
    """Fill the arrays with exponential deviates of either sign; return how many words it took."""
    n = whole.shape[0]
    lanes = np.arange(n)
    stage = np.full(n, _FRACTION, np.int8)
    even = np.ones(n, np.bool_)
    u = np.empty(n, np.uint64)
    whole[:] = 0
    used, waiting = 0, n
    while waiting > 0:
        if used + waiting > words.shape[0]:
            return RAN_OUT
        kept = 0
        for p in range(waiting):
            i, w = lanes[p], words[used + p]
            lanes[kept] = i
            kept += 1
            if stage[i] == _FALL:
                if w == u[i]:
                    return TIED
                if w < u[i]:
                    u[i] = w
                    even[i] = not even[i]
                elif even[i]:
                    stage[i] = _SIGN
                else:
                    whole[i] += 1
                    even[i] = True
                    stage[i] = _FRACTION
            elif stage[i] == _FRACTION:
                digit[i] = w
                u[i] = w
                stage[i] = _FALL
            else:
                negative[i] = w >= _HALF
                kept -= 1
        used += waiting
        waiting = kept
    return used


@_jit
def release(
    values: Any, negative: Any, whole: Any, digit: Any, M: int, j: int, unit: float, found: Any
) -> Any:
    """Fill in values + noise on the grid and return where that is decided (`grid` says the rest).

    M < 2⁵⁷, 1 ≤ j ≤ 61, and `unit` = 2ᵏ. Every operation in floating point is exact but the last
    sum, which rounds once: its terms follow from the whole sum of value and noise.
    """
    m, shift = np.uint64(M), np.uint64(j)
    half = np.uint64(1) << (shift - np.uint64(1))
    m_high, m_low = m >> _32, m & _LOW
    decided = np.zeros(values.shape[0], np.bool_)
    for i in range(values.shape[0]):
        d = digit[i]
        d_high, d_low = d >> _32, d & _LOW
        cross, other = m_low * d_high, m_high * d_low
        middle = ((m_low * d_low) >> _32) + (cross & _LOW) + (other & _LOW)
        high = m_high * d_high + (cross >> _32) + (other >> _32) + (middle >> _32)
        least = m * np.uint64(whole[i]) + high + half
        size = least >> shift
        certain = m * d <= ~m or size == (least + np.uint64(1)) >> shift
        if not certain or whole[i] >= 32 or not abs(values[i]) < 2.0**83 * unit:
            continue
        point = np.rint(values[i] / unit)
        noise = np.int64(size)
        if negative[i]:
            noise = -noise
        upper = np.floor(point / 2.0**32)
        low = np.int64(point - upper * 2.0**32) + (noise & np.int64(0xFFFFFFFF))
        top = np.int64(upper) + (noise >> np.int64(32)) + (low >> np.int64(32))
        low &= np.int64(0xFFFFFFFF)
        found[i] = (np.float64(top) * 2.0**32 + np.float64(low)) * unit
        decided[i] = True
    return decided
