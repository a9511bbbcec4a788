"""Mechanisms that release the minimiser of a subproblem.

A mechanism wraps the solve, so that perturbing before, inside or after it share one signature.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from ppadmm.accounting.accountant import log_determinant
from ppadmm.accounting.calibration import Noise
from ppadmm.accounting.events import Charge, NonPrivate, Pure
from ppadmm.accounting.sensitivity import objective_grid, output_grid
from ppadmm.arrays import Array, Rows
from ppadmm.errors import InfeasibleError, InputError, SolverError
from ppadmm.mechanisms.charged_noise import ChargedNoise
from ppadmm.mechanisms.limits import Reach, within
from ppadmm.mechanisms.release import Release
from ppadmm.noise import Key, NoiseSource
from ppadmm.problem.risk import Subproblem
from ppadmm.solvers.base import Solution, Solver, Tolerance, Warm, not_certified


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

    @property
    def radius(self) -> Array:
        """The norm (R,) that no value of an agent exceeds; infinite where nothing rests on it."""

    def release(
        self, sub: Subproblem, solver: Solver, start: Warm, charged: ChargedNoise, place: Place
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

    @property
    def radius(self) -> Array:
        """None."""
        return np.full(self.replicates, np.inf)

    def release(
        self, sub: Subproblem, solver: Solver, start: Warm, charged: ChargedNoise, place: Place
    ) -> tuple[Release, Warm]:
        """Solve and release without noise."""
        charged.charge(self.charges)
        solution = _certified(solver.solve(sub, start, self.beta), self.beta)
        return Release.everyone(solution.point), solution.warm


@dataclass(frozen=True)
class FreeMinimiser:
    """θ = −c/μ, the minimiser without records: post-processing of what others released."""

    replicates: int
    radius: Array

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Nothing."""
        return (Charge(()),) * self.replicates

    @property
    def scales(self) -> dict[str, Array]:
        """No noise."""
        return {"sigma1": np.zeros(self.replicates), "sigma2": np.zeros(self.replicates)}

    def release(
        self, sub: Subproblem, solver: Solver, start: Warm, charged: ChargedNoise, place: Place
    ) -> tuple[Release, Warm]:
        """Solve in closed form; refuses a subproblem with records."""
        if sub.risk.n:
            raise TypeError("FreeMinimiser is for agents without records.")
        return Release.everyone(within(-sub.linear / sub.mu[:, None], self.radius)), start


@dataclass(frozen=True)
class PerturbedMinimiser:
    """θ̂ ≈ argmin F(θ) + bᵀθ to gradient norm ≤ β, then released as θ̂ + N(0, σ₂²I).

    b ~ N(0, σ₁²I). Guarantee: one release costs `noises[k].charge`, under the adjacency that the
    noise was calibrated for, if the noise source is secure. F must be as strongly convex as the
    noise was calibrated for, `reach.mu`. Once it is paid for a release is made, whatever the
    records, the noise and the neighbours' messages are (docs/privacy.md, section 5); whether β can
    be reached is decided here, when the mechanism is made.
    """

    noises: tuple[Noise, ...]
    reach: Reach

    def __post_init__(self) -> None:
        self.reach.require(self.scales["sigma1"])

    @property
    def beta(self) -> Tolerance:
        """The residual of a solve."""
        return self.reach.beta

    @property
    def radius(self) -> Array:
        """R of the run, (R,)."""
        return self.reach.radius

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What one release costs each replicate."""
        return tuple(noise.charge for noise in self.noises)

    def release(
        self, sub: Subproblem, solver: Solver, start: Warm, charged: ChargedNoise, place: Place
    ) -> tuple[Release, Warm]:
        """Pay, draw b, solve, add the second noise and bring the value into the radius.

        The last is post-processing, and so is the same for c: both are public by then.
        """
        self._require_convex(sub)
        sub = self.reach.admissible(sub)
        noise = charged.charge(self.charges)
        b = self._draw_linear(sub, noise, place)
        solution = solver.solve(Subproblem(sub.risk, sub.mu, sub.linear + b), start, self.beta)
        value = self._add_noise(solution.point, sub, noise, place)
        return Release.everyone(within(value, self.radius)), solution.warm

    def restricted(self, rows: Rows) -> "PerturbedMinimiser":
        """Return the mechanism of some of the replicates."""
        reach = replace(self.reach, mu=self.reach.mu[rows], radius=self.radius[rows])
        return PerturbedMinimiser(tuple(self.noises[k] for k in rows), reach)

    @cached_property
    def scales(self) -> dict[str, Array]:
        """σ₁ of the linear term and σ₂ of the output."""
        return {
            "sigma1": np.array([noise.sigma1 for noise in self.noises]),
            "sigma2": np.array([noise.sigma2 for noise in self.noises]),
        }

    def _require_convex(self, sub: Subproblem) -> None:
        least = self.reach.mu
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
        return noise.gaussian(np.zeros(sub.linear.shape), sigma, grid, key)

    def _add_noise(self, point: Array, sub: Subproblem, noise: NoiseSource, place: Place) -> Array:
        sigma = self.scales["sigma2"]
        grid = output_grid(sigma, self.beta, sub.mu, point.shape[1])
        return noise.gaussian(point, sigma, grid, Key(place.agent, place.round, "output"))


def _certified(solution: Solution, beta: float) -> Solution:
    """Refuse what is not certified: only where no record is protected anyway."""
    if not (solution.residual <= beta).all():
        raise SolverError(not_certified(beta, float(np.max(solution.residual))))
    return solution


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

    @property
    def radius(self) -> Array:
        """None."""
        return np.full(len(self.epsilons), np.inf)

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
        self, sub: Subproblem, solver: Solver, start: Warm, charged: ChargedNoise, place: Place
    ) -> tuple[Release, Warm]:
        """Pay, draw b and solve."""
        noise = charged.charge(self.charges)
        key = Key(place.agent, place.round, "linear")
        b = noise.gamma(sub.linear.shape[1], self.rates(sub.mu), key)
        perturbed = Subproblem(sub.risk, sub.mu, sub.linear + b)
        solution = _certified(solver.solve(perturbed, start, self.beta), self.beta)
        return Release.everyone(solution.point), solution.warm
