"""A run round by round: the model that would have come out had it stopped there."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppadmm.arrays import Array
from ppadmm.engines.local import Trace
from ppadmm.runs.evaluation import HeldOut, judge

POINTS = 100
"""At most so many rounds are looked at, evenly spaced, the first and the last among them."""


def rounds_shown(rounds: int) -> NDArray[np.int64]:
    """Return which of the rounds 1 … T are looked at."""
    return np.unique(np.linspace(1, rounds, min(rounds, POINTS)).round().astype(np.int64))


def running_models(trace: Trace, rounds: NDArray[np.int64]) -> Array:
    """Return every agent's averaged model after each of `rounds`: (P, N, d), replicate 0.

    Post-processing of releases, hence covered by whatever covers them.
    """
    until = [Trace(trace.releases[:t], trace.spoke[:t]) for t in rounds]
    return np.stack([part.agent_models()[:, 0] for part in until])


def figures_by_round(trace: Trace, test: HeldOut, classes: int = 2) -> dict[str, Any]:
    """Judge the running averaged model on held-out records: a local diagnostic, not covered."""
    rounds = rounds_shown(trace.rounds)
    # One round at a time: the models of all agents in all rounds may be large.
    models = [running_models(trace, rounds[k : k + 1]).mean(axis=1) for k in range(len(rounds))]
    figures = judge(test, np.concatenate(models), classes, areas=False)
    return {
        "rounds": rounds.tolist(),
        "test_error": figures.error.tolist(),
        "test_log_loss": figures.log_loss.tolist(),
    }
