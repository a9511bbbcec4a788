"""What may be seen of a running peer: public counters, nothing that was computed from records."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ppadmm.agent import Message
from ppadmm.arrays import Array
from ppadmm.peers.control import ControlMessage
from ppadmm.peers.transport import Status

if TYPE_CHECKING:
    from ppadmm.peers.peer import Peer

MOST_KEPT = 10_000
"""Parameters up to which all that neighbours said is kept for the page."""

COUNTED = ("sent", "bytes_sent", "repeated", "received", "late", "refused")
"""Numbers of messages, in `MessageCounts` and in `PeerStatus`."""

TROUBLES = ("not private", "refused", "disagreement", "revoked", "ended")

log = logging.getLogger("ppadmm.peer")


@dataclass
class MessageCounts:
    """Messages of one peer: `repeated` were said again, `late` had been seen or were out of date.

    `values` holds what each neighbour said in the rounds so far, as it was released. Of parts of
    sums, which say nothing alone, `latest` has the last exchange of each site.
    """

    sent: int = 0
    bytes_sent: int = 0
    repeated: int = 0
    received: int = 0
    late: int = 0
    refused: int = 0
    values: dict[int, dict[int, Array]] = field(default_factory=dict)
    latest: dict[int, int] = field(default_factory=dict)

    def heard(self, message: Message) -> None:
        """Note what a neighbour released in a round; of very long models only the last one."""
        rounds = self.values.setdefault(message.agent, {})
        value = message.heard.value[0]
        if len(value) > MOST_KEPT:
            rounds.clear()
        rounds[message.round] = value

    def heard_so_far(self) -> dict[int, dict[int, Array]]:
        """Return a copy, for another thread."""
        return {j: dict(rounds) for j, rounds in list(self.values.items())}


@dataclass(frozen=True)
class NeighbourStatus:
    """A neighbour as it is seen from here; `heard` is seconds ago, None if never."""

    agent: int
    name: str
    connected: bool
    heard: float | None
    round: int | None
    phase: str
    version: str
    clock: float | None


@dataclass(frozen=True)
class PeerStatus:
    """A peer at one moment. `reserved` and `charged` count the events of its commonest kind."""

    agent: int
    name: str
    run: str
    phase: str
    round: int
    rounds: int
    agents: int
    signatures: int
    averages: int
    waiting_for: tuple[str, ...]
    waiting: float
    elapsed: float
    seconds_left: float | None
    reserved: int
    charged: int
    epsilon: float
    delta: float
    sent: int
    bytes_sent: int
    repeated: int
    received: int
    late: int
    refused: int
    reason: str
    neighbours: tuple[NeighbourStatus, ...]
    strangers: tuple[str, ...]


def status_of(
    peer: "Peer", status: Status, notes: Mapping[int, ControlMessage], began: float, since: float
) -> PeerStatus:
    """Return a peer's view, of a moment that may be a little past."""
    agreement, tally, now = peer.agreement, peer.tally, time.monotonic()
    party, (reserved, charged) = agreement.parties[peer.agent.number], peer.tallies
    waiting = peer.waited_for
    return PeerStatus(
        agent=peer.agent.number,
        name=party.name,
        run=agreement.digest[:12],
        phase=peer.phase,
        round=peer.made,
        rounds=peer.rounds,
        agents=peer.agents,
        signatures=peer.signed,
        averages=peer.finals,
        waiting_for=tuple(agreement.parties[j].name for j in waiting),
        waiting=now - since if waiting else 0.0,
        elapsed=now - began,
        seconds_left=_left(peer, now - began),
        reserved=max((times for _, times in reserved.counts), default=0),
        charged=max((times for _, times in charged.counts), default=0),
        epsilon=party.epsilon,
        delta=agreement.delta,
        reason=peer.reason,
        neighbours=tuple(_other(peer, j, status, notes) for j in peer.near),
        strangers=status.strangers,
        **{name: getattr(tally, name) for name in COUNTED},
    )


def _left(peer: "Peer", elapsed: float) -> float | None:
    """Guess the time to the last round from the pace of this process so far."""
    made = peer.made - peer.resumed
    if peer.phase != "rounds" or made < 1:
        return None
    return elapsed / made * (peer.rounds - peer.made)


def _other(
    peer: "Peer", j: int, status: Status, notes: Mapping[int, ControlMessage]
) -> NeighbourStatus:
    link, note = status.neighbours.get(j), notes.get(j)
    rounds = peer.tally.values.get(j)
    return NeighbourStatus(
        agent=j,
        name=peer.agreement.parties[j].name,
        connected=link is not None and link.connected,
        heard=None if link is None else link.heard,
        round=max(rounds) if rounds else peer.tally.latest.get(j),
        phase=_doing(note, bool(rounds) or j in peer.tally.latest),
        version="" if note is None else note.version,
        clock=None if note is None else note.time,
    )


def _doing(note: ControlMessage | None, heard: bool) -> str:
    """Return a neighbour's phase: notes are rare in the rounds, but its values show it."""
    if note is None or note.phase == "signing":
        return "rounds" if heard else ("" if note is None else note.phase)
    return note.phase


class EventLog:
    """Tells what happens: to the log as one JSON object a line, and to whoever listens."""

    def __init__(self, listen: Callable[[str, dict[str, Any]], None] | None = None) -> None:
        self._listen = listen

    def __call__(self, event: str, **fields: Any) -> None:
        """Tell one event."""
        level = logging.WARNING if event in TROUBLES else logging.INFO
        log.log(level, event, extra={"fields": fields})
        if self._listen is not None:
            self._listen(event, fields)


_LINE = json.JSONEncoder(default=str)
"""Made once: a peer writes a line in every round."""


class JsonLines(logging.Formatter):
    """Spells a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time (UTC), level, logger, event and its fields."""
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        content = {
            "time": f"{when}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        return _LINE.encode(content)
