"""What a local solver is, and the descent loop that all of them share.

A solver returns a point θ̂ with ‖θ̂ − θ̃‖ ≤ tolerance/μ, θ̃ the minimiser. As a rule that is known
from a gradient that was *evaluated there*,

    ‖∇F(θ̂)‖ + (a bound on the rounding error of that evaluation) ≤ tolerance,

and where a quick method does not get so far, from the number of steps of a slow one
(`ppadmm.solvers.accelerated`). The privacy proof uses nothing else about the solver, so any method,
any warm start and any early exit is allowed. Giving up is not: that would be an output
(docs/privacy.md, section 5).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ppadmm.arrays import Array, Rows
from ppadmm.errors import SolverError
from ppadmm.problem.risk import Subproblem
from ppadmm.records import HoldsRecords, holds_records

MAX_ITERATIONS = 300
MAX_BACKTRACKS = 40
SINGLE_ABOVE = 2e-6
"""A gradient in single precision errs by about 10⁻⁷: of use while residuals are above this."""

SINGLE_BLUR = 2.0**-20
"""... and above so much of c₁‖θ‖: margins in single precision err by some 2⁻²⁴‖θ‖."""


Tolerance: TypeAlias = float | Array
"""The residual to reach: one for all replicates, or (R,) where every row is an agent of its own."""


@dataclass(frozen=True)
class Warm(HoldsRecords):
    """Where the last solve ended: the next one starts there without reading the records.

    `risk_gradient` is ∇f at `point`; `memory` is the solver's own (a metric, secant pairs).
    """

    point: Array
    risk_gradient: Array
    memory: Any = None

    def restricted(self, rows: Rows) -> "Warm":
        """Return the start of some of the replicates."""
        return Warm(self.point[rows], self.risk_gradient[rows], _restricted(self.memory, rows))

    def replaced(self, rows: Rows, other: "Warm") -> "Warm":
        """Return a copy with `other` in place of some of the replicates."""
        point, gradient = self.point.copy(), self.risk_gradient.copy()
        point[rows], gradient[rows] = other.point, other.risk_gradient
        memory = other.memory
        if len(rows) < len(point) and hasattr(memory, "shared"):
            memory = memory.shared()
        return Warm(point, gradient, memory)


def _restricted(memory: Any, rows: Rows) -> Any:
    return memory.restricted(rows) if hasattr(memory, "restricted") else memory


@dataclass(frozen=True)
class Solution(HoldsRecords):
    """An approximate minimiser of every replicate, certified where `residual` ≤ tolerance.

    `residual` bounds μ‖point − θ̃‖, as a rule by ‖∇F(point)‖ including rounding; `passes` counts
    reads of the records.
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

    def solve(self, sub: Subproblem, start: Warm, tolerance: Any) -> Solution:
        """Return a certified solution, or raise `SolverError`; `solver_named` sees to the rest.

        The tolerance is a number, but for `Everyone`.
        """


@holds_records
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


@holds_records
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


def descend(
    method: Method, sub: Subproblem, start: Warm, tolerance: float, careful: bool = False
) -> Solution:
    """Iterate θ ← θ + αp until every replicate is certified.

    As long as all residuals are large, gradients are evaluated in single precision: half the
    memory to read. No replicate is called certified on such an evaluation. A `careful` descent
    does without that, and F falls in every step. Raises `SolverError` after `MAX_ITERATIONS`.
    """
    search = _careful_search if careful else _line_search
    before = sub.risk.passes
    at = Point(start.point, start.risk_gradient, sub.gradient(start.point, start.risk_gradient))
    memory = method.prepare(sub, start.memory)
    single = False
    for iteration in range(MAX_ITERATIONS):
        norms = np.sqrt(np.vecdot(at.gradient, at.gradient))
        rows = None
        if not (single or norms.min() > tolerance):
            residual = norms + sub.rounding(at.theta)
            rows = np.flatnonzero(~(residual <= tolerance))
            if not len(rows):
                warm = Warm(at.theta, at.data, memory)
                return Solution(warm, residual, sub.risk.passes - before)
        single = not careful and bool((norms > _rough(sub, at.theta, tolerance)).all())
        if rows is None or len(rows) == len(norms):
            p = method.direction(sub, at.theta, at.gradient, memory)
            new = search(sub, at, p, single)
        else:
            part, here = sub.restricted(rows), at.restricted(rows)
            p = method.direction(part, here.theta, here.gradient, _restricted(memory, rows))
            new = at.replaced(rows, search(part, here, p, single))
        memory = method.learn(sub, memory, Step(at, new, iteration))
        at = new
    raise SolverError(not_certified(tolerance, float(np.max(norms))))


def certified(sub: Subproblem, theta: Array, gradient: Array) -> Array:
    """‖∇F(θ)‖ + the bound of its rounding error, (R,); `gradient` was evaluated in double."""
    return np.asarray(np.sqrt(np.vecdot(gradient, gradient)) + sub.rounding(theta))


def stacked(parts: Sequence[Solution]) -> Solution:
    """Return the solutions of several replicates as one, without what their solvers remember."""
    warms = [part.warm for part in parts]
    point = np.concatenate([warm.point for warm in warms])
    warm = Warm(point, np.concatenate([warm.risk_gradient for warm in warms]))
    residual = np.concatenate([part.residual for part in parts])
    return Solution(warm, residual, sum(part.passes for part in parts))


def rough(tolerance: float) -> float:
    """Above this norm, and SINGLE_BLUR·c₁‖θ‖, a gradient in single precision is of use."""
    return max(SINGLE_ABOVE, 30.0 * tolerance)


def _rough(sub: Subproblem, theta: Array, tolerance: float) -> Array:
    blur = SINGLE_BLUR * sub.risk.loss.smoothness
    return np.asarray(rough(tolerance) + blur * np.sqrt(np.vecdot(theta, theta)))


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


def _careful_search(sub: Subproblem, at: Point, p: Array, single: bool) -> Point:
    """Take α = 1 where the slope φ' is ≤ 0 there, else an α with φ'(0)/10 ≤ φ'(α) ≤ 0.

    F is convex along p, so it falls on the whole way: a method whose steps are accepted more easily
    may go round in circles where the Hessian jumps (hinges at their kinks).
    """
    first = np.vecdot(at.gradient, p)
    best, rows = at, np.arange(len(p))
    low, high, alpha = np.zeros(len(p)), np.full(len(p), np.inf), np.ones(len(p))
    down, up = first.copy(), np.zeros(len(p))
    for _ in range(MAX_BACKTRACKS):
        there = _evaluated(
            sub.restricted(rows), at.theta[rows] + alpha[rows, None] * p[rows], single
        )
        slope = np.vecdot(there.gradient, p[rows])
        falls = slope <= 0.0
        best = best.replaced(rows[falls], there.restricted(np.flatnonzero(falls)))
        low[rows[falls]], down[rows[falls]] = alpha[rows[falls]], slope[falls]
        high[rows[~falls]], up[rows[~falls]] = alpha[rows[~falls]], slope[~falls]
        rows = rows[~(falls & ((alpha[rows] == 1.0) | (slope >= 0.1 * first[rows])))]
        if not len(rows):
            break
        alpha[rows] = _between(low[rows], high[rows], down[rows], up[rows])
    return best


def _between(low: Array, high: Array, down: Array, up: Array) -> Array:
    """Return where a line through two slopes crosses 0, well within the bracket."""
    gap = high - low
    crossing = low + gap * down / (down - up)
    return np.clip(crossing - 1e-3 * gap, low + 0.05 * gap, high - 0.05 * gap)


def _evaluated(sub: Subproblem, theta: Array, single: bool) -> Point:
    data = sub.risk.gradient(theta, single)
    return Point(theta, data, sub.gradient(theta, data))


def not_certified(tolerance: float, reached: float) -> str:
    """Say that a solve ended without a certificate."""
    return (
        f"The local solver could not certify a residual of β = {tolerance:g} (it reached "
        f"{reached:.3g}); choose a larger β. Nothing was released."
    )
