"""A data owner's ledger in an SQLite file: append-only, hash-chained, safe against crashes.

Budgets are granted here and runs reserved, resumed and abandoned; `ppadmm.privacy.chain_file` has
the file, `ppadmm.privacy.run_ledger` one run of it. docs/ledger.md has the format and what is
promised.
"""

import getpass
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from ppadmm import __version__, checks
from ppadmm.errors import BudgetError, InputError, LedgerError
from ppadmm.privacy import accountant, canonical
from ppadmm.privacy.accounts import cost, refusal
from ppadmm.privacy.books import FORMAT, reserved_by, reserved_to_plain, tally_of
from ppadmm.privacy.calibration import Budget
from ppadmm.privacy.chain_file import SCHEMA, ChainFile
from ppadmm.privacy.events import Charge
from ppadmm.privacy.filters import RULES, rule_for
from ppadmm.privacy.ledger_files import (
    APPLICATION,
    connect,
    connect_to_read,
    require_file,
    reserve_name,
    spoken,
)
from ppadmm.privacy.ledger_files import lock as lock_run
from ppadmm.privacy.run_ledger import RunLedger
from ppadmm.privacy.totals import together

Reservations: TypeAlias = Sequence[tuple[int, Sequence[tuple[Charge, int]]]]
"""The number of each agent with the most that a run may cost it."""


class SqliteLedger(ChainFile):
    """The ledger of one data owner."""

    # -- opening ------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path, owner: str) -> "SqliteLedger":
        """Make a new ledger file, readable by its owner only."""
        if not owner.strip():
            raise InputError("Expected the name of the data owner, got an empty one.")
        reserve_name(path)
        ledger = cls(path, connect(path))
        with ledger.transaction():
            for statement in (*SCHEMA, f"PRAGMA application_id = {APPLICATION}"):
                ledger._db.execute(statement)
            identity = secrets.token_hex(16)
            ledger.append(
                "created", format=FORMAT, owner=owner, ledger=identity, version=__version__
            )
        return ledger

    @classmethod
    def open(cls, path: Path) -> "SqliteLedger":
        """Open a ledger to write to; one that does not verify is refused."""
        require_file(path)
        with spoken(path):
            connect_to_read(path).close()
        ledger = cls(path, connect(path))
        ledger.refresh()
        return ledger

    def __enter__(self) -> "SqliteLedger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- reading ------------------------------------------------------------------------------

    def spent(self, dataset: str) -> float:
        """Return the ε of all runs that count, at the δ that was granted."""
        return cost(self._books, dataset)

    # -- writing ------------------------------------------------------------------------------

    def grant(
        self, dataset: str, budget: Budget, by: str = "", note: str = "", rule: str = "adaptive"
    ) -> None:
        """Say what all runs on a data set may cost together; replaces an earlier grant.

        `rule` is adaptive, or planned if all runs were fixed before the first
        (`ppadmm.privacy.filters`).
        """
        if not dataset.strip():
            raise InputError("Expected the name of a data set, got an empty one.")
        with self.transaction():
            self.append(
                "grant", dataset=dataset, epsilon=float(budget.epsilon),
                delta=float(budget.delta), by=by or user(), note=note,
                rule=rule_for(checks.one_of("rule", rule, RULES), budget).to_plain(),
            )  # fmt: skip

    def name_of(self, fingerprint: bytes) -> str | None:
        """Return the name under which records with this fingerprint are registered."""
        with self.transaction():
            found = self._commitment(fingerprint)
            return None if found is None else self._books.commitments[found]

    def reserve_run(
        self,
        dataset: str,
        fingerprint: bytes,
        spec: str,
        agents: Reservations,
    ) -> "RunLedger":
        """Set aside the most that a run may cost, or raise `BudgetError`; nothing else can.

        `fingerprint` is a digest of the records, `spec` of the public settings; `agents` pairs the
        number of each agent with what it reserves.
        """
        run = secrets.token_hex(8)
        lock = lock_run(self.path, run)
        try:
            self._reserve(run, dataset, fingerprint, spec, agents)
        except BaseException:
            lock.remove()
            raise
        return RunLedger(self, run, lock)

    def _reserve(
        self, run: str, dataset: str, fingerprint: bytes, spec: str, agents: Reservations
    ) -> None:
        with self.transaction():
            total, alone = self._require_budget(dataset, agents)
            self.append(
                "reserve", run=run, dataset=dataset,
                commitment=self._register(dataset, fingerprint), spec=spec, by=user(),
                agents=[{"agent": i, "charges": reserved_to_plain(most)} for i, most in agents],
                accountant=accountant.VERSION, epsilon=alone, total=total,
                delta=self._books.grants[dataset]["delta"],
            )  # fmt: skip

    def resume_run(self, dataset: str, fingerprint: bytes, spec: str) -> "RunLedger":
        """Take up the last run with these records and settings that did not end.

        If there is none, the last that finished: all of it is there, nothing is drawn or charged.
        """
        with self.transaction():
            commitment = self._commitment(fingerprint)
        alike = [
            run
            for run in reversed(self._books.counted(dataset))
            if run.body["spec"] == spec and run.body["commitment"] == commitment
        ]
        for outcome in (None, "finished"):
            for run in alike:
                if run.outcome == outcome:
                    return RunLedger(self, run.run, lock_run(self.path, run.run))
        raise LedgerError(
            f"No run in {str(self.path)!r} that could be resumed has these records and settings; "
            "leave out --resume to start a new one."
        )

    def abandon(self, run: str, note: str = "") -> None:
        """End a run that no process is working on; what it reserved stays spent if it charged."""
        with lock_run(self.path, run), self.transaction():
            self.append("end", run=run, outcome="abandoned", note=note)

    # -- inside a transaction -----------------------------------------------------------------

    def _commitment(self, fingerprint: bytes) -> str | None:
        for commitment in self._books.commitments:
            salt = self.secret(f"salt/{commitment}")
            if salt is not None and commit(salt, fingerprint) == commitment:
                return commitment
        return None

    def _register(self, dataset: str, fingerprint: bytes) -> str:
        """Return the commitment of these records, registered under the name if they are new."""
        if (found := self._commitment(fingerprint)) is not None:
            if (name := self._books.commitments[found]) != dataset:
                raise BudgetError(
                    f"These records are registered as {name!r}, not {dataset!r}, and are charged "
                    f"there; give --dataset {name}."
                )
            return found
        salt = secrets.token_bytes(32)
        commitment = commit(salt, fingerprint)
        self.append("dataset", dataset=dataset, commitment=commitment)
        self.keep_secret(f"salt/{commitment}", salt)
        return commitment

    def _require_budget(self, dataset: str, agents: Reservations) -> tuple[float, float]:
        grant = self._books.grants.get(dataset)
        if grant is None:
            raise BudgetError(
                f"No budget is granted for {dataset!r} in {str(self.path)!r}; grant one with: "
                f"ppadmm ledger grant {self.path} {dataset} --epsilon ε --delta δ"
            )
        tallies = [tally_of(reserved_by(most)) for _, most in agents]
        total = cost(self._books, dataset, tallies)
        if total > grant["epsilon"]:
            raise BudgetError(refusal(self._books, dataset, total, tallies))
        return total, together([tallies], grant["delta"]).epsilon


def commit(salt: bytes, fingerprint: bytes) -> str:
    """Return SHA-256(salt ‖ fingerprint): without the salt it says nothing about the records."""
    return canonical.digest(salt + fingerprint)


def user() -> str:
    """Return who is at work, as far as the system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
