"""An agent that hears all others and goes by what they said together.

It is the same pure state machine. What all said together is kept with the books, as soon as it is
known and before anything is paid for after it: who is started again needs nobody's old messages.

An exchange in which somebody stays away is made again without them: all who are left `give_up`, and
when each knows that all did, they `repeat` it. Who gave up never completes the old exchange, also
after a crash, so no two of them can go on in different ways.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ppadmm.agent import Action, Agent, Message, Send, Snapshot, Wait
from ppadmm.algorithms import SharedState
from ppadmm.algorithms.sums import SumAlgorithm
from ppadmm.arrays import Array
from ppadmm.errors import BudgetError, ProtocolError
from ppadmm.ledger.protocol import Lost, Past, Sent
from ppadmm.mechanisms import Release


class RepeatsSpentError(BudgetError):
    """A part would have to be drawn again, and no repetition is left of those reserved for it."""


@dataclass(frozen=True)
class SumSnapshot(Snapshot):
    """A snapshot with the place in the books, what was drawn, and which exchanges were given up."""

    slot: int
    drawn: Counter[str]
    proposals: dict[int, tuple[int, ...]]


class SumAgent(Agent):
    """Drives an algorithm of sums. A round that was paid for and lost is paid for again.

    Messages are numbered by exchanges, repeats included, and the books by what was drawn (`_slot`).
    `proposals` has, for each exchange that this agent gave up, among whom to make it again.
    """

    algorithm: SumAlgorithm

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.proposals: dict[int, tuple[int, ...]] = {}
        self._slot = 0
        self._drawn: Counter[str] = Counter()

    @property
    def exchange(self) -> int:
        """The number of the sum that is being made."""
        return int(self._state.exchange)

    @property
    def members(self) -> tuple[int, ...]:
        """Who takes part in it."""
        return tuple(self._state.members)

    def members_in(self, exchange: int) -> tuple[int, ...]:
        """Return who took part in an exchange up to this one."""
        before = [e for e in self.proposals if e < exchange and e < self.exchange]
        everyone = tuple(sorted({self.number, *self.neighbours}))
        return self.proposals[max(before)] if before else everyone

    @property
    def spoken(self) -> bool:
        """Whether this agent's part of the exchange is made."""
        return self._spoken

    @property
    def proposed(self) -> tuple[int, ...] | None:
        """Among whom to make this exchange again, if it was given up."""
        return self.proposals.get(self.exchange)

    @property
    def model(self) -> Array:
        """What all sites have in common so far: (R, d)."""
        return self.algorithm.model(self._state)

    @property
    def missing(self) -> tuple[int, ...]:
        """The members that have not spoken for this exchange yet."""
        heard = self._inbox.get(self.exchange, {})
        return tuple(j for j in self.members if j != self.number and j not in heard)

    def next(self) -> Action:
        """Return the next thing to do; one who gave an exchange up waits for the repetition."""
        if self._spoken and self.proposed is not None:
            return Wait(self.missing)
        return super().next()

    def receive(self, message: Message) -> None:
        """Take in a message; one that was seen before or is out of date changes nothing."""
        if message.agent not in self.neighbours:
            raise ProtocolError(
                f"Agent {self.number} got a message from {message.agent}, who takes no part."
            )
        ahead = message.round - self.exchange
        taking_part = message.agent in self.members
        if taking_part and ahead >= 0 and self.round + ahead < self.algorithm.rounds:
            self.algorithm.require(message.agent, self.round + ahead, message.heard)
            self._take(message)

    # -- an exchange without somebody ----------------------------------------------------------

    def why_not(self, members: Sequence[int]) -> str:
        """Say why this exchange cannot be made again among `members`; empty if it can."""
        left, trust = len(members), self.algorithm.trust
        if self.number not in members or not set(members) < set(self.members):
            return f"{list(members)} are no part of {list(self.members)} with {self.number}"
        if 2 * left <= len(self.members):
            return f"{left} of {len(self.members)} sites are not the greater part"
        if trust.by_sum and left <= trust.colluding:
            return f"{left} sites are left, of which {trust.colluding} may collude"
        if self._used() > trust.repeats:
            return f"the agreement has {trust.repeats} repetitions of an exchange, and none is left"
        return ""

    def give_up(self, members: Sequence[int]) -> None:
        """Never complete this exchange, and propose to make it again among `members`.

        It is on disk when this returns: the proposal may be sent.
        """
        wanted = tuple(sorted(members))
        if self.proposed == wanted:
            return
        if self.proposed is not None or not self._spoken or not self.missing:
            raise ProtocolError(f"Agent {self.number} cannot give up exchange {self.exchange} now.")
        if why := self.why_not(wanted):
            raise ProtocolError(f"Exchange {self.exchange} cannot be made again: {why}.")
        self._keep_members(self._proposal_name, wanted)
        self.charged.settle()
        self.proposals[self.exchange] = wanted

    def repeat(self, members: Sequence[int]) -> None:
        """Make the exchange again among `members`, who all gave it up: the next part is drawn anew.

        It has another number and other members, and so another mask.
        """
        wanted = tuple(sorted(members))
        if self.proposed is None or self.proposed != wanted:
            raise ProtocolError(
                f"Agent {self.number} did not propose to repeat exchange {self.exchange} among "
                f"{list(wanted)}."
            )
        if self.charged.durable and self.charged.kept(self._repeat_name) is None:
            self._keep_members(self._repeat_name, wanted)
        self._inbox.clear()
        self._state = replace(self._state, exchange=self.exchange + 1, members=wanted)
        self._spoken = False

    def _keep_members(self, name: str, members: Sequence[int]) -> None:
        if self.charged.durable:
            rows = np.tile(np.array(members, dtype=float), (len(self.ledgers), 1))
            self.charged.keep(name, rows)

    def _used(self) -> int:
        """Return how many parts of this round's kind were drawn since all before it were made."""
        stage, stages = self._stage, self.algorithm.stages
        return self._drawn[stage] - stages[: self.round].count(stage)

    @property
    def _stage(self) -> str:
        return self.algorithm.stages[self.round]

    # -- after a crash -------------------------------------------------------------------------

    def catch_up(self) -> list[Send]:
        """Go to where an earlier process was; return what it said in each round, last of all."""
        said: list[Send] = []
        while self.charged.durable and not self._spoken and self.round < self.algorithm.rounds:
            if self._past() is None:
                break
            said.append(self._speak())
            if self._took_up_repeat():
                said.pop()
        return said

    def _took_up_repeat(self) -> bool:
        """Take up how an exchange ended; say whether it was made again."""
        total = self.charged.kept(self._total_name)
        if total is not None:
            self._go_on(total.reshape(len(self.ledgers), -1))
            return False
        proposed = self.charged.kept(self._proposal_name)
        if proposed is None:
            return False
        members = tuple(map(int, proposed.reshape(len(self.ledgers), -1)[0]))
        self.proposals[self.exchange] = members
        if self.charged.kept(self._repeat_name) is None:
            return False
        self.repeat(members)
        return True

    def _past(self) -> Past:
        """Return what an earlier process said in this exchange; what it lost is passed over."""
        past = self.ledgers[0].past(self._slot)
        while isinstance(past, Lost):
            self._slot += 1
            self._drawn[self._stage] += 1
            past = self.ledgers[0].past(self._slot)
        return past

    def _said(self) -> Send:
        past = self._past() if self.charged.durable else None
        if isinstance(past, Sent):
            own = SharedState(past.value[None], past.total[None])
            spoke = np.array([past.spoke])
            self._state = self.algorithm.resumed(self._state, own, spoke, spoke)
            self._state = self.algorithm.with_key(self._state, self.charged)
            release = Release(self.algorithm.shown(self._state.held), spoke)
        else:
            release = self._drawn_anew()
        self._spoken, self._slot = True, self._slot + 1
        self._drawn[self._stage] += 1
        return Send(Message(self.number, self.exchange, self.heard), release)

    def _drawn_anew(self) -> Release:
        if self._used() > self.algorithm.trust.repeats:
            raise RepeatsSpentError(
                f"A part of round {self.round} was paid for and not sent, and none of the "
                f"{self.algorithm.trust.repeats} repetitions of the agreement is left to draw it "
                "again; agree on more of them for another run."
            )
        self._state, release = self.algorithm.propose(self._state, self.charged)
        if self.charged.durable:
            own = self.heard
            self.ledgers[0].record(Sent(own.value[0], own.total[0], True))
        return release

    @property
    def _total_name(self) -> str:
        return f"total-{self.exchange}"

    @property
    def _proposal_name(self) -> str:
        return f"without-{self.exchange}"

    @property
    def _repeat_name(self) -> str:
        return f"repeat-{self.exchange}"

    def _advance(self, inbox: Mapping[int, SharedState]) -> None:
        total = self.algorithm.total(self._state, inbox)
        if self.charged.durable and self.charged.kept(self._total_name) is None:
            self.charged.keep(self._total_name, total)
        self._go_on(total)

    def _go_on(self, total: Array) -> None:
        self._inbox.pop(self.exchange, None)
        self._state = self.algorithm.advanced(self._state, total)
        self.round, self._spoken = self.round + 1, False

    # -- between processes ---------------------------------------------------------------------

    def snapshot(self) -> SumSnapshot:
        """Return all that changes in the course of a run, but for the books."""
        found = super().snapshot()
        return SumSnapshot(
            found.round, found.spoken, found.state, found.inbox,
            self._slot, Counter(self._drawn), dict(self.proposals),
        )  # fmt: skip

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from where another agent of the same making was."""
        super().restore(snapshot)
        if isinstance(snapshot, SumSnapshot):
            self._slot, self._drawn = snapshot.slot, Counter(snapshot.drawn)
            self.proposals = dict(snapshot.proposals)
