"""Where a peer stands in a run: what it has said and what it holds of the others."""

import numpy as np
from numpy.typing import NDArray

from ppadmm.agent import Agent
from ppadmm.arrays import Array
from ppadmm.mechanisms import Release
from ppadmm.peers.agreement import Agreement
from ppadmm.peers.outcome import average_of, spoken, tallies_of
from ppadmm.peers.status import MessageCounts


class PeerState:
    """One agent's place in a run; all that is public here may be shown to anybody.

    `phase` is one of `control.PHASES`; `reason` says why the run ended before its time. `near` are
    the neighbours in the `network` of the agreement, to whom there are links.
    """

    def __init__(self, agent: Agent, agreement: Agreement) -> None:
        self.agent, self.agreement = agent, agreement
        self.tally, self.resumed, self.tallies = MessageCounts(), 0, tallies_of(agent)
        self.phase, self.reason = "signing", ""
        self.network = agreement.graph
        self.near = self.network.neighbours(agent.number)
        self._made: list[Release] = []
        self._finals: dict[int, bytes] = {}
        self._signatures: dict[int, str] = {}

    @property
    def agents(self) -> int:
        """N."""
        return len(self.agreement.parties)

    @property
    def counted(self) -> tuple[int, ...]:
        """Whose averages make the model."""
        return tuple(range(self.agents))

    @property
    def left_out(self) -> tuple[int, ...]:
        """Who signed the agreement and was left out on the way."""
        return tuple(i for i in range(self.agents) if i not in self.counted)

    @property
    def rounds(self) -> int:
        """T."""
        return self.agent.algorithm.rounds

    @property
    def made(self) -> int:
        """How many rounds this agent has spoken in or been silent in."""
        return len(self._made)

    @property
    def signed(self) -> int:
        """How many signatures are there."""
        return len(self._signatures)

    @property
    def finals(self) -> int:
        """How many final averages are there."""
        return len(self._finals)

    @property
    def waited_for(self) -> tuple[int, ...]:
        """Whom this peer is waiting for: for signatures, for this round, or for averages."""
        if self.phase == "signing":
            return tuple(i for i in range(self.agents) if i not in self._signatures)
        if self.phase == "rounds":
            return self.agent.missing if self._made else ()
        return tuple(i for i in self.counted if i not in self._finals)

    def name(self, number: int) -> str:
        """Return what people call a party."""
        return f"{self.agreement.parties[number].name!r} (agent {number})"

    def so_far(self) -> tuple[Array, NDArray[np.bool_]]:
        """Return this site's releases (t, d) and in which rounds it spoke (t,)."""
        return spoken(list(self._made), self.agreement.parameters)

    def average(self) -> Array:
        """Return the model that this site has so far (d,): the average of its releases, or its own.

        It is 0 before the first.
        """
        model = self.agent.model
        return average_of(*self.so_far()) if model is None else model[0]
