"""What an agent looks at before it decides whether to speak, and how far one record can move it.

All are computed from the *unperturbed* subproblem: a fresh b is drawn only after the test passed,
so tests and releases are an ordinary adaptive composition.

They are computed in floating point. Δ has room for what rounding does to a statistic on two data
sets, wherever θ and c may lie (`Reach`), and a relative `MARGIN` for the noise's grid.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from ppadmm.accounting.calibration import StepConstants
from ppadmm.accounting.sensitivity import MARGIN, UNIT_ROUNDOFF
from ppadmm.arrays import Array
from ppadmm.mechanisms.limits import Reach, data_rounding
from ppadmm.problem.risk import Subproblem, accumulated, summing
from ppadmm.registry import Registry
from ppadmm.solvers.base import Solver, Tolerance, Warm


class Statistic(Protocol):
    """A number per replicate with a known sensitivity."""

    @property
    def name(self) -> str:
        """The name a user types."""

    def sensitivity(self, step: StepConstants, reach: Reach) -> Array:
        """Return Δ, (R,), with room for rounding wherever values may lie."""

    def unit(self, sigma1: Array, mu: Array, d: int) -> Array:
        """Return what noise of size σ₁ alone does to the statistic, roughly: (R,)."""

    def measure(
        self, sub: Subproblem, own: Array, solver: Solver, start: Warm, beta: Tolerance
    ) -> tuple[Array, Warm]:
        """Return the statistic (A,) at the last released values `own` (A, d), and a warm start."""


@dataclass(frozen=True)
class GradientNorm:
    """‖∇F(θᵢ)‖: how far the last release is from solving today's subproblem. Δ = s, no solve.

    The rounded norm is off by the error of ∇F, and by γ_{d+4} of itself.
    """

    name: ClassVar[str] = "gradient"

    def sensitivity(self, step: StepConstants, reach: Reach) -> Array:
        """Δ = s, and twice the rounding of ∇F and of its norm."""
        loss, d = reach.loss, reach.parameters
        summed = loss.lipschitz * summing(reach.n, loss.span)
        public = 8.0 * UNIT_ROUNDOFF * (1.0 + 2.0 * reach.mu * reach.radius)
        error = summed + public + data_rounding(loss, d) * reach.radius
        error = error + accumulated(d + 4) * _steepest(reach)
        return np.asarray((step.sensitivity + 2.0 * error) * (1.0 + MARGIN))

    def unit(self, sigma1: Array, mu: Array, d: int) -> Array:
        """σ₁√d, the size of the b that the last release carries."""
        return np.asarray(sigma1 * np.sqrt(d))

    def measure(
        self, sub: Subproblem, own: Array, solver: Solver, start: Warm, beta: Tolerance
    ) -> tuple[Array, Warm]:
        """One pass over the records; the next solve may start where the gradient is known now."""
        data = sub.risk.gradient(own)
        gradient = sub.gradient(own, data)
        return np.sqrt(np.vecdot(gradient, gradient)), Warm(own, data, start.memory)


@dataclass(frozen=True)
class Movement:
    """‖candidate − θᵢ‖: how far today's solution is from the last release. Δ = (s+2β)/μ.

    The candidate's own rounding is part of β; the rounded norm is off by γ_{d+4} of itself.
    """

    name: ClassVar[str] = "movement"

    def sensitivity(self, step: StepConstants, reach: Reach) -> Array:
        """Δ = s/μ + 2β/μ, and twice the rounding of a norm."""
        longest = (_steepest(reach) + reach.beta) / reach.mu
        error = accumulated(reach.parameters + 4) * longest
        moved = step.sensitivity / reach.mu + step.spread
        return np.asarray((moved + 2.0 * error) * (1.0 + MARGIN))

    def unit(self, sigma1: Array, mu: Array, d: int) -> Array:
        """σ₁√d/μ, the most that such a b can move the solution, roughly."""
        return np.asarray(sigma1 * np.sqrt(d) / mu)

    def measure(
        self, sub: Subproblem, own: Array, solver: Solver, start: Warm, beta: Tolerance
    ) -> tuple[Array, Warm]:
        """One solve without noise."""
        solution = solver.solve(sub, start, beta)
        change = solution.point - own
        return np.sqrt(np.vecdot(change, change)), solution.warm


@dataclass(frozen=True)
class LossDecrease:
    """Mean of min(ℓ, C) at θᵢ minus at the candidate. Δ = 2C/n + G(s+2β)/μ (C/n if zeroed out).

    A mean is off by γ_n·C for the sum and G·γ_{d+8}‖θ‖ for the margins.
    """

    clip: float = 2.0
    name: ClassVar[str] = "loss"

    def sensitivity(self, step: StepConstants, reach: Reach) -> Array:
        """Add the record's own term at both points, the candidate's move and the rounding."""
        G = reach.loss.lipschitz
        record = self.clip * step.sensitivity / G
        moved = G * (step.sensitivity / reach.mu + step.spread)
        sizes = 2.0 * reach.radius + (_steepest(reach) + reach.beta) / reach.mu
        margins = G * accumulated(reach.parameters + 8) * sizes
        error = 2.0 * self.clip * summing(reach.n, step.span) + margins
        return np.asarray((record + moved + 2.0 * error) * (1.0 + MARGIN))

    def unit(self, sigma1: Array, mu: Array, d: int) -> Array:
        """10⁻³, the paper's threshold."""
        return np.full_like(mu, 1e-3)

    def measure(
        self, sub: Subproblem, own: Array, solver: Solver, start: Warm, beta: Tolerance
    ) -> tuple[Array, Warm]:
        """One solve without noise and two evaluations."""
        solution = solver.solve(sub, start, beta)
        before = sub.risk.clipped_value(own, self.clip)
        return before - sub.risk.clipped_value(solution.point, self.clip), solution.warm


def _steepest(reach: Reach) -> Array:
    """Bound ‖∇F(θᵢ)‖ whatever the records: G + μR + μR, (R,)."""
    return np.asarray(reach.loss.lipschitz + 2.0 * reach.mu * reach.radius)


STATISTICS: Registry[Callable[[], Statistic]] = Registry(
    "statistic", (GradientNorm, Movement, LossDecrease)
)
"""A user's own gets in with `STATISTICS.add` (docs/howto/add-a-statistic.md)."""


def statistic_named(name: str, clip: float) -> Statistic:
    """Return the statistic called `name`; `clip` is C of the loss."""
    return LossDecrease(clip) if name == LossDecrease.name else STATISTICS[name]()
