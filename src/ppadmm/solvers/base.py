"""What a local solver is, and the descent loop that all of them share.

A solver returns a point whose gradient was *evaluated there*, with

    ‖∇F(θ)‖ + (a bound on the rounding error of that evaluation) ≤ tolerance,

or it raises `SolverError`. The privacy proof uses nothing else about the solver, so any method,
any warm start and any early exit is allowed as long as the certificate holds.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ppadmm.errors import SolverError
from ppadmm.problem.risk import Subproblem
from ppadmm.typing import Array, Rows

MAX_ITERATIONS = 300
MAX_BACKTRACKS = 40


@dataclass(frozen=True)
class Warm:
    """Where the last solve ended: the next one starts there without reading the records.

    `risk_gradient` is ∇f at `point`; `memory` is the solver's own (a metric, secant pairs).
    """

    point: Array
    risk_gradient: Array
    memory: Any = None


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


class Method(Protocol):
    """One way to choose a direction; `Memory` is whatever it keeps between iterations."""

    def prepare(self, sub: Subproblem, memory: Any) -> Any:
        """Return the memory to start a solve with."""

    def direction(self, sub: Subproblem, theta: Array, gradient: Array, memory: Any) -> Array:
        """Return a descent direction for every row; all arrays (A, d)."""

    def learn(self, sub: Subproblem, memory: Any, step: "Step") -> Any:
        """Return the memory after a step."""


@dataclass(frozen=True)
class Step:
    """One accepted step of some rows: where it led and what the risk gradient did."""

    rows: Rows
    theta: Array
    change: Array
    risk_change: Array
    iteration: int


def cold_start(sub: Subproblem) -> Warm:
    """Start from θ = 0; one pass over the records."""
    zero = np.zeros_like(sub.linear)
    return Warm(zero, sub.risk.gradient(zero))


def descend(method: Method, sub: Subproblem, start: Warm, tolerance: float) -> Solution:
    """Iterate θ ← θ + αp until every replicate is certified."""
    before = sub.risk.passes
    theta, data = start.point.copy(), start.risk_gradient.copy()
    gradient = sub.gradient(theta, data)
    memory = method.prepare(sub, start.memory)
    for iteration in range(MAX_ITERATIONS):
        rounding = sub.rounding(theta)
        if rounding.max() >= tolerance:
            raise SolverError(_below_rounding(tolerance, float(rounding.max())))
        residual = np.linalg.norm(gradient, axis=1) + rounding
        rows = np.flatnonzero(~(residual <= tolerance))
        if not len(rows):
            return Solution(Warm(theta, data, memory), residual, sub.risk.passes - before)
        part = sub.restricted(rows)
        p = method.direction(part, theta[rows], gradient[rows], _rows(memory, rows))
        new_theta, new_data, new_gradient = _step(part, theta[rows], gradient[rows], p)
        change = Step(rows, new_theta, new_theta - theta[rows], new_data - data[rows], iteration)
        theta[rows], data[rows], gradient[rows] = new_theta, new_data, new_gradient
        memory = method.learn(sub, memory, change)
    raise SolverError(_not_certified(tolerance, float(np.max(residual))))


def _rows(memory: Any, rows: Rows) -> Any:
    return memory.restricted(rows) if hasattr(memory, "restricted") else memory


def _step(sub: Subproblem, theta: Array, gradient: Array, p: Array) -> tuple[Array, Array, Array]:
    """Take α = 1, or less for the rows that overshoot, judging by slopes alone.

    Near the optimum differences of F drown in rounding, while the slope φ'(α) = ∇F(θ+αp)·p does
    not. F is convex along p: φ'(α) ≤ 0 means F has only fallen so far.
    """
    slope0 = -(gradient * p).sum(axis=1)
    alpha = np.ones(len(theta))
    new_theta = theta + p
    data = sub.risk.gradient(new_theta)
    new_gradient = sub.gradient(new_theta, data)
    for _ in range(MAX_BACKTRACKS):
        slope = (new_gradient * p).sum(axis=1)
        rows = np.flatnonzero(~(slope <= 0.5 * slope0))
        if not len(rows):
            break
        alpha[rows] *= np.clip(slope0[rows] / (slope0[rows] + slope[rows]), 0.1, 0.9)
        new_theta[rows] = theta[rows] + alpha[rows, None] * p[rows]
        part = sub.restricted(rows)
        data[rows] = part.risk.gradient(new_theta[rows])
        new_gradient[rows] = part.gradient(new_theta[rows], data[rows])
    return new_theta, data, new_gradient


def _below_rounding(tolerance: float, rounding: float) -> str:
    return (
        f"A residual of β = {tolerance:g} cannot be certified: rounding alone may be "
        f"{rounding:.3g}; choose β ≥ {10 * rounding:.1g}. Nothing was released."
    )


def _not_certified(tolerance: float, reached: float) -> str:
    return (
        f"The local solver could not certify a residual of β = {tolerance:g} (it reached "
        f"{reached:.3g}); choose a larger β. Nothing was released."
    )
