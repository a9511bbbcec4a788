"""One run in a ledger, and what each of its agents sees of it: the protocol `Ledger`, on disk."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ppadmm import canonical
from ppadmm.accounting.events import Charge, Tally
from ppadmm.arrays import Array
from ppadmm.errors import BudgetError
from ppadmm.ledger.database import ChainFile
from ppadmm.ledger.locks import Lock
from ppadmm.ledger.protocol import Lost, Past, Sent
from ppadmm.ledger.state import ReservedRun, charge_to_plain, reserved_by, tally_of


class RunLedger:
    """One run's part of a ledger, locked for this process until it is closed.

    `overlaps` name other data sets that seem to hold the same records: for the owner's eyes only.
    """

    def __init__(
        self, ledger: ChainFile, run: str, lock: Lock, overlaps: Sequence[str] = ()
    ) -> None:
        self.ledger = ledger
        self.overlaps = tuple(overlaps)
        self.run = run
        self.stamp: dict[str, Any] = {}
        self._lock = lock

    @property
    def state(self) -> ReservedRun:
        """What was booked for this run."""
        return self.ledger.books.runs[self.run]

    def agent(self, number: int, part: "Part | None" = None) -> "AgentLedger":
        """Return the ledger of one agent of this run, or of a part of it."""
        most = self.state.reserved[number] if part is None else reserved_by(part.most)
        return AgentLedger(self, number, most, part)

    def stop_clock(self) -> None:
        """Give all that follows the time of the reservation: how long it took stays untold."""
        self.stamp = {"time": self.state.body["time"]}

    def end(self, outcome: str = "finished", note: str = "") -> None:
        """Close the run, if it is not: nothing more can be charged to it."""
        with self.ledger.transaction():
            if self.state.outcome is None:
                self.ledger.append("end", run=self.run, outcome=outcome, note=note, **self.stamp)
        self._lock.remove()

    def close(self) -> None:
        """Let another process resume it."""
        self._lock.close()


@dataclass(frozen=True)
class Part:
    """One agent's part of a run that is several: a name, its rounds there, the most it may cost."""

    name: str
    rounds: range
    most: tuple[tuple[Charge, int], ...]


class AgentLedger:
    """What an agent sees of a run's ledger: the protocol `Ledger`, on disk."""

    def __init__(
        self, run: RunLedger, number: int, most: Counter[Charge], part: Part | None = None
    ) -> None:
        self._run = run
        self._ledger = run.ledger
        self._number = number
        self._most = most
        self._part = part
        self._plain = {charge: charge_to_plain(charge) for charge in most}
        self._round = 0
        self._lost = False

    @property
    def durable(self) -> bool:
        """Yes."""
        return True

    def reserve(self, run: Iterable[tuple[Charge, int]]) -> None:
        """Check that the run was reserved as it is now about to be made."""
        if reserved_by(run) != self._most:
            raise BudgetError(
                f"Agent {self._number} is about to make another run than was reserved as "
                f"{self._run.run}; start a new one. Nothing was released."
            )

    def past(self, round_: int) -> Past:
        """Begin a round; return what an earlier process sent in it, or that its charge is lost."""
        self._round = round_ if self._part is None else self._part.rounds[round_]
        place = (self._number, self._round)
        if (found := self._run.state.releases.get(place)) is not None:
            return decode(self._ledger.payload(found))
        self._lost = place in self._run.state.open_charges
        return Lost() if self._lost else None

    def charge(self, charge: Charge) -> None:
        """Book one release against what was reserved, in a file that outlives the process.

        A power cut may take it back, and then everything that was drawn for it, too.
        """
        events = self._plain.get(charge) or charge_to_plain(charge)
        with self._ledger.transaction(synced=False):
            self._ledger.append("charge", **self._place(), events=events)

    def record(self, sent: Sent) -> None:
        """Keep the round's bytes; with its charges they are on disk when this returns."""
        payload, place = encode(sent), (self._number, self._round)
        with self._ledger.transaction():
            charges = list(self._run.state.open_charges.get(place, []))
            self._ledger.append(
                "release", payload, **self._place(), charges=charges, lost=self._lost,
                digest=canonical.digest(payload),
            )  # fmt: skip

    def keep(self, name: str, value: Array) -> None:
        """Keep a secret of this run, like a charge; it never leaves the file."""
        with self._ledger.transaction(synced=False):
            self._ledger.append(
                "kept", secret=_floats(value), run=self._run.run, agent=self._number,
                name=self._secret(name), **self._run.stamp,
            )  # fmt: skip

    def settle(self) -> None:
        """Bring all charges to the disk."""
        self._ledger.sync()

    def kept(self, name: str) -> Array | None:
        """Return a secret of this run."""
        body = self._run.state.kept.get((self._number, self._secret(name)))
        if body is None:
            return None
        return np.frombuffer(self._ledger.secret(body), dtype="<f8").copy()

    @property
    def most(self) -> list[tuple[Charge, int]]:
        """What was reserved, charge by charge."""
        return list(self._most.items())

    @property
    def spent(self) -> Tally:
        """All that was charged so far."""
        if self._part is None:
            return tally_of(self._run.state.charged[self._number])
        return tally_of(self._run.state.charged_in(self._number, self._part.rounds))

    @cached_property
    def reserved(self) -> Tally:
        """The most that the run may cost."""
        return tally_of(self._most)

    def _place(self) -> dict[str, Any]:
        return {
            "run": self._run.run, "agent": self._number, "round": self._round, **self._run.stamp
        }  # fmt: skip

    def _secret(self, name: str) -> str:
        return name if self._part is None else f"{self._part.name}/{name}"


def encode(sent: Sent) -> bytes:
    """Return one byte (1: spoke, 2: no total), then value and total as little-endian doubles."""
    kind = sent.spoke + (2 if not len(sent.total) else 0)
    return bytes([kind]) + _floats(sent.value) + _floats(sent.total)


def decode(data: bytes) -> Sent:
    """Read what `encode` wrote."""
    numbers = np.frombuffer(data, dtype="<f8", offset=1).copy()
    size = len(numbers) // (1 if data[0] & 2 else 2)
    return Sent(numbers[:size], numbers[size:], bool(data[0] & 1))


def _floats(values: Array) -> bytes:
    return np.ascontiguousarray(values, dtype="<f8").tobytes()
