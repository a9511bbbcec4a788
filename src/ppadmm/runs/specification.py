"""A run as a frozen value: all that is needed to do it again."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ppadmm import checks
from ppadmm.accounting import Budget
from ppadmm.algorithms import name_alone
from ppadmm.algorithms.method import MethodSpec
from ppadmm.data import Partition, Schema
from ppadmm.data.sites import called, is_streamed, spelt
from ppadmm.datasets import NAMES
from ppadmm.errors import InputError
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
    "weights": "equal",
    "knots": 0,
}
PRESETS: dict[str, dict[str, Any]] = {"paper": PAPER}


@dataclass(frozen=True)
class RunSpec(MethodSpec):
    """One training run: a method, and who holds which records. `None` means: chosen by rule.

    Parameters
    ----------
    data : str or tuple of str
        A data set's name, a CSV or Parquet file, a folder of such files, or several of them: then
        each is a site.
    label : str, optional
        The column to predict, where there is no schema. The run is then not private.
    data_dir : str, optional
        Where files of named data sets are; else in the folder that PPADMM_DATA names.
    schema : str or Schema, optional
        The schema's file, or the schema itself.
    agents : int
        Number of agents. With a column or files in `partition` it follows from them. A single agent
        runs what its algorithm's recipe names for that: objective perturbation at one place.
    graph : str
        The network: a kind, or a file of edges.
    algorithm, loss, multiclass : str
        By name; `ppadmm train --help` lists them.
    epsilon, delta : float
        The budget of every agent for the whole run.
    epsilons : tuple of float, optional
        A budget for each agent, in place of `epsilon`.
    records : tuple of int, optional
        Training records of each agent, in place of an even share.
    partition : str, optional
        Who holds what: even, column:NAME, files or dirichlet:ALPHA (`ppadmm.data.Partition`). Of
        several files and folders it is files, else even.
    rounds : int, optional
        Number of rounds T.
    eta : float, optional
        The penalty η of ADMM.
    regularisation : float
        The weight λ̂ of ‖θ‖² in the objective of all agents together.
    beta : float, optional
        The residual up to which every local problem is solved.
    weights : str, optional
        How much a site counts: by its records, equal (the paper's), or by its records and its
        noise, for sites whose records are of one kind.
    knots : int, optional
        Knots of every curve that names none in the schema; 0 for straight lines. Chosen by rule
        from the number of records, the number of columns and ε (`ppadmm.data.knots`).
    trust : str
        local: each message is private by itself; or sum, with the algorithm newton: sites see sums
        only and share the noise (docs/choosing-trust.md).
    colluding : int
        With sums: how many sites may put their knowledge together without breaking the claim.
    repeats : int
        With sums: how often one may be made again without a site that is missing.
    calibration : str
        proven, or paper: to compare with, never private.
    adjacency : str
        What is protected: replace-one or zero-out.
    solver : str
        By name; auto goes by the number of features.
    seed : int, optional
        Split, network and noise follow from it, and the run is a simulation, not private. Without
        it the noise comes from the operating system.
    speaking : Speaking
        How often an `ipp` agent may speak.
    memory : int, optional
        Bytes of records to hold at any time; the rest is streamed. 512 MB for a folder of Parquet
        files.

    Raises
    ------
    InputError
        One sentence that names the value and the way out.

    Examples
    --------
    >>> RunSpec(epsilon=0.5, agents=3).budgets[0].epsilon
    0.5
    """

    data: str | tuple[str, ...] = "synthetic"
    label: str | None = None
    data_dir: str | None = None
    schema: str | Schema | None = None
    agents: int = 5
    graph: str = "erdos-renyi"
    epsilon: float = 1.0
    epsilons: tuple[float, ...] | None = None
    records: tuple[int, ...] | None = None
    partition: str = ""
    solver: str = "auto"
    seed: int | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", spelt(self.data))
        self._check_schema()
        super().__post_init__()
        checks.count("agents", self.agents)
        checks.one_of("solver", self.solver, ["auto", *SOLVERS])
        _ = self.budgets
        self._check_partition()
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
        if not self.partition:
            object.__setattr__(self, "partition", usual_partition(self.data))
        partition = Partition.parse(self.partition)
        if self.records is not None:
            require_even(self.partition)
        if not partition.names_agents:
            self._check_lengths(self.agents)

    def _check_lengths(self, agents: int) -> None:
        for name, each in (("epsilons", self.epsilons), ("records", self.records)):
            if each is not None and len(each) != agents:
                raise InputError(f"Expected {name} for {agents} agents, got {len(each)} values.")

    def settled(self, data: str | tuple[str, ...], agents: int) -> "RunSpec":
        """Return the spec of what is run: the data's name, and as many agents as there are.

        A single agent has nobody to exchange with and runs what its algorithm has for that.
        """
        self._check_lengths(agents)
        algorithm = name_alone(self.algorithm) if agents == 1 else self.algorithm
        return replace(self, data=data, agents=agents, algorithm=algorithm)

    @property
    def streamed(self) -> bool:
        """Whether the records are read in pieces, never all at once."""
        return self.memory is not None or (self.data not in NAMES and is_streamed(self.data))

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The (ε, δ) of each agent."""
        each = self.epsilons or (self.epsilon,) * self.agents
        return tuple(Budget(epsilon, self.delta) for epsilon in each)

    @property
    def mean_epsilon(self) -> float:
        """ε of an agent, on average."""
        return sum(self.epsilons) / len(self.epsilons) if self.epsilons else self.epsilon

    @property
    def data_name(self) -> str:
        """What the data are called, without the folders that they lie in."""
        return called(self.data)

    @classmethod
    def of(cls, preset: str | None = None, **given: Any) -> "RunSpec":
        """Return a spec from what was given, then the preset, then the defaults."""
        values = PRESETS[checks.one_of("preset", preset, PRESETS)] if preset is not None else {}
        return cls(**{**values, **{k: v for k, v in given.items() if v is not None}})


def usual_partition(data: str | tuple[str, ...]) -> str:
    """Return who holds what if nobody says: several files are sites, one table is dealt."""
    return "even" if isinstance(data, str) else "files"


def require_even(partition: str) -> None:
    """Refuse numbers of records where who holds what is given otherwise."""
    if Partition.parse(partition).kind != "even":
        raise InputError(
            f"With the partition {partition!r} it is given how many records each agent "
            "holds; leave records out, or deal them evenly (even)."
        )


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
