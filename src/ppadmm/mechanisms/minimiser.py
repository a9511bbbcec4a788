"""Mechanisms that release the minimiser of a subproblem.

A mechanism wraps the solve, so that perturbing before, inside or after it share one signature.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from ppadmm.errors import SolverError
from ppadmm.mechanisms.release import Release
from ppadmm.noise import Key, NoiseSource
from ppadmm.privacy.calibration import Noise
from ppadmm.privacy.events import Charge, NonPrivate
from ppadmm.privacy.sensitivity import fits_double, objective_grid, output_grid
from ppadmm.problem.risk import Subproblem
from ppadmm.solvers.base import Solver, Warm
from ppadmm.typing import Array


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
        self, sub: Subproblem, solver: Solver, start: Warm, noise: NoiseSource, place: Place
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
        self, sub: Subproblem, solver: Solver, start: Warm, noise: NoiseSource, place: Place
    ) -> tuple[Release, Warm]:
        """Solve and release without noise."""
        solution = solver.solve(sub, start, self.beta)
        return Release(solution.point, self.charges), solution.warm


@dataclass(frozen=True)
class PerturbedMinimiser:
    """θ̂ ≈ argmin F(θ) + bᵀθ to gradient norm ≤ β, then released as θ̂ + N(0, σ₂²I).

    b ~ N(0, σ₁²I). Guarantee: one release costs `noises[k].charge`, under the adjacency that the
    noise was calibrated for, if the solver's certificate holds and the noise source is secure.
    """

    noises: tuple[Noise, ...]
    beta: float

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What one release costs each replicate."""
        return tuple(noise.charge for noise in self.noises)

    def release(
        self, sub: Subproblem, solver: Solver, start: Warm, noise: NoiseSource, place: Place
    ) -> tuple[Release, Warm]:
        """Draw b, solve, and add the second noise to the solution."""
        b = self._draw_linear(sub, noise, place)
        solution = solver.solve(replace(sub, linear=sub.linear + b), start, self.beta)
        value = self._add_noise(solution.point, sub, noise, place)
        return Release(value, self.charges), solution.warm

    @cached_property
    def scales(self) -> dict[str, Array]:
        """σ₁ of the linear term and σ₂ of the output."""
        return {
            "sigma1": np.array([noise.sigma1 for noise in self.noises]),
            "sigma2": np.array([noise.sigma2 for noise in self.noises]),
        }

    def _draw_linear(self, sub: Subproblem, noise: NoiseSource, place: Place) -> Array:
        sigma, d = self.scales["sigma1"], sub.linear.shape[1]
        grid = np.array([objective_grid(s, self.beta, d) for s in sigma])
        key = Key(place.agent, place.round, "linear")
        b = noise.gaussian(np.zeros_like(sub.linear), sigma, grid, key)
        if not fits_double(float(np.linalg.norm(b, axis=1).max()), self.beta):
            raise SolverError(
                f"β = {self.beta:g} is too small for noise of size σ₁ = {sigma.max():.3g} in "
                "double precision; choose a larger β. Nothing was released."
            )
        return b

    def _add_noise(self, point: Array, sub: Subproblem, noise: NoiseSource, place: Place) -> Array:
        sigma, d = self.scales["sigma2"], point.shape[1]
        pairs = zip(sigma, sub.mu, strict=True)
        grid = np.array([output_grid(s, self.beta, mu, d) for s, mu in pairs])
        return noise.gaussian(point, sigma, grid, Key(place.agent, place.round, "output"))
