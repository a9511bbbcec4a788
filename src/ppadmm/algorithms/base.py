"""What an algorithm is: `init`, `propose`, `absorb` on frozen states."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ppadmm.mechanisms import Release
from ppadmm.noise import NoiseSource
from ppadmm.privacy.events import Charge
from ppadmm.problem.risk import Risk
from ppadmm.typing import Array

S = TypeVar("S")


@dataclass(frozen=True)
class Site:
    """One agent's place in the network, with its own records. Nothing here leaves it."""

    agent: int
    agents: int
    neighbours: tuple[int, ...]
    risk: Risk

    @property
    def degree(self) -> int:
        """|Bᵢ|."""
        return len(self.neighbours)


@dataclass(frozen=True)
class Heard:
    """What a neighbour last said: its θ and the sum of all it has released, both (R, d)."""

    value: Array
    total: Array


class Algorithm(Protocol[S]):
    """One agent's rule, bound to its site. States are values; methods change nothing."""

    @property
    def name(self) -> str:
        """The name a user types."""

    @property
    def rounds(self) -> int:
        """T."""

    @property
    def reserved(self) -> tuple[tuple[Charge, int], ...]:
        """Per replicate, what a release costs and how many a run may make."""

    @property
    def scales(self) -> dict[str, Array]:
        """Names and sizes (R,) of the noises in use."""

    def init(self) -> S:
        """Return the state before round 0; reads the records at most once."""

    def charges(self, state: S) -> tuple[Charge, ...]:
        """Return what the coming `propose` costs each replicate."""

    def propose(self, state: S, noise: NoiseSource) -> tuple[S, Release]:
        """Make this round's release. The caller has booked `charges(state)` before."""

    def absorb(self, state: S, inbox: Mapping[int, Heard]) -> S:
        """Take in what the neighbours said in this round and move to the next."""

    def heard(self, state: S) -> Heard:
        """Return what neighbours should now know of this agent."""
