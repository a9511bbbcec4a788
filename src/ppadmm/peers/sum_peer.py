"""A peer of a run by sums: it hears every site's part of every exchange, through its neighbours.

    rounds    say a part, hand on those of others, go on when all are there
    without   who stays away longer than the agreement's patience is left out, and the exchange is
              made again; this needs the signed proposal of every site that is left

A part is signed by the site that made it and goes through the network as it is. Each is handed on
once when it comes, along trees of shortest ways, and again only if a neighbour's note shows that it
lacks it. Notes are said when nothing has come for a while. No two members are more than one
exchange apart, as nobody goes on without everybody's part: words on this exchange and on the one
before are all that anyone can need.

Who has proposed never completes the old exchange (`SumAgent.give_up`, on disk before it is sent),
and who has completed it proposes nothing: so members never go on in different ways. If some did the
one and some the other, the run ends.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ppadmm.agent import Agent, Message, Send
from ppadmm.algorithms import SharedState
from ppadmm.errors import ForeignError, ProtocolError
from ppadmm.peers.control import ControlMessage
from ppadmm.peers.parts import (
    PART,
    PROPOSAL,
    PartCodec,
    Shelf,
    SignedWord,
    members_digest,
    relayed,
)
from ppadmm.peers.peer import Ended, Peer, Silence
from ppadmm.sum_agent import RepeatsSpentError, SumAgent

if TYPE_CHECKING:
    from ppadmm.peers.agreement import Agreement

SOON = 0.5
"""The share of the patience after which a site joins in another's proposal."""


class SumPeer(Peer):
    """Drives a `SumAgent`; takes what `Peer` takes."""

    agent: SumAgent

    def __init__(self, agent: SumAgent, agreement: "Agreement", *others: Any, **named: Any) -> None:
        super().__init__(agent, agreement, *others, **named)
        self._parts = PartCodec(agreement.run, self._codec.keys)
        self._shelf = Shelf(self._retry)
        self._relayed: dict[tuple[int, ...], frozenset[int]] = {}
        self._came = time.monotonic()

    @property
    def counted(self) -> tuple[int, ...]:
        """Who still takes part."""
        return self.agent.members

    @property
    def made(self) -> int:
        """How many rounds this agent has spoken in."""
        return self.agent.round + self.agent.spoken

    @property
    def waited_for(self) -> tuple[int, ...]:
        """Whom this peer is waiting for: also for their word on who is left out."""
        if self.phase == "rounds" and self.agent.proposed is not None:
            said = self._shelf.holders(PROPOSAL, self.agent.exchange)
            return tuple(j for j in self.agent.proposed if j not in said)
        return super().waited_for

    # -- rounds --------------------------------------------------------------------------------

    def _resume(self) -> None:
        super()._resume()
        for exchange, members in self.agent.proposals.items():
            self._keep_proposal(exchange, members)

    def _go_round(self) -> None:
        """Speak in every round and gather what all said, in the last one, too."""
        self.phase = "rounds"
        self._say_again()
        self._say_own_proposal()
        while self.agent.round < self.rounds:
            if self.agent.spoken:
                self._gather()
            self._look_at_revocations()
            self._speak()

    def _speak(self) -> None:
        """Add up the exchange before, if there is one, and say this site's part of the next."""
        since = time.monotonic()
        try:
            action = self.agent.next()
        except (RepeatsSpentError, ProtocolError) as error:  # such as a key that gives no secret
            raise Ended(str(error)) from None
        self._shelf.drop_before(self.agent.exchange - 1)
        self._feed()
        if isinstance(action, Send):
            data = self._keep(action)
            self._hold(since)
            self._publish(data)
            self._tell("round", round=self.agent.round, exchange=self.agent.exchange, spoke=True)

    def _gather(self) -> None:
        """Wait for everybody's part, or until the exchange is to be made again without somebody."""
        try:
            self._until(self._is_over, self._say_lack)
        except Silence as silence:
            self._propose(self._present(), str(silence))
            self._wait_for_proposals(str(silence))
        if self.agent.proposed is not None:
            self._repeat(self.agent.proposed)

    def _wait_for_proposals(self, silence: str) -> None:
        try:
            self._until(self._is_over, self._say_lack)
        except Silence:
            late = ", ".join(self.name(j) for j in self.waited_for)
            raise Ended(f"{silence}, and {late} did not agree to go on without") from None

    def _is_over(self) -> bool:
        """Say whether the exchange is complete, or given up by all who are left."""
        self._require_part()
        self._join_in()
        if self.agent.proposed is not None:
            return self._is_agreed(self.agent.proposed, self.agent.exchange)
        return not self.agent.missing

    def _encoded(self, message: Message) -> bytes:
        place = (message.agent, message.round, self.agent.members_in(message.round))
        data = self._parts.part(place, message.heard.value, self._key)
        self._keep_word(self._parts.decode(data))
        return data

    def _last_word(self) -> SharedState:
        value = self.average()[None]
        return SharedState(value, np.zeros_like(value))

    # -- parts ---------------------------------------------------------------------------------

    def _take_value(self, neighbour: int, data: bytes) -> None:
        """Take in a signed word, whoever hands it on."""
        word = self._parts.decode(data)
        known = self._shelf.get(word.kind, word.exchange, word.agent)
        if known == data or not self._is_news(word):
            self.tally.late += 1
            return
        self._revoked.refuse(word.agent)
        self._require_length(word)
        self._parts.require_signed(word)
        if known is not None:
            raise Ended(
                f"{self.name(word.agent)} broke the terms: it said two different things in "
                f"exchange {word.exchange}"
            )
        self._keep_word(word)
        self._hand_on(word)
        if word.kind == PART:
            self._feed()

    def _is_news(self, word: SignedWord) -> bool:
        """Say whether a word may matter: of this exchange or the next, from somebody else."""
        if word.agent == self.agent.number or word.agent not in self.agent.members:
            return False
        oldest = 0 if word.kind == PART else -1  # who was left out may have completed the exchange
        return oldest <= word.exchange - self.agent.exchange <= 1

    def _require_length(self, word: SignedWord) -> None:
        """Refuse a word of another length than the terms say.

        The next exchange may be of the next round, or this round's again.
        """
        rule, round_ = self.agent.algorithm, self.agent.round
        rounds = range(round_, min(round_ + word.exchange - self.agent.exchange + 1, rule.rounds))
        lengths = {rule.length(t) for t in rounds}
        fits = word.length in lengths if word.kind == PART else word.length < self.agents
        if not fits:
            raise ForeignError(
                f"Agent {word.agent} said {word.length} numbers in exchange {word.exchange}."
            )

    def _keep_word(self, word: SignedWord) -> None:
        self._shelf.put(word)
        self._shelf.said((word.kind, word.exchange, word.agent))
        self._came = time.monotonic()
        if word.kind == PART:
            self.tally.latest[word.agent] = word.exchange

    def _feed(self) -> None:
        """Give the agent what it lacks of this exchange and is here."""
        exchange = self.agent.exchange
        if self.agent.round == self.rounds:
            return
        for j in self.agent.missing:
            data = self._shelf.get(PART, exchange, j)
            word = None if data is None else self._parts.decode(data)
            if word is not None and word.among == members_digest(self.agent.members):
                values = word.values
                self._give(Message(j, exchange, SharedState(values, values[:, :0])))

    def _give(self, message: Message) -> None:
        try:
            self.agent.receive(message)
        except ProtocolError as error:  # signed by whom it names
            raise Ended(f"{self.name(message.agent)} broke the terms: {error}") from None

    def _hand_on(self, word: SignedWord) -> None:
        if word.agent in self._ways():
            self._publish(word.data)

    def _ways(self) -> frozenset[int]:
        """Return whose words this peer hands on as they come."""
        members = self.agent.members
        if members not in self._relayed:
            self._relayed = {members: relayed(self.network, members, self.agent.number)}
        return self._relayed[members]

    # -- notes ---------------------------------------------------------------------------------

    def note(self) -> ControlMessage:
        """Return this peer's word on where it stands, and which words of others it holds."""
        exchange = self.agent.exchange
        return replace(
            super().note(),
            exchange=exchange,
            parts=self._shelf.holders(PART, exchange),
            proposals=self._shelf.holders(PROPOSAL, exchange),
        )

    def _say_lack(self) -> None:
        """Say what is here, unless parts are coming in anyway."""
        if time.monotonic() - self._came >= self._retry.first:
            self._say_note()

    def _answer(self, note: ControlMessage) -> None:
        """Say what the sender lacks and I have; one who was left out is told so."""
        if note.agent not in self.agent.members:
            for exchange in self.agent.proposals:
                self._say_words(PROPOSAL, exchange, ())
            return
        super()._answer(note)
        self._say_words(PART, note.exchange, note.parts)
        self._say_words(PROPOSAL, note.exchange, note.proposals)
        self._ask_again(note)

    def _say_words(self, kind: int, exchange: int, held: Sequence[int]) -> None:
        for name in self._shelf.lacking(kind, exchange, held):
            data = self._shelf.get(*name)
            if data is not None:
                self._publish(data)
                self._shelf.said(name)
                self.tally.repeated += 1

    def _ask_again(self, note: ControlMessage) -> None:
        """Say what is here if the sender of a note seems to have what I lack."""
        exchange = self.agent.exchange
        more = note.exchange == exchange and not set(note.parts) <= set(
            self._shelf.holders(PART, exchange)
        )
        stalled = time.monotonic() - max(self._noted, self._came) >= self._retry.first
        if (more or note.exchange > exchange) and stalled:
            self._owes_note = True

    # -- going on without somebody -------------------------------------------------------------

    def _present(self) -> tuple[int, ...]:
        missing = self.agent.missing
        return tuple(j for j in self.agent.members if j not in missing)

    def _propose(self, members: Sequence[int], silence: str) -> None:
        """Propose to make the exchange again among `members`, or end the run."""
        if why := self.agent.why_not(members):
            raise Ended(f"{silence}; it cannot go on without: {why}")
        self.agent.give_up(members)
        self._keep_proposal(self.agent.exchange, members)
        left = [j for j in self.agent.members if j not in members]
        self._tell("proposed", exchange=self.agent.exchange, without=left)
        self._say_own_proposal()

    def _keep_proposal(self, exchange: int, members: Sequence[int]) -> None:
        place = (self.agent.number, exchange, self.agent.members_in(exchange))
        own = self._parts.proposal(place, members, self._key)
        self._shelf.put(self._parts.decode(own))

    def _say_own_proposal(self) -> None:
        name = (PROPOSAL, self.agent.exchange, self.agent.number)
        if (data := self._shelf.get(*name)) is not None:
            self._publish(data)
            self._shelf.said(name)

    def _proposals(self, exchange: int) -> dict[int, tuple[int, ...]]:
        """Return what each proposed in an exchange, of those who know the same members as I do."""
        words = [self._shelf.get(PROPOSAL, exchange, j) for j in range(self.agents)]
        found = [self._parts.decode(data) for data in words if data is not None]
        among = members_digest(self.agent.members_in(exchange))
        return {word.agent: word.members for word in found if word.among == among}

    def _is_agreed(self, members: Sequence[int], exchange: int) -> bool:
        """Say whether all of `members` proposed them."""
        said = self._proposals(exchange)
        return all(said.get(j) == tuple(members) for j in members)

    def _require_part(self) -> None:
        """End if all others went on without this site, whether or not it completed the exchange."""
        exchange, sites = self.agent.exchange, len(self.agent.members)
        for e in (exchange - 1, exchange):
            for members in set(self._proposals(e).values()):
                others = self.agent.number not in members and 2 * len(members) > sites
                if others and self._is_agreed(members, e):
                    raise Ended("the others went on without this site, which was away for too long")

    def _join_in(self) -> None:
        """Propose what another proposed, if I miss the same sites and waited for some time, too."""
        for members in sorted(set(self._proposals(self.agent.exchange).values())):
            waited = time.monotonic() - self._since
            joins = self.agent.proposed is None and waited >= SOON * self.agreement.patience
            gone = set(self.agent.members) - set(members)
            if joins and gone <= set(self.agent.missing) and not self.agent.why_not(members):
                self._propose(members, "")

    def _repeat(self, members: Sequence[int]) -> None:
        gone = [j for j in self.agent.members if j not in members]
        self.agent.repeat(members)
        self._made.pop()
        self._tell("left out", agents=gone, names=[self.name(j) for j in gone],
                   exchange=self.agent.exchange)  # fmt: skip


def make_peer(agent: Agent, *others: Any, **named: Any) -> Peer:
    """Return the peer that drives an agent; takes what `Peer` takes."""
    if isinstance(agent, SumAgent):
        return SumPeer(agent, *others, **named)
    return Peer(agent, *others, **named)
