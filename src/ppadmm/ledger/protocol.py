"""The book that an agent keeps of its budget. A charge is booked before noise is drawn.

A durable ledger waits for the disk once a round, in `record`: what nobody has seen need not outlive
a power cut.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ppadmm.accounting import accountant
from ppadmm.accounting.calibration import Budget
from ppadmm.accounting.events import Charge, Tally
from ppadmm.arrays import Array
from ppadmm.errors import BudgetError
from ppadmm.ledger.state import reserved_by, tally_of


@dataclass(frozen=True)
class Sent:
    """What a round said: the value and the sum of all so far, both (d,), and whether it spoke."""

    value: Array
    total: Array
    spoke: bool


@dataclass(frozen=True)
class Lost:
    """A round that was charged and of which nothing was kept: spent, and never drawn again."""


Past: TypeAlias = Sent | Lost | None


class Ledger(Protocol):
    """Reserve a run once, charge every release before it is made, keep it before it is sent.

    A `durable` ledger outlives the process: `past` says what an earlier process did in a round.
    """

    @property
    def durable(self) -> bool:
        """Whether a restarted agent finds here what it did before."""

    def past(self, round_: int) -> Past:
        """Begin a round; return what an earlier process sent in it, `Lost`, or None if nothing."""

    def record(self, sent: Sent) -> None:
        """Keep what the round says, on disk with its charges; only then may it be sent."""

    def settle(self) -> None:
        """Bring all charges to the disk; only then may a round be seen to fail."""

    def keep(self, name: str, value: Array) -> None:
        """Keep a secret of the run, such as a noisy threshold, that must not be drawn again."""

    def kept(self, name: str) -> Array | None:
        """Return a secret that was kept."""

    def reserve(self, run: Iterable[tuple[Charge, int]]) -> None:
        """Set aside the most that a run may cost, or raise `BudgetError`."""

    def charge(self, charge: Charge) -> None:
        """Book one release against what was reserved, or raise `BudgetError`.

        A durable ledger's charge outlives the process when this returns.
        """

    @property
    def spent(self) -> Tally:
        """All that was charged so far."""

    @property
    def reserved(self) -> Tally:
        """The most that the run may cost: what may be claimed, however many releases it made."""


class MemoryLedger:
    """A ledger that lives as long as the process.

    Without a budget it counts and refuses nothing: for runs that are not private anyway.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget
        self._reserved: Counter[Charge] = Counter()
        self._charged: Counter[Charge] = Counter()

    @property
    def durable(self) -> bool:
        """No: it ends with the process."""
        return False

    def past(self, round_: int) -> Past:
        """Nothing."""
        return None

    def record(self, sent: Sent) -> None:
        """Nothing to keep for."""

    def settle(self) -> None:
        """Nothing to bring to a disk."""

    def keep(self, name: str, value: Array) -> None:
        """Nothing to keep for."""

    def kept(self, name: str) -> Array | None:
        """Nothing."""
        return None

    def reserve(self, run: Iterable[tuple[Charge, int]]) -> None:
        """Set aside the most that a run may cost, or raise `BudgetError`."""
        wanted = self._reserved + reserved_by(run)
        if self.budget is not None:
            bound = accountant.epsilon(tally_of(wanted), self.budget.delta)
            if bound.epsilon > self.budget.epsilon:
                raise BudgetError(
                    f"The run would spend ε = {bound.epsilon:.6g} at δ = {self.budget.delta:g}, "
                    f"but only ε = {self.budget.epsilon:g} is granted; nothing was released."
                )
        self._reserved = wanted

    def charge(self, charge: Charge) -> None:
        """Book one release against what was reserved, or raise `BudgetError`."""
        if self._charged[charge] >= self._reserved[charge]:
            raise BudgetError(
                f"All {self._reserved[charge]} releases reserved for this run are spent; "
                "nothing was released."
            )
        self._charged[charge] += 1

    @property
    def spent(self) -> Tally:
        """All that was charged so far."""
        return tally_of(self._charged)

    @property
    def reserved(self) -> Tally:
        """The most that the run may cost."""
        return tally_of(self._reserved)
