"""The descent of one replicate: as `descend`, without the cost of a leading axis.

The metric is the inverse Hessian itself (d × d), corrected by every step (BFGS) and kept from round
to round: rounds change only the linear term, so that what was learnt stays true nearby.

Products are written as `a.dot(b)`: the same numbers as `a @ b`, in half the time for short vectors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from ppadmm.arrays import Array
from ppadmm.errors import SolverError
from ppadmm.problem.risk import Risk, Subproblem
from ppadmm.records import HoldsRecords, holds_records
from ppadmm.solvers import base
from ppadmm.solvers.base import Solution, Warm

Invert = Callable[[Array, float], Array]
"""(matrix + μI)⁻¹."""

WIDEST = 400
"""Up to this many parameters correcting a d × d matrix costs little beside a pass."""

PATIENCE, RETRY = 11, 8
"""A solve that has not ended after so many steps takes the metric anew, and again every RETRY."""

NEAR = 0.05
"""A relative change of μ that a metric may miss: corrections make up for it."""

FLAT = 0.1
"""A Hessian whose trace is below this share of what it can be (c₁) tells nothing of the rest."""

TINY = 1e-24
"""A step whose s·y is smaller teaches nothing: rounding has eaten it."""


@holds_records
class Inverse(NamedTuple):
    """An approximation W of (∇²f + μI)⁻¹ (d, d), and its μ."""

    mu: float
    matrix: Array

    def shared(self) -> None:
        """Other replicates may use nothing of it."""

    def moved(self, mu: float) -> "Inverse":
        """Return W for another μ: (W⁻¹ + (μ' − μ)I)⁻¹, or as it is where μ hardly moved."""
        if abs(mu - self.mu) <= NEAR * mu:
            return Inverse(mu, self.matrix.copy())
        return Inverse(mu, _inverse(_inverse(self.matrix, 0.0), mu - self.mu))


@holds_records
class At(NamedTuple):
    """A point θ (d,) with ∇f(θ), and whether that was evaluated in double precision."""

    theta: Array
    data: Array
    double: bool = True


@dataclass(frozen=True)
class Task(HoldsRecords):
    """One replicate's problem: ∇F(θ) = ∇f(θ) + μθ + c, to be made ≤ tolerance.

    The rounding error of an evaluation is at most `fixed` + `growing`·‖θ‖.
    """

    risk: Risk
    mu: float
    linear: Array
    fixed: float
    growing: float
    tolerance: float

    @classmethod
    def of(cls, sub: Subproblem, tolerance: float) -> "Task":
        """Drop the leading axis."""
        fixed, growing = (float(term[0]) for term in sub.rounding_terms)
        return cls(sub.risk, float(sub.mu[0]), sub.linear[0], fixed, growing, tolerance)

    def gradient(self, at: At) -> Array:
        """∇F(θ), (d,)."""
        return np.asarray(at.data + self.mu * at.theta + self.linear)

    def rough(self, theta: Array) -> float:
        """Above this norm a gradient in single precision is of use."""
        blur = base.SINGLE_BLUR * self.risk.loss.smoothness
        return base.rough(self.tolerance) + blur * _norm(theta)

    def residual(self, at: At, norm: float) -> float:
        """Bound ‖∇F(θ)‖, rounding included, from its `norm` as it was evaluated.

        There is no bound without an evaluation in double precision.
        """
        if not at.double:
            return inf
        return norm + (self.fixed + self.growing * _norm(at.theta))


def supports(sub: Subproblem, memory: Any) -> bool:
    """Whether `solve` is for this problem: one replicate, few parameters, no other memory."""
    known = memory is None or isinstance(memory, Inverse)
    return sub.replicates == 1 and sub.linear.shape[1] <= WIDEST and known


def solve(sub: Subproblem, start: Warm, tolerance: float) -> Solution:
    """Return a certified solution, or raise `SolverError`.

    The certificate is that of `descend`: ‖∇F‖ evaluated at the returned point in double
    precision, plus the bound of its rounding error, is ≤ tolerance.
    """
    before = sub.risk.passes
    task = Task.of(sub, tolerance)
    at = At(start.point[0], start.risk_gradient[0])
    W = metric(sub.risk, start.memory, at.theta, task.mu)
    steps, left = PATIENCE, base.MAX_ITERATIONS
    while left > 0:
        at, residual = _advance(task, at, W, min(steps, left))
        if residual <= tolerance:
            warm = Warm(at.theta[None], at.data[None], Inverse(task.mu, W))
            return Solution(warm, np.array([residual]), sub.risk.passes - before)
        W = _inverse(sub.risk.hessian(at.theta, single=True), task.mu)
        left, steps = left - steps, RETRY
    raise SolverError(base.not_certified(tolerance, _norm(task.gradient(at))))


def metric(risk: Risk, memory: Any, point: Array, mu: float, invert: Invert | None = None) -> Array:
    """Last round's W, moved to this round's μ, or the inverse Hessian at the start.

    Where the loss is flat there (hinges), the inverse of the bound c₁ZᵀZ/n + μI.
    """
    if isinstance(memory, Inverse):
        return memory.moved(mu).matrix
    bend = risk.loss.smoothness
    hessian = risk.hessian(point, single=True)
    if not np.trace(hessian) > FLAT * bend:
        hessian = bend * risk.gram
    return (invert or _inverse)(hessian, mu)


def _advance(task: Task, at: At, W: Array, steps: int) -> tuple[At, float]:
    """Step until the residual is small enough or the steps are over; corrects W in place.

    The residual of the point is returned with it.
    """
    F = task.gradient(at)
    norm = _norm(F)
    for _ in range(steps):
        if norm <= task.tolerance and (residual := task.residual(at, norm)) <= task.tolerance:
            return at, residual
        new, new_F = _step(task, at, F, -W.dot(F), single=norm > task.rough(at.theta))
        _correct(W, new.theta - at.theta, new_F - F)
        at, F, norm = new, new_F, _norm(new_F)
    return at, task.residual(at, norm)


def _step(task: Task, at: At, F: Array, p: Array, single: bool) -> tuple[At, Array]:
    """Take α = 1, or less where that overshoots, judging by slopes alone (see `descend`)."""
    slope0, alpha = -float(F.dot(p)), 1.0
    for _ in range(base.MAX_BACKTRACKS):
        theta = at.theta + (p if alpha == 1.0 else alpha * p)
        new = At(theta, task.risk.gradient(theta[None], single)[0], not single)
        new_F = task.gradient(new)
        slope = float(new_F.dot(p))
        if slope <= 0.5 * slope0:
            break
        alpha *= min(max(slope0 / (slope0 + slope), 0.1), 0.9)
    return new, new_F


def _correct(W: Array, s: Array, y: Array) -> None:
    """BFGS, in place: W ← (I − ρsyᵀ)W(I − ρysᵀ) + ρssᵀ = W + usᵀ + suᵀ, ρ = 1/(s·y)."""
    sy = float(s.dot(y))
    if not sy > TINY:
        return
    Wy = W.dot(y)
    u = (0.5 * (1.0 + float(y.dot(Wy)) / sy) * s - Wy) / sy
    half = u[:, None] * s
    W += half
    W += half.T


def _inverse(matrix: Array, mu: float) -> Array:
    """(matrix + μI)⁻¹, symmetric to the last bit."""
    inverse = np.linalg.inv(matrix + mu * np.eye(len(matrix)))
    return np.asarray((inverse + inverse.T) / 2.0)


def _norm(vector: Array) -> float:
    return sqrt(vector.dot(vector))
