"""A solver that always ends with a point: no answer would be an answer.

Once a release is paid for, what an agent does must not depend on its records beyond what the proof
covers (docs/privacy.md, section 5). A quick method may stall, run into a singular matrix or, if it
is a user's, do anything at all. Then `finish` takes over, whose end is proven.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ppadmm.problem.risk import Subproblem
from ppadmm.solvers.accelerated import finish
from ppadmm.solvers.base import Solution, Solver, Tolerance, Warm, certified, cold_start, stacked
from ppadmm.solvers.each import Everyone, row_of
from ppadmm.solvers.newton import Newton
from ppadmm.solvers.quasi_newton import LBFGS

NEWTON_UP_TO = 1500
"""Up to this many parameters Newton's method is tried before the slow way."""


@dataclass(frozen=True)
class Guarded:
    """A quick solver, a careful one where it fails, and `finish` where both do.

    With `verify` the quick solver's word is not taken: one more pass evaluates the gradient where
    it ended. Guarantee: never raises because of what the records are; where rounding allows it
    (`ppadmm.mechanisms.limits`) the point is within tolerance/μ of the minimiser.
    """

    quick: Solver
    verify: bool = False

    @property
    def name(self) -> str:
        """The quick solver's own."""
        return self.quick.name

    def solve(self, sub: Subproblem, start: Warm, tolerance: Any) -> Solution:
        """Return a solution, certified if that is possible at all."""
        solution = self._tried(self.quick, sub, start, tolerance)
        if solution is not None:
            return solution
        if isinstance(sub.risk, Everyone):
            return _row_by_row(self, sub, start, tolerance)
        before = sub.risk.passes
        second = Newton if sub.linear.shape[1] <= NEWTON_UP_TO else LBFGS
        solution = self._tried(second(careful=True), sub, cold_start(sub), tolerance)
        if solution is None:
            solution = finish(sub, tolerance)
        return Solution(solution.warm, solution.residual, sub.risk.passes - before)

    def _tried(
        self, solver: Solver, sub: Subproblem, start: Warm, tolerance: Tolerance
    ) -> Solution | None:
        """Return what a solver found, or None if that is not certified or it failed in any way."""
        try:
            with np.errstate(all="ignore"):
                solution = solver.solve(sub, start, tolerance)
                if self.verify:
                    solution = _verified(sub, solution)
            return solution if (solution.residual <= tolerance).all() else None
        except Exception:  # whatever went wrong may depend on the records
            return None


def _verified(sub: Subproblem, solution: Solution) -> Solution:
    """Evaluate the gradient once more where a solver ended."""
    point = np.asarray(solution.point, dtype=np.float64)
    data = sub.risk.gradient(point)
    residual = certified(sub, point, sub.gradient(point, data))
    return Solution(Warm(point, data, solution.warm.memory), residual, solution.passes + 1)


def _row_by_row(solver: Guarded, sub: Subproblem, start: Warm, tolerance: Tolerance) -> Solution:
    """Solve agents that are rows of one problem one after another."""
    found = []
    for k, own in enumerate(np.broadcast_to(tolerance, sub.replicates).tolist()):
        warm = Warm(start.point[k : k + 1], start.risk_gradient[k : k + 1])
        found.append(solver.solve(row_of(sub, k), warm, own))
    return stacked(found)
