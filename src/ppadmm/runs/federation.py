"""The stage of a run: records split over agents, a network, a held-out set. No budget yet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ppadmm.accounting import Budget, Charge
from ppadmm.agent import Agent
from ppadmm.algorithms import Settings, Site, recipe_named
from ppadmm.algorithms.base import Recipe, site_in
from ppadmm.algorithms.method import MethodSpec, choose, weigh
from ppadmm.data import (
    Assignment,
    Dataset,
    Partition,
    Schema,
    Shard,
    ShardStream,
    StreamAssignment,
    StreamedData,
    deal,
    joined,
    shards,
)
from ppadmm.data.shard import stack_rows
from ppadmm.errors import InputError
from ppadmm.ledger import Ledger, MemoryLedger
from ppadmm.noise import NoiseSource, SecureNoise, SeededNoise
from ppadmm.problem import Graph, Loss, NoRecords, Risk, graph_from, laid_out, risk_over
from ppadmm.records import HoldsRecords
from ppadmm.runs.evaluation import HeldOut
from ppadmm.sum_agent import SumAgent

Reservations: TypeAlias = list[tuple[int, tuple[tuple[Charge, int], ...]]]
"""For each agent, the most that a run may cost."""
OpenLedgers: TypeAlias = Callable[[Reservations], Sequence[Ledger]]


@dataclass(frozen=True)
class FederationFacts:
    """What is public of a federation: sizes and names, no record. It is what a result keeps."""

    schema: Schema
    graph: Graph
    loss: Loss
    names: tuple[str, ...]
    records: tuple[int, ...]
    features: int

    @property
    def parameters(self) -> int:
        """Length of a model: d, or K·d for a loss of K scores."""
        return self.features * self.loss.outputs


@dataclass(frozen=True)
class Federation(HoldsRecords):
    """Who holds what, who talks to whom, and what models are judged on.

    An agent that only listens has no part. `test` is None where nothing is held out. `dealing` says
    how streamed files were dealt, so that another process can do it again.
    """

    schema: Schema
    graph: Graph
    parts: tuple[Shard | ShardStream | None, ...]
    test: HeldOut | None
    loss: Loss
    dealt: Assignment
    dealing: StreamAssignment | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What the agents are called, in the order of their numbers."""
        return self.dealt.names

    @property
    def features(self) -> int:
        """d."""
        return self.shards[0].d

    @property
    def shards(self) -> list[Shard | ShardStream]:
        """The parts of the agents that have records."""
        return [part for part in self.parts if part is not None]

    @property
    def records(self) -> tuple[int, ...]:
        """Every agent's number of records."""
        return tuple(0 if part is None else part.n for part in self.parts)

    @property
    def setup(self) -> FederationFacts:
        """All but the records, and who holds which."""
        return FederationFacts(
            self.schema, self.graph, self.loss, self.names, self.records, self.features
        )

    def no_records(self) -> NoRecords:
        """Return the data part of an agent that only listens."""
        return NoRecords(self.setup.parameters, self.loss)

    def pooled(self) -> Shard | ShardStream:
        """Return all training records at one place."""
        if streams := [part for part in self.shards if isinstance(part, ShardStream)]:
            return joined(streams)
        parts = [part for part in self.shards if isinstance(part, Shard)]
        stack = stack_rows([part.X for part in parts])
        labels = np.concatenate([part.y for part in parts])
        return Shard(stack, labels, self.schema.classes)

    @property
    def held_out(self) -> HeldOut:
        """The records that models are judged on."""
        if self.test is None:
            raise InputError("No records were held out for testing; judge the model elsewhere.")
        return self.test

    def test_of(self, agent: int) -> HeldOut:
        """Return the held-out records like those of an agent: all where agents are alike."""
        test, alike = self.held_out, self.dealt.alike
        if alike is None or isinstance(test, ShardStream):
            return test
        return test[0][alike[agent]], test[1][alike[agent]]

    def close(self) -> None:
        """Delete what a stream keeps on disk; records in memory stay."""
        if isinstance(self.test, ShardStream):
            self.test.close()

    def sites(self, method: MethodSpec, budgets: Sequence[Budget]) -> list[Site]:
        """Return every agent's site, or one with all records if the algorithm pools them."""
        if method.recipe.pooled:
            return [Site(0, 1, (), risk_over(self.pooled(), self.loss), records=sum(self.records))]
        beside = sum(self.records) * self.features
        risks: list[Risk] = [
            self.no_records() if part is None else risk_over(part, self.loss, beside)
            for part in self.parts
        ]
        weights, graph, n = self.weights(method, budgets), method.exchange(self.graph), self.records
        return [site_in(graph, i, risk, weights, sum(n)) for i, risk in enumerate(laid_out(risks))]

    def weights(self, method: MethodSpec, budgets: Sequence[Budget]) -> tuple[float, ...]:
        """Return how much every agent counts, or the one place of pooled records."""
        return weigh(method, self.records, budgets, self.setup.parameters)

    def chosen(self, method: MethodSpec, budgets: Sequence[Budget]) -> MethodSpec:
        """Choose what was left open, from public sizes and every agent's budget."""
        return choose(method, (self.records, self.features, self.graph), budgets, self.loss)


def build_federation(
    data: Dataset | StreamedData,
    agents: int,
    graph: str,
    loss: Loss,
    seed: int,
    records: Sequence[int] | None = None,
    partition: str = "even",
) -> Federation:
    """Split `data` into training shards and a test set and draw the network, all from `seed`.

    Records are dealt as `partition` says (see `ppadmm.data.Partition`), or `records[i]` of them to
    agent i; with 0 it only listens. With a column or files their number follows from those.
    """
    how, schema = Partition.parse(partition), data.schema
    if isinstance(data, StreamedData):
        sizes = None if records is None else tuple(records)
        dealing = StreamAssignment(data, how, agents, seed, sizes)
        found = dealing.streams()
        network = graph_from(graph, len(found.parts), seed)
        return Federation(schema, network, found.parts, found.test, loss, found.dealt, dealing)
    dealt, test = deal(data, how, agents, seed, records)
    X, y, k = data.X, data.y, schema.classes
    parts = tuple(shards(X, y, [own], k)[0] if len(own) else None for own in dealt.parts)
    network, held_out = graph_from(graph, len(parts), seed), (data.X[test], data.y[test])
    return Federation(schema, network, parts, held_out, loss, dealt)


def noise_from(seed: int | None) -> NoiseSource:
    """Return the system's noise, or noise that follows from a seed: for simulation only."""
    return SecureNoise() if seed is None else SeededNoise((seed,))


def agent_kind(recipe: Recipe) -> type[Agent]:
    """Return what drives an algorithm: one who hears all goes by sums."""
    return SumAgent if recipe.everyone else Agent


def make_agents(
    algorithm: str,
    sites: Sequence[Site],
    settings: Sequence[Settings],
    noise: NoiseSource,
    capped: bool = False,
    book: OpenLedgers | None = None,
) -> list[Agent]:
    """Return one agent per site with its own settings and a ledger per replicate.

    With `capped` a ledger refuses what its replicate's budget does not cover. `book` takes what
    every agent reserves and returns the ledgers to use instead.
    """
    build = recipe_named(algorithm).build
    if any(own.trust.by_sum for own in settings) and len({own.budgets for own in settings}) > 1:
        raise InputError(
            "Sites that add up under masks protect one another, so that all need the strictest "
            "budget of all; got several."
        )
    rules = [build(site, own) for site, own in zip(sites, settings, strict=True)]
    ledgers: list[Sequence[Ledger]] = [
        [MemoryLedger(budget if capped else None) for budget in own.budgets] for own in settings
    ]
    if book is not None:
        asked = [(site.agent, rule.reserved[0]) for site, rule in zip(sites, rules, strict=True)]
        ledgers = [[ledger] for ledger in book(asked)]
    kind = agent_kind(recipe_named(algorithm))
    return [
        kind(rule, site.agent, site.neighbours, own, noise)
        for rule, site, own in zip(rules, sites, ledgers, strict=True)
    ]
