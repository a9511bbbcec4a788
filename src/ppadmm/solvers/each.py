"""The compiled descent of one replicate, or of many agents with a row each.

Every row has an inverse Hessian of its own, as in `single`; no row waits for another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ppadmm.arrays import Array, Rows
from ppadmm.problem.kernels import compiled, width_of
from ppadmm.problem.losses import Loss
from ppadmm.problem.packed import Packed
from ppadmm.problem.risk import MarginRisk, Risk, Subproblem
from ppadmm.records import HoldsRecords, holds_records
from ppadmm.solvers import base, single
from ppadmm.solvers.base import Solution, Tolerance, Warm

Alone = Callable[[Subproblem, Warm, float], Solution]
"""Solves one row that needs more than the usual steps."""


def supports(risk: Risk) -> bool:
    """Whether one replicate on these records is for this: the compiled kernel, few features."""
    return isinstance(risk, MarginRisk) and risk.compiled and risk.d <= single.WIDEST


@dataclass(frozen=True)
class Everyone(HoldsRecords):
    """fᵣ(θᵣ), row by row: `Risk` where rows have records of their own, as far as it is needed."""

    risks: tuple[MarginRisk, ...]

    @property
    def loss(self) -> Loss:
        """The loss of one record."""
        return self.risks[0].loss

    @cached_property
    def rounding_terms(self) -> tuple[Array, Array]:
        """a, b (R,) of the bound a + b‖θ‖ of every row."""
        terms = np.array([risk.rounding_terms for risk in self.risks])
        return terms[:, 0], terms[:, 1]


@holds_records
class MetricRows(NamedTuple):
    """Every row's inverse Hessian (R, d, d), corrected in place, and the μ (R,) it is for."""

    mu: Array
    matrices: Array

    def restricted(self, rows: Rows) -> "MetricRows":
        """Return those of some rows."""
        return MetricRows(self.mu[rows], self.matrices[rows])

    def shared(self) -> None:
        """Other rows may use nothing of it."""


def solve(sub: Subproblem, start: Warm, tolerance: Tolerance, alone: Alone) -> Solution:
    """Return certified solutions of all rows, or raise `SolverError`.

    A row that needs more than the usual steps is solved `alone`. The certificate is that of
    `descend`: ‖∇F‖ evaluated at the returned point in double precision, plus the bound of its
    rounding error, is ≤ tolerance.
    """
    risks = _risks(sub)
    theta, data = start.point.copy(), start.risk_gradient.copy()
    metrics, tolerances = _metrics(sub, risks, start), np.broadcast_to(tolerance, len(risks))
    passes, double = _advance(sub, risks, theta, data, metrics, tolerances)
    residual = base.certified(sub, theta, sub.gradient(theta, data))
    for k in np.flatnonzero(~(double & (residual <= tolerances))).tolist():
        own = row_of(sub, k)
        begin = theta[k : k + 1] if np.isfinite(theta[k]).all() else start.point[k : k + 1]
        found = alone(own, Warm(begin, risks[k].gradient(begin)), float(tolerances[k]))
        theta[k], data[k], residual[k] = found.point, found.warm.risk_gradient, found.residual[0]
        passes += 1 + found.passes
    return Solution(Warm(theta, data, metrics), residual, passes)


def _risks(sub: Subproblem) -> Sequence[MarginRisk]:
    own: Any = sub.risk
    return own.risks if isinstance(own, Everyone) else (own,)


def row_of(sub: Subproblem, k: int) -> Subproblem:
    """Return the problem of row k by itself."""
    return Subproblem(_risks(sub)[k], sub.mu[k : k + 1], sub.linear[k : k + 1])


def _metrics(sub: Subproblem, risks: Sequence[MarginRisk], start: Warm) -> MetricRows:
    """Return last round's, unless μ moved too far, or inverse Hessians at the start."""
    kept = start.memory if isinstance(start.memory, MetricRows) else None
    if kept is not None and np.all(np.abs(sub.mu - kept.mu) <= single.NEAR * sub.mu):
        return kept
    made = np.empty((len(risks), *sub.linear.shape[1:], sub.linear.shape[1]))
    for k, risk in enumerate(risks):
        last = None if kept is None else single.Inverse(float(kept.mu[k]), kept.matrices[k])
        mu, point = float(sub.mu[k]), start.point[k]
        made[k] = single.metric(risk, last, point, mu, compiled().inverse)
    return MetricRows(sub.mu, made)


def _advance(
    sub: Subproblem,
    risks: Sequence[MarginRisk],
    theta: Array,
    data: Array,
    metrics: MetricRows,
    tolerances: Array,
) -> tuple[int, NDArray[np.bool_]]:
    """Step every row in place; count passes, and say who ended in double precision, (R,).

    W is corrected in place, also where a round is not finished: any metric will do.
    """
    bounds = np.column_stack(sub.rounding_terms)
    width, total = width_of(sub.risk.loss), 0
    blur = base.SINGLE_BLUR * sub.risk.loss.smoothness
    double = np.empty(len(risks), dtype=bool)
    limits = (single.PATIENCE, base.MAX_BACKTRACKS, single.TINY)
    for k, risk in enumerate(risks):
        packed, tolerance = cast(Packed, risk.packed), float(tolerances[k])
        passes, double[k] = compiled().advance(
            (packed.double, packed.single, risk.n, width),
            (theta[k], data[k]),
            (sub.linear[k], sub.mu[k]),
            metrics.matrices[k],
            (bounds[k], tolerance, base.rough(tolerance), blur),
            limits,
        )
        risk.passes += passes
        total += passes
    return total, double
