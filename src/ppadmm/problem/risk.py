"""The data part of an agent's objective, and the subproblem built on it.

Points carry a leading axis of replicates: θ has shape (R, d), one row per independent run, so
that a sweep over seeds and budgets is a matrix product and a deployment is R = 1.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, cast

import numpy as np
from scipy.sparse import issparse

from ppadmm.arrays import Array, Rows
from ppadmm.data.coded import Coded
from ppadmm.data.shard import Shard
from ppadmm.problem import kernels
from ppadmm.problem.losses import Loss, MarginLoss
from ppadmm.problem.packed import Packed
from ppadmm.records import HoldsRecords

UNIT_ROUNDOFF = 2.0**-53
CACHE_BYTES = 1_200_000
"""Size of a block of records: small enough to stay in a core's own cache between two uses."""


PER_FEATURE = 20
"""Records per feature from which a Hessian that is to serve as a metric may be taken."""

DENSE_UP_TO = 200
"""Coded records with no more features are written out for matrix products."""


class Risk(Protocol):
    """f(θ), the mean loss over one agent's records.

    Every method that reads the records adds the number of points it was asked for to `passes`.
    """

    passes: int

    @property
    def loss(self) -> Loss:
        """The loss of one record."""

    @property
    def n(self) -> int:
        """The number of records."""

    @property
    def d(self) -> int:
        """The number of parameters."""

    def value(self, theta: Array) -> Array:
        """f(θ); (R, d) → (R,)."""

    def clipped_value(self, theta: Array, clip: float) -> Array:
        """(1/n) Σ min(loss, clip); (R, d) → (R,)."""

    def gradient(self, theta: Array, single: bool = False) -> Array:
        """∇f(θ); (R, d) → (R, d). With `single`, in single precision: quicker, no certificate."""

    def hessian(self, theta: Array, single: bool = False) -> Array:
        """∇²f(θ) at one point; (d,) → (d, d). With `single`, good enough for a metric."""

    @property
    def gram(self) -> Array:
        """A (d, d) matrix M with ∇²f ⪯ c₁·M everywhere."""

    @property
    def second_moments(self) -> Array:
        """(1/n) Σ xxᵀ over the features of the records."""

    @property
    def squares(self) -> Array:
        """Its diagonal."""

    @property
    def rounding_terms(self) -> tuple[float, float]:
        """Return a, b such that `gradient` errs by at most a + b‖θ‖ in the Euclidean norm."""


unflagged = np.errstate(invalid="ignore")
"""For matrix products, whose flag means nothing: OpenBLAS's float32 kernels for AVX-512 raise it
for lanes that they throw away, depending on what the stack held before. A result that is not a
number certifies nothing, as no comparison with it holds."""


class MarginRisk(HoldsRecords):
    """f(θ) = (1/n) Σ ℓ(θᵀv), v = y·x, over one agent's records.

    `beside` is how many numbers other agents of this process have: together with the agent's own
    they decide whether loading the compiled kernel is worthwhile.
    """

    def __init__(self, shard: Shard, loss: MarginLoss, beside: int = 0) -> None:
        self.shard = shard
        self.n, self.d = shard.n, shard.d
        self.loss = loss
        self.passes = 0
        self.compiled = kernels.use_compiled(shard.X, loss, beside)

    def value(self, theta: Array) -> Array:
        """f(θ); (R, d) → (R,)."""
        self.passes += len(theta)
        sums = [self.loss.value(block @ theta.T).sum(axis=0) for block in self._blocks]
        return np.asarray(sum(sums[1:], sums[0]) / self.n)

    def clipped_value(self, theta: Array, clip: float) -> Array:
        """(1/n) Σ min(ℓ, clip); (R, d) → (R,)."""
        self.passes += len(theta)
        sums = [
            np.minimum(self.loss.value(block @ theta.T), clip).sum(axis=0) for block in self._blocks
        ]
        return np.asarray(sum(sums[1:], sums[0]) / self.n)

    @unflagged
    def gradient(self, theta: Array, single: bool = False) -> Array:
        """∇f(θ); (R, d) → (R, d). With `single`, in single precision: quicker, no certificate.

        Records are taken a block at a time: the block that the margins were computed from is
        still in the cache when its transpose is applied, so X is read from memory once.
        """
        self.passes += len(theta)
        if len(theta) == 1 and self.packed is not None:
            return self.packed.gradient(theta[0], self.loss, single)[None] / self.n
        blocks = self._single_blocks if single else self._blocks
        # one replicate is a vector: fewer steps around the same products
        points = (theta[0] if len(theta) == 1 else theta.T).astype(blocks[0].dtype, copy=False)
        total = np.zeros(points.shape)
        for block in blocks:
            total += block.T @ self.loss.gradient(block @ points)
        total /= self.n
        return total[None] if len(theta) == 1 else total.T

    @unflagged
    def hessian(self, theta: Array, single: bool = False) -> Array:
        """∇²f(θ) at one point; (d,) → (d, d). With `single`, good enough for a metric."""
        self.passes += 1
        if self.compiled:
            X, y = cast(Coded, self.shard.X), self.shard.y
            every = max(self.n // (PER_FEATURE * self.d), 1) if single else 1
            return kernels.hessian(X, y, theta, self.loss, single, every)
        blocks = self._single_blocks if single else self._blocks
        point = theta.astype(blocks[0].dtype)
        total = np.zeros((self.d, self.d))
        for block in blocks:
            total += weighted_gram(block, self.loss.curvature(block @ point))
        return total / self.n

    @property
    def second_moments(self) -> Array:
        """XᵀX/n, shape (d, d): labels are ±1."""
        return self.gram

    @property
    def squares(self) -> Array:
        """Its diagonal (d,)."""
        return mean_squares(self._blocks, self.n)

    @cached_property
    def gram(self) -> Array:
        """ZᵀZ/n, shape (d, d)."""
        if self.compiled:
            return kernels.weighted_gram(cast(Coded, self.shard.X), np.ones(self.n)) / self.n
        total = np.zeros((self.d, self.d))
        for block in self._blocks:
            total += weighted_gram(block, np.ones(block.shape[0]))
        return total / self.n

    @cached_property
    def packed(self) -> Packed | None:
        """The records as the compiled kernel reads them, where it is in use."""
        if not self.compiled:
            return None
        return Packed.kept([self.shard])[0]

    @cached_property
    def _blocks(self) -> list[Any]:
        """The records as matrix products read them."""
        return blocks_of(self.shard.signed())

    @cached_property
    def _single_blocks(self) -> list[Any]:
        return single_precision(self._blocks)

    @property
    def rounding_terms(self) -> tuple[float, float]:
        """Return a, b such that `gradient` errs by at most a + b‖θ‖ in the Euclidean norm.

        Any order of summation of k terms errs by at most k·u/(1−k·u) of the sum of their sizes.
        A margin therefore errs by γ_d‖θ‖ (as ‖v‖ ≤ 1), its slope by c₁ times that plus a few
        units for ℓ' itself, and the mean of n vectors of norm ≤ G by γ_n·G. Coded records are
        v = s·z with one more product each way, which the spare units cover.
        """
        G, c1 = self.loss.lipschitz, self.loss.smoothness
        return G * accumulated(self.n + 16), c1 * accumulated(self.d + 2)


class NoRecords:
    """The data part of an agent that only listens: f = 0. It has nothing to protect."""

    def __init__(self, d: int, loss: Loss) -> None:
        self.loss = loss
        self.passes = 0
        self._d = d

    @property
    def n(self) -> int:
        """No records."""
        return 0

    @property
    def d(self) -> int:
        """The number of parameters."""
        return self._d

    def value(self, theta: Array) -> Array:
        """0."""
        return np.zeros(len(theta))

    def clipped_value(self, theta: Array, clip: float) -> Array:
        """0."""
        return np.zeros(len(theta))

    def gradient(self, theta: Array, single: bool = False) -> Array:
        """0."""
        return np.zeros_like(theta)

    def hessian(self, theta: Array, single: bool = False) -> Array:
        """0."""
        return np.zeros((self._d, self._d))

    @property
    def gram(self) -> Array:
        """0."""
        return np.zeros((self._d, self._d))

    @property
    def second_moments(self) -> Array:
        """0."""
        return np.zeros((self._d // self.loss.outputs,) * 2)

    @property
    def squares(self) -> Array:
        """0."""
        return np.zeros(self._d // self.loss.outputs)

    @property
    def rounding_terms(self) -> tuple[float, float]:
        """Zero is exact."""
        return 0.0, 0.0


@dataclass(frozen=True)
class Subproblem(HoldsRecords):
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

    @cached_property
    def rounding_terms(self) -> tuple[Array, Array]:
        """a, b (R,) of the bound a + b‖θ‖: the risk's own, and 8u of the public terms' sizes."""
        fixed, growing = self.risk.rounding_terms
        linear = np.sqrt(np.vecdot(self.linear, self.linear))
        linear += 1.0
        linear *= 8 * UNIT_ROUNDOFF
        return fixed + linear, growing + 8 * UNIT_ROUNDOFF * self.mu

    def value(self, theta: Array) -> Array:
        """F(θ) up to a constant; (R, d) → (R,)."""
        quadratic = 0.5 * self.mu * np.vecdot(theta, theta)
        return np.asarray(self.risk.value(theta) + quadratic + np.vecdot(self.linear, theta))

    def gradient(self, theta: Array, risk_gradient: Array | None = None) -> Array:
        """∇F(θ), reusing ∇f(θ) where it is known; (R, d) → (R, d)."""
        data = self.risk.gradient(theta) if risk_gradient is None else risk_gradient
        return np.asarray(data + self.mu[:, None] * theta + self.linear)

    def hessian(self, theta: Array, replicate: int) -> Array:
        """∇²F at one replicate's point; (d,) → (d, d)."""
        return self.risk.hessian(theta) + float(self.mu[replicate]) * np.eye(len(theta))

    def rounding(self, theta: Array) -> Array:
        """Bound the floating-point error of `gradient`; (R, d) → (R,)."""
        fixed, growing = self.rounding_terms
        return np.asarray(fixed + growing * np.sqrt(np.vecdot(theta, theta)))

    def restricted(self, rows: Rows) -> "Subproblem":
        """Return the same problem for some of the replicates."""
        return Subproblem(self.risk, self.mu[rows], self.linear[rows])


def blocks_of(V: Any) -> list[Any]:
    """Split rows evenly; dense ones column-major, which matrix-vector products read faster.

    Coded rows of few features are written out: matrix products with zeros beat sparse ones.
    """
    if issparse(V):
        return [V]
    count = min(-(-8 * V.shape[0] * V.shape[1] // CACHE_BYTES), V.shape[0])
    if isinstance(V, Coded):
        ends = np.linspace(0, len(V), count + 1).astype(int)
        parts = [V[a:b] for a, b in pairwise(ends)]
        return parts if V.d > DENSE_UP_TO else [np.asfortranarray(part.toarray()) for part in parts]
    return [np.asfortranarray(block) for block in np.array_split(V, count)]


def single_precision(blocks: list[Any]) -> list[Any]:
    """Return dense and coded blocks as float32; sparse ones as they are."""
    return blocks if issparse(blocks[0]) else [block.astype(np.float32) for block in blocks]


def mean_squares(blocks: list[Any], n: int) -> Array:
    """(1/n) Σ x² of every feature."""
    total = sum(np.asarray(_squared(block)).ravel() for block in blocks)
    return np.asarray(total / n)


def _squared(block: Any) -> Any:
    rows = block.tocsr() if isinstance(block, Coded) else block
    return (rows.multiply(rows) if hasattr(rows, "multiply") else rows * rows).sum(axis=0)


def weighted_gram(block: Any, weights: Array) -> Array:
    """Bᵀ diag(w) B, (m, d) → (d, d)."""
    if isinstance(block, Coded):
        return block.weighted_gram(weights).astype(np.float64)
    if weights.min(initial=0.0) < 0.0:
        product: Any = block.T @ (block * weights[:, None])
    else:
        half: Any = block * np.sqrt(weights)[:, None]
        product = half.T @ half  # of a matrix with itself: half the work
    return np.asarray(product if isinstance(product, np.ndarray) else product.toarray())


def summing(n: int, span: int) -> float:
    """γ of a mean over n records, in memory or in blocks, with gradients in `span` dimensions.

    No risk's own a (see `Risk.rounding_terms`) is above G times this.
    """
    return accumulated(n + 2 * span + 32)


def accumulated(terms: int) -> float:
    """γ_k = ku/(1−ku): how much a sum of k terms may err, relative to their sizes."""
    product = terms * UNIT_ROUNDOFF
    return product / (1.0 - product)
