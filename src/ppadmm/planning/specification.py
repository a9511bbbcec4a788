"""What is asked of a plan: public sizes and what may be known of the records."""

from dataclasses import dataclass
from typing import Any

from ppadmm import checks
from ppadmm.accounting import Budget
from ppadmm.algorithms import ALGORITHMS
from ppadmm.algorithms.method import MethodSpec
from ppadmm.datasets import SOURCES
from ppadmm.errors import InputError
from ppadmm.planning.synthetic_records import POPULATIONS

PLANNED = tuple(name for name, recipe in ALGORITHMS.items() if not recipe.not_private_because)
NAMED = frozenset(SOURCES) - frozenset(POPULATIONS)
"""What records may be like: data sets, rather than kinds of made-up populations."""
MOST_FEATURES = 5_000


@dataclass(frozen=True)
class PlanSpec(MethodSpec):
    """What is known before a run. `None` means: not known, or chosen by the rule.

    Parameters
    ----------
    records : tuple of int
        One number for every agent, or one for each.
    features, agents, classes : int
        Public sizes; features count the intercept.
    graph, algorithm, loss, adjacency : str
        As in `ppadmm.RunSpec`.
    epsilon, delta : float
        The budget of the run.
    error : float, optional
        Ask for the smallest ε whose median test error is at most so much, in place of `epsilon`.
    epsilons : tuple of float, optional
        Further budgets for the curve.
    rounds, eta, beta, multiclass, regularisation, weights, calibration, speaking : optional
        As in `ppadmm.RunSpec`.
    like : str, optional
        A data set or a kind of population that the records may resemble.
    public, schema, label, data_dir : str, optional
        A file that the user calls public, and how to read it.
    nonprivate_error, majority_error : float, optional
        What is known of such data: the error without privacy, and of naming the commonest class.
    seeds, seed : int
        Simulated populations, and where their draws begin.
    changes : bool
        Whether to work out what would help most.
    """

    records: tuple[int, ...]
    features: int | None = None
    agents: int = 5
    graph: str = "erdos-renyi"
    classes: int | None = None
    epsilon: float = 1.0
    error: float | None = None
    epsilons: tuple[float, ...] | None = None
    like: str | None = None
    public: str | None = None
    schema: str | None = None
    label: str | None = None
    data_dir: str | None = None
    nonprivate_error: float | None = None
    majority_error: float | None = None
    seeds: int = 12
    seed: int = 0
    changes: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count("agents", self.agents)
        if len(self.records) not in (1, self.agents):
            raise InputError(
                f"Expected records for {self.agents} agents, or one number for all, got "
                f"{len(self.records)} values."
            )
        for n in self.records:
            checks.count("records", n)
        if self.features is not None:
            checks.count("features", self.features, at_least=2, at_most=MOST_FEATURES)
        checks.one_of("algorithm", self.algorithm, PLANNED)
        for epsilon in (self.epsilon, *(self.epsilons or ())):
            Budget(epsilon, self.delta)
        for name in ("error", "nonprivate_error", "majority_error"):
            if getattr(self, name) is not None:
                checks.probability(name.replace("_", " "), getattr(self, name))
        checks.count("seeds", self.seeds, at_least=3)
        checks.count("seed", self.seed, at_least=0)
        self._check_source()

    @classmethod
    def of(
        cls, records: int | None = None, each: tuple[int, ...] | None = None, **given: Any
    ) -> "PlanSpec":
        """Return a spec from what is known; None takes the default.

        `records` are every agent's, or `each` has those of each: as many numbers as agents.
        """
        if (records is None) == (each is None):
            raise InputError(
                "How many training records has an agent? Give --records, or --records-per-agent."
            )
        counts = each if each is not None else (records,)
        known = {name: value for name, value in given.items() if value is not None}
        if len(counts) > 1:
            known.setdefault("agents", len(counts))
        return cls(records=counts, **known)  # type: ignore[arg-type]

    def _check_source(self) -> None:
        if self.like is not None:
            checks.one_of("like", self.like, [*POPULATIONS, *SOURCES])
            if self.public is not None:
                raise InputError("Give like or public records to plan with, not both.")
        if self.classes is not None:
            checks.count("classes", self.classes, at_least=2)
        if self.real:
            for name in ("nonprivate_error", "majority_error", "classes"):
                if getattr(self, name) is not None:
                    raise InputError(
                        f"The {name.replace('_', ' ')} is that of the records planned with; "
                        "leave it out."
                    )
        elif self.features is None:
            raise InputError("How many features has a record, the intercept included? Give them.")
        elif self.schema is not None or self.label is not None:
            raise InputError("A schema or a label is for public records; give them as well.")

    @property
    def real(self) -> bool:
        """Whether records are resampled rather than made up."""
        return self.public is not None or self.like in NAMED

    @property
    def holdings(self) -> tuple[int, ...]:
        """Every agent's number of records."""
        return self.records * self.agents if len(self.records) == 1 else self.records
