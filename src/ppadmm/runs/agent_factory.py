"""What an agent needs to start elsewhere: a value that pickles, with its own records only."""

import typing
from collections.abc import Sequence
from dataclasses import dataclass

from ppadmm.agent import Agent
from ppadmm.algorithms import Settings, Site, recipe_named
from ppadmm.data import Shard, ShardStream, StreamAssignment
from ppadmm.engines.ray.actors import Around
from ppadmm.noise import NoiseSource, SecureNoise, SeededNoise
from ppadmm.problem import Loss, NoRecords, Risk, risk_over
from ppadmm.records import HoldsRecords
from ppadmm.runs.federation import Federation, make_agents


@dataclass(frozen=True)
class StreamPart:
    """Some agents' part of streamed files, read by the process that needs it."""

    dealing: StreamAssignment
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class AgentFactory(HoldsRecords):
    """One agent's place, part of the records and settings; with a `seed` its noise follows."""

    algorithm: str
    agent: int
    agents: int
    neighbours: tuple[int, ...]
    neighbour_degrees: tuple[int, ...]
    part: Shard | StreamPart | None
    parameters: int
    loss: Loss
    settings: Settings
    seed: int | None
    capped: bool

    def __call__(self, around: Around) -> tuple[Agent, Risk]:
        """Return the agent, as `make_agents` makes it, and what reads its records."""
        site = self.site()
        source: NoiseSource = SecureNoise() if self.seed is None else SeededNoise((self.seed,))
        (agent,) = make_agents(self.algorithm, [site], [self.settings], around(source), self.capped)
        return agent, site.risk

    def site(self) -> Site:
        """Return the agent's site."""
        risk: Risk = (
            NoRecords(self.parameters, self.loss)
            if self.part is None
            else risk_over(_opened(self.part), self.loss)
        )
        return Site(self.agent, self.agents, self.neighbours, risk, self.neighbour_degrees)


def agent_factories(
    scene: Federation, algorithm: str, settings: Sequence[Settings], seed: int | None, capped: bool
) -> list[AgentFactory]:
    """Return every agent's role, or one with all records if the algorithm pools them."""
    pooled = recipe_named(algorithm).pooled
    parts = [_pooled(scene)] if pooled else _parts(scene)
    near = [()] if pooled else [tuple(scene.graph.neighbours(i)) for i in range(len(parts))]
    return [
        AgentFactory(
            algorithm=algorithm,
            agent=i,
            agents=len(parts),
            neighbours=near[i],
            neighbour_degrees=tuple(scene.graph.degree(j) for j in near[i]),
            part=part,
            parameters=scene.parameters,
            loss=scene.loss,
            settings=own,
            seed=seed,
            capped=capped,
        )
        for i, (part, own) in enumerate(zip(parts, settings, strict=True))
    ]


def _opened(part: Shard | StreamPart) -> Shard | ShardStream:
    return part.dealing.part(part.numbers) if isinstance(part, StreamPart) else part


def _parts(scene: Federation) -> list[Shard | StreamPart | None]:
    """Return what goes to every agent: its records, or where it reads them itself."""
    return [_sent(scene, part, (i,)) for i, part in enumerate(scene.parts)]


def _pooled(scene: Federation) -> Shard | StreamPart | None:
    holders = tuple(i for i, part in enumerate(scene.parts) if part is not None)
    return _sent(scene, scene.pooled(), holders)


def _sent(
    scene: Federation, part: Shard | ShardStream | None, numbers: tuple[int, ...]
) -> Shard | StreamPart | None:
    if isinstance(part, ShardStream):
        return StreamPart(typing.cast(StreamAssignment, scene.dealing), numbers)
    return part
