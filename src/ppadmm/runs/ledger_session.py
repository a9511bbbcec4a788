"""A run whose cost is booked in a data owner's ledger.

In the local engine all agents' records belong to one owner. A record belongs to one agent, so a
run costs the data set the worst of its agents; over several runs a record may be dealt to any of
them, which `ppadmm.accounting.composition` covers.
"""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ppadmm import canonical
from ppadmm.accounting.filters import rule_of
from ppadmm.accounting.protection import Protection
from ppadmm.data import Schema
from ppadmm.data.fingerprint import Fingerprint
from ppadmm.errors import BudgetError, OverlapWarning
from ppadmm.ledger import Ledger
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.ledger.run import RunLedger
from ppadmm.runs.federation import Reservations
from ppadmm.runs.specification import RunSpec, Search

NOT_SETTINGS = ("data", "data_dir", "label", "schema")
"""Names of files: the records and the schema themselves are what counts."""


@dataclass(frozen=True)
class LedgerOptions:
    """Which ledger to charge; `dataset` is the name the records have there.

    With `resume` the last unfinished run with the same records and settings is taken up.
    """

    ledger: Path
    dataset: str | None = None
    resume: bool = False


@dataclass
class LedgerSession:
    """A run's place in an open ledger."""

    ledger: OwnerLedger
    dataset: str
    fingerprint: Fingerprint
    spec: str
    resume: bool
    protection: Protection
    run: RunLedger | None = None

    def book(self, asked: Reservations) -> Sequence[Ledger]:
        """Reserve the run, or take it up again, and return every agent's ledger."""
        if self.resume:
            run = self.ledger.resume_run(self.dataset, self.fingerprint, self.spec)
        else:
            run = self.ledger.reserve_run(
                self.dataset, self.fingerprint, self.spec, asked, self.protection
            )
            for overlap in run.overlaps:
                warnings.warn(overlap, OverlapWarning, stacklevel=2)
        self.run = run
        return [run.agent(number) for number, _ in asked]

    def finish(self, note: str = "") -> dict[str, Any]:
        """End the run as finished and return what a statement says about the ledger."""
        if self.run is not None:
            self.run.end("finished", note)
        books, head = self.ledger.books, self.ledger.head
        grant = books.grants[self.dataset]
        return {
            "ledger": books.ledger,
            "owner": books.owner,
            "dataset": self.dataset,
            "run": self.run.run if self.run else "",
            "count": head.count,
            "head": head.hash,
            "granted": grant["epsilon"],
            "delta": grant["delta"],
            "rule": rule_of(grant).name,
            **books.protection(self.dataset).to_plain(),
            "spent": self.ledger.spent(self.dataset),
            "runs": len(books.counted(self.dataset)),
        }

    def abandon(self, note: str) -> None:
        """End the run for good; what it charged stays spent."""
        if self.run is not None:
            self.run.end("abandoned", note)

    def __enter__(self) -> "LedgerSession":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the file; a run that failed before any charge costs nothing and is given back.

        What a failed run did charge is on disk before anybody can see that it failed.
        """
        if self.run is not None and error is not None:
            self.ledger.sync()
            self.ledger.refresh()
            if not self.run.state.charges:
                self.run.end("abandoned", type(error).__name__)
        if self.run is not None:
            self.run.close()
        self.ledger.close()


def open_session(
    booking: LedgerOptions,
    spec: RunSpec,
    not_private_because: Sequence[str],
    *,
    name: str,
    schema: Schema,
    fingerprint: Fingerprint,
    search: Search | None = None,
) -> LedgerSession:
    """Open the ledger for a run or a search; one that is not private has no price: refused."""
    if not_private_because:
        raise BudgetError(
            f"This run is not private ({'; '.join(not_private_because)}), so no charge would be "
            "true; leave out --ledger to simulate, and do not share its results."
        )
    ledger = OwnerLedger.open(booking.ledger)
    known = booking.dataset or ledger.name_of(fingerprint) or Path(name).stem
    digest, protection = spec_digest(spec, schema, search), Protection(spec.adjacency)
    return LedgerSession(ledger, known, fingerprint, digest, booking.resume, protection)


def spec_digest(spec: RunSpec, schema: Schema, search: Search | None = None) -> str:
    """Return SHA-256 of the public settings and the schema: what a run is, wherever it is.

    Of the best of a search, what is searched: `spec` is the search's own. Of several files also
    their names: in another order other agents hold them.
    """
    settings = {k: v for k, v in asdict(spec).items() if k not in NOT_SETTINGS}
    if not isinstance(spec.data, str):
        settings["sites"] = [Path(path).name for path in spec.data]
    if search is not None:
        settings["search"] = search.settings()
    return canonical.digest(canonical.dumps({**settings, "schema": schema.digest()}))
