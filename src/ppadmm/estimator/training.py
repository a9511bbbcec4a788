"""A fit in this process: records are looked up before, booked meanwhile and remembered after."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from ppadmm.accounting import Budget
from ppadmm.accounting.protection import Protection
from ppadmm.data.fingerprint import Fingerprint
from ppadmm.errors import BudgetError
from ppadmm.estimator.reuse_guard import REGISTER, Earlier, Fit
from ppadmm.runs.facts import facts_of
from ppadmm.runs.ledger_session import LedgerOptions, open_session
from ppadmm.runs.run import EngineOutput, Prepared, execute
from ppadmm.statements.claims import Statement, rounded_up
from ppadmm.statements.facts import statement_of

Seen: TypeAlias = tuple[Any, Callable[[], Fingerprint]]
"""Rows to know again in this process, and what a ledger knows the records by."""


@dataclass(frozen=True)
class FitTerms:
    """What a fit may spend, on whose books, and whether its records may have been used before."""

    budget: Budget
    protection: Protection
    ledger: Path | None
    dataset: str | None
    accept_composition: bool

    def train(
        self, prepared: Prepared, records: Seen, around: Sequence[str]
    ) -> tuple[EngineOutput, Statement]:
        """Run the agents; private records are looked up before and remembered after."""
        reasons = (*prepared.not_private_because, *around)
        if reasons:
            output = self._execute(prepared, records, reasons)
            statement = statement_of(facts_of(prepared, output))
            return output, replace(statement, private=False, not_private_because=reasons)
        prints = REGISTER.prints(records[0])
        self._refuse_again(REGISTER.earlier(prints), len(prints))
        output = self._execute(prepared, records, ())
        fit = Fit(prints, tuple(output.reserved), self.budget, self.protection)
        earlier = REGISTER.enter(fit)
        # Another thread may have been faster: then nothing is shown.
        self._refuse_again(earlier, len(prints))
        statement = statement_of(facts_of(prepared, output))
        note = _together([*earlier.fits, fit]) if earlier.fits else ()
        return output, replace(statement, caveats=(*note, *statement.caveats))

    def _refuse_again(self, earlier: Earlier, of: int) -> None:
        if earlier.count and self.ledger is None and not self.accept_composition:
            raise BudgetError(
                f"{earlier.count} of these {of} records were trained on before in this process, "
                "and ε adds up over fits; give ledger=FILE to keep the books, "
                "accept_composition=True to go on, or random_state to simulate."
            )
        for fit in earlier.fits:
            if fit.protection != self.protection:
                raise BudgetError(
                    f"Some of these records were trained on before in this process with adjacency "
                    f"{fit.protection}, and costs of that and of {self.protection} do not add up; "
                    f"give adjacency={str(fit.protection)!r}, or random_state to simulate."
                )

    def _execute(self, prepared: Prepared, records: Seen, reasons: Sequence[str]) -> EngineOutput:
        """Run the agents, and charge the ledger if there is one; it refuses what has `reasons`."""
        if self.ledger is None:
            return execute(prepared)
        booked = open_session(
            LedgerOptions(self.ledger, self.dataset),
            prepared.spec,
            reasons,
            name="records",
            schema=prepared.federation.schema,
            fingerprint=records[1](),
        )
        with booked:
            output = execute(prepared, book=booked.book)
            booked.finish()
        return output


def _together(fits: Sequence[Fit]) -> tuple[str]:
    """Say what all fits cost; each may follow from what was seen of the earlier ones."""
    total = REGISTER.total(fits)
    found = (
        "no ε covers them together."
        if total is None
        else f"however each was chosen, the privacy loss of all together is at most "
        f"ε = {rounded_up(total.epsilon)}, except with probability δ = {total.delta:g}."
    )
    return (
        f"Some of these records were trained on in {len(fits) - 1} earlier fits of this process: "
        f"{found}",
    )
