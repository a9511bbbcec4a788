"""The gradient of margin losses in one sweep over the records, compiled by numba.

Imported only through `kernels.compiled`: importing numba takes a fifth of a second, and it may not
be installed. Records come in blocks (see `packed.Packed`): the margins of a
block, the slopes ℓ' and the transposed product follow one another while the block is in the cache.

Sums may be taken in any order here (`reassoc`), which the rounding bound of `MarginRisk` covers.

The solver's steps are in this file, too: numba keeps machine code on disk and makes it anew when
the file changes that a function is in, not when one does that it calls. No compiled function may
call one of another file.
"""

import math
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numba.extending import overload

F = TypeVar("F")

LANES = 4
"""How many sums are kept of every code, to be added up at the end."""

_ANY_ORDER = {"reassoc", "contract", "nsz"}
_LOG2E = 1.0 / math.log(2.0)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


def _jit(function: F, flags: Any) -> F:
    options = {"nogil": True, "error_model": "numpy", "fastmath": flags}
    try:
        compiled: F = njit(function, cache=True, **options)
    except RuntimeError:  # no folder to keep the machine code in: compile once per process
        compiled = njit(function, **options)
    return compiled


def exact(function: F) -> F:
    """Compile; only a·b + c may be fused, which rounds once less."""
    return _jit(function, {"contract"})


def any_order(function: F) -> F:
    """Compile; sums may be taken in any order, which lets them run side by side."""
    return _jit(function, _ANY_ORDER)


@exact
def logistic(m: Any, bits: Any) -> None:
    """m ← −1/(1 + eᵐ), in place, with a relative error below 5 units.

    eᵐ = 2ᵏ·eʳ with |r| ≤ ½ log 2 and the Taylor polynomial of degree 13, whose remainder is below
    10⁻¹⁷; 2ᵏ is put together from its bits.
    """
    power = bits.view(np.float64)
    for i in range(m.shape[0]):
        x = m[i]
        x = 80.0 if x > 80.0 else x
        x = -700.0 if x < -700.0 else x
        k = math.floor(x * _LOG2E + 0.5)
        bits[i] = (np.int64(k) + 1023) << 52
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        m[i] = p * r + 1.0
    for i in range(m.shape[0]):
        m[i] = -1.0 / (1.0 + m[i] * power[i])


@exact
def logistic_single(m: Any, bits: Any) -> None:
    """Do as `logistic` in single precision, to about 10⁻⁷; the polynomial has degree 7."""
    power = bits.view(np.float32)
    one, half, log2e = np.float32(1.0), np.float32(0.5), np.float32(_LOG2E)
    high, low = np.float32(_LN2_HIGH), np.float32(_LN2_LOW)
    c7, c6, c5 = np.float32(1 / 5040), np.float32(1 / 720), np.float32(1 / 120)
    c4, c3 = np.float32(1 / 24), np.float32(1 / 6)
    for i in range(m.shape[0]):
        x = min(max(m[i], np.float32(-80.0)), np.float32(80.0))
        k = np.float32(math.floor(x * log2e + half))
        bits[i] = (np.int32(k) + np.int32(127)) << np.int32(23)
        r = (x - k * high) - k * low
        p = ((((c7 * r + c6) * r + c5) * r + c4) * r + c3) * r + half
        m[i] = (p * r + one) * r + one
    for i in range(m.shape[0]):
        m[i] = -one / (one + m[i] * power[i])


@exact
def huber(m: Any, width: float) -> None:
    """m ← −clip((1 + h − m)/(2h), 0, 1), in place, with h the `width`."""
    for i in range(m.shape[0]):
        x = (1.0 + width - m[i]) / (2.0 * width)
        x = 0.0 if x < 0.0 else x
        m[i] = -(1.0 if x > 1.0 else x)


@any_order
def add_products(x: Any, theta: Any, m: Any) -> None:
    """m += xᵀθ; x (p, B), θ (p,), m (B,). Four columns at a time spare reads of m."""
    p = x.shape[0]
    j = 0
    while j + 4 <= p:
        a, b, c, e = theta[j], theta[j + 1], theta[j + 2], theta[j + 3]
        for i in range(m.shape[0]):
            m[i] += (x[j, i] * a + x[j + 1, i] * b) + (x[j + 2, i] * c + x[j + 3, i] * e)
        j += 4
    while j < p:
        a = theta[j]
        for i in range(m.shape[0]):
            m[i] += x[j, i] * a
        j += 1


@any_order
def add_transposed(x: Any, s: Any, g: Any) -> None:
    """g += x·s; x (p, B), s (B,), g (p,)."""
    p, zero = x.shape[0], x.dtype.type(0)
    j = 0
    while j + 4 <= p:
        a, b, c, e = zero, zero, zero, zero
        for i in range(s.shape[0]):
            t = s[i]
            a += x[j, i] * t
            b += x[j + 1, i] * t
            c += x[j + 2, i] * t
            e += x[j + 3, i] * t
        g[j] += a
        g[j + 1] += b
        g[j + 2] += c
        g[j + 3] += e
        j += 4
    while j < p:
        a = zero
        for i in range(s.shape[0]):
            a += x[j, i] * s[i]
        g[j] += a
        j += 1


@any_order
def add_chosen(codes: Any, table: Any, m: Any) -> None:
    """m += Σ_g table[codes_g]; codes (G, B). Several codes at a time spare reads of m."""
    g = 0
    while g + 4 <= codes.shape[0]:
        a, b, c, e = codes[g], codes[g + 1], codes[g + 2], codes[g + 3]
        for i in range(m.shape[0]):
            m[i] += (table[a[i]] + table[b[i]]) + (table[c[i]] + table[e[i]])
        g += 4
    while g + 2 <= codes.shape[0]:
        a, b = codes[g], codes[g + 1]
        for i in range(m.shape[0]):
            m[i] += table[a[i]] + table[b[i]]
        g += 2
    while g < codes.shape[0]:
        for i in range(m.shape[0]):
            m[i] += table[codes[g, i]]
        g += 1


@any_order
def add_counted(codes: Any, s: Any, counts: Any) -> None:
    """counts[codes_g] += s, summed over its last axis: in turn, so that none waits for the last."""
    g = 0
    while g + 4 <= codes.shape[0]:
        a, b, c, e = codes[g], codes[g + 1], codes[g + 2], codes[g + 3]
        for i in range(0, s.shape[0], LANES):
            for l in range(LANES):
                t = s[i + l]
                counts[a[i + l], l] += t
                counts[b[i + l], l] += t
                counts[c[i + l], l] += t
                counts[e[i + l], l] += t
        g += 4
    while g + 2 <= codes.shape[0]:
        a, b = codes[g], codes[g + 1]
        for i in range(0, s.shape[0], LANES):
            for l in range(LANES):
                t = s[i + l]
                counts[a[i + l], l] += t
                counts[b[i + l], l] += t
        g += 2
    while g < codes.shape[0]:
        for i in range(0, s.shape[0], LANES):
            for l in range(LANES):
                counts[codes[g, i + l], l] += s[i + l]
        g += 1


@any_order
def added_up(counts: Any) -> Any:
    """Σ over the last axis, (E, LANES) → (E,)."""
    total = np.empty(counts.shape[0])
    for c in range(counts.shape[0]):
        total[c] = (counts[c, 0] + counts[c, 1]) + (counts[c, 2] + counts[c, 3])
    return total


@any_order
def times(m: Any, scale: Any) -> None:
    """m ← scale·m, elementwise."""
    for i in range(m.shape[0]):
        m[i] *= scale[i]


@any_order
def dot(a: Any, b: Any) -> float:
    """a·b."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@any_order
def add_multiple(x: Any, a: float, y: Any) -> None:
    """y += a·x."""
    for i in range(x.shape[0]):
        y[i] += a * x[i]


@any_order
def add_curves(knots: Any, weights: Any, point: Any, m: Any) -> None:
    """m += Σ_c w₀·θ_k + w₁·θ_{k+1} with k = knots_c; knots (C, B), weights (2C, B)."""
    for c in range(knots.shape[0]):
        first, low, high = knots[c], weights[2 * c], weights[2 * c + 1]
        for i in range(m.shape[0]):
            m[i] += low[i] * point[first[i]] + high[i] * point[first[i] + 1]


@any_order
def add_bends(knots: Any, weights: Any, s: Any, bends: Any) -> None:
    """Add the transpose of `add_curves` to `bends` (d + 1, LANES), its last axis in turn."""
    for c in range(knots.shape[0]):
        first, low, high = knots[c], weights[2 * c], weights[2 * c + 1]
        for i in range(0, s.shape[0], LANES):
            for l in range(LANES):
                k, t = first[i + l], s[i + l]
                bends[k, l] += low[i + l] * t
                bends[k + 1, l] += high[i + l] * t


@exact
def filled(point: Any, tables: Any, table: Any) -> None:
    """table += what each code adds to a margin (see `packed.Tables`)."""
    parts, features, values = tables[0], tables[1], tables[2]
    for k in range(parts.shape[0]):
        start, size, first, feature = parts[k]
        part, value = table[start : start + size], values[first : first + size]
        if feature >= 0:
            add_multiple(value, point[feature], part)
        else:
            chosen = features[first : first + size]
            for c in range(size):
                part[c] += value[c] * point[chosen[c]]


@exact
def emptied(counts: Any, tables: Any, g: Any) -> None:
    """g += the transpose of `filled`, applied to the counts."""
    parts, features, values = tables[0], tables[1], tables[2]
    for k in range(parts.shape[0]):
        start, size, first, feature = parts[k]
        part, value = counts[start : start + size], values[first : first + size]
        if feature >= 0:
            g[feature] += dot(part, value)
        else:
            chosen = features[first : first + size]
            for c in range(size):
                g[chosen[c]] += value[c] * part[c]


def _slopes(m: Any, bits: Any, huber_width: float) -> None:
    """m ← ℓ'(m), in place, in the precision of m."""


@overload(_slopes, jit_options={"error_model": "numpy"})  # type: ignore[untyped-decorator]
def _slopes_of(m: Any, bits: Any, huber_width: float) -> Any:
    sigmoid = logistic_single if m.dtype.bitwidth == 32 else logistic

    def slopes(m: Any, bits: Any, huber_width: float) -> None:
        if huber_width > 0.0:
            huber(m, huber_width)
        else:
            sigmoid(m, bits)

    return slopes


@exact
def gradient(records: Any, theta: Any, huber_width: float) -> Any:
    """Σ ℓ'(θᵀv)·v over the records; (d,) → (d,), in the precision that the records have.

    ℓ is the Huber hinge of that width, or logistic for width 0. Sums over blocks are in double
    precision in any case.
    """
    numeric, codes, scale, knots, shares, whole, places, tables = records
    entries = tables[3]
    point = np.zeros(theta.shape[0] + 1, scale.dtype)  # ends with the 0 of what is missing
    point[:-1] = theta
    table = np.zeros(entries, scale.dtype)
    filled(point, tables, table)
    weights = point[places]
    sums = np.zeros(places.shape[0])
    counts = np.zeros((entries, LANES))
    bends = np.zeros((point.shape[0], LANES))
    m = np.empty(scale.shape[1], scale.dtype)
    bits = np.empty(scale.shape[1], whole.dtype)
    for k in range(scale.shape[0]):
        m[:] = 0
        add_products(numeric[k], weights, m)
        add_chosen(codes[k], table, m)
        add_curves(knots[k], shares[k], point, m)
        times(m, scale[k])
        _slopes(m, bits, huber_width)
        times(m, scale[k])
        add_transposed(numeric[k], m, sums)
        add_counted(codes[k], m, counts)
        add_bends(knots[k], shares[k], m, bends)
    g = added_up(bends)
    for j in range(places.shape[0]):
        g[places[j]] += sums[j]
    emptied(added_up(counts), tables, g)
    return g[:-1]


# The descent on packed records: no Python between two passes (see `ppadmm.solvers.each`)


@any_order
def product(W: Any, x: Any) -> Any:
    """W·x for symmetric W (d, d)."""
    result = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            result[j] += W[i, j] * x[i]
    return result


@any_order
def correct(W: Any, s: Any, y: Any, tiny: float) -> None:
    """Do as `single._correct`: W ← W + usᵀ + suᵀ."""
    sy = dot(s, y)
    if not sy > tiny:
        return
    Wy = product(W, y)
    weight = 0.5 * (1.0 + dot(y, Wy) / sy)
    u = (weight * s - Wy) / sy
    for i in range(s.shape[0]):
        for j in range(s.shape[0]):
            W[i, j] += u[i] * s[j] + s[i] * u[j]


@any_order
def inverse(matrix: Any, mu: float) -> Any:
    """(matrix + μI)⁻¹ for a symmetric matrix (d, d) and μ > 0, one pivot after the other."""
    A = matrix.copy()
    d = A.shape[0]
    for k in range(d):
        A[k, k] += mu
    for k in range(d):
        pivot = 1.0 / A[k, k]
        row = A[k] * pivot
        row[k] = pivot
        for i in range(d):
            if i != k:
                factor = A[i, k]
                A[i, k] = 0.0
                for j in range(d):
                    A[i, j] -= factor * row[j]
        A[k] = row
    for i in range(d):
        for j in range(i):
            A[i, j] = A[j, i] = 0.5 * (A[i, j] + A[j, i])
    return A


@exact
def advance(records: Any, at: Any, terms: Any, W: Any, goal: Any, limits: Any) -> Any:
    """Step until ‖∇F‖ + a + b‖θ‖ ≤ tolerance, a and b being `bound`, or the steps are over.

    θ, ∇f(θ) = `data` and W are changed in place. While ‖∇F‖ > `rough` + `blur`·‖θ‖ gradients are
    evaluated in single precision. Returns the number of passes, and whether the last was in double
    precision. The caller certifies the point.

    `records` are (packed in double precision, in single, n, width of the Huber hinge), `at` is
    (θ, ∇f(θ)), `terms` (linear, μ), `goal` (bound, tolerance, rough, blur), and `limits` (steps,
    backtracks, tiny).
    """
    double, single, n, width = records
    theta, data = at
    linear, mu = terms
    bound, tolerance, rough, blur = goal
    steps, backtracks, tiny = limits
    F = data + mu * theta + linear
    passes, exact_here = 0, True
    for _ in range(steps):
        norm, size = np.sqrt(dot(F, F)), np.sqrt(dot(theta, theta))
        if exact_here and norm + bound[0] + bound[1] * size <= tolerance:
            break
        exact_here = not norm > rough + blur * size
        p = -product(W, F)
        slope0, alpha = -dot(F, p), 1.0
        new, new_data, new_F = theta, data, F
        for _ in range(backtracks):
            new = theta + alpha * p
            if exact_here:
                new_data = gradient(double, new, width) / n
            else:
                new_data = gradient(single, new, width) / n
            passes += 1
            new_F = new_data + mu * new + linear
            slope = dot(new_F, p)
            if slope <= 0.5 * slope0:
                break
            alpha *= min(max(slope0 / (slope0 + slope), 0.1), 0.9)
        correct(W, new - theta, new_F - F, tiny)
        theta[:], data[:], F = new, new_data, new_F
    return passes, exact_here
