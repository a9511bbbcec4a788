"""Test figures on held-out records, in memory or streamed, at the end and round by round."""

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ppadmm.arrays import Array, Matrix
from ppadmm.data import ShardStream
from ppadmm.engines.local import Trace, averaged
from ppadmm.records import HoldsRecords
from ppadmm.runs.metrics import Metrics, area_under_curve, evaluate

HeldOut: TypeAlias = tuple[Matrix, Array] | ShardStream
Mask: TypeAlias = NDArray[np.bool_]
EXACT = 2**18
"""Up to so many held-out records of a stream the area under the curve is exact."""
BINS = 2**16
POINTS = 100
"""At most so many rounds are looked at, evenly spaced, the first and the last among them."""
SCORES = 2**22
"""Models are judged a few at a time, so that no more scores than this are held at once."""


def judge(test: HeldOut, theta: Array, classes: int = 2, areas: bool = True) -> Metrics:
    """Judge models θ (R, d), or (R, K·d), on held-out records; without `areas` AUC is NaN."""
    if not isinstance(test, ShardStream):
        some = max(SCORES // max(len(test[1]), 1), 1)
        parts = (theta[k : k + some] for k in range(0, len(theta), some))
        figures = [astuple(evaluate(*test, part, classes, areas)) for part in parts]
        return Metrics(*map(np.concatenate, zip(*figures, strict=True)))
    error, log_loss = np.zeros(len(theta)), np.zeros(len(theta))
    for shard in test.blocks():
        part = evaluate(shard.X, shard.y, theta, classes, areas=False)
        error += shard.n * part.error
        log_loss += shard.n * part.log_loss
    auc = [_area(test, model) if areas else np.nan for model in theta]
    return Metrics(error / test.n, np.array(auc), log_loss / test.n)


def records_in(test: HeldOut) -> int:
    """Return the number of held-out records."""
    return test.n if isinstance(test, ShardStream) else len(test[1])


def largest_share(test: HeldOut) -> float:
    """Return how often always naming the commonest class is right."""
    if isinstance(test, ShardStream):
        return float(test.counts.max() / test.n)
    return float(np.unique(test[1], return_counts=True)[1].max() / len(test[1]))


def _area(test: ShardStream, model: Array) -> float:
    """Return the area of one model: the mean over its scores, class k against the rest."""
    rows = model.reshape(-1, test.d)
    curves = [AllScores() if test.n <= EXACT else Binned(row) for row in rows]
    for shard in test.blocks():
        codes = shard.codes()
        for k, (row, curve) in enumerate(zip(rows, curves, strict=True)):
            curve.add(np.asarray(shard.X @ row), codes == (k if len(rows) > 1 else 1))
    return float(np.mean([curve.area() for curve in curves]))


class AllScores(HoldsRecords):
    """The area under the ROC curve from all scores."""

    def __init__(self) -> None:
        self._scores: list[Array] = []
        self._positive: list[Mask] = []

    def add(self, scores: Array, positive: Mask) -> None:
        """Keep the scores of a block."""
        self._scores.append(scores)
        self._positive.append(positive)

    def area(self) -> float:
        """Return the probability that a positive outranks a negative."""
        signs = np.where(np.concatenate(self._positive), 1.0, -1.0)
        return float(area_under_curve(np.concatenate(self._scores)[:, None], signs)[0])


class Binned(HoldsRecords):
    """The area under the ROC curve from counts in 65,536 bins.

    A score xᵀθ lies within ±‖θ‖, as ‖x‖ ≤ 1. Two records of one bin count as a tie: the area errs
    by at most half the share of pairs that fall into one bin.
    """

    def __init__(self, row: Array) -> None:
        self._reach = max(float(np.linalg.norm(row)), np.finfo(float).tiny)
        self._counts = np.zeros((2, BINS))

    def add(self, scores: Array, positive: Mask) -> None:
        """Count the scores of a block."""
        places = (scores / self._reach + 1.0) * (BINS / 2)
        bins = np.clip(places, 0, BINS - 1).astype(np.intp)
        for side, chosen in enumerate((~positive, positive)):
            self._counts[side] += np.bincount(bins[chosen], minlength=BINS)

    def area(self) -> float:
        """Return the probability that a positive outranks a negative, to the width of a bin."""
        negative, positive = self._counts
        if not negative.any() or not positive.any():
            return float("nan")
        below = np.cumsum(negative) - negative / 2.0
        return float((positive / positive.sum()) @ (below / negative.sum()))


def rounds_shown(rounds: int) -> NDArray[np.int64]:
    """Return which of the rounds 1 … T are looked at."""
    return np.unique(np.linspace(1, rounds, min(rounds, POINTS)).round().astype(np.int64))


def running_models(trace: Trace, rounds: NDArray[np.int64]) -> Array:
    """Return every agent's averaged model after each of `rounds`: (P, N, d), replicate 0.

    Post-processing of releases, hence covered by whatever covers them. Where all add up what all
    said it is θ after a round, which is what they know before the next; at the end, the model.
    """
    if trace.models is not None:
        after = np.concatenate([trace.releases[1:, :, 0], trace.models[None, :, 0]])
        return np.asarray(after[rounds - 1])
    until = [Trace(trace.releases[:t], trace.spoke[:t]) for t in rounds]
    return np.stack([part.agent_models()[:, 0] for part in until])


def figures_by_round(
    trace: Trace, weights: Sequence[float], test: HeldOut, classes: int = 2
) -> dict[str, Any]:
    """Judge the running averaged model on held-out records: a local diagnostic, not covered."""
    rounds = rounds_shown(trace.rounds)
    if trace.models is not None:
        rounds = rounds[1:]  # before the first step θ is 0, which is no model
    # One round at a time: the models of all agents in all rounds may be large.
    each = (running_models(trace, rounds[k : k + 1])[0] for k in range(len(rounds)))
    models = np.stack([averaged(models, weights) for models in each])
    figures = judge(test, models, classes, areas=False)
    return {
        "rounds": rounds.tolist(),
        "test_error": figures.error.tolist(),
        "test_log_loss": figures.log_loss.tolist(),
    }
