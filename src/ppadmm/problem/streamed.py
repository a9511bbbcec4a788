"""The data part of an agent's objective where its records are larger than memory."""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from ppadmm.arrays import Array
from ppadmm.data.shard import Shard
from ppadmm.data.stream.blocks import ShardStream
from ppadmm.errors import DataError
from ppadmm.problem.losses import Loss
from ppadmm.problem.risk import Risk, accumulated
from ppadmm.problem.scores import risk_of
from ppadmm.records import HoldsRecords


class StreamedRisk(HoldsRecords):
    """f(θ) = Σ_b (n_b/n) f_b(θ), the blocks b of a stream read one after another.

    f_b is the risk of a block in memory. Every evaluation reads the whole stream once, whatever
    the number of points, and in double precision also where single would do: reading is the cost.
    """

    def __init__(self, stream: ShardStream, loss: Loss) -> None:
        if stream.signed and loss.outputs != 1:
            raise DataError(
                f"A stream of two classes needs a loss of one margin, got {loss.name!r}."
            )
        self.stream = stream
        self.loss = loss
        self.passes = 0
        self._terms = (0.0, 0.0)
        self._seen = 0

    @property
    def n(self) -> int:
        """The number of records."""
        return self.stream.n

    @property
    def d(self) -> int:
        """The number of parameters: the features, or K times as many."""
        return self.loss.outputs * self.stream.d

    def value(self, theta: Array) -> Array:
        """f(θ); (R, d) → (R,)."""
        self.passes += len(theta)
        return self._mean(lambda risk: risk.value(theta))

    def clipped_value(self, theta: Array, clip: float) -> Array:
        """(1/n) Σ min(loss, clip); (R, d) → (R,)."""
        self.passes += len(theta)
        return self._mean(lambda risk: risk.clipped_value(theta, clip))

    def gradient(self, theta: Array, single: bool = False) -> Array:
        """∇f(θ); (R, d) → (R, d)."""
        self.passes += len(theta)
        return self._mean(lambda risk: risk.gradient(theta))

    def hessian(self, theta: Array, single: bool = False) -> Array:
        """∇²f(θ) at one point; (d,) → (d, d)."""
        self.passes += 1
        return self._mean(lambda risk: risk.hessian(theta))

    @cached_property
    def gram(self) -> Array:
        """A (d, d) matrix M with ∇²f ⪯ c₁·M everywhere."""
        return self._mean(lambda risk: risk.gram)

    @property
    def second_moments(self) -> Array:
        """(1/n) Σ xxᵀ, (d, d)."""
        return self._mean(lambda risk: risk.second_moments)

    @property
    def squares(self) -> Array:
        """Its diagonal (d,)."""
        return self._mean(lambda risk: risk.squares)

    @property
    def rounding_terms(self) -> tuple[float, float]:
        """Return a, b such that `gradient` errs by at most a + b‖θ‖ in the Euclidean norm.

        With a_b, b_b of block b: the mean of the blocks' errors is at most that of the worst. To
        weigh, add and divide B gradients of norm ≤ G + a_b + b_b‖θ‖ errs by γ_{B+3} of that; one
        more unit covers that the sizes of computed and true gradients differ by a_b + b_b‖θ‖.
        """
        if self._seen < len(self.stream.tickets):
            self._mean(lambda risk: np.zeros(1))
        a, b = self._terms
        mixing = accumulated(len(self.stream.tickets) + 4)
        return a + mixing * (self.loss.lipschitz + a), b * (1.0 + mixing)

    def _mean(self, of: Callable[[Risk], Array]) -> Array:
        """(1/n) Σ_b n_b of(f_b), in the order of the blocks."""
        total: Array | float = 0.0
        for risk in self._risks():
            total = total + risk.n * of(risk)
        return np.asarray(total / self.n)

    def _risks(self) -> Iterator[Risk]:
        for k, shard in enumerate(self.stream.blocks()):
            risk = risk_of(shard, self.loss)
            if k >= self._seen:
                a, b = risk.rounding_terms
                self._terms = (max(a, self._terms[0]), max(b, self._terms[1]))
                self._seen = k + 1
            yield risk


def risk_over(part: Shard | ShardStream, loss: Loss, beside: int = 0) -> Risk:
    """Return the mean loss over an agent's records, in memory or streamed.

    `beside` is how many numbers other agents of this process have.
    """
    if isinstance(part, ShardStream):
        return StreamedRisk(part, loss)
    return risk_of(part, loss, beside)
