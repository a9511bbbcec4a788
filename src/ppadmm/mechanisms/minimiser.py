"""Mechanisms that release the minimiser of a subproblem.

A mechanism wraps the solve, so that perturbing before, inside or after it share one signature.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ppadmm.mechanisms.release import Release
from ppadmm.noise import Key, NoiseSource
from ppadmm.privacy.calibration import Noise
from ppadmm.privacy.events import Charge, NonPrivate
from ppadmm.privacy.sensitivity import objective_grid, output_grid
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
        d = sub.linear.shape[1]
        sigma1, sigma2 = self._scales()
        grid1 = np.array([objective_grid(s, self.beta, d) for s in sigma1])
        grid2 = np.array([output_grid(s, self.beta, mu, d) for s, mu in zip(sigma2, sub.mu, strict=True)])
        b = noise.gaussian(np.zeros_like(sub.linear), sigma1, grid1, Key(place.agent, place.round, "b"))
        perturbed = replace(sub, linear=sub.linear + b)
        solution = solver.solve(perturbed, start, self.beta)
        value = noise.gaussian(solution.point, sigma2, grid2, Key(place.agent, place.round, "output"))
        return Release(value, self.charges), solution.warm

    def _scales(self) -> tuple[Array, Array]:
        return (
            np.array([noise.sigma1 for noise in self.noises]),
            np.array([noise.sigma2 for noise in self.noises]),
        )
