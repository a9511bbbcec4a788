"""Losses with the constants that the privacy proofs use.

A loss of one record is a convex function g of its scores u = Θx: of one margin m = y·θᵀx here, of
K class scores in `multiclass`. It declares

    lipschitz  G:   ‖∇g‖ ≤ G,
    smoothness c₁:  0 ⪯ ∇²g ⪯ c₁I          wherever ∇²g exists,
    span       q:   all its gradients lie in one q-dimensional space,
    trace      ρ:   tr ∇²g ≤ ρ·c₁,
    square     φ:   ‖∇²g‖²_F ≤ φ·c₁²,

and ∇g must be continuous with kinks on finitely many hyperplanes. The guarantee of every private
algorithm rests on these numbers, so the tests check them on random scores.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import expit

from ppadmm import checks
from ppadmm.typing import Array


class Loss(Protocol):
    """What the privacy of a loss rests on, and the size of its models."""

    @property
    def name(self) -> str:
        """The name a user types."""

    @property
    def outputs(self) -> int:
        """Rows of Θ: 1, or the number of classes."""

    @property
    def lipschitz(self) -> float:
        """G."""

    @property
    def smoothness(self) -> float:
        """c₁."""

    @property
    def span(self) -> int:
        """q."""

    @property
    def trace(self) -> float:
        """ρ."""

    @property
    def square(self) -> float:
        """φ."""


class MarginLoss(Loss, Protocol):
    """A convex function ℓ of one margin; |ℓ'| ≤ G, 0 ≤ ℓ'' ≤ c₁, q = ρ = φ = 1."""

    def value(self, margins: Array) -> Array:
        """ℓ(m), elementwise."""

    def gradient(self, margins: Array) -> Array:
        """ℓ'(m), elementwise."""

    def curvature(self, margins: Array) -> Array:
        """ℓ''(m), elementwise; at a kink either one-sided value."""


@dataclass(frozen=True)
class Logistic:
    """ℓ(m) = log(1 + e⁻ᵐ); G = 1, c₁ = 1/4."""

    name: ClassVar[str] = "logistic"
    outputs: ClassVar[int] = 1
    span: ClassVar[int] = 1
    trace: ClassVar[float] = 1.0
    square: ClassVar[float] = 1.0
    lipschitz: ClassVar[float] = 1.0
    smoothness: ClassVar[float] = 0.25

    def value(self, margins: Array) -> Array:
        """log(1 + e⁻ᵐ) without overflow."""
        return np.logaddexp(0.0, -margins)

    def gradient(self, margins: Array) -> Array:
        """−1 / (1 + eᵐ); beyond m = 80 it is 0 to working precision."""
        slope = np.minimum(margins, 80.0)
        np.exp(slope, out=slope)
        slope += 1.0
        return np.divide(-1.0, slope, out=slope)

    def curvature(self, margins: Array) -> Array:
        """p(1−p) with p = 1 / (1 + e⁻ᵐ)."""
        p: Array = expit(margins)
        return p * (1.0 - p)


@dataclass(frozen=True)
class HuberHinge:
    """The hinge loss of a linear SVM, rounded off over a band of half-width h.

    ℓ(m) = 0 for m > 1+h, (1+h−m)²/(4h) for |1−m| ≤ h, 1−m for m < 1−h; G = 1, c₁ = 1/(2h).
    """

    width: float = 0.5
    name: ClassVar[str] = "huber-hinge"
    outputs: ClassVar[int] = 1
    span: ClassVar[int] = 1
    trace: ClassVar[float] = 1.0
    square: ClassVar[float] = 1.0
    lipschitz: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        checks.positive("width", self.width)

    @property
    def smoothness(self) -> float:
        """1/(2h)."""
        return 1.0 / (2.0 * self.width)

    def value(self, margins: Array) -> Array:
        """ℓ(m), exactly linear left of the band."""
        h = self.width
        gap = np.clip(1.0 + h - margins, 0.0, 2.0 * h)
        return gap * gap / (4.0 * h) + np.maximum(1.0 - h - margins, 0.0)

    def gradient(self, margins: Array) -> Array:
        """−clip((1+h−m)/(2h), 0, 1)."""
        h = self.width
        return -np.clip((1.0 + h - margins) / (2.0 * h), 0.0, 1.0)

    def curvature(self, margins: Array) -> Array:
        """1/(2h) inside the band, 0 outside."""
        return np.where(np.abs(1.0 - margins) <= self.width, self.smoothness, 0.0)


LOSSES: dict[str, type[Logistic] | type[HuberHinge]] = {
    Logistic.name: Logistic,
    HuberHinge.name: HuberHinge,
}


def loss_named(name: str) -> MarginLoss:
    """Return the loss called `name`, with its default parameters."""
    return LOSSES[checks.one_of("loss", name, LOSSES)]()
