"""An agent is a pure state machine: messages in, messages out.

It owns no socket, clock, file or random generator. An engine asks `next()` what to do and hands
it what arrives; the same agent runs in a simulation, on a cluster and as a networked peer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ppadmm.algorithms import Algorithm, SharedState
from ppadmm.arrays import Array, norms
from ppadmm.errors import OutOfBoundsError, ProtocolError
from ppadmm.ledger.protocol import Ledger, Lost, Past, Sent
from ppadmm.mechanisms import ChargedNoise, Release
from ppadmm.noise import NoiseSource
from ppadmm.records import HoldsRecords

ROOM = 1.0 + 1e-9
"""What a message may be beyond the radius: sums of values are rounded."""


@dataclass(frozen=True)
class Message:
    """What an agent tells its neighbours in one round: released values only."""

    agent: int
    round: int
    heard: SharedState


@dataclass(frozen=True)
class Send:
    """Deliver `message` to every neighbour; `release` is what is new in it."""

    message: Message
    release: Release


@dataclass(frozen=True)
class Wait:
    """Nothing to do until these neighbours have spoken for this round."""

    missing: tuple[int, ...]


@dataclass(frozen=True)
class Done:
    """All rounds are over."""


@dataclass(frozen=True)
class Snapshot(HoldsRecords):
    """An agent between two calls, without its records, books and noise source.

    It holds what was computed from the records without noise: nothing of it may leave the agent.
    """

    round: int
    spoken: bool
    state: Any
    inbox: dict[int, dict[int, SharedState]]


Action: TypeAlias = Send | Wait | Done


class Agent(HoldsRecords):
    """Drives one algorithm through its rounds; every cost is booked before noise is drawn."""

    def __init__(
        self,
        algorithm: Algorithm[Any],
        number: int,
        neighbours: Sequence[int],
        ledgers: Sequence[Ledger],
        noise: NoiseSource,
    ) -> None:
        self.algorithm = algorithm
        self.number = number
        self.neighbours = tuple(neighbours)
        self.round = 0
        self.charged = ChargedNoise(tuple(ledgers), noise)
        self._most = algorithm.radius * ROOM
        self._state = algorithm.init()
        self._spoken = False
        self._inbox: dict[int, dict[int, SharedState]] = {}
        for ledger, run in zip(ledgers, algorithm.reserved, strict=True):
            ledger.reserve(run)

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """One ledger per replicate."""
        return self.charged.ledgers

    @property
    def untouched(self) -> bool:
        """Whether nothing was said or heard yet."""
        return self.round == 0 and not self._spoken and not self._inbox

    def next(self) -> Action:
        """Return the next thing to do; never blocks."""
        if self.round == self.algorithm.rounds:
            return Done()
        if not self._spoken:
            return self._speak()
        if self.missing:
            return Wait(self.missing)
        self._advance(self._inbox.get(self.exchange, {}))
        return self.next()

    @property
    def exchange(self) -> int:
        """The number that messages of this round bear."""
        return self.round

    @property
    def missing(self) -> tuple[int, ...]:
        """The neighbours that have not spoken for this round yet."""
        inbox = self._inbox.get(self.exchange, {})
        return tuple(j for j in self.neighbours if j not in inbox)

    @property
    def model(self) -> Array | None:
        """The model (R, d) that this agent has made, if it is no average of its releases."""
        return None

    @property
    def heard(self) -> SharedState:
        """What neighbours should now know of this agent."""
        return self.algorithm.heard(self._state)

    def catch_up(self) -> list[Send]:
        """Go to the last round that an earlier process booked; return what was said in each.

        Every message carries the sum of all before it and takes the place of the one before, so
        what neighbours said in the rounds that are skipped is not needed: one who has spoken goes
        on from what they say next.
        """
        said: list[Send] = []
        while self._booked():
            if said:
                own = self.algorithm.heard(self._state)
                self._advance(dict.fromkeys(self.neighbours, own))
            said.append(self._speak())
        return said

    def _booked(self) -> bool:
        """Say whether an earlier process spoke, or paid to speak, in the next round to speak in."""
        round_ = self.round + 1 if self._spoken else self.round
        if round_ >= self.algorithm.rounds or not self.charged.durable:
            return False
        return any(ledger.past(round_) is not None for ledger in self.ledgers)

    def _advance(self, inbox: Mapping[int, SharedState]) -> None:
        self._state = self.algorithm.absorb(self._state, inbox)
        self._inbox.pop(self.round, None)
        self.round, self._spoken = self.round + 1, False

    def receive(self, message: Message) -> None:
        """Take in a message; one that was seen before or is out of date changes nothing."""
        if message.agent not in self.neighbours:
            raise ProtocolError(
                f"Agent {self.number} got a message from {message.agent}, not a neighbour."
            )
        shape = self.algorithm.heard(self._state).value.shape
        if message.heard.value.shape != shape or message.heard.total.shape != shape:
            raise ProtocolError(
                f"Agent {self.number} expected values of shape {shape} from {message.agent}, "
                f"got {message.heard.value.shape}."
            )
        self._require_within(message)
        self._take(message)

    def _take(self, message: Message) -> None:
        if message.round >= self.exchange:
            self._inbox.setdefault(message.round, {}).setdefault(message.agent, message.heard)

    def _require_within(self, message: Message) -> None:
        """Refuse values beyond the public radius R: ‖θ‖ ≤ R, and ‖S‖ ≤ (t+1)R after round t.

        Honest agents keep to it (`Mechanism.radius`). What the proof says of a solve rests on it
        (docs/privacy.md, section 5), so this comes before any record is touched.
        """
        heard, times = message.heard, message.round + 1
        for values, most in ((heard.value, self._most), (heard.total, times * self._most)):
            sizes = norms(values)  # beyond 10¹⁵⁴ a norm is infinite: refused, too
            if not (sizes <= most).all():
                raise OutOfBoundsError(
                    f"Agent {message.agent} sent values of norm {sizes.max():.3g} in round "
                    f"{message.round}; the terms of this run allow {most.min():.3g}."
                )

    def snapshot(self) -> Snapshot:
        """Return all that changes in the course of a run, but for the books."""
        inbox = {t: dict(heard) for t, heard in self._inbox.items()}
        return Snapshot(self.round, self._spoken, self._state, inbox)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from where another agent of the same making was."""
        self.round, self._spoken, self._state = snapshot.round, snapshot.spoken, snapshot.state
        self._inbox = {t: dict(heard) for t, heard in snapshot.inbox.items()}

    def _speak(self) -> Send:
        """Say what the round says; where that fails it can be seen, so its cost is kept first."""
        try:
            return self._said()
        except BaseException:
            self.charged.settle()
            raise

    def _said(self) -> Send:
        pasts = [ledger.past(self.round) for ledger in self.ledgers] if self.charged.durable else []
        if any(past is not None for past in pasts):
            release = self._resumed(pasts)
        else:
            self._state, release = self.algorithm.propose(self._state, self.charged)
        heard = self.algorithm.heard(self._state)
        for k, past in enumerate(pasts):
            if not isinstance(past, Sent):
                row = Sent(heard.value[k], heard.total[k], bool(release.spoke[k]))
                self.ledgers[k].record(row)
        self._spoken = True
        return Send(Message(self.number, self.exchange, heard), release)

    def _resumed(self, pasts: Sequence[Past]) -> Release:
        """Say again what was said; where it was lost, be silent: its charge stays spent."""
        if any(past is None for past in pasts):
            raise ProtocolError(
                f"Agent {self.number}: some replicates made round {self.round} and some did not."
            )
        own = self.algorithm.heard(self._state)
        value, total = own.value.copy(), own.total + own.value
        for k, past in enumerate(pasts):
            if isinstance(past, Sent):
                value[k], total[k] = past.value, past.total
        spoke = np.array([isinstance(past, Sent) and past.spoke for past in pasts])
        spent = np.array([isinstance(past, Lost) or past.spoke for past in pasts if past])
        self._state = self.algorithm.resumed(self._state, SharedState(value, total), spoke, spent)
        return Release(value, spoke)
