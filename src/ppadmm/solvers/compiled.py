"""The steps of `each` on packed records, compiled by numba: no Python between two passes.

Imported only where the compiled kernel is in use (see `ppadmm.problem.kernels`).
"""

from typing import Any

import numpy as np

from ppadmm.problem.compiled import any_order, dot, exact, gradient


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


@exact
def advance(
    double: Any, single: Any, n: int, width: float, theta: Any, data: Any, linear: Any, mu: float,
    W: Any, bound: Any, tolerance: float, rough: float, steps: int, backtracks: int, tiny: float,
) -> Any:  # fmt: skip
    """Step until ‖∇F‖ + a + b‖θ‖ ≤ tolerance, a and b being `bound`, or the steps are over.

    θ, ∇f(θ) = `data` and W are changed in place. While ‖∇F‖ > `rough` gradients are evaluated in
    single precision. Returns the number of passes, and whether the last was in double precision.
    The caller certifies the point.
    """
    F = data + mu * theta + linear
    passes, exact_here = 0, True
    for _ in range(steps):
        norm = np.sqrt(dot(F, F))
        if exact_here and norm + bound[0] + bound[1] * np.sqrt(dot(theta, theta)) <= tolerance:
            break
        exact_here = not norm > rough
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
