"""How messages get from an agent to its neighbours.

What a transport promises, and what not:

- `publish` gives the latest message to every neighbour. A message may be lost, late, repeated or
  reordered; the agent's rounds are made for that, and whoever misses something says it again.
- A neighbour that joins late, comes back after a crash or was cut off gets the last `HISTORY`
  messages of each of its neighbours without anybody asking.
- `receive` names the neighbour that the transport itself holds to be the sender. That is no
  proof: the bytes are signed, and `ppadmm.peers.messages` checks it.
- A message longer than the cap is dropped before it is handed on. At most `HELD` unread messages
  per neighbour are kept, the newest: a neighbour that floods pushes out its own messages only. In a
  run by sums, where neighbours hand on the words of all, there may be more, of as many bytes.
- Bytes stay bytes: nothing is unpickled.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from ppadmm import checks
from ppadmm.errors import ProtocolError

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
class _Queue:
    """One neighbour's unread messages and tallies."""

    messages: deque[bytes] = field(default_factory=deque)
    size: int = 0
    heard: float | None = None
    received: int = 0
    refused: int = 0
    links: set[str] = field(default_factory=set)

    def add(self, data: bytes) -> None:
        self.messages.append(data)
        self.size += len(data)

    def take(self) -> bytes:
        data = self.messages.popleft()
        self.size -= len(data)
        return data


class Inbox:
    """Unread messages by neighbour: bounded, capped, safe between threads.

    `receive` takes from the neighbours in turn, so that none is starved by another.
    """

    def __init__(
        self,
        neighbours: Iterable[int],
        cap: int,
        clock: Callable[[], float] = time.monotonic,
        held: int = HELD,
    ) -> None:
        self._queues = {number: _Queue() for number in neighbours}
        self._turn = deque(self._queues)
        self._cap = checks.count("the cap of a message", cap)
        self._clock = clock
        self._held = held
        self._news = threading.Condition()

    def put(self, neighbour: int, length: int, read: Callable[[], bytes]) -> None:
        """Take in a message; it is read only if its length is within the cap."""
        queue = self._queues[neighbour]
        if length > self._cap:
            with self._news:
                queue.refused += 1
            log.warning("refused %d bytes from agent %d: too long", length, neighbour)
            return
        data = read()
        with self._news:
            queue.add(data)
            while len(queue.messages) > self._held or queue.size > HELD * self._cap:
                queue.take()
            queue.received += 1
            queue.heard = self._clock()
            self._news.notify()

    def receive(self, timeout: float) -> tuple[int, bytes] | None:
        """Return the next message, waiting up to `timeout` seconds for one."""
        with self._news:
            if not self._news.wait_for(self._any, timeout):
                return None
            while not self._queues[self._turn[0]].messages:
                self._turn.rotate(-1)
            number = self._turn[0]
            self._turn.rotate(-1)
            return number, self._queues[number].take()

    def _any(self) -> bool:
        return any(queue.messages for queue in self._queues.values())

    def link(self, neighbour: int, identifier: str, up: bool) -> None:
        """Note that a neighbour's publisher appeared or went."""
        with self._news:
            links = self._queues[neighbour].links
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
            return {number: _seen(queue, now) for number, queue in self._queues.items()}


def _seen(queue: _Queue, now: float) -> Neighbour:
    heard = None if queue.heard is None else now - queue.heard
    return Neighbour(bool(queue.links), heard, queue.received, queue.refused)
