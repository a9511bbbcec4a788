"""What a plan says: forecasts, what would help, and all of it as plain data."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ppadmm import __version__
from ppadmm.algorithms.newton import moment_length
from ppadmm.planning.error_ranges import Change, Forecast, dealt_over, is_useless
from ppadmm.planning.forecast import Setup
from ppadmm.planning.joining import Joining
from ppadmm.planning.specification import PlanSpec
from ppadmm.statements.trust_claim import TrustClaim

FORMAT = 3
"""Of what `to_dict` returns."""
TRUST = "trust"
"""The change that is the other trust model."""


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
    joining: Joining | None
    target: Target | None
    simulated_records: int
    notes: tuple[str, ...]
    seconds: float = field(compare=False)

    @property
    def epsilon(self) -> float:
        """The ε of the plan: given, or found for the error that is wanted."""
        return self.expected.epsilon

    @property
    def useless(self) -> bool:
        """Whether half of the runs or more are no better than naming the commonest class."""
        sources = dealt_over(self.spec.seeds, len(self.populations))
        return is_useless(self.expected.errors, [self.majority[k] for k in sources])

    @property
    def message_bytes(self) -> int:
        """Bytes without the envelope: a slope, or θ and the sum of all released."""
        return (8 if self.spec.recipe.everyone else 16) * self.parameters

    @property
    def first_bytes(self) -> int:
        """Bytes of the first message of those who hear everybody: second moments."""
        return 8 * moment_length(self.features) if self.spec.recipe.everyone else 0

    @property
    def hearers(self) -> int:
        """To how many others an agent speaks, at the most."""
        return self.spec.agents - 1 if self.spec.recipe.everyone else max(self.degrees)

    @property
    def trust(self) -> TrustClaim:
        """What ε would rest on."""
        return TrustClaim.of(self.spec.method, self.spec.agents, sum(self.spec.holdings))

    @property
    def other_trust(self) -> Change | None:
        """What the other trust model would change, if it was simulated."""
        return next((change for change in self.changes if change.name == TRUST), None)

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
            "trust": self.trust.to_dict(),
            "settings": self._settings(),
            "expected": {**self.expected.to_dict(), "errors": list(self.expected.errors)},
            "non_private": {"error": float(np.median(self.non_private)), "low": low, "high": high},
            "majority_error": float(np.median(self.majority)),
            "no_better_than_commonest_class": self.useless,
            "populations": [
                dict(zip(("name", "non_private_error", "majority_error"), each, strict=True))
                for each in zip(self.populations, self.non_private, self.majority, strict=True)
            ],
            "curve": [point.to_dict() for point in self.curve],
            "changes": [change.to_dict() for change in self.changes],
            "joining": None if self.joining is None else self.joining.to_dict(),
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
            "messages_per_agent": 0 if pooled else self.setup.releases * self.hearers,
            "bytes_per_message": self.message_bytes,
            "bytes_per_agent_and_round": 0 if pooled else self.message_bytes * self.hearers,
        }
