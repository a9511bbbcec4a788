"""The descent of one replicate: as `descend`, without the cost of a leading axis.

The metric is the inverse Hessian itself (d × d), corrected by every step (BFGS) and kept from round
to round: rounds change only the linear term, so that what was learnt stays true nearby.
"""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from ppadmm.errors import SolverError
from ppadmm.problem.risk import Subproblem
from ppadmm.solvers import base
from ppadmm.solvers.base import Solution, Warm
from ppadmm.typing import Array, Rows

WIDEST = 400
"""Up to this many parameters correcting a d × d matrix costs little beside a pass."""

PATIENCE, RETRY = 10, 8
"""A solve that has not ended after so many steps takes the metric anew, and again every RETRY."""

TINY = 1e-24
"""A step whose s·y is smaller teaches nothing: rounding has eaten it."""


class Inverse(NamedTuple):
    """An approximation W of (∇²f + μI)⁻¹ (d, d), and its μ."""

    mu: float
    matrix: Array

    def restricted(self, rows: Rows) -> "Inverse":
        """Return the memory of the one replicate."""
        return self

    def shared(self) -> None:
        """Other replicates may use nothing of it."""

    def moved(self, mu: float) -> "Inverse":
        """Return W for another μ: (W⁻¹ + (μ' − μ)I)⁻¹."""
        if mu == self.mu:
            return Inverse(mu, self.matrix.copy())
        return Inverse(mu, _inverse(_inverse(self.matrix, 0.0), mu - self.mu))


class At(NamedTuple):
    """A point θ with ∇f(θ) and ∇F(θ), all (d,)."""

    theta: Array
    data: Array
    gradient: Array


def suits(sub: Subproblem, memory: Any) -> bool:
    """Whether `solve` is for this problem: one replicate, few parameters, no other memory."""
    known = memory is None or isinstance(memory, Inverse)
    return sub.replicates == 1 and sub.linear.shape[1] <= WIDEST and known


def solve(sub: Subproblem, start: Warm, tolerance: float) -> Solution:
    """Return a certified solution, or raise `SolverError`.

    The certificate is that of `descend`: ‖∇F‖ evaluated at the returned point in double
    precision, plus the bound of its rounding error, is ≤ tolerance.
    """
    before = sub.risk.passes
    fixed, growing = (float(term[0]) for term in sub.rounding_terms)
    mu, linear = float(sub.mu[0]), sub.linear[0]
    theta, data = start.point[0], start.risk_gradient[0]
    at = At(theta, data, data + mu * theta + linear)
    base.require_above(fixed + growing * _norm(theta), tolerance)
    W = _metric(sub, start.memory, mu)
    single = False
    for iteration in range(base.MAX_ITERATIONS):
        norm = _norm(at.gradient)
        if norm <= tolerance and not single:
            residual = norm + fixed + growing * _norm(at.theta)
            if residual <= tolerance:
                warm = Warm(at.theta[None], at.data[None], Inverse(mu, W))
                return Solution(warm, np.array([residual]), sub.risk.passes - before)
        single = norm > max(base.SINGLE_ABOVE, 30.0 * tolerance)
        new = _step(sub, at, -(W @ at.gradient), mu, linear, single)
        if iteration >= PATIENCE and (iteration - PATIENCE) % RETRY == 0:
            W = _inverse(sub.risk.hessian(new.theta, single=True), mu)
        else:
            _correct(W, new.theta - at.theta, new.gradient - at.gradient)
        at = new
    raise SolverError(base.not_certified(tolerance, norm))


def _metric(sub: Subproblem, memory: Any, mu: float) -> Array:
    """Last round's W, moved to this round's μ, or the inverse of the bound c₁ZᵀZ/n + μI."""
    if isinstance(memory, Inverse):
        return memory.moved(mu).matrix
    return _inverse(sub.risk.loss.smoothness * sub.risk.gram, mu)


def _step(sub: Subproblem, at: At, p: Array, mu: float, linear: Array, single: bool) -> At:
    """Take α = 1, or less where that overshoots, judging by slopes alone (see `descend`)."""
    slope0 = -float(at.gradient @ p)
    alpha = 1.0
    for _ in range(base.MAX_BACKTRACKS):
        theta = at.theta + (p if alpha == 1.0 else alpha * p)
        data = sub.risk.gradient(theta[None], single)[0]
        new = At(theta, data, data + mu * theta + linear)
        slope = float(new.gradient @ p)
        if slope <= 0.5 * slope0:
            break
        alpha *= min(max(slope0 / (slope0 + slope), 0.1), 0.9)
    return new


def _correct(W: Array, s: Array, y: Array) -> None:
    """BFGS, in place: W ← (I − ρsyᵀ)W(I − ρysᵀ) + ρssᵀ = W + usᵀ + suᵀ, ρ = 1/(s·y)."""
    sy = float(s @ y)
    if not sy > TINY:
        return
    Wy = W @ y
    u = (0.5 * (1.0 + float(y @ Wy) / sy) * s - Wy) / sy
    half = u[:, None] * s
    W += half
    W += half.T


def _inverse(matrix: Array, mu: float) -> Array:
    """(matrix + μI)⁻¹, symmetric to the last bit."""
    inverse = np.linalg.inv(matrix + mu * np.eye(len(matrix)))
    return np.asarray((inverse + inverse.T) / 2.0)


def _norm(vector: Array) -> float:
    return sqrt(float(vector @ vector))
