"""What an agent looks at before it decides whether to speak, and how far one record can move it.

All are computed from the *unperturbed* subproblem: a fresh b is drawn only after the test passed,
so tests and releases are an ordinary adaptive composition.

They are computed in floating point. Δ has room for the rounding of sums over records, which grows
with n, and a relative `MARGIN` for the rest, which grows with the public θ and c: that is bounded
before every test, and a test for which the room is too small is not made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from ppadmm.errors import SolverError
from ppadmm.privacy.calibration import Step
from ppadmm.privacy.sensitivity import MARGIN
from ppadmm.problem.risk import Subproblem, accumulated, summing
from ppadmm.registry import Registry
from ppadmm.solvers.base import Solver, Warm
from ppadmm.typing import Array


class Statistic(Protocol):
    """A number per replicate with a known sensitivity."""

    @property
    def name(self) -> str:
        """The name a user types."""

    def sensitivity(self, step: Step, n: int, lipschitz: float, mu: Array) -> Array:
        """Return Δ, (R,), with room for rounding."""

    def unit(self, sigma1: Array, mu: Array, d: int) -> Array:
        """Return what noise of size σ₁ alone does to the statistic, roughly: (R,)."""

    def measure(
        self, sub: Subproblem, own: Array, solver: Solver, start: Warm, beta: float
    ) -> tuple[Array, Warm]:
        """Return the statistic (A,) at the last released values `own` (A, d), and a warm start."""


@dataclass(frozen=True)
class GradientNorm:
    """‖∇F(θᵢ)‖: how far the last release is from solving today's subproblem. Δ = s, no solve.

    The rounded norm is off by the error of ∇F, and by γ_{d+4} of itself.
    """

    name: ClassVar[str] = "gradient"

    def sensitivity(self, step: Step, n: int, lipschitz: float, mu: Array) -> Array:
        """Δ = s, and twice the rounding γ_n·G of a sum over records."""
        rounded = 2.0 * lipschitz * summing(n, step.span)
        return np.full_like(mu, (step.sensitivity + rounded) * (1.0 + MARGIN))

    def unit(self, sigma1: Array, mu: Array, d: int) -> Array:
        """σ₁√d, the size of the b that the last release carries."""
        return np.asarray(sigma1 * np.sqrt(d))

    def measure(
        self, sub: Subproblem, own: Array, solver: Solver, start: Warm, beta: float
    ) -> tuple[Array, Warm]:
        """One pass over the records; the next solve may start where the gradient is known now."""
        public = sub.rounding(own) - sub.risk.rounding_terms[0]
        error = public + accumulated(own.shape[1] + 4) * _steepest(sub, own)
        _require_room(self.name, error, sub.risk.loss.lipschitz / sub.risk.n)
        data = sub.risk.gradient(own)
        gradient = sub.gradient(own, data)
        return np.sqrt(np.vecdot(gradient, gradient)), Warm(own, data, start.memory)


@dataclass(frozen=True)
class Movement:
    """‖candidate − θᵢ‖: how far today's solution is from the last release. Δ = (s+2β)/μ.

    The candidate's own rounding is part of β; the rounded norm is off by γ_{d+4} of itself.
    """

    name: ClassVar[str] = "movement"

    def sensitivity(self, step: Step, n: int, lipschitz: float, mu: Array) -> Array:
        """Δ = s/μ + 2β/μ."""
        return np.asarray((step.sensitivity / mu + step.spread) * (1.0 + MARGIN))

    def unit(self, sigma1: Array, mu: Array, d: int) -> Array:
        """σ₁√d/μ, the most that such a b can move the solution, roughly."""
        return np.asarray(sigma1 * np.sqrt(d) / mu)

    def measure(
        self, sub: Subproblem, own: Array, solver: Solver, start: Warm, beta: float
    ) -> tuple[Array, Warm]:
        """One solve without noise."""
        error = accumulated(own.shape[1] + 4) * (_steepest(sub, own) + beta)
        _require_room(self.name, error, sub.risk.loss.lipschitz / sub.risk.n)
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

    def sensitivity(self, step: Step, n: int, lipschitz: float, mu: Array) -> Array:
        """Add the record's own term at both points and the candidate's move."""
        record = self.clip * step.sensitivity / lipschitz
        moved = lipschitz * (step.sensitivity / mu + step.spread)
        rounded = 4.0 * self.clip * summing(n, step.span)
        return np.asarray((record + moved + rounded) * (1.0 + MARGIN))

    def unit(self, sigma1: Array, mu: Array, d: int) -> Array:
        """10⁻³, the paper's threshold."""
        return np.full_like(mu, 1e-3)

    def measure(
        self, sub: Subproblem, own: Array, solver: Solver, start: Warm, beta: float
    ) -> tuple[Array, Warm]:
        """One solve without noise and two evaluations."""
        G = sub.risk.loss.lipschitz
        sizes = 2.0 * np.sqrt(np.vecdot(own, own)) + (_steepest(sub, own) + beta) / sub.mu
        error = G * accumulated(own.shape[1] + 8) * sizes
        _require_room(self.name, error, (self.clip + G * G / sub.mu) / sub.risk.n)
        solution = solver.solve(sub, start, beta)
        before = sub.risk.clipped_value(own, self.clip)
        return before - sub.risk.clipped_value(solution.point, self.clip), solution.warm


def _steepest(sub: Subproblem, own: Array) -> Array:
    """Bound ‖∇F(θᵢ)‖ whatever the records: G + ‖μθᵢ + c‖, (A,)."""
    public = sub.mu[:, None] * own + sub.linear
    return np.asarray(sub.risk.loss.lipschitz + np.sqrt(np.vecdot(public, public)))


def _require_room(name: str, error: Array, least: Array | float) -> None:
    """Raise unless a statistic may be off by `error` (A,), whose Δ is at least `least`.

    Two data sets are off by twice that, and half of the margin is for the noise's grid. All here
    is public, so that refusing tells nothing.
    """
    room = MARGIN * np.asarray(least) / 4.0
    if not (error <= room).all():
        raise SolverError(
            f"The statistic {name!r} cannot be tested: rounding may move it by "
            f"{np.max(error):.3g}, and its noise covers {np.min(room):.3g}; what neighbours sent "
            "is too large for double precision. Nothing was released."
        )


STATISTICS: Registry[Callable[[], Statistic]] = Registry(
    "statistic", (GradientNorm, Movement, LossDecrease)
)
"""A user's own gets in with `STATISTICS.add` (docs/howto/add-a-statistic.md)."""


def statistic_named(name: str, clip: float) -> Statistic:
    """Return the statistic called `name`; `clip` is C of the loss."""
    return LossDecrease(clip) if name == LossDecrease.name else STATISTICS[name]()
