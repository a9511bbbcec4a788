"""The data part of an agent's objective for a loss of K class scores."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from ppadmm.arrays import Array
from ppadmm.data.shard import Shard
from ppadmm.errors import DataError
from ppadmm.problem.losses import Loss, MarginLoss
from ppadmm.problem.multiclass import Codes, ScoreLoss
from ppadmm.problem.packed import Packed
from ppadmm.problem.risk import (
    MarginRisk,
    Risk,
    accumulated,
    blocks_of,
    mean_squares,
    single_precision,
    unflagged,
    weighted_gram,
)
from ppadmm.records import HoldsRecords


class ScoreRisk(HoldsRecords):
    """f(Θ) = (1/n) Σ g(Θx, y) over one agent's records; Θ (K, d) is kept as K·d parameters."""

    def __init__(self, shard: Shard, loss: ScoreLoss) -> None:
        self.shard = shard
        self.loss = loss
        self.passes = 0
        self._blocks = blocks_of(shard.X)
        ends = np.cumsum([block.shape[0] for block in self._blocks])[:-1]
        self._codes: list[Codes] = np.split(shard.codes(), ends)

    @property
    def n(self) -> int:
        """The number of records."""
        return self.shard.n

    @property
    def d(self) -> int:
        """The number of parameters, K times the features."""
        return self.loss.outputs * self.shard.d

    def value(self, theta: Array) -> Array:
        """f(Θ); (R, K·d) → (R,)."""
        return self.clipped_value(theta, np.inf)

    def clipped_value(self, theta: Array, clip: float) -> Array:
        """(1/n) Σ min(g, clip); (R, K·d) → (R,)."""
        self.passes += len(theta)
        total = np.zeros(len(theta))
        for block, codes in zip(self._blocks, self._codes, strict=True):
            values = self.loss.value(self._scores(block, theta), codes[:, None])
            total += np.minimum(values, clip).sum(axis=0)
        return total / self.n

    @unflagged
    def gradient(self, theta: Array, single: bool = False) -> Array:
        """∇f(Θ); (R, K·d) → (R, K·d)."""
        self.passes += len(theta)
        blocks = self._single_blocks if single else self._blocks
        points = theta.astype(blocks[0].dtype)
        total = np.zeros((self.shard.d, len(theta) * self.loss.outputs))
        for block, codes in zip(blocks, self._codes, strict=True):
            slopes = self.loss.gradient(self._scores(block, points), codes[:, None])
            total += block.T @ slopes.reshape(len(codes), -1).astype(points.dtype)
        return np.ascontiguousarray(total.T).reshape(theta.shape) / self.n

    @unflagged
    def hessian(self, theta: Array, single: bool = False) -> Array:
        """∇²f(Θ) at one point; (K·d,) → (K·d, K·d)."""
        self.passes += 1
        blocks = self._single_blocks if single else self._blocks
        point, K, d = theta.astype(blocks[0].dtype)[None], self.loss.outputs, self.shard.d
        total = np.zeros((K, d, K, d))
        for block, codes in zip(blocks, self._codes, strict=True):
            bends = self.loss.curvature(self._scores(block, point)[:, 0], codes)
            for k, l in zip(*np.nonzero(self.loss.shape), strict=True):
                if k <= l:
                    total[k, :, l] += weighted_gram(block, bends[:, k, l].astype(point.dtype))
        for k in range(K):
            for l in range(k):
                total[k, :, l] = total[l, :, k].T
        return total.reshape(K * d, K * d) / self.n

    @cached_property
    def gram(self) -> Array:
        """C ⊗ XᵀX/n, with ∇²g ⪯ c₁·C."""
        return np.asarray(np.kron(self.loss.shape, self.second_moments), dtype=np.float64)

    @property
    def second_moments(self) -> Array:
        """XᵀX/n, (d, d)."""
        total = np.zeros((self.shard.d, self.shard.d))
        for block in self._blocks:
            total += weighted_gram(block, np.ones(block.shape[0]))
        return total / self.n

    @property
    def squares(self) -> Array:
        """Its diagonal (d,)."""
        return mean_squares(self._blocks, self.n)

    @property
    def rounding_terms(self) -> tuple[float, float]:
        """Return a, b such that `gradient` errs by at most a + b‖Θ‖ in the Euclidean norm.

        As for one margin: the K scores of a record together err by γ_d‖Θ‖, ∇g by c₁ times that
        plus 2K + 16 units of its own.
        """
        G, c1, own = self.loss.lipschitz, self.loss.smoothness, 2 * self.loss.outputs + 16
        return G * accumulated(self.n + own), c1 * accumulated(self.shard.d + 2)

    def _scores(self, block: Any, theta: Array) -> Array:
        """(m, d) records and (R, K·d) points → (m, R, K) scores."""
        rows = theta.reshape(-1, self.shard.d)
        return np.asarray(block @ rows.T).reshape(block.shape[0], len(theta), -1)

    @cached_property
    def _single_blocks(self) -> list[Any]:
        return single_precision(self._blocks)


def laid_out(risks: Sequence[Risk]) -> Sequence[Risk]:
    """Lay out the records of all compiled risks at once, which is quicker for many small ones."""
    Packed.kept([risk.shard for risk in risks if isinstance(risk, MarginRisk) and risk.compiled])
    return risks


def risk_of(shard: Shard, loss: Loss, beside: int = 0) -> Risk:
    """Return the mean loss over a shard, of one margin or of as many scores as it has classes.

    `beside` is how many numbers other agents of this process have.
    """
    if loss.outputs == 1:
        if shard.classes != 2:
            raise DataError(
                f"The loss {loss.name!r} is for two classes, got {shard.classes}; use the "
                "multinomial or the one-vs-rest loss."
            )
        return MarginRisk(shard, cast(MarginLoss, loss), beside)
    if shard.classes != loss.outputs:
        raise DataError(f"The loss is for {loss.outputs} classes, got {shard.classes}.")
    return ScoreRisk(shard, cast(ScoreLoss, loss))
