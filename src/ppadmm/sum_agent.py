"""An agent that hears all others and goes by what they said together.

It is the same pure state machine. What all said together is kept with the books, as soon as it is
known and before anything is paid for after it: who is started again needs nobody's old messages.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ppadmm.agent import Agent, Message, Send
from ppadmm.algorithms import SharedState
from ppadmm.algorithms.sums import SumAlgorithm
from ppadmm.arrays import Array
from ppadmm.errors import ProtocolError
from ppadmm.ledger.protocol import Lost, Past, Sent
from ppadmm.mechanisms import Release


class SumAgent(Agent):
    """Drives an algorithm of sums. A round that was paid for and lost is paid for again.

    Messages are numbered by exchanges, repeats included, and the books by what was drawn (`_slot`).
    """

    algorithm: SumAlgorithm

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._slot = 0

    @property
    def exchange(self) -> int:
        """The number of the sum that is being made."""
        return int(self._state.exchange)

    @property
    def members(self) -> tuple[int, ...]:
        """Who takes part in it."""
        return tuple(self._state.members)

    @property
    def model(self) -> Array:
        """What all sites have in common so far: (R, d)."""
        return self.algorithm.model(self._state)

    @property
    def missing(self) -> tuple[int, ...]:
        """The members that have not spoken for this exchange yet."""
        heard = self._inbox.get(self.exchange, {})
        return tuple(j for j in self.members if j != self.number and j not in heard)

    def receive(self, message: Message) -> None:
        """Take in a message; one that was seen before or is out of date changes nothing."""
        if message.agent not in self.neighbours:
            raise ProtocolError(
                f"Agent {self.number} got a message from {message.agent}, who takes no part."
            )
        ahead = message.round - self.exchange
        if ahead >= 0 and self.round + ahead < self.algorithm.rounds:
            self.algorithm.require(message.agent, self.round + ahead, message.heard)
            self._take(message)

    def catch_up(self) -> list[Send]:
        """Go to where an earlier process was; return what it said in each exchange."""
        said: list[Send] = []
        while self.charged.durable and not self._spoken and self.round < self.algorithm.rounds:
            if self._past() is None:
                break
            said.append(self._speak())
            total = self.charged.kept(self._total_name)
            if total is not None:
                self._go_on(total.reshape(len(self.ledgers), -1))
        return said

    def _past(self) -> Past:
        """Return what an earlier process said in this exchange; what it lost is passed over."""
        past = self.ledgers[0].past(self._slot)
        while isinstance(past, Lost):
            self._slot += 1
            past = self.ledgers[0].past(self._slot)
        return past

    def _said(self) -> Send:
        past = self._past() if self.charged.durable else None
        if isinstance(past, Sent):
            own = SharedState(past.value[None], past.total[None])
            spoke = np.array([past.spoke])
            self._state = self.algorithm.resumed(self._state, own, spoke, spoke)
            release = Release(self.algorithm.shown(self._state.held), spoke)
        else:
            self._state, release = self.algorithm.propose(self._state, self.charged)
            if self.charged.durable:
                own = self.heard
                self.ledgers[0].record(Sent(own.value[0], own.total[0], True))
        self._spoken, self._slot = True, self._slot + 1
        return Send(Message(self.number, self.exchange, self.heard), release)

    @property
    def _total_name(self) -> str:
        return f"total-{self.exchange}"

    def _advance(self, inbox: Mapping[int, SharedState]) -> None:
        total = self.algorithm.total(self._state, inbox)
        if self.charged.durable:
            self.charged.keep(self._total_name, total)
        self._go_on(total)

    def _go_on(self, total: Array) -> None:
        self._inbox.pop(self.exchange, None)
        self._state = self.algorithm.advanced(self._state, total)
        self.round, self._spoken = self.round + 1, False
