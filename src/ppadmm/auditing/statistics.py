"""What a distinguishing game shows: a lower bound on the privacy loss, beside the claim.

Someone runs the mechanism many times on D and many times on D' and computes a score from each
transcript. An event "score > t" has probability TPR on one side and FPR on the other, and whoever
claims (ε, δ) for every pair of a curve claims

    TPR ≤ min over the curve of eᵉ·FPR + δ.

The score and t are chosen on one half of the runs; on the other half Clopper–Pearson intervals
bound TPR from below and FPR from above. If the claim is true, a game exceeds it with probability
at most 1 − confidence. A game that stays below a claim proves nothing.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from ppadmm import checks
from ppadmm.accounting import accountant
from ppadmm.accounting.events import Tally
from ppadmm.accounting.gaussian import gdp_epsilon
from ppadmm.arrays import Array
from ppadmm.errors import InputError

CONFIDENCE = 0.999
DELTAS: Array = np.geomspace(1e-12, 0.9, 60)
HIGHEST_FPR = 0.5
THRESHOLDS = 400
LEAST_RUNS = 100

Scores = Mapping[str, tuple[Array, Array]]
"""By attack: the scores of the runs on D and of those on D'."""
Gain = Callable[[Array, Array], Array]
Counts = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Claim:
    """Pairs (ε, δ) that are claimed at once, arrays (K,)."""

    epsilons: Array
    deltas: Array

    @classmethod
    def of(cls, tally: Tally, deltas: Array = DELTAS) -> "Claim":
        """Return what the accountant proves for `tally`, at many δ."""
        found = [accountant.epsilon(tally, float(delta)).epsilon for delta in deltas]
        return cls(np.array(found), deltas)

    def power(self, fpr: Array) -> Array:
        """Return the largest TPR that the claim allows at each FPR.

        TPR ≤ eᵉ·FPR + δ, and the same for the event that does not happen, on exchanged sides:
        1 − FPR ≤ eᵉ·(1 − TPR) + δ.
        """
        odds = np.exp(np.minimum(self.epsilons, 700.0))
        here = np.multiply.outer(fpr, odds) + self.deltas
        there = 1.0 - np.maximum(np.subtract.outer(1.0 - fpr, self.deltas), 0.0) / odds
        return np.asarray(np.minimum(here, there).min(axis=-1))


@dataclass(frozen=True)
class Finding:
    """What one game showed, on the half of the runs that nothing was chosen on.

    `tpr` and `fpr` are bounds that hold together with `confidence`, `allowed` is the TPR that the
    claim allows. `epsilon` is a lower bound at `delta` that assumes nothing; `gaussian_epsilon` is
    one that holds if the privacy loss is that of a Gaussian mechanism, and then far tighter.
    """

    attack: str
    runs: int
    confidence: float
    tpr: float
    fpr: float
    allowed: float
    delta: float
    epsilon: float
    gaussian_epsilon: float

    @property
    def exceeded(self) -> bool:
        """Whether the runs refute the claim."""
        return self.tpr > self.allowed


@dataclass(frozen=True)
class _Event:
    """sign·score > threshold, more likely on D or, `exchanged`, on D'."""

    attack: str
    sign: float
    exchanged: bool
    threshold: float

    def bounds(self, scores: Scores, alpha: float) -> tuple[float, float]:
        """Bound how often it happens: at least on the signal side, at most on the other."""
        sides = _sides(scores[self.attack], self.sign, self.exchanged)
        hits, false = ((side > self.threshold).sum() for side in sides)
        runs = min(map(len, sides))
        return float(at_least(hits, runs, alpha)), float(at_most(false, runs, alpha))


def at_least(hits: Counts, runs: int, alpha: float) -> Array:
    """Clopper–Pearson: the rate is at least this, wrong with probability ≤ α."""
    safe = np.maximum(hits, 1)
    return np.where(hits > 0, betaincinv(safe, runs - safe + 1.0, alpha), 0.0)


def at_most(hits: Counts, runs: int, alpha: float) -> Array:
    """Clopper–Pearson: the rate is at most this, wrong with probability ≤ α."""
    safe = np.minimum(hits, runs - 1)
    return np.where(hits < runs, betaincinv(safe + 1.0, runs - safe, 1.0 - alpha), 1.0)


def judge(scores: Scores, claim: Claim, delta: float, confidence: float = CONFIDENCE) -> Finding:
    """Choose an attack and a threshold on one half of the runs and bound its rates on the other."""
    checks.probability("confidence", confidence)
    _require(scores)
    first = {name: (a[0::2], b[0::2]) for name, (a, b) in scores.items()}
    second = {name: (a[1::2], b[1::2]) for name, (a, b) in scores.items()}
    alpha = (1.0 - confidence) / 2.0
    worst = _best(first, alpha, lambda tpr, fpr: ndtri(tpr) - ndtri(claim.power(fpr)))
    tpr, fpr = worst.bounds(second, alpha)
    ratio = _best(first, alpha, lambda t, f: _log_ratio(t, f, delta))
    return Finding(
        attack=worst.attack,
        runs=min(len(side) for pair in scores.values() for side in pair),
        confidence=confidence,
        tpr=tpr,
        fpr=fpr,
        allowed=float(claim.power(np.array(fpr))),
        delta=delta,
        epsilon=_epsilon(*ratio.bounds(second, alpha), delta),
        gaussian_epsilon=_gaussian(tpr, fpr, delta),
    )


def _require(scores: Scores) -> None:
    for name, sides in scores.items():
        if min(len(side) for side in sides) < LEAST_RUNS:
            raise InputError(f"Expected at least {LEAST_RUNS} runs a side to judge {name!r}.")
        if any(np.isnan(side).any() for side in sides):
            raise InputError(f"The attack {name!r} gave a score that is not a number.")


def _sides(pair: tuple[Array, Array], sign: float, exchanged: bool) -> tuple[Array, Array]:
    """Return the scores of the side that the event is meant to betray, then the other's."""
    ours, theirs = pair
    return (sign * theirs, sign * ours) if exchanged else (sign * ours, sign * theirs)


def _best(scores: Scores, alpha: float, gain: Gain) -> _Event:
    """Return the event with the largest gain among those with FPR ≤ ½."""
    found, levels = [], np.linspace(0.0, 1.0, THRESHOLDS)
    for name, sign, exchanged in product(scores, (1.0, -1.0), (False, True)):
        pooled = sign * np.concatenate(scores[name])
        thresholds = np.unique(np.quantile(pooled, levels, method="inverted_cdf"))
        signal, null = (np.sort(side) for side in _sides(scores[name], sign, exchanged))
        hits = len(signal) - np.searchsorted(signal, thresholds, side="right")
        false = len(null) - np.searchsorted(null, thresholds, side="right")
        value = gain(at_least(hits, len(signal), alpha), at_most(false, len(null), alpha))
        value = np.where(false <= HIGHEST_FPR * len(null), value, -math.inf)
        k = int(np.argmax(value))
        found.append((float(value[k]), _Event(name, sign, exchanged, float(thresholds[k]))))
    return max(found, key=lambda pair: pair[0])[1]


def _log_ratio(tpr: Array, fpr: Array, delta: float) -> Array:
    return np.asarray(np.log(np.maximum(tpr - delta, 1e-300) / fpr))


def _epsilon(tpr: float, fpr: float, delta: float) -> float:
    """(ε, δ) with a smaller ε is refuted by TPR > eᵉ·FPR + δ."""
    return max(0.0, float(_log_ratio(np.array(tpr), np.array(fpr), delta)))


def _gaussian(tpr: float, fpr: float, delta: float) -> float:
    """Return the ε at δ of the Gaussian mechanism with m = Φ⁻¹(TPR) − Φ⁻¹(FPR)."""
    m = float(ndtri(tpr) - ndtri(fpr))
    return gdp_epsilon(delta, m) if m > 0.0 else 0.0
