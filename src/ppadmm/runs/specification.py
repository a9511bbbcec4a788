"""A run as a frozen value: all that is needed to do it again."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ppadmm import checks
from ppadmm.accounting import ADJACENCIES, Budget
from ppadmm.algorithms import ALGORITHMS, CALIBRATIONS
from ppadmm.algorithms.settings import HALF_THE_ROUNDS, MAX_ROUNDS, Speaking
from ppadmm.data import Partition, Schema
from ppadmm.errors import InputError
from ppadmm.problem import LOSSES, MULTICLASS
from ppadmm.solvers import SOLVERS

PAPER = {
    "calibration": "paper",
    "rounds": 30,
    "eta": 0.5,
    "beta": 10**-3.5,
    "delta": 1e-4,
    "graph": "erdos-renyi",
    "agents": 5,
    "loss": "logistic",
}
PRESETS: dict[str, dict[str, Any]] = {"paper": PAPER}


@dataclass(frozen=True)
class RunSpec:
    """One training run. `None` means: chosen by the rule in `ppadmm.algorithms.defaults`.

    `epsilons` gives every agent a budget of its own, in place of `epsilon` for all; `records` says
    how many training records each agent holds, in place of an even share. `partition` is spelt
    even, column:NAME, files or dirichlet:ALPHA (see `ppadmm.data.Partition`); with a column or
    files the number of agents, and hence `agents` of the finished run, follows from it.

    `schema` is the path of a schema file, or a `Schema`.

    With `memory` (bytes), or where `data` is a folder of Parquet files, the records are streamed
    and at most so much of them, or 512 MB, is held at any time.

    With a `seed` the split, the graph and the noise follow from it and the run is a simulation,
    not private; without one the noise comes from the operating system.
    """

    data: str = "synthetic"
    label: str | None = None
    data_dir: str | None = None
    schema: str | Schema | None = None
    agents: int = 5
    graph: str = "erdos-renyi"
    algorithm: str = "pp"
    loss: str = "logistic"
    multiclass: str = "auto"
    epsilon: float = 1.0
    epsilons: tuple[float, ...] | None = None
    records: tuple[int, ...] | None = None
    partition: str = "even"
    delta: float = 1e-6
    rounds: int | None = None
    eta: float | None = None
    regularisation: float = 0.0
    beta: float | None = None
    calibration: str = "proven"
    adjacency: str = "replace-one"
    solver: str = "auto"
    seed: int | None = None
    speaking: Speaking = HALF_THE_ROUNDS
    memory: int | None = None

    def __post_init__(self) -> None:
        self._check_schema()
        checks.count("agents", self.agents)
        checks.one_of("algorithm", self.algorithm, ALGORITHMS)
        checks.one_of("loss", self.loss, LOSSES)
        checks.one_of("multiclass", self.multiclass, MULTICLASS)
        checks.one_of("calibration", self.calibration, CALIBRATIONS)
        checks.one_of("adjacency", self.adjacency, ADJACENCIES)
        checks.one_of("solver", self.solver, ["auto", *SOLVERS])
        _ = self.budgets
        self._check_partition()
        if self.beta is not None:
            checks.probability("beta", self.beta)
        checks.non_negative("regularisation", self.regularisation)
        if self.rounds is not None:
            checks.count("rounds", self.rounds, at_most=MAX_ROUNDS)
        if self.eta is not None:
            checks.positive("eta", self.eta)
        if self.memory is not None:
            checks.count("memory", self.memory)
        if self.seed is not None:
            checks.count("seed", self.seed, at_least=0)
        if self.calibration == "paper" and self.regularisation:
            raise InputError(
                "The paper's calibration sets the regularisation itself; leave "
                f"regularisation at 0, got {self.regularisation!r}."
            )

    def _check_schema(self) -> None:
        if isinstance(self.schema, Path):
            object.__setattr__(self, "schema", str(self.schema))
        if not isinstance(self.schema, str | Schema | None):
            raise InputError(
                f"Expected schema to be a Schema or the path of a file, got {self.schema!r}."
            )

    def _check_partition(self) -> None:
        partition = Partition.parse(self.partition)
        if self.records is not None and partition.kind != "even":
            raise InputError(
                f"The partition {self.partition!r} says how many records each agent holds; leave "
                "records out."
            )
        if not partition.names_agents:
            self._check_lengths(self.agents)

    def _check_lengths(self, agents: int) -> None:
        for name, each in (("epsilons", self.epsilons), ("records", self.records)):
            if each is not None and len(each) != agents:
                raise InputError(f"Expected {name} for {agents} agents, got {len(each)} values.")

    def settled(self, data: str, agents: int) -> "RunSpec":
        """Return the spec of what is run: the data's name, and as many agents as there are."""
        self._check_lengths(agents)
        return replace(self, data=data, agents=agents)

    @property
    def streamed(self) -> bool:
        """Whether the records are read in pieces, never all at once."""
        return self.memory is not None or Path(self.data).is_dir()

    @property
    def guaranteed(self) -> bool:
        """Whether the noise is calibrated so that the budget holds."""
        return self.calibration == "proven" and self.algorithm != "non-private"

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The (ε, δ) of each agent."""
        each = self.epsilons or (self.epsilon,) * self.agents
        return tuple(Budget(epsilon, self.delta) for epsilon in each)

    @classmethod
    def of(cls, preset: str | None = None, **given: Any) -> "RunSpec":
        """Return a spec from what was given, then the preset, then the defaults."""
        values = PRESETS[checks.one_of("preset", preset, PRESETS)] if preset is not None else {}
        return cls(**{**values, **{k: v for k, v in given.items() if v is not None}})


@dataclass(frozen=True)
class Search:
    """Settings that were tried on the private records, within the budget of `spec` as a whole.

    `grid` has pairs (η or None, λ̂), `mean` is the expected number of runs of `repeat`, and `each`
    the ε that every single run was calibrated for.
    """

    spec: RunSpec
    grid: tuple[tuple[float | None, float], ...]
    how: str
    mean: float | None
    each: float

    def settings(self) -> dict[str, Any]:
        """Return what is public about it, as plain data."""
        tried = [{"eta": eta, "regularisation": weight} for eta, weight in self.grid]
        return {"how": self.how, "mean": self.mean, "run_epsilon": self.each, "settings": tried}
