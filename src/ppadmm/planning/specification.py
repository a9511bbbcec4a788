"""What is asked of a plan: public sizes and what may be known of the records."""

from dataclasses import dataclass, replace
from typing import Any

from ppadmm import checks
from ppadmm.accounting import Budget
from ppadmm.algorithms import ALGORITHMS, name_alone
from ppadmm.algorithms.method import MethodSpec
from ppadmm.data import Partition
from ppadmm.datasets import SOURCES
from ppadmm.errors import InputError
from ppadmm.planning.scenario import ONE_PLACE
from ppadmm.planning.synthetic_records import POPULATIONS
from ppadmm.problem import Graph, graph_from

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
        One number for every agent, or one for each. With a column in `partition` they may be left
        out, `()`: then they are those of the public records.
    features, agents, classes : int
        Public sizes; features count the intercept.
    graph : str or Graph
        A kind, a file of edges, or the network itself.
    algorithm, loss, adjacency : str
        As in `ppadmm.RunSpec`. A single agent runs what the algorithm's recipe names for one.
    epsilon, delta : float
        The budget of the run.
    epsilons_per_agent : tuple of float, optional
        A budget for each agent. `epsilon` is the largest of them, and where a forecast is for
        another ε the others are in proportion.
    partition : str
        even; dirichlet:ALPHA, skewed labels at sites of the sizes that were given; or, of public
        records, column:NAME.
    names : tuple of str, optional
        What the agents are called.
    error : float, optional
        Ask for the smallest ε whose median test error is at most so much, in place of `epsilon`.
    epsilons : tuple of float, optional
        Further budgets for the curve.
    rounds, eta, beta, multiclass, regularisation, weights, knots, calibration, speaking : optional
        As in `ppadmm.RunSpec`.
    trust, colluding, repeats : optional
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
    joining, absences : bool
        Whether to work out what every site gains by joining, and what it would lose without each
        of the others.
    """

    records: tuple[int, ...]
    features: int | None = None
    agents: int = 5
    graph: str | Graph = "erdos-renyi"
    classes: int | None = None
    epsilon: float = 1.0
    epsilons_per_agent: tuple[float, ...] | None = None
    partition: str = "even"
    names: tuple[str, ...] | None = None
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
    joining: bool = True
    absences: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("algorithm", self.algorithm, PLANNED)
        checks.count("agents", self.agents)
        for n in self.records:
            checks.count("records", n)
        if self.dealing.column is None or self.names is not None:
            self._check_agents()
        if self.epsilons_per_agent:
            object.__setattr__(self, "epsilon", max(self.epsilons_per_agent))
        if self.features is not None:
            checks.count("features", self.features, at_least=2, at_most=MOST_FEATURES)
        for epsilon in (self.epsilon, *(self.epsilons or ()), *(self.epsilons_per_agent or ())):
            Budget(epsilon, self.delta)
        for name in ("error", "nonprivate_error", "majority_error"):
            if getattr(self, name) is not None:
                checks.probability(name.replace("_", " "), getattr(self, name))
        checks.count("seeds", self.seeds, at_least=3)
        checks.count("seed", self.seed, at_least=0)
        self._check_source()

    def _check_agents(self) -> None:
        """Refuse lists of another length; a single agent runs what its recipe names for one."""
        if len(self.records) not in (1, self.agents):
            raise InputError(
                f"Expected records for {self.agents} agents, or one number for all, got "
                f"{len(self.records)} values."
            )
        for name in ("epsilons_per_agent", "names"):
            each = getattr(self, name)
            if each is not None and len(each) != self.agents:
                spelt = name.replace("_", " ")
                raise InputError(
                    f"Expected {spelt} for {self.agents} agents, got {len(each)} values."
                )
        if self.agents == 1:
            object.__setattr__(self, "algorithm", name_alone(self.algorithm))

    @property
    def dealing(self) -> Partition:
        """How records are dealt to sites."""
        return Partition.parse(self.partition)

    @property
    def network(self) -> Graph:
        """Who talks to whom."""
        if self.agents == 1:
            return ONE_PLACE
        if isinstance(self.graph, Graph):
            if self.graph.size != self.agents:
                raise InputError(
                    f"Expected a network of {self.agents} agents, got one of {self.graph.size}."
                )
            return self.graph
        return graph_from(self.graph, self.agents)

    @property
    def fractions(self) -> tuple[float, ...]:
        """The agents' budgets in units of the largest; none where all have the same."""
        each = self.epsilons_per_agent or ()
        return tuple(e / self.epsilon for e in each) if len(set(each)) > 1 else ()

    def named(self, agent: int) -> str:
        """Return what an agent is called."""
        return self.names[agent] if self.names else f"agent {agent}"

    def settled(self, names: tuple[str, ...], counts: tuple[int, ...]) -> "PlanSpec":
        """Return the plan for sites that a column names; `counts` are their records, if open."""
        return replace(self, agents=len(names), names=names, records=self.records or counts)

    @classmethod
    def from_method(cls, method: MethodSpec, **given: Any) -> "PlanSpec":
        """Return a plan of a method, or of what extends one: an agreement, a run."""
        return cls(**vars(method.method), **given)

    @classmethod
    def of(
        cls, records: int | None = None, each: tuple[int, ...] | None = None, **given: Any
    ) -> "PlanSpec":
        """Return a spec from what is known; None takes the default.

        `records` are every agent's, or `each` has those of each: as many numbers as agents.
        """
        known = {name: value for name, value in given.items() if value is not None}
        open_ = Partition.parse(known.get("partition", "even")).column is not None
        if (records is None) == (each is None) and not (open_ and records is None):
            raise InputError(
                "How many training records has an agent? Give --records, or --records-per-agent."
            )
        counts = each or (() if records is None else (records,))
        agents = max(len(counts), len(known.get("epsilons_per_agent", ())))
        if agents > 1:
            known.setdefault("agents", agents)
        return cls(records=counts, **known)

    def _check_source(self) -> None:
        if self.dealing.kind == "files":
            raise InputError("A plan reads no files of agents; give even, dirichlet or a column.")
        if self.dealing.column is not None and not self.real:
            raise InputError(
                f"The partition {self.partition!r} needs public records that have the column; give "
                "public or like."
            )
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
