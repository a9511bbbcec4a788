"""A cell: replicates of one algorithm on one split of the records, the unit of every sweep.

Seeds and budgets advance together as columns of one run. `run_cell` is a pure function of a frozen,
picklable value, so a cell gives the same numbers in any process and in any order.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ppadmm import __version__, canonical
from ppadmm.accounting import Budget, accountant
from ppadmm.algorithms import Settings, Site, name_alone
from ppadmm.algorithms.defaults import BETA
from ppadmm.algorithms.method import MethodSpec, settings_of
from ppadmm.arrays import Array
from ppadmm.data import Dataset, Partition, Schema
from ppadmm.data.coded import Coded
from ppadmm.data.columns import column
from ppadmm.data.knots import settle_knots
from ppadmm.datasets import load
from ppadmm.engines import local
from ppadmm.errors import DataError
from ppadmm.noise import SeededNoise
from ppadmm.problem import loss_for, risk_over
from ppadmm.problem.graphs import KINDS
from ppadmm.runs.evaluation import judge
from ppadmm.runs.federation import Federation, build_federation, make_agents
from ppadmm.statements.claims import finite_or_none, worst


@dataclass(frozen=True, kw_only=True)
class Cell(MethodSpec):
    """One batch of replicates: every ε with every noise seed, on split number `split`.

    `data_digest` pins the records and their schema (see `fingerprint`); where those lie, `data_dir`
    and `schema`, is no part of what the cell is. With `curve` the average loss of every round is
    kept too.
    """

    data: str | tuple[str, ...]
    data_digest: str
    split: int
    seeds: tuple[int, ...]
    epsilons: tuple[float, ...]
    delta: float = 1e-4
    agents: int = 5
    graph: str = "erdos-renyi"
    partition: str = "even"
    records: tuple[int, ...] | None = None
    label: str | None = None
    share: float = 1e-3
    curve: bool = False
    data_dir: str | None = field(default=None, compare=False)
    schema: str | None = field(default=None, compare=False)

    def specification(self) -> dict[str, Any]:
        """Return all that the numbers depend on, as plain data: equal ones mean equal results."""
        values = asdict(self)
        del values["data_dir"], values["schema"]
        return {
            **values,
            "network": _content_digest(self.graph),
            "version": __version__,
            "accountant": accountant.VERSION,
        }

    def digest(self) -> str:
        """Return the SHA-256 (hex) of the specification."""
        return json_digest(self.specification())


Budgeted = tuple[float | None, MethodSpec]
"""An ε, None without noise, and the method that was chosen for it."""
Alike = tuple[int | None, tuple[float, ...]]
"""What replicates of one run share: rounds and weights."""


@dataclass(frozen=True)
class CellResult:
    """What one ε of a cell gave: one value per seed, in their order. `epsilon` None: no noise.

    `messages` counts per agent; `curve` has one row of T average losses per seed, or no row. `ran`
    is the cell's algorithm, or what a single agent runs in its place.
    """

    epsilon: float | None
    epsilon_proven: float | None
    rounds: int
    eta: float
    seeds: tuple[int, ...]
    test_error: tuple[float, ...]
    train_loss: tuple[float, ...]
    messages: tuple[float, ...]
    curve: tuple[tuple[float, ...], ...] = ()
    ran: str = ""
    agent_names: tuple[str, ...] = ()
    records: tuple[int, ...] = ()

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "CellResult":
        """Return the outcome that `asdict` and JSON turned into plain data."""
        lists = {k: tuple(v) for k, v in values.items() if isinstance(v, list)}
        curve = tuple(tuple(row) for row in values["curve"])
        return cls(**{**values, **lists, "curve": curve})


def _content_digest(graph: str) -> str | None:
    """Return the SHA-256 of the file that a network is read from, None for one known by kind."""
    path = Path(graph)
    if graph in KINDS or not path.is_file():
        return None
    return canonical.digest(path.read_bytes())


def json_digest(value: Any) -> str:
    """Return the SHA-256 (hex) of the canonical JSON of plain data."""
    return canonical.digest(canonical.dumps_ascii(value))


def fingerprint(data: Dataset, how: Partition | None = None) -> str:
    """Return the SHA-256 (hex) of the encoded records, their order, the schema and the holders."""
    X: Any = data.X
    if isinstance(X, Coded):
        parts: list[Any] = list(X.arrays)
    else:
        sparse = bool(issparse(data.X))
        parts = [X.data, X.indices, X.indptr] if sparse else [X]
    digest = hashlib.sha256(f"{data.schema.digest()} {data.train_records} {X.shape}".encode())
    for part in (*parts, data.y):
        digest.update(np.ascontiguousarray(part).data)
    if how is not None and how.column is not None:
        for table in data.tables:
            cells = column(table, how.column).to_pylist()
            digest.update(json.dumps(cells, default=str).encode())
    if how is not None and how.kind == "files":
        whose = [(file.site, file.table.num_rows) for file in data.files]
        digest.update(json.dumps(whose).encode())
    return digest.hexdigest()


def run_cell(cell: Cell) -> tuple[CellResult, ...]:
    """Run every replicate of a cell: budgets with the same knots, rounds and weights together."""
    how = Partition.parse(cell.partition)
    data = _dataset(cell.data, cell.label, cell.data_dir, cell.schema, how, cell.data_digest)
    together = defaultdict[Schema, list[float]](list)
    for epsilon in (max(cell.epsilons),) if cell.recipe.noiseless else cell.epsilons:
        schema = settle_knots(data.schema, data.train_records, epsilon, cell.knots)
        together[schema].append(epsilon)
    return tuple(
        outcome
        for schema, some in together.items()
        for outcome in _run(replace(cell, epsilons=tuple(some)), data.with_schema(schema))
    )


def _run(cell: Cell, data: Dataset) -> Iterator[CellResult]:
    """Run all budgets of a cell on records that are encoded for them."""
    loss = loss_for(cell.loss, data.schema.classes, cell.multiclass)
    federation = build_federation(
        data, cell.agents, cell.graph, loss, cell.split, cell.records, cell.partition
    )
    if federation.graph.size == 1:
        cell = replace(cell, algorithm=name_alone(cell.algorithm))
    noiseless, together = cell.recipe.noiseless, defaultdict[Alike, list[Budgeted]](list)
    for epsilon in (None,) if noiseless else cell.epsilons:
        budgets = [Budget(epsilon or 1.0, cell.delta)] * federation.graph.size
        method = federation.chosen(cell, budgets)
        together[method.rounds, federation.weights(cell, budgets)].append((epsilon, method))
    batches, seeds = together.values(), cell.seeds[:1] if noiseless else cell.seeds
    return (outcome for b in batches for outcome in _batch(cell, federation, b, seeds))


@lru_cache(maxsize=3)
def _dataset(
    given: str | tuple[str, ...],
    label: str | None,
    data_dir: str | None,
    schema: str | None,
    how: Partition,
    digest: str,
) -> Dataset:
    data = load(given, label=label, data_dir=data_dir, schema=schema, holder=how.column)
    if fingerprint(data, how) != digest:
        raise DataError(
            f"The records of {data.name!r} are not those the sweep was planned with; start it "
            "again."
        )
    return data


def _batch(
    cell: Cell, federation: Federation, methods: list[Budgeted], seeds: Sequence[int]
) -> Iterator[CellResult]:
    """Run all (ε, seed) columns at once, then cut the results by ε."""
    budgets = [Budget(methods[0][0] or 1.0, cell.delta)] * federation.graph.size
    sites = federation.sites(cell, budgets)
    noise = SeededNoise(tuple(seed for _ in methods for seed in seeds))
    settings = _settings(cell, methods, len(seeds))
    agents = make_agents(cell.algorithm, sites, [settings] * len(sites), noise)
    trace = local.run(agents).since(cell.trusting.announced)
    model = trace.model(federation.weights(cell, budgets))
    errors = judge(federation.held_out, model, federation.schema.classes, areas=False).error
    losses = _train_losses(federation, model)
    curve = _average_losses(sites, trace) if cell.curve else np.zeros((len(model), 0))
    for k, (epsilon, _) in enumerate(methods):
        part = slice(k * len(seeds), (k + 1) * len(seeds))
        tallies = [agent.ledgers[part.start].reserved for agent in agents]
        yield CellResult(
            epsilon=epsilon,
            epsilon_proven=finite_or_none(worst(tallies, cell.delta).epsilon),
            rounds=settings.rounds,
            eta=settings.eta[part.start],
            seeds=tuple(seeds),
            test_error=tuple(errors[part].tolist()),
            train_loss=tuple(losses[part].tolist()),
            messages=tuple(trace.messages[:, part].mean(axis=0).tolist()),
            curve=tuple(tuple(row) for row in curve[part].tolist()) if cell.curve else (),
            ran=cell.algorithm,
            agent_names=federation.names,
            records=federation.records,
        )


def _settings(cell: Cell, methods: list[Budgeted], seeds: int) -> Settings:
    columns = [pair for pair in methods for _ in range(seeds)]
    budgets = [Budget(epsilon or 1.0, cell.delta) for epsilon, _ in columns]
    return settings_of([method for _, method in columns], budgets, share=cell.share)


def _train_losses(federation: Federation, model: Array) -> Array:
    """Mean loss of a model over all training records; (R, d) → (R,)."""
    values = [risk_over(part, federation.loss).value(model) for part in federation.shards]
    return np.asarray(np.average(values, axis=0, weights=[part.n for part in federation.shards]))


def _average_losses(sites: Sequence[Site], trace: local.Trace) -> Array:
    """(1/N) Σᵢ wᵢfᵢ(θᵢᵗ): each agent's last release on its own records, (R, T)."""
    weights, rounds = [site.weight for site in sites], []
    for values in trace.releases:
        pairs = zip(sites, values, strict=True)
        losses = np.stack([site.risk.value(theta) for site, theta in pairs])
        rounds.append(local.averaged(losses, weights))
    return np.stack(rounds, axis=1)


def deal_seeds(seeds: int, splits: int) -> list[tuple[int, tuple[int, ...]]]:
    """Deal noise seeds 0…seeds−1 over the splits, of which there are at most as many."""
    splits = min(seeds, splits)
    return [(k, tuple(range(k, seeds, splits))) for k in range(splits)]


def check(cell: Cell) -> Cell:
    """Refuse, before anything runs, settings that the cell could not run with."""
    some = replace(cell.method, rounds=1, eta=cell.eta or 1.0, beta=cell.beta or BETA)
    _settings(cell, [(epsilon, some) for epsilon in cell.epsilons], 1)
    return cell
