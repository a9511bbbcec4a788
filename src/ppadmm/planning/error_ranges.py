"""Simulated errors with their range, and how two of them compare."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RANGE = (0.1, 0.9)
BETTER = 0.98
"""A model is better than naming the commonest class if its error is less than so much of that."""


@dataclass(frozen=True)
class Forecast:
    """Simulated test errors at one ε, over populations and noise; empty if ε is infeasible."""

    epsilon: float
    errors: tuple[float, ...]
    infeasible: str | None = None

    @property
    def median(self) -> float | None:
        """Half of the simulated runs do better."""
        return float(np.median(self.errors)) if self.errors else None

    @property
    def range(self) -> tuple[float, float] | None:
        """Four of five simulated runs lie within."""
        return quantiles(self.errors) if self.errors else None

    def reaching(self, error: float) -> float | None:
        """Share of the simulated runs whose error is at most `error`."""
        return float(np.mean(np.array(self.errors) <= error)) if self.errors else None

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, fit for JSON."""
        low, high = self.range or (None, None)
        return {
            "epsilon": self.epsilon,
            "error": self.median,
            "low": low,
            "high": high,
            "infeasible": self.infeasible,
        }


@dataclass(frozen=True)
class Change:
    """What one change would do: how much less error, run by run with the same noise seeds.

    `sources` says which population each run is on.
    """

    name: str
    words: str
    gains: tuple[float, ...]
    sources: tuple[int, ...] = ()
    infeasible: str | None = None

    @property
    def gain(self) -> float:
        """Mean fall of the error."""
        return float(np.mean(self.gains)) if self.gains else float("-inf")

    @property
    def uncertainty(self) -> float:
        """Standard error of the gain; runs on one population count as one, their mean."""
        if not self.gains:
            return 0.0
        gains, sources = np.array(self.gains), np.array(self.sources)
        means = [gains[sources == k].mean() for k in np.unique(sources)]
        return float(np.std(means, ddof=1) / np.sqrt(len(means)))

    def direction(self, least: float) -> int:
        """Return 1 for less error and −1 for more, 0 if it is less than `least` or uncertain.

        A difference is certain if it is larger than two standard errors.
        """
        if self.is_small(least) or abs(self.gain) <= 2.0 * self.uncertainty:
            return 0
        return 1 if self.gain > 0.0 else -1

    def is_small(self, least: float) -> bool:
        """Say whether the mean difference is at most so much, or there is none to tell."""
        return not self.gains or abs(self.gain) <= least

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, fit for JSON."""
        low, high = quantiles(self.gains) if self.gains else (None, None)
        return {
            "change": self.name,
            "words": self.words,
            "gain": self.gain if self.gains else None,
            "standard_error": self.uncertainty if self.gains else None,
            "low": low,
            "high": high,
            "infeasible": self.infeasible,
        }


def quantiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends between which the next value lies four times in five (i/(n+1) quantiles)."""
    low, high = np.quantile(values, RANGE, method="weibull")
    return float(low), float(high)


def dealt_over(runs: int, groups: int) -> tuple[int, ...]:
    """Return which group each of the runs is on: they are dealt in turn, and told by group."""
    return tuple(k for k in range(groups) for _ in range(k, runs, groups))


def compared(name: str, words: str, one: Forecast, other: Forecast, groups: int) -> Change:
    """Return how much less error `other` has than `one`, run by run."""
    if not (one.errors and other.errors):
        return Change(name, words, (), infeasible=other.infeasible or one.infeasible)
    gains = tuple(a - b for a, b in zip(one.errors, other.errors, strict=True))
    return Change(name, words, gains, dealt_over(len(gains), groups))


def is_useless(errors: Sequence[float], naming: Sequence[float]) -> bool:
    """Say whether half of the runs or more err as often as naming the commonest class does.

    `naming` has the error of that, run by run. Without runs there is nothing to say.
    """
    if not errors:
        return False
    return float(np.median(np.array(errors) / np.array(naming))) >= BETTER
