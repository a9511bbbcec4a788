"""Test figures of a linear classifier. Scores have shape (n, R), labels (n,)."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from ppadmm.typing import Array, Matrix


@dataclass(frozen=True)
class Metrics:
    """Error rate, area under the ROC curve and mean logistic loss, each (R,)."""

    error: Array
    auc: Array
    log_loss: Array


def evaluate(X: Matrix, y: Array, theta: Array) -> Metrics:
    """Judge models θ (R, d) on records X (n, d) with labels ±1."""
    scores: Array = X @ theta.T
    margins = scores * y[:, None]
    return Metrics(
        error=(margins <= 0.0).mean(axis=0),
        auc=area_under_curve(scores, y),
        log_loss=np.logaddexp(0.0, -margins).mean(axis=0),
    )


def area_under_curve(scores: Array, y: Array) -> Array:
    """Return the probability that a random positive outranks a random negative, ties one half.

    NaN where there are no positives or no negatives.
    """
    positive = y > 0
    p, q = int(positive.sum()), int((~positive).sum())
    if p == 0 or q == 0:
        return np.full(scores.shape[1], np.nan)
    ranks = rankdata(scores, axis=0)[positive].sum(axis=0)
    return np.asarray((ranks - p * (p + 1) / 2.0) / (p * q))
