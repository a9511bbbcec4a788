"""The public settings of a run, shared by every algorithm."""

from dataclasses import dataclass

import numpy as np

from ppadmm import checks
from ppadmm.privacy.calibration import Budget
from ppadmm.privacy.sensitivity import ADJACENCIES
from ppadmm.typing import Array

CALIBRATIONS = ("proven", "paper")
MAX_ROUNDS = 100_000


@dataclass(frozen=True)
class Settings:
    """All that agents agree on before round 0. Nothing here may come from records.

    `eta`, `regularisation` (λ̂) and `budgets` hold one value per replicate.
    """

    rounds: int
    eta: tuple[float, ...]
    regularisation: tuple[float, ...]
    budgets: tuple[Budget, ...]
    beta: float = 1e-8
    share: float = 1e-3
    calibration: str = "proven"
    adjacency: str = "replace-one"
    solver: str = "auto"

    def __post_init__(self) -> None:
        checks.count("rounds", self.rounds, at_most=MAX_ROUNDS)
        checks.probability("beta", self.beta)
        checks.probability("share", self.share)
        checks.one_of("calibration", self.calibration, CALIBRATIONS)
        checks.one_of("adjacency", self.adjacency, ADJACENCIES)
        for eta in self.eta:
            checks.positive("eta", eta)
        for weight in self.regularisation:
            checks.non_negative("regularisation", weight)

    @property
    def replicates(self) -> int:
        """R."""
        return len(self.eta)

    @property
    def etas(self) -> Array:
        """η, shape (R,)."""
        return np.array(self.eta)

    def weights(self, agents: int) -> Array:
        """λ̂/N, shape (R,)."""
        return np.array(self.regularisation) / agents
