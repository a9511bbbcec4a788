"""The book that an agent keeps of its budget. A charge is booked before noise is drawn."""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from ppadmm.errors import BudgetError
from ppadmm.privacy import accountant
from ppadmm.privacy.calibration import Budget
from ppadmm.privacy.events import Charge, Tally


class Ledger(Protocol):
    """Reserve a run once, then charge every release before it is made."""

    def reserve(self, run: Iterable[tuple[Charge, int]]) -> None:
        """Set aside the most that a run may cost, or raise `BudgetError`."""

    def charge(self, charge: Charge) -> None:
        """Book one release against what was reserved, or raise `BudgetError`."""

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

    def reserve(self, run: Iterable[tuple[Charge, int]]) -> None:
        """Set aside the most that a run may cost, or raise `BudgetError`."""
        wanted = self._reserved.copy()
        for charge, times in run:
            wanted[charge] += times
        if self.budget is not None:
            _require_within(_tally(wanted), self.budget)
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
        return _tally(self._charged)

    @property
    def reserved(self) -> Tally:
        """The most that the run may cost."""
        return _tally(self._reserved)


def _tally(charges: Counter[Charge]) -> Tally:
    tally = Tally()
    for charge, times in charges.items():
        tally = tally.plus(charge, times)
    return tally


def _require_within(planned: Tally, budget: Budget) -> None:
    bound = accountant.epsilon(planned, budget.delta)
    if bound.epsilon > budget.epsilon:
        raise BudgetError(
            f"The run would spend ε = {bound.epsilon:.6g} at δ = {budget.delta:g}, but only "
            f"ε = {budget.epsilon:g} is granted; nothing was released."
        )
