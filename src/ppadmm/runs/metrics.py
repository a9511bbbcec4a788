"""Test figures of a linear classifier. Scores of two classes have shape (n, R), of K (n, R, K)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ppadmm.arrays import Array, Matrix


@dataclass(frozen=True)
class Metrics:
    """Error rate, area under the ROC curve and mean logistic loss, each (R,)."""

    error: Array
    auc: Array
    log_loss: Array


def evaluate(X: Matrix, y: Array, theta: Array, classes: int = 2, areas: bool = True) -> Metrics:
    """Judge models θ (R, d), or (R, K·d), on records X (n, d) with labels as in `Shard`.

    Without `areas` the AUC, which sorts all scores, is left out (NaN).
    """
    if theta.shape[1] != X.shape[1]:
        return _evaluate_scores(X, y, theta, classes, areas)
    scores: Array = X @ theta.T
    margins = scores * y[:, None]
    return Metrics(
        error=(margins <= 0.0).mean(axis=0),
        auc=area_under_curve(scores, y) if areas else np.full(len(theta), np.nan),
        log_loss=np.logaddexp(0.0, -margins).mean(axis=0),
    )


def _evaluate_scores(X: Matrix, y: Array, theta: Array, classes: int, areas: bool) -> Metrics:
    """Take the class of the largest score, softmax probabilities, and the mean AUC over classes.

    A record whose largest score is shared by several classes counts as an error.
    """
    rows = theta.reshape(-1, X.shape[1])
    scores = np.asarray(X @ rows.T).reshape(len(y), len(theta), classes)
    codes = y.astype(np.intp)
    own = np.take_along_axis(scores, codes[:, None, None], axis=2)
    others = np.where(np.arange(classes) == codes[:, None, None], -np.inf, scores).max(axis=2)
    return Metrics(
        error=(own[:, :, 0] <= others).mean(axis=0),
        auc=_mean_area(scores, codes) if areas else np.full(len(theta), np.nan),
        log_loss=(logsumexp(scores, axis=2) - own[:, :, 0]).mean(axis=0),
    )


def _mean_area(scores: Array, codes: NDArray[np.intp]) -> Array:
    """Average the areas of every class against the rest."""
    classes = range(scores.shape[2])
    signs = [np.where(codes == k, 1.0, -1.0) for k in classes]
    return np.asarray(np.mean([area_under_curve(scores[:, :, k], signs[k]) for k in classes], 0))


def area_under_curve(scores: Array, y: Array) -> Array:
    """Return the probability that a random positive outranks a random negative, ties one half.

    NaN where there are no positives or no negatives.
    """
    positive = y > 0
    p, q = int(positive.sum()), int((~positive).sum())
    if p == 0 or q == 0:
        return np.full(scores.shape[1], np.nan)
    ranks = np.array([_ranks(column)[positive].sum() for column in scores.T])
    return np.asarray((ranks - p * (p + 1) / 2.0) / (p * q))


def _ranks(values: Array) -> Array:
    """Return ranks from 1, ties sharing their mean (`scipy.stats` has it but is slow to load)."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[places])
