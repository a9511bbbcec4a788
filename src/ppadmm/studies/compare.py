"""Algorithms side by side at the same total budget.

A split of the records, with its network, is shared by several noise seeds. Everything here is
simulation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ppadmm import checks
from ppadmm.accounting import Budget
from ppadmm.algorithms import ALGORITHMS, recipe_named
from ppadmm.algorithms.method import MethodSpec
from ppadmm.data import Partition
from ppadmm.data.sites import spelt
from ppadmm.datasets import load
from ppadmm.runs.specification import require_even, usual_partition
from ppadmm.studies.cell import Cell, CellResult, check, deal_seeds, fingerprint
from ppadmm.studies.sweep import Progress, Runner, sweep
from ppadmm.summing.trust import LOCAL, SUM

SIMULATION = "a comparison is a simulation with known seeds"
"""Why no comparison is private."""
OWN = ("algorithms", "splits")
"""What a grid has and a cell does not."""


@dataclass(frozen=True)
class Grid(MethodSpec):
    """What to compare: each of `algorithms` in turn, all else of the method being the same.

    `seeds` noise seeds are dealt out over `splits` splits of the records.

    Parameters
    ----------
    data, label, schema, data_dir
        The records, as in `ppadmm.RunSpec`. They must be public: this is simulation.
    algorithms : tuple of str
        By name.
    epsilons, delta
        Total budgets, at one δ.
    seeds, splits : int
        How often noise is drawn, and over how many splits into agents and test records.
    agents, partition, records, graph, loss, multiclass, calibration, adjacency, weights, rounds
        As in `ppadmm.RunSpec`.
    eta, beta, regularisation, knots, speaking
        As in `ppadmm.RunSpec`.
    trust, colluding, repeats
        As in `ppadmm.RunSpec`, of the algorithms that have sums; the others have local trust.
    algorithm : str
        Each of `algorithms` in turn; what is given here does not count.
    """

    data: str | tuple[str, ...] = "synthetic"
    algorithms: tuple[str, ...] = ("pp", "non-private")
    epsilons: tuple[float, ...] = (1.0,)
    delta: float = 1e-4
    seeds: int = 5
    splits: int = 5
    agents: int = 5
    partition: str = ""
    records: tuple[int, ...] | None = None
    graph: str = "erdos-renyi"
    label: str | None = None
    schema: str | None = None
    data_dir: str | None = None

    def __post_init__(self) -> None:
        for name in self.algorithms:
            recipe_named(name)
        object.__setattr__(self, "algorithm", self._first())
        super().__post_init__()
        object.__setattr__(self, "data", spelt(self.data))
        if not self.partition:
            object.__setattr__(self, "partition", usual_partition(self.data))
        for epsilon in self.epsilons:
            Budget(epsilon, self.delta)
        if self.records is not None:
            object.__setattr__(self, "agents", len(self.records))
            require_even(self.partition)
        Partition.parse(self.partition)
        checks.count("agents", self.agents)
        checks.count("seeds", self.seeds)
        checks.count("splits", self.splits)

    def _first(self) -> str:
        """Return an algorithm that all of the method fits, if there is one."""
        summing = [name for name in self.algorithms if recipe_named(name).sums]
        return next(iter(summing if self.trust == SUM else ()), self.algorithms[0])

    @classmethod
    def of(cls, algorithms: str = "all", **given: Any) -> "Grid":
        """Return a grid of comma-separated algorithms, or all; None takes the default."""
        names = tuple(ALGORITHMS) if algorithms == "all" else tuple(algorithms.split(","))
        return cls(algorithms=names, **{k: v for k, v in given.items() if v is not None})

    def cells(self) -> dict[str, list[Cell]]:
        """Return every algorithm's cells, one per split; reads the records to pin them."""
        how = Partition.parse(self.partition)
        data = load(
            self.data,
            label=self.label,
            data_dir=self.data_dir,
            schema=self.schema,
            holder=how.column,
        )
        digest = fingerprint(data, how)
        return {name: self._cells(name, digest) for name in self.algorithms}

    def _cells(self, algorithm: str, digest: str) -> list[Cell]:
        shared = {name: value for name, value in vars(self).items() if name not in OWN}
        own = {"algorithm": algorithm, "data_digest": digest}
        if not recipe_named(algorithm).sums:
            own |= {"trust": LOCAL}
        return [
            check(Cell(**{**shared, **own, "split": split, "seeds": seeds}))
            for split, seeds in deal_seeds(self.seeds, self.splits)
        ]


@dataclass(frozen=True)
class ComparisonRow:
    """One algorithm at one ε over all seeds. `epsilon` is None without noise.

    `ran` is the algorithm, or what a single agent runs in its place; `trust` is whom its sites
    trust. `records` has every agent's number of training records, for each split.
    """

    algorithm: str
    ran: str
    trust: str
    partition: str
    agent_names: tuple[str, ...]
    records: tuple[tuple[int, ...], ...]
    epsilon: float | None
    epsilon_proven: float | None
    rounds: int
    eta: float
    test_error: tuple[float, ...]
    train_loss: tuple[float, ...]
    messages: float

    def to_dict(self) -> dict[str, Any]:
        """Return means, standard deviations and all values, fit for JSON."""
        return {
            **self.__dict__,
            "test_error_mean": float(np.mean(self.test_error)),
            "test_error_std": float(np.std(self.test_error)),
            "train_loss_mean": float(np.mean(self.train_loss)),
            "train_loss_std": float(np.std(self.train_loss)),
        }


def compare(
    grid: Grid,
    progress: Progress | None = None,
    folder: Path | None = None,
    jobs: int = 1,
    runner: Runner | None = None,
) -> list[ComparisonRow]:
    """Run the whole grid, each algorithm on the same splits.

    Parameters
    ----------
    grid : Grid
        What to compare.
    progress : callable, optional
        `progress(done, of)` counts cells.
    folder : Path, optional
        Keeps finished cells; what it has is not run again.
    jobs : int
        Processes to use.
    runner : callable, optional
        Runs cells elsewhere, in place of `jobs`.

    Returns
    -------
    list of ComparisonRow
        One for each algorithm and ε.
    """
    by_algorithm = grid.cells()
    splits = zip(*by_algorithm.values(), strict=True)
    done = sweep([cell for cells in splits for cell in cells], folder, jobs, progress, runner)
    rows = []
    for algorithm, cells in by_algorithm.items():
        epsilons = (None,) if recipe_named(algorithm).noiseless else dict.fromkeys(grid.epsilons)
        rows += [_row(cells[0], done.outcomes(cells, epsilon)) for epsilon in epsilons]
    return rows


def _row(cell: Cell, outcomes: Sequence[CellResult]) -> ComparisonRow:
    return ComparisonRow(
        algorithm=cell.algorithm,
        ran=outcomes[0].ran,
        trust=f"sum, c = {cell.colluding}" if cell.trusting.by_sum else LOCAL,
        partition=cell.partition,
        agent_names=outcomes[0].agent_names,
        records=tuple(outcome.records for outcome in outcomes),
        epsilon=outcomes[0].epsilon,
        epsilon_proven=worst_proven(outcomes),
        rounds=round(float(np.median([outcome.rounds for outcome in outcomes]))),
        eta=float(np.median([outcome.eta for outcome in outcomes])),
        test_error=tuple(error for outcome in outcomes for error in outcome.test_error),
        train_loss=tuple(loss for outcome in outcomes for loss in outcome.train_loss),
        messages=float(np.mean([outcome.messages for outcome in outcomes])),
    )


def worst_proven(outcomes: Sequence[CellResult]) -> float | None:
    """Return the largest proven ε, or None where one is not finite."""
    proven = [outcome.epsilon_proven for outcome in outcomes]
    return None if None in proven else max(p for p in proven if p is not None)
