"""A peer: one agent over a transport, from the first signature to the last average.

    signing   everybody's signature on the agreement goes round; nobody starts before all are there
    rounds    say, wait for the neighbours, go on; while waiting, say the last two messages again
    ending    final averages go round, so that all peers end with the same model

What the network does changes nothing in the result: a message that is lost is said again, one that
comes twice or late is dropped, and two neighbours are never more than one round apart, so the last
two messages are all that anyone can need. What leaves is what the ledger holds: a `Send` comes out
of the agent only after its release is on disk. Averages of releases cost nothing.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ppadmm import __version__
from ppadmm.agent import Agent, Message, Send
from ppadmm.algorithms import SharedState
from ppadmm.errors import (
    DisagreementError,
    ForeignError,
    InputError,
    OutOfBoundsError,
    ProtocolError,
)
from ppadmm.peers import control, messages
from ppadmm.peers.agreement import Agreement
from ppadmm.peers.control import ControlMessage
from ppadmm.peers.messages import FINAL, VALUE, Codec
from ppadmm.peers.outcome import PeerOutcome, RetrySchedule, require_same, tallies_of
from ppadmm.peers.pki.revocations import EVERY, Revocations
from ppadmm.peers.revoked import Revoked
from ppadmm.peers.state import PeerState
from ppadmm.peers.status import EventLog, PeerStatus, status_of
from ppadmm.peers.store import PeerStore
from ppadmm.peers.transport import HISTORY, Transport

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

AT_ONCE = 4
"""Final averages that are handed on in one go: neighbours keep eight unread messages."""
GONE = 10.0
"""Seconds that a peer which was started again with all averages looks for one who lacks them."""
ANSWERS_APART = 0.05
"""Seconds between two notes in answer to others': they go to all neighbours, who may answer."""
ENDED_IT = " ended the run: "
"""Between who was the first to end and why; those after it hand the reason on as it is."""


class Ended(Exception):  # noqa: N818 - it is an answer, not a fault
    """Why the run cannot go on."""


class Silence(Ended):
    """Nothing new came for as long as was agreed."""


class Peer(PeerState):
    """Drives one agent; `signature` is this site's own, made by a person beforehand.

    `revocations` returns the authority's newest list, which may change while the run goes on.
    """

    def __init__(
        self,
        agent: Agent,
        agreement: Agreement,
        key: "Ed25519PrivateKey",
        signature: bytes,
        transport: Transport,
        store: PeerStore,
        pace: RetrySchedule | None = None,
        tell: EventLog | None = None,
        revocations: Callable[[], Revocations] = Revocations,
    ) -> None:
        require_same(agent, agreement)
        if not agreement.is_signed(agent.number, signature):
            raise InputError(
                f"The signature of {agreement.parties[agent.number].name!r} is not on this "
                "agreement; sign it with: ppadmm peer sign"
            )
        super().__init__(agent, agreement)
        self._key, self._transport, self._store = key, transport, store
        self._retry, self._tell = pace or RetrySchedule(), tell or EventLog()
        keys = {i: party.public_key() for i, party in enumerate(agreement.parties)}
        self._codec = Codec(agreement.run, agreement.parameters, keys)
        self._revoked = Revoked(agreement, revocations)
        self._notes: dict[int, ControlMessage] = {}
        self._said: deque[bytes] = deque(maxlen=HISTORY)
        self._signatures |= {**self._known_signatures(), agent.number: signature.hex()}
        self._settled = False
        self._quarrels: dict[str, list[str]] = {}
        self._times: Counter[str] = Counter()
        self._owes_note, self._noted, self._was_over = False, 0.0, False
        self._began = self._since = time.monotonic()

    # -- the three phases ----------------------------------------------------------------------

    def run(self) -> PeerOutcome:
        """Take part to the end; a run that cannot go on ends with this agent's own average."""
        self._resume()
        self._transport.start()
        try:
            self._look_at_revocations()
            self._sign()
            self._go_round()
            self._end()
        except Ended as end:
            if not self._made and not self.tallies[1].counts:
                raise ProtocolError(f"The run never began: {end}. Nothing was spent.") from None
            self._leave(str(end))
        finally:
            self._transport.close()
        return self._outcome()

    def recover(self) -> PeerOutcome:
        """Return the outcome of a run that an earlier process ended, from what it kept."""
        self._resume()
        self.phase = "ended"
        if not self._holds_all(self._finals):
            self.reason = "it ended before all averages were there"
        return self._outcome()

    def view(self) -> PeerStatus:
        """Return what may be shown of this moment; safe to call from another thread."""
        return status_of(self, self._transport.status(), self._notes, self._began, self._since)

    def _resume(self) -> None:
        for send in self.agent.catch_up():
            self._keep(send)
        for data in self._store.finals():
            self._take_final(data)
        self.resumed, self._was_over = self.made, self._holds_all(self._finals)
        if self._made:
            self._tell("resumed", round=self.agent.round, rounds=self.rounds)

    def _sign(self) -> None:
        self._until(self._is_signed, self._say_note, self._retry.wait)
        if self._quarrels:
            with suppress(Ended):
                self._until(lambda: False, self._say_note, min(1.0, self._retry.grace))
            raise DisagreementError(self._quarrels)
        self._store.keep_signatures(self._signatures)
        self._tell("signed", parties=self.agents, digest=self.agreement.digest)

    def _is_signed(self) -> bool:
        return bool(self._quarrels) or len(self._signatures) == self.agents

    def _go_round(self) -> None:
        """Speak in every round; the last one needs no answer, as nobody speaks after it."""
        self.phase = "rounds"
        self._say_again()
        while len(self._made) < self.rounds:
            if self._made:
                self._until(lambda: not self.agent.missing, self._say_again)
            self._look_at_revocations()
            since = time.monotonic()
            send = self.agent.next()
            if not isinstance(send, Send):
                raise InputError(f"Agent {self.agent.number} had nothing to say: {send}.")
            data = self._keep(send)
            self._hold(since)
            self._publish(data)
            self._tell("round", round=send.message.round, spoke=bool(send.release.spoke[0]))

    def _hold(self, since: float) -> None:
        """Wait until the agreed pace has passed: a solve's duration is not to be seen.

        One that took longer is held to the next multiple, and the site's own log says so.
        """
        if not (pace := self.agreement.pace):
            return
        passed = time.monotonic() - since
        if passed > pace:
            self._tell_rarely("slower than the pace", pace=pace)
        due = since + pace * math.ceil(passed / pace)
        while (left := due - time.monotonic()) > 0.0:
            found = self._transport.receive(left)
            if found is not None:
                self._take(*found)

    def _end(self) -> None:
        """Hand round the final averages; stay until the neighbours hold all of them, too."""
        self.phase = "ending"
        number = self.agent.number
        if number not in self._finals:
            message = Message(number, self.rounds, self._last_word())
            self._keep_final(number, self._codec.encode(message, self._key, FINAL))
        self._say_finals()
        self._until(lambda: self._holds_all(self._finals), self._say_finals)
        self._tell("averages", agents=len(self.counted))
        self._say_note()
        limit = GONE if self._was_over else None
        try:
            hold_all = partial(self._everyone, lambda note: self._holds_all(note.finals))
            self._until(hold_all, self._say_finals, limit)
        except Ended:
            self._tell("left", note="a neighbour never confirmed that it holds all averages")
            return
        self._settled = True
        self._say_note()
        with suppress(Ended):
            settled = partial(self._everyone, lambda note: note.settled)
            self._until(settled, self._say_note, self._retry.grace)

    def _last_word(self) -> SharedState:
        """Return what this agent ends with."""
        return SharedState(self.average()[None], self.agent.heard.total)

    def _leave(self, reason: str) -> None:
        """Tell the neighbours why, so that they need not wait for this peer."""
        self.phase, self.reason = "ended", reason
        self._tell("ended", reason=reason, round=self.made)
        self._say_note()
        with suppress(Ended):
            self._until(lambda: False, self._say_note, min(1.0, self._retry.grace))

    def _outcome(self) -> PeerOutcome:
        self.tallies = tallies_of(self.agent)
        if self.reason:
            return PeerOutcome(*self.so_far(), self.average()[None], self.reason)
        finals = [self._codec.decode(self._finals[i], FINAL) for i in self.counted]
        averages = np.stack([final.heard.value[0] for final in finals])
        weights = tuple(self.agreement.site_weights[i] for i in self.counted)
        return PeerOutcome(*self.so_far(), averages, weights=weights, left_out=self.left_out)

    # -- waiting -------------------------------------------------------------------------------

    def _until(
        self, ready: Callable[[], bool], say: Callable[[], None], limit: float | None = None
    ) -> None:
        """Take in what comes until `ready`; meanwhile `say` things again, ever less often."""
        self._since = start = time.monotonic()
        limit = self.agreement.patience if limit is None else limit
        pause = self._retry.first
        due = start if self.phase == "signing" else start + pause
        while not ready():
            self._look_at_revocations()
            now = time.monotonic()
            if now - start > limit:
                raise Silence(self._silence(limit))
            if now >= due:
                say()
                due, pause = now + pause, min(pause * self._retry.factor, self._retry.longest)
            elif self._owes_note and now >= self._noted + ANSWERS_APART:
                self._say_note()
            owed = self._noted + ANSWERS_APART if self._owes_note else due
            until = min(due, owed, start + limit, now + EVERY)
            found = self._transport.receive(max(0.0, until - now))
            if found is not None:
                self._take(*found)

    def _look_at_revocations(self) -> None:
        """End the run if it still needs something of a party that was revoked."""
        news = self._revoked.news()
        for i, why in news.items():
            self._tell("revoked", agent=i, name=self.name(i), why=why)
        needed = [why for i, why in news.items() if i in self.counted and i not in self._finals]
        if needed and not self.reason:
            raise Ended("; ".join(needed))

    def _silence(self, limit: float) -> str:
        names = ", ".join(self.name(j) for j in self.waited_for) or "the others"
        return f"nothing new from {names} for {limit:g} s, in round {self.made}"

    # -- saying --------------------------------------------------------------------------------

    def _publish(self, data: bytes) -> None:
        self._transport.publish(data)
        self.tally.sent += 1
        self.tally.bytes_sent += len(data)

    def _keep(self, send: Send) -> bytes:
        data = self._encoded(send.message)
        self._said.append(data)
        self._made.append(send.release)
        self.tallies = tallies_of(self.agent)
        return data

    def _encoded(self, message: Message) -> bytes:
        return self._codec.encode(message, self._key)

    def _say_again(self) -> None:
        for data in self._said:
            self._publish(data)
        self.tally.repeated += len(self._said)

    def _say_note(self) -> None:
        self._owes_note, self._noted = False, time.monotonic()
        self._publish(self.note().encode(self._key))

    def note(self) -> ControlMessage:
        """Return this peer's word on where it stands."""
        return ControlMessage(
            agent=self.agent.number,
            version=__version__,
            time=time.time(),
            digest=self.agreement.digest,
            phase=self.phase,
            round=self.made,
            signatures=self._signatures,
            finals=tuple(sorted(self._finals)),
            settled=self._settled,
            reason=control.one_line(self.reason),
            agreement=asdict(self.agreement) if self.phase == "signing" else None,
        )

    def _say_finals(self) -> None:
        """Say where I stand and what a neighbour may lack: averages, or my last messages."""
        self._say_note()
        if not self._everyone(lambda note: note.phase in ("ending", "ended")):
            self._say_again()
        known = [set(note.finals) for note in self._last_notes() if note is not None]
        shared = set.intersection(*known) if known and self._everyone(lambda _: True) else set()
        for i in [i for i in self._finals if i not in shared][:AT_ONCE]:
            self._publish(self._finals[i])
            self._finals[i] = self._finals.pop(i)

    def _last_notes(self) -> list[ControlMessage | None]:
        near = (j for j in self.near if j in self.counted and j not in self._revoked)
        return [self._notes.get(j) for j in near]

    def _everyone(self, holds: Callable[[ControlMessage], bool]) -> bool:
        """Say whether something holds for the last note of every neighbour that still counts."""
        return all(note is not None and holds(note) for note in self._last_notes())

    # -- hearing -------------------------------------------------------------------------------

    def _take(self, neighbour: int, data: bytes) -> None:
        """Take in what a neighbour sent; bytes that are no message of this run change nothing."""
        self.tally.received += 1
        try:
            self._revoked.refuse(neighbour)
            kind = messages.kind_of(data)
            if kind == control.NOTE:
                self._heed(neighbour, data)
            elif kind == FINAL:
                self._take_final(data)
            else:
                self._take_value(neighbour, data)
        except ForeignError as error:
            self.tally.refused += 1
            self._tell_rarely("refused", neighbour=neighbour, why=str(error))

    def _take_value(self, neighbour: int, data: bytes) -> None:
        message = self._codec.decode(data, VALUE)
        if message.agent != neighbour:
            raise ForeignError(f"A message of agent {message.agent} came from {neighbour}.")
        if not 0 <= message.round - self.agent.round <= 1 or message.round >= self.rounds:
            self.tally.late += 1
            return
        try:
            self.agent.receive(message)
        except OutOfBoundsError as error:  # signed by the neighbour: it does not keep to the terms
            raise Ended(f"{self.name(neighbour)} broke the terms: {error}") from None
        self.tally.heard(message)

    def _take_final(self, data: bytes) -> None:
        message = self._codec.decode(data, FINAL)
        if message.agent in self._finals:
            self.tally.late += 1
            return
        self._revoked.refuse(message.agent)
        if message.round != self.rounds:
            raise ForeignError(f"Agent {message.agent} ends after round {message.round}.")
        self._keep_final(message.agent, data)
        if self.phase == "ending" and self._is_far(message.agent):
            self._publish(data)

    def _keep_final(self, agent: int, data: bytes) -> None:
        self._store.keep_final(agent, data)
        self._finals[agent] = data

    def _is_far(self, agent: int) -> bool:
        """Say whether some neighbour of mine does not hear this agent directly."""
        near = {agent, *self.network.neighbours(agent)}
        return any(j not in near for j in self.near)

    def _heed(self, neighbour: int, data: bytes) -> None:
        note = control.decode(data)
        if note.agent != neighbour:
            raise ForeignError(f"A note of agent {note.agent} came from {neighbour}.")
        if note.digest != self.agreement.digest:
            self._disagree(neighbour, note)
            return
        if not messages.is_signed(data, self._codec.keys[neighbour]):
            raise ForeignError(f"A note is not signed by agent {neighbour}.")
        if note.phase == "checking":  # somebody looks; that is not taking part
            self._owes_note = True
            return
        self._notes[neighbour] = note.after(self._notes.get(neighbour))
        self._merge(note)
        self._answer(note)

    def _merge(self, note: ControlMessage) -> None:
        for i, text in note.signatures.items():
            if i not in self._signatures and self.agreement.is_signed(i, bytes.fromhex(text)):
                self._signatures[i] = text
                self._owes_note = True
                self._tell("signature", agent=i, name=self.name(i))

    def _answer(self, note: ControlMessage) -> None:
        """Say what the sender lacks and I have; end if it had to."""
        stuck = self.phase != "signing" and not self._holds_all(self._finals)
        if note.phase == "ended" and stuck and not self.reason:
            first = "" if ENDED_IT in note.reason else f"{self.name(note.agent)}{ENDED_IT}"
            raise Ended(first + note.reason)
        unsigned = set(self._signatures) - set(note.signatures)
        if unsigned or (self._settled and not note.settled):
            self._owes_note = True
        if note.phase == "ending":
            for i in [i for i in self._finals if i not in note.finals][:AT_ONCE]:
                self._publish(self._finals[i])

    def _disagree(self, neighbour: int, note: ControlMessage) -> None:
        """Name every difference; before round 0 that is the end."""
        found, name = note.differences(self.agreement), self.name(neighbour)
        self._tell_rarely("disagreement", neighbour=neighbour, name=name, differences=found)
        if self.phase == "signing":
            self._quarrels[name] = found

    # -- small things --------------------------------------------------------------------------

    def _holds_all(self, finals: Collection[int]) -> bool:
        return set(self.counted) <= set(finals)

    def _tell_rarely(self, event: str, **fields: Any) -> None:
        """Tell the 1st, 10th, 100th, … time: a neighbour's flood must not fill a disk."""
        self._times[event] += 1
        if str(self._times[event]).strip("0") == "1":
            self._tell(event, count=self._times[event], **fields)

    def _known_signatures(self) -> dict[int, str]:
        found = self._store.signatures().items()
        return {i: s for i, s in found if self.agreement.is_signed(i, bytes.fromhex(s))}
