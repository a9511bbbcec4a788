"""Algorithms side by side at the same total budget.

Seeds and budgets advance together as columns of one run; a split of the records, with its network,
is shared by several noise seeds. Everything here is simulation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ppadmm import checks
from ppadmm.algorithms import Settings, recipe_named
from ppadmm.algorithms.defaults import Plan
from ppadmm.algorithms.settings import HALF_THE_ROUNDS, Speaking
from ppadmm.data import Partition, load
from ppadmm.engines import local
from ppadmm.experiments.held_out import judge
from ppadmm.experiments.scene import Scene, cast, stage
from ppadmm.noise import SeededNoise
from ppadmm.privacy import Budget
from ppadmm.privacy.statement import finite_or_none, worst
from ppadmm.problem import loss_for, risk_over
from ppadmm.typing import Array


@dataclass(frozen=True)
class Grid:
    """What to compare. `seeds` noise seeds are dealt out over `splits` splits of the records."""

    data: str = "synthetic"
    algorithms: tuple[str, ...] = ("pp", "non-private")
    epsilons: tuple[float, ...] = (1.0,)
    delta: float = 1e-4
    seeds: int = 5
    splits: int = 5
    agents: int = 5
    partition: str = "even"
    graph: str = "erdos-renyi"
    loss: str = "logistic"
    multiclass: str = "auto"
    label: str | None = None
    data_dir: str | None = None
    calibration: str = "proven"
    rounds: int | None = None
    eta: float | None = None
    beta: float = 1e-8
    speaking: Speaking = HALF_THE_ROUNDS

    def __post_init__(self) -> None:
        for name in self.algorithms:
            recipe_named(name)
        for epsilon in self.epsilons:
            Budget(epsilon, self.delta)
        Partition.parse(self.partition)
        checks.count("seeds", self.seeds)
        checks.count("splits", self.splits)


@dataclass(frozen=True)
class Row:
    """One algorithm at one ε over all seeds. `epsilon` is None without noise."""

    algorithm: str
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


@dataclass(frozen=True)
class _Piece:
    """The part of a row that one split gave."""

    key: tuple[str, float | None]
    proven: float | None
    plan: Plan
    errors: Array
    losses: Array
    messages: float


def compare(grid: Grid, progress: Callable[[int, int], None] | None = None) -> list[Row]:
    """Run the whole grid; `progress(done, of)` counts (split, algorithm) pairs."""
    holder = Partition.parse(grid.partition).column
    data = load(grid.data, label=grid.label, data_dir=grid.data_dir, holder=holder)
    loss = loss_for(grid.loss, data.schema.classes, grid.multiclass)
    splits = min(grid.splits, grid.seeds)
    pieces: list[_Piece] = []
    done, of = 0, splits * len(grid.algorithms)
    for k in range(splits):
        scene = stage(data, grid.agents, grid.graph, loss, k, partition=grid.partition)
        seeds = range(k, grid.seeds, splits)
        for algorithm in grid.algorithms:
            pieces.extend(_pieces(grid, scene, algorithm, seeds))
            done += 1
            if progress is not None:
                progress(done, of)
    keys = dict.fromkeys(piece.key for piece in pieces)
    return [_row([piece for piece in pieces if piece.key == key]) for key in keys]


def _pieces(grid: Grid, scene: Scene, algorithm: str, seeds: Sequence[int]) -> Iterator[_Piece]:
    """Run one algorithm on one split: budgets with the same number of rounds together."""
    if algorithm == "non-private":
        plan = scene.plan(algorithm, _budgets(grid, scene, 1.0), grid.rounds, grid.eta)
        yield from _batch(grid, scene, algorithm, [(None, plan)], seeds[:1])
        return
    by_rounds: dict[int, list[tuple[float | None, Plan]]] = {}
    for epsilon in grid.epsilons:
        plan = scene.plan(algorithm, _budgets(grid, scene, epsilon), grid.rounds, grid.eta)
        by_rounds.setdefault(plan.rounds, []).append((epsilon, plan))
    for cells in by_rounds.values():
        yield from _batch(grid, scene, algorithm, cells, seeds)


def _budgets(grid: Grid, scene: Scene, epsilon: float) -> list[Budget]:
    return [Budget(epsilon, grid.delta)] * scene.graph.size


def _batch(
    grid: Grid,
    scene: Scene,
    algorithm: str,
    cells: list[tuple[float | None, Plan]],
    seeds: Sequence[int],
) -> Iterator[_Piece]:
    columns = [cell for cell in cells for _ in seeds]
    settings = Settings(
        rounds=cells[0][1].rounds,
        eta=tuple(plan.eta for _, plan in columns),
        regularisation=tuple(plan.regularisation for _, plan in columns),
        budgets=tuple(Budget(epsilon or 1.0, grid.delta) for epsilon, _ in columns),
        beta=grid.beta,
        calibration=grid.calibration,
        speaking=grid.speaking,
    )
    noise = SeededNoise(tuple(seed for _ in cells for seed in seeds))
    sites = scene.sites(algorithm)
    agents = cast(algorithm, sites, [settings] * len(sites), noise)
    trace = local.run(agents)
    model = trace.model()
    errors = judge(scene.test, model, scene.schema.classes, areas=False).error
    losses = _train_losses(scene, model)
    for k, (epsilon, plan) in enumerate(cells):
        part = slice(k * len(seeds), (k + 1) * len(seeds))
        tallies = [agent.ledgers[part.start].reserved for agent in agents]
        yield _Piece(
            key=(algorithm, epsilon),
            proven=finite_or_none(worst(tallies, grid.delta).epsilon),
            plan=plan,
            errors=errors[part],
            losses=losses[part],
            messages=float(trace.messages[:, part].mean()),
        )


def _train_losses(scene: Scene, model: Array) -> Array:
    values = [risk_over(part, scene.loss).value(model) for part in scene.shards]
    return np.asarray(np.average(values, axis=0, weights=[part.n for part in scene.shards]))


def _row(pieces: list[_Piece]) -> Row:
    proven = [piece.proven for piece in pieces]
    return Row(
        algorithm=pieces[0].key[0],
        epsilon=pieces[0].key[1],
        epsilon_proven=None if None in proven else max(p for p in proven if p is not None),
        rounds=pieces[0].plan.rounds,
        eta=float(np.median([piece.plan.eta for piece in pieces])),
        test_error=tuple(float(e) for piece in pieces for e in piece.errors),
        train_loss=tuple(float(v) for piece in pieces for v in piece.losses),
        messages=float(np.mean([piece.messages for piece in pieces])),
    )
