"""A data owner's ledger in an SQLite file: append-only, hash-chained, safe against crashes.

Budgets are granted here and runs reserved, resumed and abandoned; `ppadmm.ledger.database` has
the file, `ppadmm.ledger.run` one run of it. docs/ledger.md has the format and what is
promised.
"""

import getpass
import hmac
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

from ppadmm import __version__, checks
from ppadmm.accounting import accountant
from ppadmm.accounting.calibration import Budget
from ppadmm.accounting.composition import together
from ppadmm.accounting.events import Charge
from ppadmm.accounting.filters import RULES, rule_for
from ppadmm.accounting.protection import STANDARD, Protection
from ppadmm.errors import BudgetError, InputError, LedgerError
from ppadmm.ledger import locks
from ppadmm.ledger.balance import cost, mixed, refusal
from ppadmm.ledger.database import SCHEMA, ChainFile
from ppadmm.ledger.run import RunLedger
from ppadmm.ledger.sketch import Overlap, Places, RowCounts, Sketch
from ppadmm.ledger.state import FORMAT, reserved_by, reserved_to_plain, tally_of

Reservations: TypeAlias = Sequence[tuple[int, Sequence[tuple[Charge, int]]]]
"""The number of each agent with the most that a run may cost it."""


class OwnerLedger(ChainFile):
    """The ledger of one data owner: grants, charges and releases in a hash chain on disk.

    Make one with `create`, open one with `open`, and close it, as `with` does. `grant` sets what
    all runs on a data set may cost together; runs are charged by `ppadmm.train(…, booking=…)`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from ppadmm.accounting import Budget
    >>> with TemporaryDirectory() as folder:
    ...     with OwnerLedger.create(Path(folder) / "site.ledger", "North Hospital") as ledger:
    ...         ledger.grant("patients", Budget(2.0, 1e-6), by="officer")
    ...         print(ledger.spent("patients"))
    0.0
    """

    # -- opening ------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path, owner: str) -> "OwnerLedger":
        """Make a new ledger file, readable by its owner only."""
        if not owner.strip():
            raise InputError("Expected the name of the data owner, got an empty one.")
        locks.reserve_name(path)
        ledger = cls(path, locks.connect(path))
        with ledger.transaction():
            for statement in (*SCHEMA, f"PRAGMA application_id = {locks.APPLICATION}"):
                ledger._db.execute(statement)
            identity = secrets.token_hex(16)
            ledger.append(
                "created", secret=secrets.token_bytes(32), format=FORMAT, owner=owner,
                ledger=identity, version=__version__,
            )  # fmt: skip
        return ledger

    @classmethod
    def open(cls, path: Path) -> "OwnerLedger":
        """Open a ledger to write to; one that does not verify is refused."""
        locks.require_file(path)
        with locks.spoken(path):
            locks.connect_to_read(path).close()
        ledger = cls(path, locks.connect(path))
        ledger.refresh()
        return ledger

    def __enter__(self) -> "OwnerLedger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- reading ------------------------------------------------------------------------------

    def spent(self, dataset: str) -> float:
        """Return the ε of all runs that count, at the δ that was granted."""
        return cost(self.books, dataset)

    # -- writing ------------------------------------------------------------------------------

    def grant(
        self,
        dataset: str,
        budget: Budget,
        by: str = "",
        note: str = "",
        rule: str = "adaptive",
        protection: Protection = STANDARD,
    ) -> None:
        """Say what all runs on a data set may cost together; replaces an earlier grant.

        Parameters
        ----------
        dataset : str
            The name that the records have in this ledger.
        budget : Budget
            ε and δ of everything that will ever be done with them.
        by, note : str
            Who decided, and why.
        rule : str
            adaptive, or planned if all runs were fixed before the first
            (`ppadmm.accounting.filters`).
        protection : Protection
            Runs of another one are refused; once there is a run, every later grant must have the
            same.
        """
        if not dataset.strip():
            raise InputError("Expected the name of a data set, got an empty one.")
        with self.transaction():
            self.append(
                "grant", dataset=dataset, epsilon=float(budget.epsilon),
                delta=float(budget.delta), by=by or user(), note=note,
                rule=rule_for(checks.one_of("rule", rule, RULES), budget).to_plain(),
                protection=protection.to_plain(),
            )  # fmt: skip

    def name_of(self, records: RowCounts) -> str | None:
        """Return the name under which these records are registered."""
        with self.transaction():
            return self.books.commitments.get(self._commitment(records))

    def reserve_run(
        self,
        dataset: str,
        records: RowCounts,
        spec: str,
        agents: Reservations,
        protection: Protection,
    ) -> "RunLedger":
        """Set aside the most that a run may cost, or raise `BudgetError`; nothing else can.

        `records` are what the records are known by, `spec` is a digest of the public settings;
        `agents` pairs the number of each agent with what it reserves, `protection` is what that is
        the cost of.
        """
        run = secrets.token_hex(8)
        with ExitStack() as undo:
            lock = undo.enter_context(locks.lock(self.path, run))
            with self.transaction():
                total, alone = self._require_budget(dataset, agents, protection)
                self.append(
                    "reserve", run=run, dataset=dataset,
                    commitment=self._register(dataset, records), spec=spec, by=user(),
                    agents=[{"agent": i, "charges": reserved_to_plain(most)} for i, most in agents],
                    protection=protection.to_plain(), accountant=accountant.VERSION, epsilon=alone,
                    total=total, delta=self.books.grants[dataset]["delta"],
                )  # fmt: skip
                overlaps = self._overlaps(dataset, records)
            undo.pop_all()
        return RunLedger(self, run, lock, overlaps)

    def resume_run(self, dataset: str, records: RowCounts, spec: str) -> "RunLedger":
        """Take up the last run with these records and settings that did not end.

        If there is none, the last that finished: all of it is there, nothing is drawn or charged.
        """
        with self.transaction():
            commitment = self._commitment(records)
        last = {
            run.outcome: run.run
            for run in self.books.counted(dataset)
            if run.body["spec"] == spec and run.body["commitment"] == commitment
        }
        if found := last.get(None) or last.get("finished"):
            return RunLedger(self, found, locks.lock(self.path, found))
        raise LedgerError(
            f"No run in {str(self.path)!r} that could be resumed has these records and settings; "
            "leave out --resume to start a new one."
        )

    def abandon(self, run: str, note: str = "") -> None:
        """End a run that no process is working on; what it reserved stays spent if it charged."""
        with locks.lock(self.path, run), self.transaction():
            self.append("end", run=run, outcome="abandoned", note=note)

    # -- inside a transaction -----------------------------------------------------------------

    def _key(self) -> bytes:
        """Return the secret of this ledger that records are known by."""
        return self.secret(self.books.created)

    def _commitment(self, records: RowCounts) -> str:
        return commit(self._key(), records.digest)

    def _register(self, dataset: str, records: RowCounts) -> str:
        """Return the commitment of these records, registered under the name if they are new."""
        commitment = self._commitment(records)
        name = self.books.commitments.get(commitment)
        if name is None:
            picture = Sketch.of(Places.of(records, self._key()))
            self.append(
                "dataset", secret=picture.to_bytes(), dataset=dataset, commitment=commitment
            )
        elif name != dataset:
            raise BudgetError(
                f"These records are registered as {name!r}, not {dataset!r}, and are charged "
                f"there; give --dataset {name}."
            )
        return commitment

    def _overlaps(self, dataset: str, records: RowCounts) -> list[str]:
        """Say with which other data sets, that were charged, these records have many in common."""
        others = [
            (name, body)
            for body in self.books.registered.values()
            if (name := body["dataset"]) != dataset and self.books.counted(name)
        ]
        if not others:
            return []
        places, said = Places.of(records, self._key()), {}
        for name, body in others:
            if (found := Sketch.from_bytes(self.secret(body)).overlap(places)) is not None:
                said[name] = self._overlapping(dataset, name, found)
        return list(said.values())

    def _overlapping(self, dataset: str, name: str, found: Overlap) -> str:
        """Say that records seem to be charged under another name, too, and what to do."""
        own, other = self.books.protection(dataset), self.books.protection(name)
        less = (
            "the sum of both budgets only"
            if own == other
            else f"neither budget, as costs of {own} and of {other} do not add up"
        )
        return (
            f"By an estimate, {found} of these records are equal to records that were charged as "
            f"{name!r}, where ε = {cost(self.books, name):.4g} is spent: whoever is in both is "
            f"protected by {less}. If they are the same people, charge them there, with "
            f"--dataset {name}."
        )

    def _require_budget(
        self, dataset: str, agents: Reservations, protection: Protection
    ) -> tuple[float, float]:
        grant = self.books.grants.get(dataset)
        if grant is None:
            raise BudgetError(
                f"No budget is granted for {dataset!r} in {str(self.path)!r}; grant one with: "
                f"ppadmm ledger grant {self.path} {dataset} --epsilon ε --delta δ"
            )
        if why := mixed(self.books, dataset, protection, str(self.path)):
            raise BudgetError(why)
        tallies = [tally_of(reserved_by(most)) for _, most in agents]
        total = cost(self.books, dataset, tallies)
        if total > grant["epsilon"]:
            raise BudgetError(refusal(self.books, dataset, total, tallies))
        return total, together([tallies], grant["delta"]).epsilon


def commit(key: bytes, digest: bytes) -> str:
    """Return HMAC-SHA-256: without the key it says nothing about the records."""
    return hmac.new(key, b"ppadmm records\0" + digest, "sha256").hexdigest()


def user() -> str:
    """Return who is at work, as far as the system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
