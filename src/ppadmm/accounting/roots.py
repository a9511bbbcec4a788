"""Where a function of one number changes its sign.

`scipy.optimize` has it, too, but takes a third of a second to load, at every start of `ppadmm`.
"""

from collections.abc import Callable

from ppadmm.errors import InputError

ROUNDING = 8.9e-16
STEPS = 400


def root(
    f: Callable[[float], float],
    low: float,
    high: float,
    xtol: float = 2e-12,
    rtol: float = ROUNDING,
) -> float:
    """Return a point within xtol + rtol·|x| of a change of sign of f in [low, high].

    Chandrupatla's method (1997): a parabola through the last three values of the inverse function
    where one fits, and halves where none does.
    """
    a, b = float(low), float(high)
    fa, fb = f(a), f(b)
    if fa == 0.0 or fb == 0.0:
        return a if fa == 0.0 else b
    if (fa > 0.0) == (fb > 0.0):
        raise InputError(f"The function has the same sign at {low:g} and {high:g}: no root.")
    t = 0.5
    for _ in range(STEPS):
        x = a + t * (b - a)
        fx = f(x)
        if (fx > 0.0) == (fa > 0.0):
            c, fc = a, fa
        else:
            c, fc, b, fb = b, fb, a, fa
        a, fa = x, fx
        best = a if abs(fa) < abs(fb) else b
        least = (xtol + rtol * abs(best)) / abs(b - c) if b != c else 1.0
        if fa == 0.0 or abs(b - a) <= xtol + rtol * abs(best):
            return best
        t = min(max(_next(a, b, c, fa, fb, fc), 0.5 * least), 1.0 - 0.5 * least)
    return best


def _next(a: float, b: float, c: float, fa: float, fb: float, fc: float) -> float:
    """Return the share of the way from a to b at which to look next."""
    if fb == fc or b == c:
        return 0.5
    xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
    if not (phi * phi < xi and (1.0 - phi) ** 2 < 1.0 - xi):
        return 0.5
    return fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
