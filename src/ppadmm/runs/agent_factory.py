"""What an agent needs to start elsewhere: a value that pickles, with its own records only."""

import typing
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ppadmm.agent import Agent
from ppadmm.algorithms import Settings, Site
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.method import MethodSpec
from ppadmm.data import Shard, ShardStream, StreamAssignment
from ppadmm.engines.ray.actors import Around
from ppadmm.problem import Risk, risk_over
from ppadmm.records import HoldsRecords
from ppadmm.runs.federation import Federation, make_agents, noise_from


@dataclass(frozen=True)
class StreamPart:
    """Some agents' part of streamed files, read by the process that needs it."""

    dealing: StreamAssignment
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class AgentFactory(HoldsRecords):
    """One agent's place, part of the records and settings; with a `seed` its noise follows.

    `place` is its site before it has any records.
    """

    algorithm: str
    place: Site
    part: Shard | StreamPart | None
    settings: Settings
    seed: int | None
    capped: bool

    def __call__(self, around: Around) -> tuple[Agent, Risk]:
        """Return the agent, as `make_agents` makes it, and what reads its records."""
        site, noise = self.site(), around(noise_from(self.seed))
        (agent,) = make_agents(self.algorithm, [site], [self.settings], noise, self.capped)
        return agent, site.risk

    def site(self) -> Site:
        """Return the agent's site."""
        if self.part is None:
            return self.place
        part = self.part
        records = part.dealing.part(part.numbers) if isinstance(part, StreamPart) else part
        return replace(self.place, risk=risk_over(records, self.place.risk.loss))


def agent_factories(
    federation: Federation,
    method: MethodSpec,
    settings: Sequence[Settings],
    seed: int | None,
    capped: bool,
) -> list[AgentFactory]:
    """Return every agent's role, or one with all records if the algorithm pools them."""
    graph, nothing = method.exchange(federation.graph), federation.no_records
    if method.recipe.pooled:
        holders = tuple(i for i, part in enumerate(federation.parts) if part is not None)
        places = [Site(0, 1, (), nothing())]
        parts = [_sent(federation, federation.pooled(), holders)]
    else:
        weights = federation.weights(method, [own.budgets[0] for own in settings])
        n = sum(federation.records)
        places = [site_in(graph, i, nothing(), weights, n) for i in range(graph.size)]
        parts = [_sent(federation, part, (i,)) for i, part in enumerate(federation.parts)]
    return [
        AgentFactory(method.algorithm, place, part, own, seed, capped)
        for place, part, own in zip(places, parts, settings, strict=True)
    ]


def _sent(
    federation: Federation, part: Shard | ShardStream | None, numbers: tuple[int, ...]
) -> Shard | StreamPart | None:
    """Return what goes to an agent: its records, or where it reads them itself."""
    if isinstance(part, ShardStream):
        return StreamPart(typing.cast(StreamAssignment, federation.dealing), numbers)
    return part
