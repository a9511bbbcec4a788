"""The least ε over all Rényi orders, of a bound that may have several valleys.

With λ = α − 1 and x = log λ, ε(x) = D + c, where D is the divergence and
c = log(1 − 1/α) − (log δ + log α)/λ. Two facts (docs/privacy.md, section 7) make the search exact:

- D grows with the order (but for a part L/λ of it), and c falls up to α = 1/δ and grows from
  there. So on a stretch of orders ε is at least D at its beginning plus the least of c on it.
- Between the orders at which an event goes over from one theorem to another, λ·ε is convex, hence
  ε has one valley there.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ppadmm.arrays import Array

GRID: Array = np.log(np.geomspace(1e-4, 1e7, 96))
"""log(α − 1) of the coarse grid of orders."""
SHARES: Array = np.linspace(0.0, 1.0, 129)
WIDTH, FLAT = 2e-7, 1e-11
"""A valley is searched until it is so narrow, or until ε differs so little in it, relatively."""


@dataclass(frozen=True)
class Curve:
    """ε by x = log(α − 1) at one δ, from the `divergence` at orders; `fading` is its L."""

    divergence: Callable[[Array], Array]
    delta: float
    fading: float = 0.0

    def at(self, x: Array) -> tuple[Array, Array]:
        """Return D and ε at each x."""
        lam = np.exp(x)
        divergence = self.divergence(1.0 + lam)
        return divergence, divergence + conversion(lam, self.delta)

    def floor(self, divergence: Array, low: Array, high: Array) -> Array:
        """Return what ε is at least from `low`, where D is `divergence`, to `high`."""
        turn = np.minimum(np.maximum(low, math.log(1.0 / self.delta - 1.0)), high)
        faded = self.fading * (np.exp(-low) - np.exp(-high))
        return np.asarray(divergence - faded + conversion(np.exp(turn), self.delta))


def conversion(lam: Array, delta: float) -> Array:
    """log(1 − 1/α) − (log δ + log α)/(α − 1), α = 1 + λ (Canonne, Kamath & Steinke 2020)."""
    order = 1.0 + lam
    return np.asarray(np.log(lam / order) - (math.log(delta) + np.log(order)) / lam)


def least_epsilon(curve: Curve, cuts: Callable[[float, float], Sequence[float]]) -> float:
    """Return the least ε ≥ 0 over the orders of the grid and all between them.

    `cuts(low, high)` returns every x between at which an event goes over to another theorem.
    """
    divergence, values = curve.at(GRID)
    best = float(values.min())
    if not 0.0 < best < math.inf:
        return max(best, 0.0)
    promising = np.flatnonzero(curve.floor(divergence[:-1], GRID[:-1], GRID[1:]) < best)
    if not promising.size:
        return best
    low, high = float(GRID[promising[0]]), float(GRID[promising[-1] + 1])
    inner = sorted(cuts(low, high))
    return _deepest(curve, best, np.array([low, *inner]), np.array([*inner, high]))


def _deepest(curve: Curve, best: float, low: Array, high: Array) -> float:
    """Search stretches with one valley each, all at a time; leave out who cannot be the deepest."""
    while low.size and float((high - low).max()) > WIDTH:
        x = low[:, None] + (high - low)[:, None] * SHARES
        divergence, values = (part.reshape(x.shape) for part in curve.at(x.ravel()))
        best = min(best, float(values.min()))
        if best <= 0.0:
            return 0.0
        rows, k = np.arange(len(x)), values.argmin(axis=1)
        left, right = np.maximum(k - 1, 0), np.minimum(k + 1, SHARES.size - 1)
        low, high = x[rows, left], x[rows, right]
        edges = np.maximum(values[rows, left], values[rows, right])
        flat = edges - values[rows, k] <= FLAT * best
        keep = ~flat & (curve.floor(divergence[rows, left], low, high) < best)
        low, high = low[keep], high[keep]
    return best
