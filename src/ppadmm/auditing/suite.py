"""Audits by the name of an algorithm: all the games against it, or guesses at its members."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ppadmm import checks
from ppadmm.auditing.audit import DELTA, EPSILON, RUNS, SECURE_RUNS, Audit, audits
from ppadmm.auditing.games import GAMES
from ppadmm.auditing.membership import MODELS, Membership, membership

AUDITED = tuple(dict.fromkeys(game.algorithm for game in GAMES))
"""What there are games against."""
LEAST_RUNS = 200
ALL = "all"


@dataclass(frozen=True)
class AuditOptions:
    """How to audit.

    Attributes
    ----------
    algorithms : str
        Comma-separated names, or `"all"`.
    epsilon, delta : float
        The budget of the audited runs.
    runs : int, optional
        Runs on each data set, or models to attack; by default as many as show something.
    seed : int
        Of the simulated noise.
    secure : bool
        Play with the secure sampler in the loop, which is slower.
    """

    algorithms: str = ALL
    epsilon: float = EPSILON
    delta: float = DELTA
    runs: int | None = None
    seed: int = 0
    secure: bool = False

    def named(self, every: Sequence[str]) -> list[str]:
        """Return the algorithms, `every` standing for all."""
        return list(every) if self.algorithms == ALL else self.algorithms.split(",")

    @property
    def _given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("epsilon", "delta", "seed", "secure")}


def audit_algorithms(options: AuditOptions | None = None) -> list[Audit]:
    """Play the games against some algorithms and hold what they show against the claims.

    Parameters
    ----------
    options : AuditOptions, optional
        How; by default all algorithms at ε = 4.

    Returns
    -------
    list of Audit
        One for each game; `passed` says whether it stayed below its claim.
    """
    asked = options or AuditOptions()
    checks.positive("epsilon", asked.epsilon)
    checks.count("seed", asked.seed, at_least=0)
    usual = SECURE_RUNS if asked.secure else RUNS
    runs = checks.count("runs", usual if asked.runs is None else asked.runs, at_least=LEAST_RUNS)
    return audits(GAMES, asked.named(AUDITED), runs=runs, **asked._given)


def attack_members(options: AuditOptions | None = None) -> list[Membership]:
    """Guess who trained models were trained on, with and without noise.

    Parameters
    ----------
    options : AuditOptions, optional
        How; `"all"` algorithms are PP-ADMM here, and `runs` is the number of models.

    Returns
    -------
    list of Membership
        One for each algorithm and attack, those without noise first, to compare with.
    """
    asked = options or AuditOptions()
    names = dict.fromkeys(["non-private", *asked.named(["pp"])])
    models = MODELS if asked.runs is None else asked.runs
    return [one for name in names for one in membership(name, models=models, **asked._given)]
