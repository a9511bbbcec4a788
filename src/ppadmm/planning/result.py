"""What a plan says: forecasts, what would help, and all of it as plain data."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ppadmm import __version__
from ppadmm.planning.forecast import Setup
from ppadmm.planning.specification import PlanSpec

FORMAT = 1
"""Of what `to_dict` returns."""
RANGE = (0.1, 0.9)


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


@dataclass(frozen=True)
class Target:
    """The answer to "which ε for this error"; `epsilon` is None if none that was tried will do."""

    error: float
    epsilon: float | None
    share: float | None
    largest_tried: float


@dataclass(frozen=True)
class Plan:
    """What to expect. `setup` is None where no noise reaches ε; `expected.infeasible` says why."""

    spec: PlanSpec
    features: int
    classes: int
    graph_name: str
    degrees: tuple[int, ...]
    parameters: int
    setup: Setup | None
    expected: Forecast
    curve: tuple[Forecast, ...]
    populations: tuple[str, ...]
    non_private: tuple[float, ...]
    majority: tuple[float, ...]
    changes: tuple[Change, ...]
    target: Target | None
    simulated_records: int
    notes: tuple[str, ...]
    seconds: float = field(compare=False)

    @property
    def epsilon(self) -> float:
        """The ε of the plan: given, or found for the error that is wanted."""
        return self.expected.epsilon

    @property
    def message_bytes(self) -> int:
        """Two vectors of doubles, θ and the sum of all released, without the envelope."""
        return 16 * self.parameters

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data, fit for JSON (docs/plan.md says what is what)."""
        low, high = float(min(self.non_private)), float(max(self.non_private))
        return {
            "format": FORMAT,
            "version": __version__,
            "private": None,
            "forecast": True,
            "reads_private_data": False,
            "spec": asdict(self.spec),
            "records": list(self.spec.holdings),
            "features": self.features,
            "classes": self.classes,
            "graph": {"name": self.graph_name, "degrees": list(self.degrees)},
            "epsilon": self.epsilon,
            "delta": self.spec.delta,
            "settings": self._settings(),
            "expected": {**self.expected.to_dict(), "errors": list(self.expected.errors)},
            "non_private": {"error": float(np.median(self.non_private)), "low": low, "high": high},
            "majority_error": float(np.median(self.majority)),
            "populations": [
                dict(zip(("name", "non_private_error", "majority_error"), each, strict=True))
                for each in zip(self.populations, self.non_private, self.majority, strict=True)
            ],
            "curve": [point.to_dict() for point in self.curve],
            "changes": [change.to_dict() for change in self.changes],
            "target": None if self.target is None else asdict(self.target),
            "simulated_records": self.simulated_records,
            "notes": list(self.notes),
            "seconds": self.seconds,
        }

    def _settings(self) -> dict[str, Any] | None:
        if self.setup is None:
            return None
        pooled = self.spec.recipe.pooled
        return {
            **asdict(self.setup),
            "noise": list(self.setup.noise),
            "messages_per_agent": 0 if pooled else self.setup.releases * max(self.degrees),
            "bytes_per_message": self.message_bytes,
            "bytes_per_agent_and_round": 0 if pooled else self.message_bytes * max(self.degrees),
        }


def quantiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends between which the next value lies four times in five (i/(n+1) quantiles)."""
    low, high = np.quantile(values, RANGE, method="weibull")
    return float(low), float(high)
