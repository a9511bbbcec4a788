"""The public constants of a perturbed step, from declared bounds and never from records."""

import math

import numpy as np

from ppadmm import checks
from ppadmm.accounting.calibration import StepConstants
from ppadmm.arrays import Array
from ppadmm.noise import FINENESS, total_variation

ADJACENCIES = ("replace-one", "zero-out")
UNIT_ROUNDOFF = 2.0**-53
MARGIN = 2.0**-10
"""Relative room in β and in Δ₂ for rounding noise and values to their grids."""
TAIL = 2.0**-91
"""The probability that ‖b‖ is beyond what a solve is sure to end for; charged like a distance."""


def perturbed_step(
    *,
    lipschitz: float,
    smoothness: float,
    n: int,
    d: int,
    mu: float,
    beta: float,
    adjacency: str = "replace-one",
    span: int = 1,
    trace: float = 1.0,
    square: float = 1.0,
) -> StepConstants:
    """Return s, κ, Δ₂ and the sampler's distance for one step of an agent with n records.

    Replacing a record moves the gradient by at most s = 2G/n and touches two records' losses;
    zeroing out its loss, G/n and one. κ = c₁/(nμ) either way. `d` counts parameters. Two points
    with residual ≤ β for the same noise lie within Δ₂ = 2β/μ of each other, here with room for the
    two grids.
    """
    checks.one_of("adjacency", adjacency, ADJACENCIES)
    checks.positive("strong convexity μ", mu)
    replaced = adjacency == "replace-one"
    return StepConstants(
        sensitivity=(2.0 if replaced else 1.0) * lipschitz / n,
        kappa=smoothness / (n * mu),
        records=2 if replaced else 1,
        spread=2.0 * beta * (1.0 + MARGIN) ** 2 / mu,
        distance=sampler_distance(d),
        span=span,
        trace=trace,
        square=square,
    )


def sampler_distance(d: int) -> float:
    """Bound the total variation between a step as it is made and as proven.

    Both noises are sampled on a grid, and b may be so large that a solve does not reach β.
    """
    return 2.0 * total_variation(d, 1.0, FINENESS) + TAIL


def objective_grid(sigma: Array, beta: float | Array, d: int) -> Array:
    """Return grids (R,) for b: fine against σ₁ (R,), and √d·g/2 within half the margin of β.

    The other half is for writing b as doubles (`ppadmm.mechanisms.limits`).
    """
    return np.minimum(FINENESS * sigma, MARGIN * beta / math.sqrt(d))


def output_grid(sigma: Array, beta: float | Array, mu: Array, d: int) -> Array:
    """Return grids (R,) for the release: fine against σ₂, and √d·g within the margin of Δ₂."""
    return np.minimum(FINENESS * sigma, 2.0 * MARGIN * beta / (mu * math.sqrt(d)))
