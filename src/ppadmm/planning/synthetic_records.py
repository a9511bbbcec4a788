"""Made-up populations to plan with: features of a kind, labels as hard to tell as is wanted.

A kind says how the features are spread; `strength` how much of the label they explain:

    class k has log-odds  b_k + strength·score_k(x),

with b chosen so that the commonest class has the share that is wanted. No real record was used.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import softmax

from ppadmm import checks
from ppadmm.data.encode import normalise_rows
from ppadmm.data.shard import Vector
from ppadmm.errors import InputError

Rows = NDArray[np.float64]
Pair = tuple[Rows, Rows]
Draw = Callable[[int, int, int, np.random.Generator], Pair]

STRENGTHS = (1e-3, 1e3)
ENOUGH = 4000
"""Records from which offsets and strength are worked out."""


@dataclass(frozen=True)
class SyntheticRecords:
    """Records X (n, d), ‖x‖ ≤ 1, whose labels are drawn by `labels`.

    `scores` (n, K) say what the features know about the classes, `luck` (n, K) is the rest;
    `shares` (K,) are the classes' shares, which every strength keeps.
    """

    X: Rows
    scores: Rows
    luck: Rows
    shares: tuple[float, ...]
    strength: float = 1.0

    @property
    def classes(self) -> int:
        """K."""
        return len(self.shares)

    def labels(self) -> Vector:
        """Draw y: the class with the largest log-odds plus luck; ±1 for two classes."""
        odds = self.strength * self.scores + self._offsets(self.strength)
        codes = np.asarray(np.argmax(odds + self.luck, axis=1), np.float64)
        return np.asarray(2.0 * codes - 1.0 if self.classes == 2 else codes)

    def least_error(self, strength: float) -> float:
        """Return how often the best classifier is wrong, E[1 − max p]."""
        odds = strength * self.scores[:ENOUGH] + self._offsets(strength)
        return float(1.0 - softmax(odds, axis=1).max(axis=1).mean())

    def with_error(self, error: float) -> "SyntheticRecords":
        """Return the same records with labels of which the best classifier gets `error` wrong."""
        largest, smallest = map(self.least_error, STRENGTHS)
        if not smallest < error < largest:
            raise InputError(
                f"Expected an error below {largest:.3g}, that of always naming the commonest "
                f"class, and above {smallest:.3g}, got {error:g}."
            )
        low, high = map(math.log, STRENGTHS)
        root = brentq(lambda t: self.least_error(math.exp(t)) - error, low, high, xtol=1e-4)
        return replace(self, strength=math.exp(float(root)))

    def _offsets(self, strength: float) -> Rows:
        """Return the b (K,) at which class k has share `shares[k]`.

        They minimise mean log Σ exp(scores + b) − sharesᵀb, which is convex: Newton's method, with
        steps that get shorter so that it settles where the strength is large.
        """
        scores, wanted = strength * self.scores[:ENOUGH], np.array(self.shares)
        b, most = np.log(wanted), max(1.0, strength)
        for _ in range(60):
            p = softmax(scores + b, axis=1)
            gap = wanted - p.mean(axis=0)
            if np.abs(gap).max() < 1e-4:
                break
            bend = np.diag(p.mean(axis=0) + 1e-290) - p.T @ p / len(p)  # inverted, it stays finite
            b = b + np.clip(np.linalg.pinv(bend, rcond=1e-9, hermitian=True) @ gap, -most, most)
            most *= 0.85
        return np.asarray(b)


def draw_population(
    kind: str, records: int, features: int, shares: tuple[float, ...], rng: np.random.Generator
) -> SyntheticRecords:
    """Draw records of a kind (see `POPULATIONS`); `features` counts the intercept."""
    draw = POPULATIONS[checks.one_of("population", kind, POPULATIONS)]
    checks.count("features", features, at_least=2)
    X, scores = draw(records, features, len(shares), rng)
    scores = scores - scores.mean(axis=0)
    scores = scores / max(float(np.sqrt((scores**2).mean())), 1e-12)
    rows = np.asarray(normalise_rows(X))
    return SyntheticRecords(rows, scores, _gumbel(scores.shape, rng), shares)


def class_shares(majority_error: float, classes: int) -> tuple[float, ...]:
    """Return shares of which the largest is 1 − majority error; the others fall off evenly."""
    checks.probability("majority error", majority_error)
    if majority_error > 1.0 - 1.0 / classes + 1e-12:
        raise InputError(
            f"Expected a majority error of at most {1.0 - 1.0 / classes:.3g} with {classes} "
            f"classes, got {majority_error:g}."
        )
    evenly = np.full(classes - 1, majority_error / (classes - 1))
    falling = np.arange(classes - 1, 0, -1.0)
    falling *= majority_error / falling.sum()
    share = 1.0 - majority_error
    rest = falling if falling[0] <= share else evenly
    return (share, *(float(r) for r in rest))


def _columns(
    records: int,
    features: int,
    classes: int,
    rng: np.random.Generator,
    *,
    follow: float,
    steep: float,
) -> Pair:
    """Draw a census or a survey: a few numbers in [0, 1] and answers to questions, one-hot.

    Two hidden traits make columns depend on one another; `follow` ties the label to them. `steep`
    is the effect of a number over its whole range, against one answer more or less.
    """
    sizes = _column_sizes(features - 1, rng)
    traits, telling = rng.standard_normal((records, 2)), rng.standard_normal((2, classes))
    X, scores = np.zeros((records, features)), np.zeros((records, classes))
    X[:, -1] = 1.0
    importance = rng.permutation(np.arange(1.0, len(sizes) + 1.0) ** -0.7)
    at = 0
    for size, weight in zip(sizes, importance, strict=True):
        load = rng.standard_normal((2, size))
        pull = traits @ load
        block = _answers(pull, rng) if size > 1 else _number(pull, 5.0 / steep, rng)
        X[:, at : at + size] = block
        effect = weight * (rng.standard_normal((size, classes)) + follow * load.T @ telling)
        scores += (block - block.mean(axis=0)) @ (steep * effect if size == 1 else effect)
        at += size
    return X, scores


def _column_sizes(total: int, rng: np.random.Generator) -> list[int]:
    """About a seventh of the features are numbers; the rest are questions of 2 to 9 answers."""
    numbers = max(1, total // 7)
    sizes, left = [1] * numbers, total - numbers
    while left > 0:
        size = min(int(rng.integers(2, 10)), left)
        sizes.append(size)
        left -= size
    return sizes


def _number(pull: Rows, narrow: float, rng: np.random.Generator) -> Rows:
    """Return a number in [0, 1] (n, 1) that the traits pull at."""
    value = 0.5 * pull + rng.standard_normal(pull.shape)
    centre, width = rng.uniform(0.2, 0.6), narrow * rng.uniform(0.06, 0.18)
    return np.asarray(np.clip(centre + width * value, 0.0, 1.0))


def _answers(pull: Rows, rng: np.random.Generator) -> Rows:
    """One-hot answers (n, size) with shares that fall off and follow the traits' pull."""
    odds = pull - rng.uniform(0.0, 1.0) * np.arange(pull.shape[1])
    return np.asarray(np.eye(pull.shape[1])[np.argmax(odds + _gumbel(odds.shape, rng), axis=1)])


def _gumbel(shape: tuple[int, ...], rng: np.random.Generator) -> Rows:
    return np.asarray(-np.log(-np.log1p(-rng.random(shape)) + 1e-300))


def _gaussian(
    records: int, features: int, classes: int, rng: np.random.Generator, *, power: float
) -> Pair:
    """Draw measurements: Gaussian with variances k^−power, of which the small ones tell as well."""
    scale = np.arange(1.0, features) ** (-power / 2.0)
    weight = scale**-0.5
    spread = float(np.sqrt((scale**2).sum()))
    Z = rng.standard_normal((records, len(scale))) * scale
    X = np.c_[Z, np.full(records, 0.5 * spread)]
    return X, np.asarray(Z @ (weight[:, None] * rng.standard_normal((len(scale), classes))))


POPULATIONS: dict[str, Draw] = {
    "table": partial(_columns, follow=1.5, steep=5.0),
    "scattered": partial(_columns, follow=0.3, steep=12.0),
    "power-law": partial(_gaussian, power=1.0),
    "flat": partial(_gaussian, power=0.0),
}
"""The label of a table mostly follows the traits; of a scattered one it hangs on small differences:
narrow numbers tell as much. By a power law measurements depend on one another (variances 1, 1/2,
1/3, …); flat ones have nothing to do with one another, and each tells a little."""
