"""The stage of a run: records split over agents, a network, a held-out set. No budget yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack

from ppadmm.agent import Agent
from ppadmm.algorithms import Settings, Site, recipe_named
from ppadmm.algorithms.defaults import Plan, Sizes
from ppadmm.data import Dataset, Deal, Partition, Schema, Shard, deal, shards, split
from ppadmm.noise import NoiseSource
from ppadmm.privacy import Budget, MemoryLedger
from ppadmm.problem import Graph, Loss, NoRecords, Risk, graph_from, risk_of
from ppadmm.typing import Array, Matrix


@dataclass(frozen=True)
class Scene:
    """Who holds what, who talks to whom, and what models are judged on.

    An agent that only listens has no part.
    """

    schema: Schema
    graph: Graph
    parts: tuple[Shard | None, ...]
    test: tuple[Matrix, Array]
    loss: Loss
    dealt: Deal

    @property
    def names(self) -> tuple[str, ...]:
        """What the agents are called, in the order of their numbers."""
        return self.dealt.names

    @property
    def features(self) -> int:
        """d."""
        return self.shards[0].d

    @property
    def parameters(self) -> int:
        """Length of a model: d, or K·d for a loss of K scores."""
        return self.features * self.loss.outputs

    @property
    def shards(self) -> list[Shard]:
        """The parts of the agents that have records."""
        return [part for part in self.parts if part is not None]

    @property
    def records(self) -> tuple[int, ...]:
        """Every agent's number of records."""
        return tuple(0 if part is None else part.n for part in self.parts)

    def pooled(self) -> Shard:
        """Return all training records at one place."""
        blocks: list[Any] = [part.X for part in self.shards]
        stack: Any = vstack(blocks, format="csr") if issparse(blocks[0]) else np.vstack(blocks)
        labels = np.concatenate([part.y for part in self.shards])
        return Shard(stack, labels, self.schema.classes)

    def sites(self, algorithm: str) -> list[Site]:
        """Return every agent's site, or one with all records if the algorithm pools them."""
        if recipe_named(algorithm).pooled:
            return [Site(0, 1, (), risk_of(self.pooled(), self.loss))]
        graph = self.graph
        return [
            Site(
                agent=i,
                agents=graph.size,
                neighbours=graph.neighbours(i),
                risk=self._risk(part),
                neighbour_degrees=tuple(graph.degree(j) for j in graph.neighbours(i)),
            )
            for i, part in enumerate(self.parts)
        ]

    def _risk(self, part: Shard | None) -> Risk:
        if part is None:
            return NoRecords(self.parameters, self.loss)
        return risk_of(part, self.loss)

    def plan(
        self, algorithm: str, budgets: Sequence[Budget], rounds: int | None, eta: float | None
    ) -> Plan:
        """Choose what was left open, from public sizes and every agent's budget."""
        sizes = (self.records, self.features, self.graph.degrees)
        return choose(algorithm, sizes, budgets, self.loss, rounds, eta)


def choose(
    algorithm: str,
    sizes: tuple[Sequence[int], int, Sequence[int]],
    budgets: Sequence[Budget],
    loss: Loss,
    rounds: int | None,
    eta: float | None,
) -> Plan:
    """Choose T, η and λ̂ from (records by agent, features, degrees) and budgets, all public."""
    records, features, degrees = sizes
    recipe = recipe_named(algorithm)
    if recipe.pooled:
        pooled = Sizes((sum(records),), features, (1,))
        return recipe.defaults(pooled, [strictest(budgets)], loss, rounds, eta)
    held = [i for i, n in enumerate(records) if n]
    public = Sizes(tuple(records[i] for i in held), features, tuple(degrees[i] for i in held))
    return recipe.defaults(public, [budgets[i] for i in held], loss, rounds, eta)


def strictest(budgets: Sequence[Budget]) -> Budget:
    """Return the budget that satisfies everyone whose records are pooled."""
    return Budget(min(b.epsilon for b in budgets), min(b.delta for b in budgets))


def stage(
    data: Dataset,
    agents: int,
    graph: str,
    loss: Loss,
    seed: int,
    records: Sequence[int] | None = None,
    partition: str = "even",
) -> Scene:
    """Split `data` into training shards and a test set and draw the network, all from `seed`.

    Records are dealt as `partition` says (see `ppadmm.data.Partition`), or `records[i]` of them to
    agent i; with 0 it only listens. With a column the number of agents follows from it.
    """
    train, test = split(data, seed)
    dealt = deal(data, train, Partition.parse(partition), agents, seed, records)
    X, y = data.X[train], data.y[train]
    classes = data.schema.classes
    parts = [shards(X, y, [part], classes)[0] if len(part) else None for part in dealt.parts]
    network = graph_from(graph, len(parts), seed)
    held_out = (data.X[test], data.y[test])
    return Scene(data.schema, network, tuple(parts), held_out, loss, dealt)


def cast(
    algorithm: str,
    sites: Sequence[Site],
    settings: Sequence[Settings],
    noise: NoiseSource,
    capped: bool = False,
) -> list[Agent]:
    """Return one agent per site with its own settings and a ledger per replicate.

    With `capped` a ledger refuses what its replicate's budget does not cover.
    """
    build = recipe_named(algorithm).build
    return [
        Agent(
            build(site, own),
            site.agent,
            site.neighbours,
            [MemoryLedger(budget if capped else None) for budget in own.budgets],
            noise,
        )
        for site, own in zip(sites, settings, strict=True)
    ]
