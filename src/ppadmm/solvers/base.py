"""What a local solver is, and the descent loop that all of them share.

A solver returns a point whose gradient was *evaluated there*, with

    ‖∇F(θ)‖ + (a bound on the rounding error of that evaluation) ≤ tolerance,

or it raises `SolverError`. The privacy proof uses nothing else about the solver, so any method,
any warm start and any early exit is allowed as long as the certificate holds.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from ppadmm.errors import SolverError
from ppadmm.problem.risk import Subproblem
from ppadmm.typing import Array, Rows

MAX_ITERATIONS = 300
MAX_BACKTRACKS = 40
SINGLE_ABOVE = 2e-6
"""A gradient in single precision errs by about 10⁻⁷: of use while residuals are above this."""

ROUNDING_SHARE = 0.7
"""The most of a tolerance that the rounding bound may take: what is left can be reached."""


@dataclass(frozen=True)
class Warm:
    """Where the last solve ended: the next one starts there without reading the records.

    `risk_gradient` is ∇f at `point`; `memory` is the solver's own (a metric, secant pairs).
    """

    point: Array
    risk_gradient: Array
    memory: Any = None

    def restricted(self, rows: Rows) -> "Warm":
        """Return the start of some of the replicates."""
        memory = _restricted(self.memory, rows)
        return Warm(self.point[rows], self.risk_gradient[rows], memory)

    def replaced(self, rows: Rows, other: "Warm") -> "Warm":
        """Return a copy with `other` in place of some of the replicates."""
        point, gradient = self.point.copy(), self.risk_gradient.copy()
        point[rows], gradient[rows] = other.point, other.risk_gradient
        memory = other.memory if len(rows) == len(point) else _shared(other.memory)
        return Warm(point, gradient, memory)


def _restricted(memory: Any, rows: Rows) -> Any:
    return memory.restricted(rows) if hasattr(memory, "restricted") else memory


def _shared(memory: Any) -> Any:
    return memory.shared() if hasattr(memory, "shared") else memory


@dataclass(frozen=True)
class Solution:
    """A certified approximate minimiser of every replicate.

    `residual` bounds ‖∇F(point)‖ including rounding; `passes` counts reads of the records.
    """

    warm: Warm
    residual: Array
    passes: int

    @property
    def point(self) -> Array:
        """θ̂, shape (R, d)."""
        return self.warm.point


class Solver(Protocol):
    """Minimises a subproblem to a certified residual."""

    @property
    def name(self) -> str:
        """The name a user types."""

    def solve(self, sub: Subproblem, start: Warm, tolerance: float) -> Solution:
        """Return a certified solution, or raise `SolverError`."""


@dataclass(frozen=True)
class Verified:
    """A solver whose word is not taken: one more pass evaluates the gradient where it ended.

    Guarantee: whatever `solver` does, what is returned has the residual that the proof needs.
    """

    solver: Solver

    @property
    def name(self) -> str:
        """The solver's own."""
        return self.solver.name

    def solve(self, sub: Subproblem, start: Warm, tolerance: float) -> Solution:
        """Return a certified solution, or raise `SolverError`."""
        before = sub.risk.passes
        warm = self.solver.solve(sub, start, tolerance).warm
        data = sub.risk.gradient(warm.point)
        gradient = sub.gradient(warm.point, data)
        residual = np.sqrt(np.vecdot(gradient, gradient)) + sub.rounding(warm.point)
        if not (residual <= tolerance).all():
            raise SolverError(not_certified(tolerance, float(np.max(residual))))
        certified = Warm(warm.point, data, warm.memory)
        return Solution(certified, residual, sub.risk.passes - before)


class Point(NamedTuple):
    """Where all replicates are: θ, ∇f(θ) and ∇F(θ), each (R, d)."""

    theta: Array
    data: Array
    gradient: Array

    def restricted(self, rows: Rows) -> "Point":
        """Return some of the rows."""
        return Point(self.theta[rows], self.data[rows], self.gradient[rows])

    def replaced(self, rows: Rows, other: "Point") -> "Point":
        """Return a copy with `other` in place of some of the rows."""
        copies = tuple(array.copy() for array in self)
        for copy, part in zip(copies, other, strict=True):
            copy[rows] = part
        return Point(*copies)


class Step(NamedTuple):
    """One accepted step; rows that did not move are equal before and after."""

    before: Point
    after: Point
    iteration: int


class Method(Protocol):
    """One way to choose a direction; the memory is whatever it keeps between iterations."""

    def prepare(self, sub: Subproblem, memory: Any) -> Any:
        """Return the memory to start a solve with."""

    def direction(self, sub: Subproblem, theta: Array, gradient: Array, memory: Any) -> Array:
        """Return a descent direction for every row; all arrays (A, d)."""

    def learn(self, sub: Subproblem, memory: Any, step: Step) -> Any:
        """Return the memory after a step."""


def cold_start(sub: Subproblem) -> Warm:
    """Start from θ = 0; one pass over the records."""
    zero = np.zeros_like(sub.linear)
    return Warm(zero, sub.risk.gradient(zero))


def descend(method: Method, sub: Subproblem, start: Warm, tolerance: float) -> Solution:
    """Iterate θ ← θ + αp until every replicate is certified.

    As long as all residuals are large, gradients are evaluated in single precision: half the
    memory to read. No replicate is called certified on such an evaluation.
    """
    before = sub.risk.passes
    at = Point(start.point, start.risk_gradient, sub.gradient(start.point, start.risk_gradient))
    memory = method.prepare(sub, start.memory)
    _rounding(sub, at.theta, tolerance)
    single = False
    for iteration in range(MAX_ITERATIONS):
        norms = np.sqrt(np.vecdot(at.gradient, at.gradient))
        rows = None
        if not (single or norms.min() > tolerance):
            residual = norms + _rounding(sub, at.theta, tolerance)
            rows = np.flatnonzero(~(residual <= tolerance))
            if not len(rows):
                warm = Warm(at.theta, at.data, memory)
                return Solution(warm, residual, sub.risk.passes - before)
        single = norms.min() > max(SINGLE_ABOVE, 30.0 * tolerance)
        if rows is None or len(rows) == len(norms):
            p = method.direction(sub, at.theta, at.gradient, memory)
            new = _line_search(sub, at, p, single)
        else:
            new = _move_some(method, sub, at, memory, rows, single)
        memory = method.learn(sub, memory, Step(at, new, iteration))
        at = new
    raise SolverError(not_certified(tolerance, float(np.max(norms))))


def _move_some(
    method: Method, sub: Subproblem, at: Point, memory: Any, rows: Rows, single: bool
) -> Point:
    """Step the replicates `rows` and leave the others where they are."""
    part, here = sub.restricted(rows), at.restricted(rows)
    p = method.direction(part, here.theta, here.gradient, _restricted(memory, rows))
    return at.replaced(rows, _line_search(part, here, p, single))


def _rounding(sub: Subproblem, theta: Array, tolerance: float) -> Array:
    """Return the rounding bound of every row, or raise if one alone is above the tolerance."""
    rounding = sub.rounding(theta)
    require_above(float(rounding.max()), tolerance)
    return rounding


def require_above(rounding: float, tolerance: float) -> None:
    """Raise if the rounding bound alone reaches the tolerance."""
    if not rounding < tolerance:
        raise SolverError(_below_rounding(tolerance, rounding))


def require_reachable(sub: Subproblem, tolerance: float) -> None:
    """Raise where rounding could keep a solve from its end, whatever the records.

    The minimiser has ‖θ‖ ≤ (G + ‖c‖)/μ, so this looks at public numbers and at the noise in c
    alone. Else a neighbour who sends very large numbers could bring a solve to where the last bits
    of a gradient decide whether it ends.
    """
    size = np.sqrt(np.vecdot(sub.linear, sub.linear))
    fixed, growing = sub.rounding_terms
    rounding = fixed + growing * (sub.risk.loss.lipschitz + size) / sub.mu
    require_above(float(rounding.max()) / ROUNDING_SHARE, tolerance)


def _line_search(sub: Subproblem, at: Point, p: Array, single: bool) -> Point:
    """Take α = 1, or less for the rows that overshoot, judging by slopes alone.

    Near the optimum differences of F drown in rounding, while the slope φ'(α) = ∇F(θ+αp)·p does
    not. F is convex along p: φ'(α) ≤ 0 means F has only fallen so far.
    """
    slope0 = -np.vecdot(at.gradient, p)
    new = _evaluated(sub, at.theta + p, single)
    alpha = np.ones(len(p))
    for _ in range(MAX_BACKTRACKS):
        slope = np.vecdot(new.gradient, p)
        near = slope <= 0.5 * slope0
        if near.all():
            break
        rows = np.flatnonzero(~near)
        alpha[rows] *= np.clip(slope0[rows] / (slope0[rows] + slope[rows]), 0.1, 0.9)
        theta = at.theta[rows] + alpha[rows, None] * p[rows]
        new = new.replaced(rows, _evaluated(sub.restricted(rows), theta, single))
    return new


def _evaluated(sub: Subproblem, theta: Array, single: bool) -> Point:
    data = sub.risk.gradient(theta, single)
    return Point(theta, data, sub.gradient(theta, data))


def _below_rounding(tolerance: float, rounding: float) -> str:
    return (
        f"A residual of β = {tolerance:g} cannot be certified: rounding alone may be "
        f"{rounding:.3g}; choose β ≥ {10 * rounding:.1g}. Nothing was released."
    )


def not_certified(tolerance: float, reached: float) -> str:
    """Say that a solve ended without a certificate."""
    return (
        f"The local solver could not certify a residual of β = {tolerance:g} (it reached "
        f"{reached:.3g}); choose a larger β. Nothing was released."
    )
