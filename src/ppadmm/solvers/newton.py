"""Newton's method: quadratic convergence, one Hessian per replicate and iteration."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ppadmm.arrays import Array
from ppadmm.problem.risk import Subproblem
from ppadmm.solvers.base import Solution, Step, Warm, descend


@dataclass(frozen=True)
class Newton:
    """Solve with the exact Hessian; best for small d and few replicates."""

    careful: bool = False
    name: ClassVar[str] = "newton"

    def solve(self, sub: Subproblem, start: Warm, tolerance: float) -> Solution:
        """Return a certified solution, or raise `SolverError`."""
        return descend(self, sub, start, tolerance, self.careful)

    def prepare(self, sub: Subproblem, memory: Any) -> None:
        """Keep nothing between rounds."""

    def direction(self, sub: Subproblem, theta: Array, gradient: Array, memory: None) -> Array:
        """−∇²F(θ)⁻¹∇F(θ), row by row."""
        from scipy.linalg import cho_factor, cho_solve

        p = np.empty_like(theta)
        for k, point in enumerate(theta):
            p[k] = -cho_solve(cho_factor(sub.hessian(point, k)), gradient[k])
        return p

    def learn(self, sub: Subproblem, memory: None, step: Step) -> None:
        """Keep nothing between iterations."""
