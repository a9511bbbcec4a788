"""Losses of K class scores u = Θx, for more than two classes.

The constants G, c₁, q, ρ and φ are derived in docs/privacy.md, section 13. Scores have shape
(…, K) and `codes` (…), the number of each record's class, broadcasts against it.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from ppadmm import checks
from ppadmm.arrays import Array
from ppadmm.errors import InputError
from ppadmm.problem.losses import Logistic, Loss, MarginLoss, loss_named

Codes = NDArray[np.intp]
MULTICLASS = ("auto", "multinomial", "one-vs-rest")


class ScoreLoss(Loss, Protocol):
    """A convex function g of K scores and a class."""

    def value(self, scores: Array, codes: Codes) -> Array:
        """g, (…, K) → (…)."""

    def gradient(self, scores: Array, codes: Codes) -> Array:
        """∇g, (…, K) → (…, K)."""

    def curvature(self, scores: Array, codes: Codes) -> Array:
        """∇²g, (…, K) → (…, K, K)."""

    @property
    def shape(self) -> Array:
        """C, (K, K), such that ∇²g ⪯ c₁·C everywhere."""


@dataclass(frozen=True)
class Multinomial:
    """g(u) = log Σ exp(u_k) − u_y; G = √2, c₁ = ½, q = K − 1, ρ = 2(1 − 1/K), φ = 1."""

    classes: int

    def __post_init__(self) -> None:
        checks.count("classes", self.classes, at_least=2)

    @property
    def name(self) -> str:
        """The name a user types."""
        return "multinomial"

    @property
    def outputs(self) -> int:
        """K."""
        return self.classes

    @property
    def lipschitz(self) -> float:
        """‖p − e_y‖ ≤ √2."""
        return math.sqrt(2.0)

    @property
    def smoothness(self) -> float:
        """‖diag p − ppᵀ‖ ≤ ½."""
        return 0.5

    @property
    def span(self) -> int:
        """Gradients add up to 0 over the classes."""
        return self.classes - 1

    @property
    def trace(self) -> float:
        """1 − Σp² ≤ 1 − 1/K, over c₁."""
        return 2.0 * (1.0 - 1.0 / self.classes)

    @property
    def square(self) -> float:
        """‖diag p − ppᵀ‖²_F ≤ ¼, over c₁²."""
        return 1.0

    @property
    def shape(self) -> Array:
        """diag p − ppᵀ ⪯ ½(I − 11ᵀ/K) (Böhning 1992)."""
        return np.eye(self.classes) - 1.0 / self.classes

    def value(self, scores: Array, codes: Codes) -> Array:
        """log Σ exp(u_k − u_y)."""
        return np.asarray(logsumexp(scores, axis=-1) - _of_class(scores, codes))

    def gradient(self, scores: Array, codes: Codes) -> Array:
        """p − e_y."""
        slope: Array = softmax(scores, axis=-1)
        at = _index(codes, slope)
        np.put_along_axis(slope, at, np.take_along_axis(slope, at, -1) - 1.0, -1)
        return slope

    def curvature(self, scores: Array, codes: Codes) -> Array:
        """Diag p − ppᵀ."""
        p: Array = softmax(scores, axis=-1)
        return p[..., None] * np.eye(self.classes) - p[..., None] * p[..., None, :]


@dataclass(frozen=True)
class OneVsRest:
    """g(u) = Σ_k ℓ(±u_k), + for the record's class; √K·G of ℓ, c₁ of ℓ, q = ρ = φ = K."""

    margin: MarginLoss
    classes: int

    def __post_init__(self) -> None:
        checks.count("classes", self.classes, at_least=2)

    @property
    def name(self) -> str:
        """The name a user types."""
        return f"one-vs-rest {self.margin.name}"

    @property
    def outputs(self) -> int:
        """K."""
        return self.classes

    @property
    def lipschitz(self) -> float:
        """√K·G."""
        return math.sqrt(self.classes) * self.margin.lipschitz

    @property
    def smoothness(self) -> float:
        """c₁: the Hessian is diagonal."""
        return self.margin.smoothness

    @property
    def span(self) -> int:
        """K."""
        return self.classes

    @property
    def trace(self) -> float:
        """K."""
        return float(self.classes)

    @property
    def square(self) -> float:
        """K."""
        return float(self.classes)

    @property
    def shape(self) -> Array:
        """I."""
        return np.eye(self.classes)

    def value(self, scores: Array, codes: Codes) -> Array:
        """Σ_k ℓ(±u_k)."""
        return np.asarray(self.margin.value(self._signs(codes) * scores).sum(axis=-1))

    def gradient(self, scores: Array, codes: Codes) -> Array:
        """±ℓ'(±u_k)."""
        signs = self._signs(codes)
        return np.asarray(signs * self.margin.gradient(signs * scores))

    def curvature(self, scores: Array, codes: Codes) -> Array:
        """Diag ℓ''(±u_k)."""
        bend = self.margin.curvature(self._signs(codes) * scores)
        return bend[..., None] * np.eye(self.classes)

    def _signs(self, codes: Codes) -> Array:
        return np.where(codes[..., None] == np.arange(self.classes), 1.0, -1.0)


def loss_for(name: str, classes: int, multiclass: str = "auto") -> Loss:
    """Return the loss of `name` for so many classes.

    With two it is a loss of one margin. With more `auto` means multinomial for the logistic loss
    and one-vs-rest for any other.
    """
    margin = loss_named(name)
    checks.one_of("multiclass", multiclass, MULTICLASS)
    if classes == 2:
        if multiclass != "auto":
            raise InputError(f"Expected multiclass auto for two classes, got {multiclass!r}.")
        return margin
    if multiclass == "one-vs-rest" or (multiclass == "auto" and margin.name != Logistic.name):
        return OneVsRest(margin, classes)
    if margin.name != Logistic.name:
        raise InputError(
            f"The multinomial loss is logistic, got loss {name!r}; choose one-vs-rest for it."
        )
    return Multinomial(classes)


def _index(codes: Codes, scores: Array) -> Codes:
    return np.broadcast_to(codes[..., None], (*scores.shape[:-1], 1))


def _of_class(scores: Array, codes: Codes) -> Array:
    return np.take_along_axis(scores, _index(codes, scores), -1)[..., 0]
