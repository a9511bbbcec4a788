"""What an algorithm is: `init`, `propose`, `absorb` on frozen states."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ppadmm.accounting.calibration import Budget
from ppadmm.accounting.events import Charge
from ppadmm.algorithms.defaults import Hyperparameters, Sizes
from ppadmm.algorithms.settings import Settings
from ppadmm.arrays import Array
from ppadmm.mechanisms import ChargedNoise, Release
from ppadmm.problem.graphs import Graph
from ppadmm.problem.losses import Loss
from ppadmm.problem.risk import Risk
from ppadmm.records import HoldsRecords

S = TypeVar("S")
Bits: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Site(HoldsRecords):
    """One agent's place in the network, with its own records. Nothing here leaves it.

    `weight` is its wᵢ in the objective, `heaviest` the largest of all agents, `shares` are all
    weights over their sum and `records` counts those of all agents. All of that is public.
    """

    agent: int
    agents: int
    neighbours: tuple[int, ...]
    risk: Risk
    neighbour_degrees: tuple[int, ...] = ()
    weight: float = 1.0
    heaviest: float = 1.0
    shares: tuple[float, ...] = (1.0,)
    records: int = 0

    @property
    def share(self) -> float:
        """Its φᵢ: weights that add up to one."""
        return self.shares[self.agent]

    @property
    def degree(self) -> int:
        """|Bᵢ|."""
        return len(self.neighbours)


def site_in(
    graph: Graph, agent: int, risk: Risk, weights: Sequence[float], records: int = 0
) -> Site:
    """Return an agent's place in a network whose agents have these `weights` and `records` in all.

    One without records has a weight of 0; what it minimises is the same for any other.
    """
    near = graph.neighbours(agent)
    degrees, own = tuple(map(graph.degree, near)), weights[agent] or 1.0
    total = sum(weights)
    shares = tuple(weight / total for weight in weights)
    return Site(agent, graph.size, near, risk, degrees, own, max(weights), shares, records)


@dataclass(frozen=True)
class SharedState:
    """What a neighbour last said: its θ and the sum of all it has released, both (R, d)."""

    value: Array
    total: Array


Reserved: TypeAlias = tuple[tuple[Charge, int], ...]
"""What a run may cost one replicate: charges with the most times that each can fall due."""


class Algorithm(Protocol[S]):
    """One agent's rule, bound to its site. States are values; methods change nothing."""

    @property
    def name(self) -> str:
        """The name a user types."""

    @property
    def rounds(self) -> int:
        """T."""

    @property
    def reserved(self) -> tuple[Reserved, ...]:
        """Per replicate, the most that a run may cost."""

    @property
    def scales(self) -> dict[str, Array]:
        """Names and sizes (R,) of the noises in use."""

    @property
    def radius(self) -> Array:
        """The norm (R,) that no value of an agent exceeds; all agents know it."""

    def init(self) -> S:
        """Return the state before round 0; reads the records at most once."""

    def propose(self, state: S, charged: ChargedNoise) -> tuple[S, Release]:
        """Make this round's release; noise comes against payment only."""

    def resumed(self, state: S, own: SharedState, spoke: Bits, spent: Bits) -> S:
        """Return the state after a round that an earlier process made; nothing is drawn.

        `spoke` (R,) says who released in it and `spent` (R,) who may have paid for a release.
        """

    def absorb(self, state: S, inbox: Mapping[int, SharedState]) -> S:
        """Take in what the neighbours said in this round and move to the next."""

    def heard(self, state: S) -> SharedState:
        """Return what neighbours should now know of this agent."""


class Builder(Protocol):
    """Binds an algorithm to one site."""

    def __call__(self, site: Site, settings: Settings) -> Algorithm[Any]:
        """Return the agent's rule, calibrated for every replicate's budget."""


class Defaults(Protocol):
    """Chooses what the user left open, from public sizes and budgets only."""

    def __call__(
        self,
        sizes: Sizes,
        budgets: Sequence[Budget],
        loss: Loss,
        rounds: int | None,
        eta: float | None,
    ) -> Hyperparameters:
        """Return T, η and λ̂."""


@dataclass(frozen=True)
class Recipe:
    """An algorithm as a user sees it: how to build it and what may be said of it.

    `title` is its name in headings. `pooled`: all records are at one place. `listens`: neighbours'
    values enter the subproblem, and η its convexity. `solves`: there is a subproblem, with a β.
    `tests`: an agent may be silent, as a private test says. `noiseless`: nothing is drawn and no ε
    exists. `always_charged`: an agent with records speaks only in rounds that it pays for. `every`:
    it reads its records in one round of so many. `alone` names what a single agent, who has nobody
    to exchange with, runs in its place; None if that makes no sense. `not_private_because` is empty
    for an algorithm whose runs may be called private. `noise_source` names where its unseeded noise
    comes from, if not from the secure sampler in use. `descends` says how the mean over agents
    moves, where bands about curves were measured to hold: `implicit` by proximal steps, `explicit`
    by gradient steps. `everyone`: an agent hears all others and not its neighbours only. `sums`: it
    needs no more of them than sums, so that it can run with `trust = sum`.
    """

    name: str
    summary: str
    build: Builder
    defaults: Defaults
    title: str = ""
    tests: bool = False
    noiseless: bool = False
    always_charged: bool = False
    every: int = 1
    alone: str | None = None
    pooled: bool = False
    listens: bool = True
    solves: bool = True
    not_private_because: str = ""
    noise_source: str | None = None
    descends: Literal["implicit", "explicit"] | None = None
    everyone: bool = False
    sums: bool = False
