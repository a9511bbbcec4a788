"""Quasi-Newton solvers whose memory lives on from one round to the next.

Rounds change only the linear term of the subproblem, so what one round learnt about the
curvature is true in the next. Both solvers correct a base metric by secant pairs:

- `LBFGS`: base metric a multiple of the identity; for wide data.
- `FixedMetric`: base metric c₁ZᵀZ/n + μI, an upper bound of the Hessian everywhere, kept in the
  eigenbasis of ZᵀZ/n where it is diagonal for every μ; refreshed from the Hessian at hand when a
  solve takes long. One factorisation serves every round, budget and seed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ppadmm.problem.risk import Subproblem
from ppadmm.solvers.base import Solution, Step, Warm, descend
from ppadmm.typing import Array, Rows

Base = Callable[[Array], Array]


@dataclass(frozen=True)
class Metric:
    """A data-part metric U diag(values) Uᵀ with orthonormal U (d, d)."""

    values: Array
    basis: Array

    @classmethod
    def of(cls, matrix: Array) -> "Metric":
        """Factorise a positive semidefinite matrix."""
        values, basis = np.linalg.eigh(matrix)
        return cls(np.maximum(values, 0.0), basis)

    def solve(self, mu: Array, rhs: Array) -> Array:
        """(U diag(values) Uᵀ + μI)⁻¹ rhs, row by row; μ (A,), rhs (A, d)."""
        return np.asarray(((rhs @ self.basis) / (self.values + mu[:, None])) @ self.basis.T)


@dataclass(frozen=True)
class Memory:
    """Secant pairs (Δθ, Δ∇f), newest last, each (R, d), and the base metric if there is one.

    The pairs hold the data part only: y = Δ∇f + μΔθ follows whatever μ the round has.
    """

    pairs: tuple[tuple[Array, Array], ...] = ()
    metric: Metric | None = None

    def restricted(self, rows: Rows) -> "Memory":
        """Return the memory of some of the replicates."""
        return replace(self, pairs=tuple((s[rows], y[rows]) for s, y in self.pairs))

    def with_pair(self, step: Step, replicates: int, limit: int) -> "Memory":
        """Append a pair; rows that did not move get zeros, which `_two_loop` skips."""
        if limit == 0:
            return self
        s = np.zeros((replicates, step.change.shape[1]))
        y = np.zeros_like(s)
        s[step.rows], y[step.rows] = step.change, step.risk_change
        return replace(self, pairs=(*self.pairs, (s, y))[-limit:])


def _two_loop(memory: Memory, mu: Array, gradient: Array, base: Base) -> Array:
    """Return H⁻¹g for the limited-memory BFGS matrix H, row by row (Nocedal 1980)."""
    q = gradient.copy()
    used = []
    for s, y_data in reversed(memory.pairs):
        y = y_data + mu[:, None] * s
        sy = (s * y).sum(axis=1)
        rho = np.divide(1.0, sy, out=np.zeros_like(sy), where=sy > 1e-24)
        a = rho * (s * q).sum(axis=1)
        q -= a[:, None] * y
        used.append((s, y, rho, a))
    r = base(q)
    for s, y, rho, a in reversed(used):
        r += (a - rho * (y * r).sum(axis=1))[:, None] * s
    return r


@dataclass(frozen=True)
class LBFGS:
    """Limited-memory BFGS; never forms a d × d matrix."""

    pairs: int = 12
    name: ClassVar[str] = "lbfgs"

    def solve(self, sub: Subproblem, start: Warm, tolerance: float) -> Solution:
        """Return a certified solution, or raise `SolverError`."""
        return descend(self, sub, start, tolerance)

    def prepare(self, sub: Subproblem, memory: Any) -> Memory:
        """Keep last round's pairs."""
        return memory if isinstance(memory, Memory) else Memory()

    def direction(self, sub: Subproblem, theta: Array, gradient: Array, memory: Memory) -> Array:
        """−H⁻¹g, started from the newest pair's curvature or from 1/(c₁+μ)."""
        scale = 1.0 / (sub.risk.loss.smoothness + sub.mu)
        if memory.pairs:
            s, y_data = memory.pairs[-1]
            y = y_data + sub.mu[:, None] * s
            sy, yy = (s * y).sum(axis=1), (y * y).sum(axis=1)
            scale = np.where(sy > 1e-24, sy / np.maximum(yy, 1e-300), scale)
        return -_two_loop(memory, sub.mu, gradient, lambda q: scale[:, None] * q)

    def learn(self, sub: Subproblem, memory: Memory, step: Step) -> Memory:
        """Append the step's pair."""
        return memory.with_pair(step, sub.replicates, self.pairs)


@dataclass(frozen=True)
class FixedMetric:
    """A frozen metric in the Gram eigenbasis, corrected by a few secant pairs.

    After `patience` iterations in one solve the metric is taken anew from the Hessian at the
    mean of the replicates that are still moving.
    """

    pairs: int = 5
    patience: int = 6
    name: ClassVar[str] = "fixed-metric"

    def solve(self, sub: Subproblem, start: Warm, tolerance: float) -> Solution:
        """Return a certified solution, or raise `SolverError`."""
        return descend(self, sub, start, tolerance)

    def prepare(self, sub: Subproblem, memory: Any) -> Memory:
        """Keep last round's metric, or start with the bound c₁ZᵀZ/n."""
        if isinstance(memory, Memory) and memory.metric is not None:
            return memory
        return Memory(metric=Metric.of(sub.risk.loss.smoothness * sub.risk.gram))

    def direction(self, sub: Subproblem, theta: Array, gradient: Array, memory: Memory) -> Array:
        """−H⁻¹g, started from the metric."""
        metric = memory.metric
        if metric is None:
            raise TypeError("FixedMetric.direction needs a prepared memory.")
        return -_two_loop(memory, sub.mu, gradient, lambda q: metric.solve(sub.mu, q))

    def learn(self, sub: Subproblem, memory: Memory, step: Step) -> Memory:
        """Append the step's pair, and refresh the metric when patience runs out."""
        if (step.iteration + 1) % self.patience == 0:
            hessian = sub.risk.hessian(step.theta.mean(axis=0))
            return Memory(metric=Metric.of(hessian))
        return memory.with_pair(step, sub.replicates, self.pairs)
