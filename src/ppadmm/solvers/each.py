"""The descent of many agents, one replicate each: a row of every array is an agent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ppadmm.problem.kernels import width_of
from ppadmm.problem.losses import Loss
from ppadmm.problem.packed import Packed
from ppadmm.problem.risk import MarginRisk, Risk, Subproblem
from ppadmm.solvers import base, single
from ppadmm.solvers.base import Solution, Warm
from ppadmm.solvers.quasi_newton import FixedMetric
from ppadmm.typing import Array


def suits(risks: Sequence[Risk]) -> bool:
    """Whether all of these can be solved together: records in the compiled kernel, few features."""
    return all(
        isinstance(risk, MarginRisk) and risk.compiled and risk.d <= single.WIDEST for risk in risks
    )


@dataclass(frozen=True)
class Everyone:
    """f_k(θ_k) of every agent k: `Risk` for rows that are agents, as far as `Each` needs it."""

    risks: tuple[MarginRisk, ...]

    @property
    def loss(self) -> Loss:
        """The loss of one record."""
        return self.risks[0].loss

    @property
    def rounding_terms(self) -> tuple[Array, Array]:
        """a, b (N,) of the bound a + b‖θ‖ of every row."""
        terms = np.array([risk.rounding_terms for risk in self.risks])
        return terms[:, 0], terms[:, 1]


class Metrics(NamedTuple):
    """Every agent's inverse Hessian (N, d, d), corrected in place, and the μ (N,) it is for."""

    mu: Array
    matrices: Array


@dataclass(frozen=True)
class Each:
    """Solves every row's own problem, as `FixedMetric` does one; the certificate is the same."""

    name: ClassVar[str] = "each"

    def solve(self, sub: Subproblem, start: Warm, tolerance: float) -> Solution:
        """Return certified solutions of all rows, or raise `SolverError`."""
        risks = cast(Everyone, sub.risk).risks
        theta, data = start.point.copy(), start.risk_gradient.copy()
        base.require_above(float(sub.rounding(theta).max()), tolerance)
        metrics = _metrics(sub, risks, start)
        before = sum(risk.passes for risk in risks)
        double = _advance(sub, risks, theta, data, metrics, tolerance)
        residual = _residual(sub, theta, data)
        for k in np.flatnonzero(~(double & (residual <= tolerance))):
            theta[k], data[k], residual[k] = _alone(sub, risks[k], int(k), theta[k], tolerance)
        warm = Warm(theta, data, metrics)
        return Solution(warm, residual, sum(risk.passes for risk in risks) - before)


def _residual(sub: Subproblem, theta: Array, data: Array) -> Array:
    """‖∇F‖ + the bound of its rounding error, (N,)."""
    gradient = sub.gradient(theta, data)
    return np.asarray(np.sqrt(np.vecdot(gradient, gradient)) + sub.rounding(theta))


def _metrics(sub: Subproblem, risks: Sequence[MarginRisk], start: Warm) -> Metrics:
    """Last round's, moved to this round's μ, or new ones."""
    kept = start.memory if isinstance(start.memory, Metrics) else None
    if kept is not None and np.array_equal(kept.mu, sub.mu):
        return kept
    made = np.empty((len(risks), sub.linear.shape[1], sub.linear.shape[1]))
    for k, risk in enumerate(risks):
        memory = None if kept is None else single.Inverse(float(kept.mu[k]), kept.matrices[k])
        made[k] = single.metric(risk, memory, start.point[k], float(sub.mu[k]))
    return Metrics(sub.mu, made)


def _advance(
    sub: Subproblem,
    risks: Sequence[MarginRisk],
    theta: Array,
    data: Array,
    metrics: Metrics,
    tolerance: float,
) -> NDArray[np.bool_]:
    """Step every row in place; say whose last gradient was in double precision, (N,).

    W is corrected in place, also where the round is not finished: any metric will do.
    """
    from ppadmm.solvers import compiled

    bounds = np.column_stack(sub.rounding_terms)
    width, rough = width_of(sub.risk.loss), single.rough(tolerance)
    double = np.empty(len(risks), dtype=bool)
    for k, risk in enumerate(risks):
        packed = cast(Packed, risk.packed)
        passes, double[k] = compiled.advance(
            packed.double, packed.single, risk.n, width, theta[k], data[k], sub.linear[k],
            sub.mu[k], metrics.matrices[k], bounds[k], tolerance, rough, single.PATIENCE,
            base.MAX_BACKTRACKS, single.TINY,
        )  # fmt: skip
        risk.passes += passes
    return double


def _alone(
    sub: Subproblem, risk: MarginRisk, k: int, point: Array, tolerance: float
) -> tuple[Array, Array, float]:
    """Solve a row that needs more than the usual steps by itself."""
    own = Subproblem(risk, sub.mu[k : k + 1], sub.linear[k : k + 1])
    found = FixedMetric().solve(own, Warm(point[None], risk.gradient(point[None])), tolerance)
    return found.point[0], found.warm.risk_gradient[0], float(found.residual[0])
