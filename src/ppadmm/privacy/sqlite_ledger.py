"""A data owner's ledger in an SQLite file: append-only, hash-chained, safe against crashes.

Entries are canonical JSON (`ppadmm.privacy.canonical`). Each holds the hash of the one before it,
and its own hash is SHA-256 of its bytes, so the last hash, the *head*, stands for all of them.
Beside the chain are the bytes of releases, bound to it by their digests, and secrets (the salts of
data sets, kept thresholds), which stay with the owner.

Every entry is one transaction with `synchronous=FULL`: when a call returns, it is on disk.
docs/ledger.md has the format and what is promised.
"""

import getpass
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ppadmm import __version__, checks
from ppadmm.errors import BudgetError, InputError, LedgerError
from ppadmm.privacy import accountant, canonical
from ppadmm.privacy.accounts import cost, refusal
from ppadmm.privacy.books import (
    FORMAT,
    Body,
    Books,
    Run,
    charge_to_plain,
    reserved_by,
    reserved_to_plain,
    tally_of,
)
from ppadmm.privacy.calibration import Budget
from ppadmm.privacy.chain import GENESIS, Head, Row, follow
from ppadmm.privacy.events import Charge, Tally
from ppadmm.privacy.filters import RULES, rule_for
from ppadmm.privacy.ledger import Lost, Past, Sent
from ppadmm.privacy.ledger_files import (
    APPLICATION,
    Lock,
    connect,
    connect_to_read,
    reserve_name,
    spoken,
)
from ppadmm.privacy.ledger_files import lock as lock_run
from ppadmm.privacy.totals import together
from ppadmm.typing import Array

Reservations: TypeAlias = Sequence[tuple[int, Sequence[tuple[Charge, int]]]]
"""The number of each agent with the most that a run may cost it."""
TABLES = ("entries", "payloads", "secrets")
SCHEMA = (
    "CREATE TABLE entries (seq INTEGER PRIMARY KEY, body BLOB NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE payloads (seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL)",
    "CREATE TABLE secrets (name TEXT PRIMARY KEY, bytes BLOB NOT NULL)",
    *(
        f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
        for table in TABLES
        for verb in ("UPDATE", "DELETE")
    ),
)


class SqliteLedger:
    """The ledger of one data owner; `entries` are read once and then as they are added."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection
        self._books = Books()
        self._head = Head(0, GENESIS)

    # -- opening ------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path, owner: str) -> "SqliteLedger":
        """Make a new ledger file, readable by its owner only."""
        if not owner.strip():
            raise InputError("Expected the name of the data owner, got an empty one.")
        reserve_name(path)
        ledger = cls(path, connect(path))
        with ledger._transaction():
            for statement in (*SCHEMA, f"PRAGMA application_id = {APPLICATION}"):
                ledger._db.execute(statement)
            identity = secrets.token_hex(16)
            ledger._append(
                "created", format=FORMAT, owner=owner, ledger=identity, version=__version__
            )
        return ledger

    @classmethod
    def open(cls, path: Path) -> "SqliteLedger":
        """Open a ledger to write to; one that does not verify is refused."""
        if not path.is_file():
            raise LedgerError(
                f"There is no ledger {str(path)!r}; make one with: ppadmm ledger new {path}"
            )
        with spoken(path):
            connect_to_read(path).close()
        ledger = cls(path, connect(path))
        ledger.refresh()
        return ledger

    def refresh(self) -> None:
        """Read what other processes have added."""
        with self._transaction():
            pass

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> "SqliteLedger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- reading ------------------------------------------------------------------------------

    @property
    def books(self) -> Books:
        """The sum of all entries that were read."""
        return self._books

    @property
    def head(self) -> Head:
        """The last entry that was read."""
        return self._head

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
        with self._transaction():
            self._append(
                "grant", dataset=dataset, epsilon=float(budget.epsilon),
                delta=float(budget.delta), by=by or user(), note=note,
                rule=rule_for(checks.one_of("rule", rule, RULES), budget).to_plain(),
            )  # fmt: skip

    def name_of(self, fingerprint: bytes) -> str | None:
        """Return the name under which records with this fingerprint are registered."""
        with self._transaction():
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
        with self._transaction():
            total, alone = self._require_budget(dataset, agents)
            self._append(
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
        with self._transaction():
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
        with lock_run(self.path, run), self._transaction():
            self._append("end", run=run, outcome="abandoned", note=note)

    # -- inside a transaction -----------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Hold the only right to write, with all entries read; all is written or nothing."""
        with spoken(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._read_on()
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                self._books, self._head = Books(), Head(0, GENESIS)
                raise

    def _read_on(self) -> None:
        found = self._db.execute("SELECT name FROM sqlite_master WHERE name = 'entries'").fetchone()
        if found is None:
            return
        query = "SELECT seq, body, hash FROM entries WHERE seq > ? ORDER BY seq"
        for seq, body, hash_ in self._db.execute(query, (self._head.count,)).fetchall():
            self._head = follow(self._books, self._head, Row(seq, body, hash_))

    def _append(self, kind: str, payload: bytes | None = None, **fields: Any) -> int:
        seq = self._head.count + 1
        body = {
            "seq": seq, "kind": kind, "time": now(), "previous": self._head.hash, **fields
        }  # fmt: skip
        data = canonical.dumps(body)
        row = Row(seq, data, canonical.digest(data), payload)
        self._head = follow(self._books, self._head, row, BudgetError)
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?)", (seq, data, row.hash))
        if payload is not None:
            self._db.execute("INSERT INTO payloads VALUES (?, ?)", (seq, payload))
        return seq

    def _commitment(self, fingerprint: bytes) -> str | None:
        for commitment in self._books.commitments:
            salt = self._secret(f"salt/{commitment}")
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
        self._append("dataset", dataset=dataset, commitment=commitment)
        self._keep(f"salt/{commitment}", salt)
        return commitment

    def _secret(self, name: str) -> bytes | None:
        found = self._db.execute("SELECT bytes FROM secrets WHERE name = ?", (name,)).fetchone()
        return None if found is None else bytes(found[0])

    def _keep(self, name: str, value: bytes) -> None:
        self._db.execute("INSERT INTO secrets VALUES (?, ?)", (name, value))

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


class RunLedger:
    """One run's part of a ledger, locked for this process until it is closed."""

    def __init__(self, ledger: SqliteLedger, run: str, lock: Lock) -> None:
        self.ledger = ledger
        self.run = run
        self._lock = lock

    @property
    def state(self) -> Run:
        """What was booked for this run."""
        return self.ledger.books.runs[self.run]

    def agent(self, number: int, part: "Part | None" = None) -> "AgentLedger":
        """Return the ledger of one agent of this run, or of a part of it."""
        most = self.state.reserved[number] if part is None else reserved_by(part.most)
        return AgentLedger(self, number, most, part)

    def end(self, outcome: str = "finished", note: str = "") -> None:
        """Close the run, if it is not: nothing more can be charged to it."""
        with self.ledger._transaction():
            if self.state.outcome is None:
                self.ledger._append("end", run=self.run, outcome=outcome, note=note)
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
            return decode(self._stored(*found))
        self._lost = place in self._run.state.open_charges
        return Lost() if self._lost else None

    def charge(self, charge: Charge) -> None:
        """Book one release against what was reserved; it is on disk when this returns."""
        with self._ledger._transaction():
            self._ledger._append("charge", **self._place(), events=charge_to_plain(charge))

    def record(self, sent: Sent) -> None:
        """Keep the round's bytes; they are on disk when this returns."""
        payload, place = encode(sent), (self._number, self._round)
        with self._ledger._transaction():
            charges = self._run.state.open_charges.get(place, [])
            self._ledger._append(
                "release", payload, **self._place(), charges=charges, lost=self._lost,
                digest=canonical.digest(payload),
            )  # fmt: skip

    def keep(self, name: str, value: Array) -> None:
        """Keep a secret of this run; it never leaves the file."""
        with self._ledger._transaction():
            self._ledger._keep(self._secret(name), _floats(value))

    def kept(self, name: str) -> Array | None:
        """Return a secret of this run."""
        found = self._ledger._secret(self._secret(name))
        return None if found is None else np.frombuffer(found, dtype="<f8").copy()

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

    @property
    def reserved(self) -> Tally:
        """The most that the run may cost."""
        return tally_of(self._most)

    def _place(self) -> dict[str, Any]:
        return {"run": self._run.run, "agent": self._number, "round": self._round}

    def _secret(self, name: str) -> str:
        part = "" if self._part is None else f"{self._part.name}/"
        return f"run/{self._run.run}/{self._number}/{part}{name}"

    def _stored(self, seq: int, body: Body) -> bytes:
        query = "SELECT bytes FROM payloads WHERE seq = ?"
        found = self._ledger._db.execute(query, (seq,)).fetchone()
        if found is None or canonical.digest(found[0]) != body["digest"]:
            raise LedgerError(
                f"The bytes of the release in entry {seq} of {str(self._ledger.path)!r} are "
                "missing or changed; nothing was sent."
            )
        return bytes(found[0])


# -- bytes ------------------------------------------------------------------------------------


def encode(sent: Sent) -> bytes:
    """Return one byte (1: spoke) and then value and total as little-endian doubles."""
    return bytes([sent.spoke]) + _floats(sent.value) + _floats(sent.total)


def decode(data: bytes) -> Sent:
    """Read what `encode` wrote."""
    both = np.frombuffer(data, dtype="<f8", offset=1).reshape(2, -1)
    return Sent(both[0].copy(), both[1].copy(), data[0] == 1)


def commit(salt: bytes, fingerprint: bytes) -> str:
    """Return SHA-256(salt ‖ fingerprint): without the salt it says nothing about the records."""
    return canonical.digest(salt + fingerprint)


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def user() -> str:
    """Return who is at work, as far as the system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _floats(values: Array) -> bytes:
    return np.ascontiguousarray(values, dtype="<f8").tobytes()
