"""How messages get from an agent to its neighbours.

What a transport promises, and what not:

- `publish` gives the latest message to every neighbour. A message may be lost, late, repeated or
  reordered; the agent's rounds are made for that, and whoever misses something says it again.
- A neighbour that joins late, comes back after a crash or was cut off gets the last `HISTORY`
  messages of each of its neighbours without anybody asking.
- `receive` names the neighbour that the transport itself holds to be the sender. That is no
  proof: the bytes are signed, and `ppadmm.peers.messages` checks it.
- A message longer than the cap is dropped before it is handed on. At most `HELD` unread messages
  per neighbour are kept, the newest: a neighbour that floods pushes out its own messages only.
- Bytes stay bytes: nothing is unpickled.
"""

import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from ppadmm import checks
from ppadmm.errors import InputError, ProtocolError

HISTORY = 2
HELD = 8

log = logging.getLogger("ppadmm.transport")


@dataclass(frozen=True)
class Neighbour:
    """What is known of a neighbour: linked now or not, and when it was last heard.

    `heard` is seconds ago, None if never. `refused` counts messages that were dropped unread.
    """

    connected: bool
    heard: float | None
    received: int
    refused: int


@dataclass(frozen=True)
class Status:
    """A transport at this moment. `strangers` names who connected without being a neighbour."""

    neighbours: dict[int, Neighbour]
    strangers: tuple[str, ...] = ()


class Transport(Protocol):
    """One agent's end: five methods, of which only `receive` may wait."""

    def start(self) -> None:
        """Open the links; returns at once, also while neighbours are away."""

    def publish(self, data: bytes) -> None:
        """Give `data` to all neighbours as my latest message."""

    def receive(self, timeout: float) -> tuple[int, bytes] | None:
        """Return the next message and its neighbour, or None after `timeout` seconds."""

    def status(self) -> Status:
        """Say who is there and who was heard when."""

    def close(self) -> None:
        """End all links; a second call does nothing."""


def check_length(data: bytes, cap: int) -> bytes:
    """Refuse to send what every neighbour would drop."""
    if len(data) > cap:
        raise ProtocolError(f"A message has {len(data):,} bytes; this run's cap is {cap:,}.")
    return data


@dataclass
class _Shelf:
    """One neighbour's unread messages and tallies."""

    messages: deque[bytes] = field(default_factory=lambda: deque(maxlen=HELD))
    heard: float | None = None
    received: int = 0
    refused: int = 0
    links: set[str] = field(default_factory=set)


class Inbox:
    """Unread messages by neighbour: bounded, capped, safe between threads.

    `receive` takes from the neighbours in turn, so that none is starved by another.
    """

    def __init__(
        self, neighbours: Iterable[int], cap: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shelves = {number: _Shelf() for number in neighbours}
        self._turn = deque(self._shelves)
        self._cap = checks.count("the cap of a message", cap)
        self._clock = clock
        self._news = threading.Condition()

    def put(self, neighbour: int, length: int, read: Callable[[], bytes]) -> None:
        """Take in a message; it is read only if its length is within the cap."""
        shelf = self._shelves[neighbour]
        if length > self._cap:
            with self._news:
                shelf.refused += 1
            log.warning("refused %d bytes from agent %d: too long", length, neighbour)
            return
        data = read()
        with self._news:
            shelf.messages.append(data)
            shelf.received += 1
            shelf.heard = self._clock()
            self._news.notify()

    def receive(self, timeout: float) -> tuple[int, bytes] | None:
        """Return the next message, waiting up to `timeout` seconds for one."""
        with self._news:
            if not self._news.wait_for(self._any, timeout):
                return None
            while not self._shelves[self._turn[0]].messages:
                self._turn.rotate(-1)
            number = self._turn[0]
            self._turn.rotate(-1)
            return number, self._shelves[number].messages.popleft()

    def _any(self) -> bool:
        return any(shelf.messages for shelf in self._shelves.values())

    def link(self, neighbour: int, identifier: str, up: bool) -> None:
        """Note that a neighbour's publisher appeared or went."""
        with self._news:
            links = self._shelves[neighbour].links
            before = bool(links)
            if not up:
                links.discard(identifier)
            elif len(links) < HELD:
                links.add(identifier)
            after = bool(links)
        if before != after:
            log.info("agent %d is %s", neighbour, "connected" if after else "away")

    def neighbours(self) -> dict[int, Neighbour]:
        """Return what is known of every neighbour."""
        with self._news:
            now = self._clock()
            return {number: _seen(shelf, now) for number, shelf in self._shelves.items()}


def _seen(shelf: _Shelf, now: float) -> Neighbour:
    heard = None if shelf.heard is None else now - shelf.heard
    return Neighbour(bool(shelf.links), heard, shelf.received, shelf.refused)


# Agents in one process


@dataclass(frozen=True)
class Faults:
    """What goes wrong on the way, drawn from (seed, sender, receiver, serial number).

    A message is lost, repeated or delayed with these probabilities; a delay is 1 to `longest`
    steps, and differing delays reorder. A step passes with every message that is published and
    every time somebody finds nothing to receive.
    """

    loss: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    longest: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("loss", "repeat", "delay"):
            if not 0 <= checks.finite(name, getattr(self, name)) <= 1:
                raise InputError(f"Expected 0 ≤ {name} ≤ 1, got {getattr(self, name)!r}.")
        checks.count("longest", self.longest)

    def fate(self, sender: int, receiver: int, serial: int) -> list[int]:
        """Return the delay in steps of each copy that arrives: none, one or two."""
        text = f"{self.seed}/{sender}/{receiver}/{serial}".encode()
        digest = hashlib.sha256(text).digest()
        draws = [int.from_bytes(digest[k : k + 4]) / 2**32 for k in range(0, 24, 4)]
        if draws[0] < self.loss:
            return []
        copies = 2 if draws[1] < self.repeat else 1
        return [self._steps(draws[2 + 2 * k], draws[3 + 2 * k]) for k in range(copies)]

    def _steps(self, chance: float, share: float) -> int:
        return 1 + int(share * self.longest) if chance < self.delay else 0


class Hub:
    """Joins the ends of agents in one process, with the faults it is told to make."""

    def __init__(
        self, edges: Iterable[tuple[int, int]], cap: int = 1 << 20, faults: Faults | None = None
    ) -> None:
        self.cap = cap
        self._faults = faults or Faults()
        self._neighbours: dict[int, list[int]] = {}
        for i, j in edges:
            self._neighbours.setdefault(i, []).append(j)
            self._neighbours.setdefault(j, []).append(i)
        self._ends: dict[int, Inbox] = {}
        self._history: dict[int, deque[bytes]] = {}
        self._serials: dict[tuple[int, int], int] = {}
        self._waiting: list[tuple[int, int, int, int, bytes]] = []
        self._step = self._order = 0
        self._lock = threading.Lock()

    def end(self, number: int) -> "MemoryTransport":
        """Return the end of one agent; a restarted agent takes a new one."""
        if number not in self._neighbours:
            raise InputError(f"Agent {number} has no neighbour on this hub.")
        return MemoryTransport(self, number, tuple(sorted(self._neighbours[number])))

    def join(self, number: int, inbox: Inbox) -> None:
        """Put an end in place, tell it who is there and hand it the neighbours' last messages."""
        with self._lock:
            self._ends[number] = inbox
            self._history[number] = deque(maxlen=HISTORY)
            for other in self._neighbours[number]:
                if other in self._ends:
                    inbox.link(other, "hub", up=True)
                    self._ends[other].link(number, "hub", up=True)
                    for data in self._history[other]:
                        _hand(inbox, other, data)

    def leave(self, number: int, inbox: Inbox) -> None:
        """Take an end away, unless a newer one took its place."""
        with self._lock:
            if self._ends.get(number) is not inbox:
                return
            del self._ends[number], self._history[number]
            for other in self._neighbours[number]:
                if other in self._ends:
                    self._ends[other].link(number, "hub", up=False)

    def publish(self, number: int, inbox: Inbox, data: bytes) -> None:
        """Send to every neighbour, each by its own fate."""
        with self._lock:
            if self._ends.get(number) is not inbox:
                raise ProtocolError(f"Agent {number} is not on the hub; start its transport first.")
            self._history[number].append(data)
            for other in self._neighbours[number]:
                self._post(number, other, data)
            self._pass_a_step()

    def _post(self, sender: int, receiver: int, data: bytes) -> None:
        serial = self._serials.get((sender, receiver), 0)
        self._serials[sender, receiver] = serial + 1
        for steps in self._faults.fate(sender, receiver, serial):
            self._order += 1
            self._waiting.append((self._step + steps, self._order, sender, receiver, data))

    def step(self) -> None:
        """Let one step pass, so that what is delayed arrives although nobody speaks."""
        with self._lock:
            self._pass_a_step()

    def _pass_a_step(self) -> None:
        due = sorted(entry for entry in self._waiting if entry[0] <= self._step)
        self._waiting = [entry for entry in self._waiting if entry[0] > self._step]
        self._step += 1
        for _, _, sender, receiver, data in due:
            if receiver in self._ends:
                _hand(self._ends[receiver], sender, data)


def _hand(inbox: Inbox, sender: int, data: bytes) -> None:
    inbox.put(sender, len(data), lambda: data)


class MemoryTransport:
    """One end of a hub."""

    def __init__(self, hub: Hub, number: int, neighbours: tuple[int, ...]) -> None:
        self._hub = hub
        self._number = number
        self._inbox = Inbox(neighbours, hub.cap)

    def start(self) -> None:
        """Join the hub."""
        self._hub.join(self._number, self._inbox)

    def publish(self, data: bytes) -> None:
        """Give `data` to all neighbours as my latest message."""
        self._hub.publish(self._number, self._inbox, check_length(data, self._hub.cap))

    def receive(self, timeout: float) -> tuple[int, bytes] | None:
        """Return the next message; with none there, let a step pass and wait."""
        found = self._inbox.receive(0)
        if found is None:
            self._hub.step()
            found = self._inbox.receive(timeout)
        return found

    def status(self) -> Status:
        """Say who is there and who was heard when."""
        return Status(self._inbox.neighbours())

    def close(self) -> None:
        """Leave the hub."""
        self._hub.leave(self._number, self._inbox)
