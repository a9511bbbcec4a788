"""The method whose end is proven: accelerated gradient steps, begun anew after every epoch.

An epoch of N = ⌈4√(L/μ)⌉ steps, L = c₁ + μ, halves the distance e to the minimiser θ̃ but for
rounding. If every step errs by at most ρ, as an error of ∇F,

    e ≤ e₀/2 + GROWTH/2 · ρ/μ   after an epoch,   and no point is farther than e₀ + GROWTH·ρ/μ,

so e ≤ 2⁻ʲr + GROWTH·ρ/μ after j of them from θ = 0, where r ≥ ‖θ̃‖ (docs/privacy.md, section 5).
Everything but ρ is public, and ρ has a public bound, so how long it takes is known beforehand.
"""

import math

import numpy as np

from ppadmm.arrays import Array, Rows
from ppadmm.problem.risk import UNIT_ROUNDOFF, Subproblem
from ppadmm.solvers.base import Solution, Warm, certified, stacked

GROWTH = 20.0
ROUNDING_SHARE = 0.7
"""The most of a tolerance that GROWTH·ρ may take: epochs do the rest."""


def finish(sub: Subproblem, tolerance: float) -> Solution:
    """Return a point within tolerance/μ of the minimiser, after a public number of steps.

    Guarantee: if GROWTH times the rounding of a step is at most ROUNDING_SHARE·tolerance wherever
    ‖θ‖ ≤ 3r, r = (G+‖c‖)/μ. Without that it ends all the same, after as many steps.
    """
    before, c1 = sub.risk.passes, sub.risk.loss.smoothness
    size = np.sqrt(np.vecdot(sub.linear, sub.linear))
    radius = (sub.risk.loss.lipschitz + size) / sub.mu
    rows = [sub.restricted(np.array([k])) for k in range(len(size))]
    found = stacked([_row(row, r, tolerance) for row, r in zip(rows, radius, strict=True)])
    left = sub.mu * radius * 0.5 ** epochs(sub.mu, radius, tolerance)
    bound = left + GROWTH * rounding_within(sub.rounding_terms, c1, sub.mu, radius)
    return Solution(found.warm, np.minimum(found.residual, bound), sub.risk.passes - before)


def _row(sub: Subproblem, radius: float, tolerance: float) -> Solution:
    """Descend one replicate; whoever calls counts the passes."""
    steepest = float(sub.risk.loss.smoothness + sub.mu[0])
    inner = steps_of_epoch(sub.mu, sub.risk.loss.smoothness)[0]
    theta = np.zeros_like(sub.linear)
    for _ in range(int(epochs(sub.mu, np.array([radius]), tolerance)[0])):
        last, ahead = theta, theta
        for k in range(1, inner + 1):
            data = sub.risk.gradient(ahead)
            gradient = sub.gradient(ahead, data)
            if (found := certified(sub, ahead, gradient)) <= tolerance:
                return Solution(Warm(ahead, data), found, 0)
            theta = ahead - gradient / steepest
            # t_k = (k+1)/2, so (t_k − 1)/t_{k+1} = (k−1)/(k+2).
            ahead, last = theta + (k - 1) / (k + 2) * (theta - last), theta
    data = sub.risk.gradient(theta)
    return Solution(Warm(theta, data), certified(sub, theta, sub.gradient(theta, data)), 0)


def epochs(mu: Array, radius: Array, tolerance: float) -> Rows:
    """Return after how many epochs 2⁻ʲ·μr ≤ (1 − ROUNDING_SHARE)·tolerance; all (R,).

    None where 0 is near enough: its distance is at most r.
    """
    share = mu * radius / ((1.0 - ROUNDING_SHARE) * tolerance)
    needed = np.ceil(np.log2(np.maximum(share, 1.0)))
    return np.asarray(np.where(mu * radius <= tolerance, 0, needed), dtype=np.int64)


def steps_of_epoch(mu: Array, smoothness: float) -> list[int]:
    """Return N = ⌈4√(L/μ)⌉ for each μ (R,)."""
    return [math.ceil(4.0 * math.sqrt((smoothness + m) / m)) for m in mu]


def rounding_within(
    terms: tuple[Array, Array], smoothness: float, mu: Array, radius: Array
) -> Array:
    """Bound ρ, the rounding of a step as an error of ∇F, for ‖θ̃‖ ≤ `radius`; (R,).

    Points have ‖θ‖ ≤ 3r: a + b·3r for the gradient with `terms` a and b. What is added up in a step
    is at most 4r in size, a rounding of the point that is gone on from counts 2L times: 48uLr.
    """
    fixed, growing = terms
    added = 48.0 * UNIT_ROUNDOFF * (smoothness + mu)
    return np.asarray(fixed + (3.0 * growing + added) * radius)
