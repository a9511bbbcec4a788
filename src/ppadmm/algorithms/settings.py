"""The public settings of a run, shared by every algorithm."""

from dataclasses import dataclass

import numpy as np

from ppadmm import checks
from ppadmm.accounting.calibration import Budget
from ppadmm.accounting.sensitivity import ADJACENCIES
from ppadmm.algorithms.statistics import STATISTICS
from ppadmm.arrays import Array
from ppadmm.summing.trust import LOCAL_TRUST, Trust

CALIBRATIONS = ("proven", "paper")
MAX_ROUNDS = 100_000


TESTS = ("auto", "gaussian", "svt")


@dataclass(frozen=True)
class Speaking:
    """How an agent decides whether to speak (IPP-ADMM).

    At most `releases` of the T rounds are spoken in (half of them by default). `share` of the
    budget goes to the tests. `threshold` is in units of what noise alone does to the statistic
    (`level` of it); `clip` is C_loss of the loss statistic. `alpha` is the threshold of the paper's
    own test, which has no such unit.
    """

    statistic: str = "gradient"
    test: str = "auto"
    releases: int | None = None
    share: float = 0.02
    level: float = 0.5
    clip: float = 2.0
    alpha: float = 1e-3

    def __post_init__(self) -> None:
        checks.one_of("statistic", self.statistic, STATISTICS)
        checks.one_of("test", self.test, TESTS)
        checks.probability("share", self.share)
        checks.finite("level", self.level)
        checks.positive("clip", self.clip)
        checks.finite("alpha", self.alpha)
        if self.releases is not None:
            checks.count("releases", self.releases)


HALF_THE_ROUNDS = Speaking()


@dataclass(frozen=True)
class Settings:
    """All that agents agree on before round 0. Nothing here may come from records.

    `eta`, `regularisation` (λ̂) and `budgets` hold one value per replicate. `run` names the run
    where masks are derived for it.
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
    speaking: Speaking = HALF_THE_ROUNDS
    trust: Trust = LOCAL_TRUST
    run: bytes = b""

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

    def ridge(self, agents: int) -> Array:
        """λ̂/N, shape (R,): every agent's part of the regulariser."""
        return np.array(self.regularisation) / agents
