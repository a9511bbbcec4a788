"""Mechanisms that release the minimiser of a subproblem.

A mechanism wraps the solve, so that perturbing before, inside or after it share one signature.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from ppadmm.errors import InfeasibleError, InputError, SolverError
from ppadmm.mechanisms.desk import Desk
from ppadmm.mechanisms.release import Release
from ppadmm.noise import Key, NoiseSource
from ppadmm.privacy.accountant import log_determinant
from ppadmm.privacy.calibration import Noise
from ppadmm.privacy.events import Charge, NonPrivate, Pure
from ppadmm.privacy.sensitivity import fits_double, objective_grid, output_grid
from ppadmm.problem.risk import Subproblem
from ppadmm.solvers.base import Solver, Warm, require_reachable
from ppadmm.typing import Array, Rows


@dataclass(frozen=True)
class Place:
    """Which agent releases in which round."""

    agent: int
    round: int


class Mechanism(Protocol):
    """Turns a subproblem into a release."""

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What one release costs each replicate; known before any record is read."""

    @property
    def scales(self) -> dict[str, Array]:
        """Names and sizes (R,) of the noises."""

    def release(
        self, sub: Subproblem, solver: Solver, start: Warm, desk: Desk, place: Place
    ) -> tuple[Release, Warm]:
        """Solve and release; the warm start stays with the agent."""


@dataclass(frozen=True)
class ExactMinimiser:
    """θ̃ = argmin F to gradient norm ≤ β, released as it is. Not private."""

    beta: float
    replicates: int

    @property
    def charges(self) -> tuple[Charge, ...]:
        """One `NonPrivate` per replicate."""
        return (Charge((NonPrivate(),)),) * self.replicates

    @property
    def scales(self) -> dict[str, Array]:
        """No noise."""
        return {"sigma1": np.zeros(self.replicates), "sigma2": np.zeros(self.replicates)}

    def release(
        self, sub: Subproblem, solver: Solver, start: Warm, desk: Desk, place: Place
    ) -> tuple[Release, Warm]:
        """Solve and release without noise."""
        desk.pay(self.charges)
        solution = solver.solve(sub, start, self.beta)
        return Release.everyone(solution.point), solution.warm


@dataclass(frozen=True)
class FreeMinimiser:
    """θ = −c/μ, the minimiser without records: post-processing of what others released."""

    replicates: int

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Nothing."""
        return (Charge(()),) * self.replicates

    @property
    def scales(self) -> dict[str, Array]:
        """No noise."""
        return {"sigma1": np.zeros(self.replicates), "sigma2": np.zeros(self.replicates)}

    def release(
        self, sub: Subproblem, solver: Solver, start: Warm, desk: Desk, place: Place
    ) -> tuple[Release, Warm]:
        """Solve in closed form; refuses a subproblem with records."""
        if sub.risk.n:
            raise TypeError("FreeMinimiser is for agents without records.")
        return Release.everyone(-sub.linear / sub.mu[:, None]), start


@dataclass(frozen=True)
class PerturbedMinimiser:
    """θ̂ ≈ argmin F(θ) + bᵀθ to gradient norm ≤ β, then released as θ̂ + N(0, σ₂²I).

    b ~ N(0, σ₁²I). Guarantee: one release costs `noises[k].charge`, under the adjacency that the
    noise was calibrated for, if the solver's certificate holds and the noise source is secure. F
    must be as strongly convex as the noise was calibrated for, `mu[k]`.
    """

    noises: tuple[Noise, ...]
    beta: float
    mu: tuple[float, ...]

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What one release costs each replicate."""
        return tuple(noise.charge for noise in self.noises)

    def release(
        self, sub: Subproblem, solver: Solver, start: Warm, desk: Desk, place: Place
    ) -> tuple[Release, Warm]:
        """Pay, draw b, solve, and add the second noise to the solution.

        What is beyond reach for the public terms alone is refused before it is paid for.
        """
        self._require_convex(sub)
        require_reachable(sub, self.beta)
        noise = desk.pay(self.charges)
        b = self._draw_linear(sub, noise, place)
        perturbed = Subproblem(sub.risk, sub.mu, sub.linear + b)
        require_reachable(perturbed, self.beta)
        solution = solver.solve(perturbed, start, self.beta)
        value = self._add_noise(solution.point, sub, noise, place)
        return Release.everyone(value), solution.warm

    def restricted(self, rows: Rows) -> "PerturbedMinimiser":
        """Return the mechanism of some of the replicates."""
        noises, mu = tuple(self.noises[k] for k in rows), tuple(self.mu[k] for k in rows)
        return PerturbedMinimiser(noises, self.beta, mu)

    @cached_property
    def scales(self) -> dict[str, Array]:
        """σ₁ of the linear term and σ₂ of the output."""
        return {
            "sigma1": np.array([noise.sigma1 for noise in self.noises]),
            "sigma2": np.array([noise.sigma2 for noise in self.noises]),
        }

    def _require_convex(self, sub: Subproblem) -> None:
        least = np.array(self.mu)
        if not (sub.mu >= least * (1.0 - 1e-12)).all():
            raise InputError(
                f"The noise is for subproblems of strong convexity μ ≥ {least.max():.6g}, got "
                f"{sub.mu.min():.6g}; calibrate it for the least μ of all rounds. Nothing was "
                "released."
            )

    def _draw_linear(self, sub: Subproblem, noise: NoiseSource, place: Place) -> Array:
        sigma = self.scales["sigma1"]
        grid = objective_grid(sigma, self.beta, sub.linear.shape[1])
        key = Key(place.agent, place.round, "linear")
        b = noise.gaussian(np.zeros(sub.linear.shape), sigma, grid, key)
        if not fits_double(math.sqrt(np.vecdot(b, b).max()), self.beta):
            raise SolverError(
                f"β = {self.beta:g} is too small for noise of size σ₁ = {sigma.max():.3g} in "
                "double precision; choose a larger β. Nothing was released."
            )
        return b

    def _add_noise(self, point: Array, sub: Subproblem, noise: NoiseSource, place: Place) -> Array:
        sigma = self.scales["sigma2"]
        grid = output_grid(sigma, self.beta, sub.mu, point.shape[1])
        return noise.gaussian(point, sigma, grid, Key(place.agent, place.round, "output"))


@dataclass(frozen=True)
class GammaMinimiser:
    """argmin F(θ) + bᵀθ with density ∝ exp(−r‖b‖) of b, released as it is.

    One release is ε-private with ε = r·s + J: the density of b changes by at most e^{r·s} and the
    Jacobian by e^J, J = q·log(1 + ρκ/q) with κ = c₁/(nμ) (docs/privacy.md, section 10). That holds
    for the *exact* minimiser and for real-valued noise; here the residual is β > 0 and b is
    floating point, so runs with it are never called private.
    """

    epsilons: tuple[float, ...]
    sensitivity: float
    curvature: float
    beta: float
    span: int = 1
    trace: float = 1.0

    @property
    def charges(self) -> tuple[Charge, ...]:
        """A pure ε per replicate."""
        return tuple(Charge((Pure(epsilon),)) for epsilon in self.epsilons)

    @property
    def scales(self) -> dict[str, Array]:
        """The ε of one release."""
        return {"epsilon_per_release": np.array(self.epsilons)}

    def rates(self, mu: Array) -> Array:
        """r = (ε − J)/s, (R,) → (R,)."""
        jacobian = np.array(
            [log_determinant(self.curvature / m, self.span, self.trace) for m in mu]
        )
        room = np.array(self.epsilons) - jacobian
        if not (room > 0.0).all():
            raise InfeasibleError(
                f"ε = {min(self.epsilons):.3g} per release is below the curvature term "
                f"{jacobian.max():.3g}; choose a larger η, fewer "
                "rounds or a larger ε."
            )
        return np.asarray(room / self.sensitivity)

    def release(
        self, sub: Subproblem, solver: Solver, start: Warm, desk: Desk, place: Place
    ) -> tuple[Release, Warm]:
        """Pay, draw b and solve."""
        noise = desk.pay(self.charges)
        key = Key(place.agent, place.round, "linear")
        b = noise.gamma(sub.linear.shape[1], self.rates(sub.mu), key)
        solution = solver.solve(Subproblem(sub.risk, sub.mu, sub.linear + b), start, self.beta)
        return Release.everyone(solution.point), solution.warm
