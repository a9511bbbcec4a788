"""Links between agents of one process, with the faults that a test asks for."""

import hashlib
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from ppadmm import checks
from ppadmm.errors import InputError, ProtocolError
from ppadmm.peers.transport import HISTORY, Inbox, Status, check_length


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
