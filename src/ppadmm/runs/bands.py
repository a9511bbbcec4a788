"""How far noise may have moved a number that is linear in the model: bands from releases alone.

Summed over the agents the duals cancel, and their weighted mean M moves as in noisy gradient
descent (docs/curves.md has the derivation):

    M⁺ = (I + aH)⁻¹(M + aHm* − push) + shift,   M⁰ = 0.

The variances of both noises are public. H, how much the records hold M back, is not: the path of M
tells it. Along one contrast qᵀM the path is taken for a sum of LEVELS damped walks, whose damping
aλ is spread by a factor e^{±s} about one value; both are unknown. Their posterior follows from the
likelihood of the path, with a prior on m* that is public and one on (aλ, s) that all contrasts
share (empirical Bayes). Given (aλ, s) the noise in the average over the last half of the rounds is
normal with a known variance. The band is the 90 % quantile of the mixture.

A place of a column is told against the mean of its K places, so its contrast holds 1/K of every
other place: whose noise is in it, too, however firmly the records hold the place itself. If the
places' noises are independent, no variance in a column is below its mean over K − 1 (`_floored`).

Nothing here reads a record. The constants were chosen on synthetic data, `benchmarks/bands.py`
measures the coverage.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ppadmm.arrays import Array, Rows

Mask: TypeAlias = NDArray[np.bool_]
LEVEL = 0.9
"""How often a band is meant to contain what the run without noise gives."""
DEVIATIONS = float(ndtri((1.0 + LEVEL) / 2.0))
"""Half the width of such a band of a normal number, in standard deviations."""
SPREADS, LEVELS = (0.0, 1.0, 2.0), 5
DAMPINGS, LEAST = 20, 0.02
"""Values of aλ that are looked at, from LEAST/T on: less is not told apart from none."""
PASSES, FLOOR = 20, 0.1
"""Steps towards the common prior, and the share of it that stays uniform."""
LOOKS = 80
"""At most so many rounds of a path are looked at, evenly spaced."""
HALVINGS = 40


@dataclass(frozen=True)
class NoisyWalk:
    """The public numbers of M's path over T rounds.

    `push` and `shift` are the variances of its two noises in every coordinate, before and after the
    damping. `most` is the largest aλ. `reach` is how far from 0 the end m* is thought to be in a
    coordinate: the standard deviation of the prior.
    """

    rounds: int
    push: float
    shift: float
    most: float
    reach: float

    @cached_property
    def looks(self) -> Rows:
        """The rounds 1 … T that are looked at."""
        return np.unique(np.linspace(1, self.rounds, min(self.rounds, LOOKS)).round().astype(int))

    @cached_property
    def dampings(self) -> Array:
        """The aλ of every component of every candidate, (candidates, LEVELS)."""
        middle = np.geomspace(min(LEAST / self.rounds, self.most / 2.0), self.most, DAMPINGS)
        apart = ndtri((np.arange(LEVELS) + 0.5) / LEVELS)
        factors = np.exp(np.array(SPREADS)[:, None] * apart)
        return np.asarray(middle[:, None, None] * factors).reshape(-1, LEVELS)

    def averaged_variances(self, damping: Array) -> Array:
        """Return the variance of the noise in the average over the last half, for each aλ."""
        keep = 1.0 / (1.0 + damping)
        return (keep**2 * self.push + self.shift) * _averaging(keep, self.rounds)

    def covariance(self, dampings: Array) -> Array:
        """Return the covariance of a path of unit contrast at `looks`: noise and the way to m*."""
        t, total = self.looks.astype(float), np.zeros((len(self.looks), len(self.looks)))
        for keep in 1.0 / (1.0 + dampings):
            noise = keep**2 * self.push + self.shift
            apart, both = np.abs(t[:, None] - t), t[:, None] + t
            total += noise * (keep**apart - keep**both) / (1.0 - keep**2)
            total += self.reach**2 * np.outer(1.0 - keep**t, 1.0 - keep**t)
        return total / len(dampings)


def half_widths(walk: NoisyWalk, path: Array, sizes: Array, free: Mask, group: Rows) -> Array:
    """Return half the width of the band of every contrast, (P,).

    Parameters
    ----------
    walk : NoisyWalk
        The public numbers of the run.
    path : array (len(walk.looks), P)
        qᵀM of every contrast at the rounds that are looked at.
    sizes : array (P,)
        ‖q‖.
    free : array (P,) of bool
        Contrasts that few records or none hold back: a path that noise alone moves is assumed,
        which is the widest band there is.
    group : array (P,) of int
        Contrasts of one number are the centred places of one column.
    """
    loose = DEVIATIONS * np.sqrt(walk.averaged_variances(np.array([1e-12])))
    widths = np.full(len(sizes), float(loose[0]))
    known = ~free & (sizes > 0.0)
    if known.any():
        likelihood = _log_likelihood(walk, path[:, known] / sizes[known])
        spreads = walk.averaged_variances(walk.dampings.ravel()).reshape(walk.dampings.shape)
        widths[known] = _quantile(_posterior(likelihood), np.sqrt(spreads.mean(axis=1)))
    widths *= sizes
    widths[known] = _floored(widths[known], group[known])
    return widths


def _floored(widths: Array, group: Rows) -> Array:
    """Return h, at least √(mean of h² over the K > 2 of its group/(K − 1))."""
    count = np.bincount(group)
    mean = np.bincount(group, widths**2) / np.maximum(count, 1)
    least = np.where(count > 2, np.sqrt(mean / np.maximum(count - 1, 1)), 0.0)
    return np.asarray(np.maximum(widths, least[group]))


def _averaging(keep: Array, rounds: int) -> Array:
    """Σₖ wₖ², wₖ what a unit of noise in round k adds to the average over the last half."""
    half, k = rounds // 2, np.arange(1, rounds + 1)
    sums = np.cumsum(keep[:, None] ** np.arange(rounds), axis=1)
    before = np.where(k <= half, sums[:, np.maximum(half - k, 0)], 0.0)
    return np.asarray((((sums[:, rounds - k] - before) / (rounds - half)) ** 2).sum(axis=1))


def _log_likelihood(walk: NoisyWalk, path: Array) -> Array:
    """Return log p(path | candidate) of every contrast, (P, candidates)."""
    found = []
    for dampings in walk.dampings:
        covariance = walk.covariance(dampings)
        tiny = 1e-12 * np.trace(covariance) / len(covariance)
        root = np.linalg.cholesky(covariance + tiny * np.eye(len(covariance)))
        white = np.linalg.solve(root, path)
        found.append(-0.5 * (white**2).sum(axis=0) - np.log(np.diag(root)).sum())
    return np.array(found).T


def _posterior(log_likelihood: Array) -> Array:
    """Return the posterior over candidates, (P, candidates), under the prior that fits them all."""
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    prior = np.full(likelihood.shape[1], 1.0 / likelihood.shape[1])
    for _ in range(PASSES):
        prior = (1.0 - FLOOR) * _normalised(likelihood * prior).mean(axis=0) + FLOOR / len(prior)
    return _normalised(likelihood * prior)


def _normalised(rows: Array) -> Array:
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def _quantile(weights: Array, deviations: Array) -> Array:
    """Return the h with P(|mixture of N(0, deviations²)| ≤ h) = LEVEL, for every row of weights."""
    low, high = np.zeros(len(weights)), np.full(len(weights), 4.0 * deviations.max())
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        inside = (weights * (2.0 * ndtr(middle[:, None] / deviations) - 1.0)).sum(axis=1)
        low = np.where(inside < LEVEL, middle, low)
        high = np.where(inside < LEVEL, high, middle)
    return high
