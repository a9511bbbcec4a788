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

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import expit

from ppadmm import checks
from ppadmm.arrays import Array
from ppadmm.errors import InputError
from ppadmm.registry import Registry


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


class OneMargin:
    """The constants that every loss of one margin shares."""

    outputs: ClassVar[int] = 1
    span: ClassVar[int] = 1
    trace: ClassVar[float] = 1.0
    square: ClassVar[float] = 1.0


@dataclass(frozen=True)
class Logistic(OneMargin):
    """ℓ(m) = log(1 + e⁻ᵐ); G = 1, c₁ = 1/4."""

    name: ClassVar[str] = "logistic"
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
class HuberHinge(OneMargin):
    """The hinge loss of a linear SVM, rounded off over a band of half-width h.

    ℓ(m) = 0 for m > 1+h, (1+h−m)²/(4h) for |1−m| ≤ h, 1−m for m < 1−h; G = 1, c₁ = 1/(2h).
    """

    width: float = 0.5
    name: ClassVar[str] = "huber-hinge"
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


def require_constants(kind: Callable[[], MarginLoss]) -> None:
    """Refuse a loss whose slopes or curvatures break its declared constants at margins tried.

    A guard against slips of the pen, not a proof: that is for whoever adds the loss.
    """
    loss = kind()
    margins = np.concatenate([np.linspace(-60.0, 60.0, 24_001), np.linspace(-2.0, 3.0, 20_001)])
    slope, bend, step = loss.gradient(margins.copy()), loss.curvature(margins), 1e-6
    rise = (loss.value(margins + step) - loss.value(margins - step)) / (2.0 * step)
    for broken, what in (
        (~(np.abs(slope) <= loss.lipschitz + 1e-12), f"|slope| ≤ lipschitz = {loss.lipschitz:g}"),
        (~(bend >= 0.0), "curvature ≥ 0"),
        (~(bend <= loss.smoothness + 1e-12), f"curvature ≤ smoothness = {loss.smoothness:g}"),
        (
            ~(np.abs(rise - slope) <= 1e-6 * (2.0 + loss.smoothness)),
            "gradient to be the derivative of value",
        ),
        (
            ~(np.abs(np.diff(slope, append=slope[-1])) <= _most(margins, loss.smoothness)),
            "a gradient that is continuous and no steeper than smoothness",
        ),
    ):
        if broken.any():
            m = margins[int(np.argmax(broken))]
            raise InputError(
                f"The loss {loss.name!r} breaks what it declares at margin {m:.6g}: expected "
                f"{what}. The noise rests on it; correct the loss."
            )


def _most(margins: Array, smoothness: float) -> Array:
    """Return how far a slope may move from each margin to the next."""
    gaps = np.abs(np.diff(margins, append=margins[-1]))
    return np.asarray(smoothness * gaps * (1.0 + 1e-9) + 1e-12)


LOSSES: Registry[Callable[[], MarginLoss]] = Registry(
    "loss", (Logistic, HuberHinge), require_constants
)
"""A user's own gets in with `LOSSES.add` (docs/howto/add-a-loss.md)."""


def loss_named(name: str) -> MarginLoss:
    """Return the loss called `name`, with its default parameters."""
    return LOSSES[checks.one_of("loss", name, LOSSES)]()
