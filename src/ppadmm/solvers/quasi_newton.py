"""Quasi-Newton solvers: a base metric corrected by secant pairs.

Rounds change only the linear term of the subproblem, so what one round learnt about the
curvature is of use in the next.

- `FixedMetric`: the base metric is the Hessian of the data part somewhere nearby, kept until it is
  too old; at first c₁ZᵀZ/n, an upper bound of the Hessian everywhere (and exact at θ = 0 for the
  logistic loss). In its eigenbasis it is diagonal for every μ, so replicates with other
  penalties share one factorisation.
- `LBFGS`: the base metric is a multiple of the identity; for wide data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from ppadmm.arrays import Array, Rows
from ppadmm.problem.risk import Subproblem
from ppadmm.records import HoldsRecords, holds_records
from ppadmm.solvers import each, single
from ppadmm.solvers.base import Solution, Step, Warm, descend


@dataclass(frozen=True)
class Metric(HoldsRecords):
    """A positive semidefinite matrix, ready to solve (matrix + μI)x = g row by row.

    For one common μ it keeps the inverse, otherwise eigenvectors: diagonal for every μ.
    """

    matrix: Array
    values: Array
    basis: Array
    inverse: Array | None = None

    @classmethod
    def of(cls, matrix: Array, mu: Array) -> "Metric":
        """Factorise for the μ (R,) at hand."""
        if np.all(mu == mu[0]):
            inverse = np.linalg.inv(matrix + mu[0] * np.eye(len(matrix)))
            return cls(matrix, np.empty(0), np.empty(0), (inverse + inverse.T) / 2.0)
        values, basis = np.linalg.eigh(matrix)
        return cls(matrix, np.maximum(values, 0.0), basis)

    def moved(self, mu: Array) -> "Metric":
        """Return the same metric for another μ; free in the eigenbasis."""
        return self if self.inverse is None else Metric.of(self.matrix, mu)

    def solve(self, mu: Array, rhs: Array) -> Array:
        """(matrix + μI)⁻¹ rhs; μ (A,), rhs (A, d)."""
        if self.inverse is not None:
            return np.asarray(rhs @ self.inverse)
        return np.asarray(((rhs @ self.basis) / (self.values + mu[:, None])) @ self.basis.T)


@holds_records
class Pair(NamedTuple):
    """One secant pair of every replicate: s = Δθ and y = Δ∇F, both (R, d), and 1/(s·y) (R,).

    A replicate that did not move has s = 0 and 1/(s·y) := 0, which drops it from all formulas.
    """

    s: Array
    y: Array
    rho: Array

    @classmethod
    def of(cls, s: Array, y: Array) -> "Pair":
        """Compute 1/(s·y) where it means something."""
        sy = np.vecdot(s, y)
        return cls(s, y, 1.0 / np.where(sy > single.TINY, sy, np.inf))

    def restricted(self, rows: Rows) -> "Pair":
        """Return the pair of some of the replicates."""
        return Pair(self.s[rows], self.y[rows], self.rho[rows])


@holds_records
class Memory(NamedTuple):
    """What a solver knows of the curvature: pairs, newest last, a metric and its age in solves.

    `mu` is the μ that the pairs and the metric were made for.
    """

    mu: Array
    pairs: tuple[Pair, ...] = ()
    metric: Metric | None = None
    age: int = 0

    def restricted(self, rows: Rows) -> "Memory":
        """Return the memory of some of the replicates."""
        pairs = tuple(pair.restricted(rows) for pair in self.pairs)
        mu = self.mu[rows] if len(self.mu) else self.mu
        return Memory(mu, pairs, self.metric, self.age)

    def shared(self) -> "Memory":
        """Return what other replicates may use, too: the metric."""
        return Memory(np.empty(0), (), self.metric, self.age)

    def with_pair(self, step: Step, limit: int) -> "Memory":
        """Append a step's pair and forget the oldest beyond `limit`."""
        s = step.after.theta - step.before.theta
        pair = Pair.of(s, step.after.gradient - step.before.gradient)
        return Memory(self.mu, (*self.pairs, pair)[-limit:], self.metric, self.age)


def _inverse_times(
    pairs: tuple[Pair, ...], gradient: Array, base: Callable[[Array], Array]
) -> Array:
    """H⁻¹g by Nocedal's two loops; the pairs, newest last, correct what `base` multiplies with."""
    q, weights = gradient, []
    for pair in reversed(pairs):
        a = pair.rho * np.vecdot(pair.s, q)
        q = q - a[:, None] * pair.y
        weights.append(a)
    r = base(q)
    for pair, a in zip(pairs, reversed(weights), strict=True):
        r = r + (a - pair.rho * np.vecdot(pair.y, r))[:, None] * pair.s
    return r


@dataclass(frozen=True)
class LBFGS:
    """Limited-memory BFGS whose pairs live on from round to round; never forms a d × d matrix."""

    pairs: int = 12
    careful: bool = False
    name: ClassVar[str] = "lbfgs"

    def solve(self, sub: Subproblem, start: Warm, tolerance: float) -> Solution:
        """Return a certified solution, or raise `SolverError`."""
        return descend(self, sub, start, tolerance, self.careful)

    def prepare(self, sub: Subproblem, memory: Any) -> Memory:
        """Keep last round's pairs, moved to this round's μ: y changes by (μ' − μ)s."""
        if not isinstance(memory, Memory) or len(memory.mu) != sub.replicates:
            return Memory(sub.mu)
        if np.array_equal(memory.mu, sub.mu):
            return memory
        change = (sub.mu - memory.mu)[:, None]
        moved = tuple(Pair.of(pair.s, pair.y + change * pair.s) for pair in memory.pairs)
        return Memory(sub.mu, moved)

    def direction(self, sub: Subproblem, theta: Array, gradient: Array, memory: Memory) -> Array:
        """−H⁻¹g, started from the newest pair's curvature or from 1/(c₁+μ)."""
        scale = 1.0 / (sub.risk.loss.smoothness + sub.mu)
        if memory.pairs:
            last = memory.pairs[-1]
            measured = 1.0 / np.maximum(last.rho * np.vecdot(last.y, last.y), 1e-300)
            scale = np.where(last.rho > 0.0, measured, scale)
        return -_inverse_times(memory.pairs, gradient, lambda q: scale[:, None] * q)

    def learn(self, sub: Subproblem, memory: Memory, step: Step) -> Memory:
        """Append the step's pair."""
        return memory.with_pair(step, self.pairs)


@dataclass(frozen=True)
class FixedMetric:
    """A metric kept over several rounds, corrected by the secant pairs of this one.

    A solve that has not ended after `patience` steps takes the metric anew from the Hessian where
    it is, at the mean of the replicates that still move: if the metric is more than `keep` solves
    old, and once more every `retry` steps.
    """

    pairs: int = 3
    patience: int = 3
    keep: int = 5
    retry: int = 8
    name: ClassVar[str] = "fixed-metric"

    def solve(self, sub: Subproblem, start: Warm, tolerance: Any) -> Solution:
        """Return a certified solution, or raise `SolverError`.

        A single replicate has a leaner descent, compiled (`each`) or not (`single`). One metric may
        not fit all replicates (hinges at their kinks).
        """
        if isinstance(sub.risk, each.Everyone) or (sub.replicates == 1 and each.supports(sub.risk)):
            return each.solve(sub, start, tolerance, self._alone)
        return self._alone(sub, start, tolerance)

    def _alone(self, sub: Subproblem, start: Warm, tolerance: float) -> Solution:
        if single.supports(sub, start.memory):
            return single.solve(sub, start, tolerance)
        return descend(self, sub, start, tolerance)

    def prepare(self, sub: Subproblem, memory: Any) -> Memory:
        """Keep last round's metric, moved to this round's μ, or start from the bound c₁ZᵀZ/n."""
        if isinstance(memory, Memory) and memory.metric is not None:
            same = np.array_equal(memory.mu, sub.mu)
            metric = memory.metric if same else memory.metric.moved(sub.mu)
            return Memory(sub.mu, (), metric, memory.age + 1)
        bound = sub.risk.loss.smoothness * sub.risk.gram
        return Memory(sub.mu, (), Metric.of(bound, sub.mu))

    def direction(self, sub: Subproblem, theta: Array, gradient: Array, memory: Memory) -> Array:
        """−H⁻¹g, started from the metric."""
        metric = cast(Metric, memory.metric)  # prepared
        return -_inverse_times(memory.pairs, gradient, lambda q: metric.solve(sub.mu, q))

    def learn(self, sub: Subproblem, memory: Memory, step: Step) -> Memory:
        """Append the step's pair, or refresh the metric when it is due."""
        if self._due(memory, step.iteration + 1):
            moved = (step.after.theta != step.before.theta).any(axis=1)
            points = step.after.theta[moved] if moved.any() else step.after.theta
            hessian = sub.risk.hessian(points.mean(axis=0), single=True)
            return Memory(sub.mu, (), Metric.of(hessian, sub.mu))
        return memory.with_pair(step, self.pairs)

    def _due(self, memory: Memory, steps: int) -> bool:
        if steps == self.patience:
            return memory.age > self.keep
        return steps > self.patience and (steps - self.patience) % self.retry == 0
