"""The data part of an agent's objective, and the subproblem built on it.

Points carry a leading axis of replicates: θ has shape (R, d), one row per independent run, so
that a sweep over seeds and budgets is a matrix product and a deployment is R = 1.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, issparse

from ppadmm.data.shard import Shard
from ppadmm.problem.losses import Loss
from ppadmm.typing import Array, Rows

UNIT_ROUNDOFF = 2.0**-53


class Risk:
    """f(θ) = (1/n) Σ ℓ(θᵀv), v = y·x, over one agent's records.

    Every method that reads the records adds the number of points it was asked for to `passes`.
    """

    def __init__(self, shard: Shard, loss: Loss) -> None:
        self.shard = shard
        self.loss = loss
        self.passes = 0
        self._V = shard.signed()

    @property
    def n(self) -> int:
        """The number of records."""
        return self.shard.n

    @property
    def d(self) -> int:
        """The number of features."""
        return self.shard.d

    def value(self, theta: Array) -> Array:
        """f(θ); (R, d) → (R,)."""
        losses: Array = self.loss.value(self._margins(theta))
        mean: Array = losses.mean(axis=0)
        return mean

    def gradient(self, theta: Array) -> Array:
        """∇f(θ); (R, d) → (R, d)."""
        slopes = self.loss.gradient(self._margins(theta))
        return np.asarray(self._V.T @ slopes).T / self.n

    def hessian(self, theta: Array) -> Array:
        """∇²f(θ) at one point; (d,) → (d, d)."""
        weights = self.loss.curvature(self._margins(theta[None, :]))[:, 0] / self.n
        return self._weighted_gram(weights)

    @cached_property
    def gram(self) -> Array:
        """ZᵀZ/n, shape (d, d)."""
        return self._weighted_gram(np.full(self.n, 1.0 / self.n))

    def rounding(self, theta: Array) -> Array:
        """Bound the floating-point error of `gradient` in the Euclidean norm; (R, d) → (R,).

        Any order of summation of k terms errs by at most k·u/(1−k·u) of the sum of their sizes.
        A margin therefore errs by γ_d‖θ‖ (as ‖v‖ ≤ 1), its slope by c₁ times that plus a few
        units for ℓ' itself, and the mean of n vectors of norm ≤ G by γ_n·G.
        """
        G, c1 = self.loss.lipschitz, self.loss.smoothness
        margin = _gamma(self.d + 2) * np.linalg.norm(theta, axis=1)
        return np.asarray(c1 * margin + G * _gamma(self.n + 16))

    def _margins(self, theta: Array) -> Array:
        self.passes += len(theta)
        return np.asarray(self._V @ theta.T)

    def _weighted_gram(self, weights: Array) -> Array:
        if issparse(self._V):
            return np.asarray(csr_array(self._V.T @ (self._V * weights[:, None])).toarray())
        half = self._V * np.sqrt(weights)[:, None]
        return np.asarray(half.T @ half)


@dataclass(frozen=True)
class Subproblem:
    """One agent's step: minimise F(θ) = f(θ) + (μ/2)‖θ‖² + cᵀθ for each replicate.

    The augmented Lagrangian (λ̂/N)½‖θ‖² + (2λ+b)ᵀθ + η Σⱼ‖½(θᵢ+θⱼ)−θ‖² is, up to a constant,
    of this form with μ = λ̂/N + 2η|B| and c = 2λ + b − η Σⱼ(θᵢ+θⱼ): F is μ-strongly convex.
    `mu` has shape (R,), `linear` (R, d).
    """

    risk: Risk
    mu: Array
    linear: Array

    @property
    def replicates(self) -> int:
        """R."""
        return len(self.linear)

    def value(self, theta: Array) -> Array:
        """F(θ) up to a constant; (R, d) → (R,)."""
        quadratic = 0.5 * self.mu * (theta * theta).sum(axis=1)
        return np.asarray(self.risk.value(theta) + quadratic + (self.linear * theta).sum(axis=1))

    def gradient(self, theta: Array, risk_gradient: Array | None = None) -> Array:
        """∇F(θ), reusing ∇f(θ) where it is known; (R, d) → (R, d)."""
        data = self.risk.gradient(theta) if risk_gradient is None else risk_gradient
        return np.asarray(data + self.mu[:, None] * theta + self.linear)

    def hessian(self, theta: Array, replicate: int) -> Array:
        """∇²F at one replicate's point; (d,) → (d, d)."""
        return self.risk.hessian(theta) + float(self.mu[replicate]) * np.eye(len(theta))

    def rounding(self, theta: Array) -> Array:
        """Bound the floating-point error of `gradient`; (R, d) → (R,)."""
        public = self.mu * np.linalg.norm(theta, axis=1) + np.linalg.norm(self.linear, axis=1)
        return np.asarray(self.risk.rounding(theta) + 8 * UNIT_ROUNDOFF * (public + 1.0))

    def restricted(self, rows: Rows) -> "Subproblem":
        """Return the same problem for some of the replicates."""
        return Subproblem(self.risk, self.mu[rows], self.linear[rows])


def _gamma(terms: int) -> float:
    product = terms * UNIT_ROUNDOFF
    return product / (1.0 - product)
