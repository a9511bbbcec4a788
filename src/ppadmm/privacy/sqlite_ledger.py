"""A data owner's ledger in an SQLite file: append-only, hash-chained, safe against crashes.

Entries are canonical JSON (`ppadmm.privacy.canonical`). Each holds the hash of the one before it,
and its own hash is SHA-256 of its bytes, so the last hash, the *head*, stands for all of them.
Beside the chain are the bytes of releases, bound to it by their digests, and secrets (the salts of
data sets, kept thresholds), which stay with the owner.

Every entry is one transaction with `synchronous=FULL`: when a call returns, it is on disk.
docs/ledger.md has the format and what is promised.
"""

import getpass
import os
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ppadmm import __version__
from ppadmm.errors import BudgetError, InputError, LedgerError
from ppadmm.privacy import accountant, canonical
from ppadmm.privacy.books import (
    FORMAT,
    Body,
    Books,
    Refused,
    Run,
    charge_to_plain,
    reserved_to_plain,
    tally_of,
)
from ppadmm.privacy.calibration import Budget
from ppadmm.privacy.events import Charge, Tally
from ppadmm.privacy.ledger import Lost, Past, Sent
from ppadmm.privacy.totals import together
from ppadmm.typing import Array

Reservations: TypeAlias = Sequence[tuple[int, Sequence[tuple[Charge, int]]]]
"""The number of each agent with the most that a run may cost it."""
APPLICATION = 0x7070_4C31
"""SQLite's application_id of our files: "ppL1"."""
GENESIS = "0" * 64
"""What the first entry has for a previous hash."""
WAIT = 30.0
"""Seconds to wait for another process to end its transaction."""
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
ALL = "SELECT seq, body, hash, bytes FROM entries LEFT JOIN payloads USING (seq) ORDER BY seq"
ORPHAN = "SELECT min(seq) FROM payloads WHERE seq NOT IN (SELECT seq FROM entries)"


@dataclass(frozen=True)
class Head:
    """How many entries there are and the hash of the last: it stands for all of them."""

    count: int
    hash: str


@dataclass(frozen=True)
class Row:
    """An entry as it is stored, with the bytes beside it if it is a release."""

    seq: int
    body: bytes
    hash: str
    payload: bytes | None = None


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
        _reserve_name(path)
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
        with _spoken(path):
            _connect_to_read(path).close()
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

    def grant(self, dataset: str, budget: Budget, by: str = "", note: str = "") -> None:
        """Say what all runs on a data set may cost together; replaces an earlier grant."""
        if not dataset.strip():
            raise InputError("Expected the name of a data set, got an empty one.")
        with self._transaction():
            self._append(
                "grant", dataset=dataset, epsilon=float(budget.epsilon),
                delta=float(budget.delta), by=by or user(), note=note,
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
        lock = _lock(self.path, run)
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

    def resume_run(
        self, dataset: str, fingerprint: bytes, spec: str, ended: bool = False
    ) -> "RunLedger":
        """Take up the last run with these records and settings that did not end.

        With `ended` a finished one is taken up, too, to be read: nothing can be charged to it.
        """
        with self._transaction():
            commitment = self._commitment(fingerprint)
        for run in reversed(self._books.counted(dataset)):
            same = run.body["spec"] == spec and run.body["commitment"] == commitment
            if same and (run.outcome is None or (ended and run.outcome == "finished")):
                return RunLedger(self, run.run, _lock(self.path, run.run))
        raise LedgerError(
            f"No unfinished run in {str(self.path)!r} has these records and settings; leave out "
            "--resume to start a new one."
        )

    def abandon(self, run: str, note: str = "") -> None:
        """End a run that no process is working on; what it reserved stays spent if it charged."""
        with _lock(self.path, run), self._transaction():
            self._append("end", run=run, outcome="abandoned", note=note)

    # -- inside a transaction -----------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Hold the only right to write, with all entries read; all is written or nothing."""
        with _spoken(self.path):
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
        tallies = [tally_of(Counter(dict(most))) for _, most in agents]
        total = _total(self._books, dataset, tallies)
        if total > grant["epsilon"]:
            raise BudgetError(_refusal(self._books, dataset, total))
        return total, together([tallies], grant["delta"]).epsilon


class RunLedger:
    """One run's part of a ledger, locked for this process until it is closed."""

    def __init__(self, ledger: SqliteLedger, run: str, lock: "_Lock") -> None:
        self.ledger = ledger
        self.run = run
        self._lock = lock

    @property
    def state(self) -> Run:
        """What was booked for this run."""
        return self.ledger.books.runs[self.run]

    def agent(self, number: int) -> "AgentLedger":
        """Return the ledger of one agent of this run."""
        return AgentLedger(self, number)

    def end(self, outcome: str = "finished", note: str = "") -> None:
        """Close the run: nothing more can be charged to it."""
        with self.ledger._transaction():
            self.ledger._append("end", run=self.run, outcome=outcome, note=note)
        self._lock.remove()

    def close(self) -> None:
        """Let another process resume it."""
        self._lock.close()


class AgentLedger:
    """What an agent sees of a run's ledger: the protocol `Ledger`, on disk."""

    def __init__(self, run: RunLedger, number: int) -> None:
        self._run = run
        self._ledger = run.ledger
        self._number = number
        self._round = 0
        self._lost = False

    @property
    def durable(self) -> bool:
        """Yes."""
        return True

    def reserve(self, run: Iterable[tuple[Charge, int]]) -> None:
        """Check that the run was reserved as it is now about to be made."""
        if Counter(dict(run)) != self._run.state.reserved[self._number]:
            raise BudgetError(
                f"Agent {self._number} is about to make another run than was reserved as "
                f"{self._run.run}; start a new one. Nothing was released."
            )

    def past(self, round_: int) -> Past:
        """Begin a round; return what an earlier process sent in it, or that its charge is lost."""
        self._round = round_
        place = (self._number, round_)
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
    def spent(self) -> Tally:
        """All that was charged so far."""
        return tally_of(self._run.state.charged[self._number])

    @property
    def reserved(self) -> Tally:
        """The most that the run may cost."""
        return tally_of(self._run.state.reserved[self._number])

    def _place(self) -> dict[str, Any]:
        return {"run": self._run.run, "agent": self._number, "round": self._round}

    def _secret(self, name: str) -> str:
        return f"run/{self._run.run}/{self._number}/{name}"

    def _stored(self, seq: int, body: Body) -> bytes:
        query = "SELECT bytes FROM payloads WHERE seq = ?"
        found = self._ledger._db.execute(query, (seq,)).fetchone()
        if found is None or canonical.digest(found[0]) != body["digest"]:
            raise LedgerError(
                f"The bytes of the release in entry {seq} of {str(self._ledger.path)!r} are "
                "missing or changed; nothing was sent."
            )
        return bytes(found[0])


# -- the chain --------------------------------------------------------------------------------


def follow(
    books: Books, head: Head, row: Row, error: type[LedgerError | BudgetError] = LedgerError
) -> Head:
    """Return the head after `row`, taken into the books, or raise `error` naming it."""
    try:
        _require_link(head, row)
        books.take(canonical.loads(row.body))
    except (Refused, ValueError) as why:
        what = "Refused" if error is BudgetError else f"Entry {head.count + 1} is bad"
        raise error(f"{what}: {why}.") from None
    return Head(row.seq, row.hash)


def _require_link(head: Head, row: Row) -> None:
    if row.seq != head.count + 1:
        raise ValueError(f"it is missing, the next one is {row.seq}")
    if not isinstance(row.body, bytes):
        raise ValueError("its content is not bytes")
    body = canonical.loads(row.body)
    if not isinstance(body, dict) or body.get("seq") != row.seq:
        raise ValueError("it carries another number")
    if body.get("previous") != head.hash:
        raise ValueError("it does not follow from the one before it")
    if canonical.digest(row.body) != row.hash:
        raise ValueError("its hash is not that of its content")


def read_rows(path: Path) -> list[Row]:
    """Read all entries of a ledger file without writing to it."""
    if not path.is_file():
        raise LedgerError(f"There is no ledger {str(path)!r}.")
    with _spoken(path), closing(_connect_to_read(path)) as db:
        rows = [Row(*row) for row in db.execute(ALL)]
        orphan = db.execute(ORPHAN).fetchone()[0]
    if orphan is not None:
        raise LedgerError(
            f"Entry {orphan} is bad: it is missing, while the bytes of its release are there."
        )
    return rows


def verify(rows: Iterable[Row], head: str | None = None) -> tuple[Books, Head]:
    """Check every entry and the bytes of every release; raise `LedgerError` naming the first bad.

    What was cut off at the end cannot be seen from what is left: `head`, a hash that was noted
    elsewhere or is in a certificate, shows it.
    """
    books, last, known = Books(), Head(0, GENESIS), head is None
    for row in rows:
        before = last
        last = follow(books, last, row)
        known = known or last.hash == head
        _require_payload(row)
        _require_sum(books, before.count + 1, canonical.loads(row.body))
    if not last.count:
        raise LedgerError("Entry 1 is bad: it is missing; the ledger is empty.")
    if not known:
        raise LedgerError(
            f"No entry has the hash {head}: the ledger was cut off or exchanged, or it is an old "
            f"copy; it ends with entry {last.count}."
        )
    return books, last


def _require_payload(row: Row) -> None:
    body = canonical.loads(row.body)
    found = None if row.payload is None else canonical.digest(row.payload)
    if found != body.get("digest"):
        raise LedgerError(
            f"Entry {row.seq} is bad: the bytes of its release are missing or changed."
        )


def _require_sum(books: Books, seq: int, body: Body) -> None:
    """Work out again what was reserved, if this version's accountant did it."""
    if body["kind"] != "reserve" or body["accountant"] != accountant.VERSION:
        return
    total = cost(books, body["dataset"])
    if total > body["total"] * (1.0 + 1e-9) or total > books.grants[body["dataset"]]["epsilon"]:
        raise LedgerError(
            f"Entry {seq} is bad: it says that all runs cost ε = {body['total']:.6g}, but they "
            f"cost ε = {total:.6g}."
        )


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


# -- sums -------------------------------------------------------------------------------------


def cost(books: Books, dataset: str) -> float:
    """Return the ε of all runs that count, at the δ that was granted."""
    return _total(books, dataset, [])


def _total(books: Books, dataset: str, more: list[Tally]) -> float:
    runs = [run.tallies for run in books.counted(dataset)] + ([more] if more else [])
    if not runs:
        return 0.0
    return together(runs, books.grants[dataset]["delta"]).epsilon


def _refusal(books: Books, dataset: str, total: float) -> str:
    grant = books.grants[dataset]
    spent = [
        f"run {run.run} by {run.body['by']} on {run.body['time'][:10]}: {run.body['epsilon']:.4g}"
        + ("" if run.outcome == "finished" else f" ({run.outcome or 'not finished'})")
        for run in books.counted(dataset)
    ]
    return (
        f"With this run {dataset!r} would cost ε = {total:.4g} at δ = {grant['delta']:g} in all, "
        f"but ε = {grant['epsilon']:g} is granted (by {grant['by']}); "
        f"spent: {'; '.join(spent) or 'nothing yet'}. Nothing was released."
    )


# -- files ------------------------------------------------------------------------------------


def connect(path: Path) -> sqlite3.Connection:
    """Open a file for writing so that what is committed is on disk."""
    with _spoken(path):
        db = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
        mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        db.execute("PRAGMA synchronous = FULL")
    if mode != "wal":
        raise LedgerError(
            f"{str(path)!r} lies on a file system without shared memory (write-ahead log refused); "
            "keep ledgers on a local disk."
        )
    return db


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a file for reading; one in a folder that cannot be written to, too."""
    uri = path.absolute().as_uri()
    db = sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=WAIT)
    try:
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        db.close()
        if path.with_name(path.name + "-wal").exists():
            raise
        db = sqlite3.connect(f"{uri}?immutable=1", uri=True)
    try:
        if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise LedgerError(f"{str(path)!r} is not a ledger of ppadmm.")
    except BaseException:
        db.close()
        raise
    return db


def _reserve_name(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        raise LedgerError(f"{str(path)!r} exists already; choose another name.") from None
    except OSError as error:
        raise LedgerError(f"Cannot make {str(path)!r}: {error.strerror or error}.") from None


class _Lock:
    """The right to work on one run, held by a transaction on a file of its own.

    It ends with the process, however that ends.
    """

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self._path, self._db = path, db

    def close(self) -> None:
        """Let go."""
        self._db.close()

    def remove(self) -> None:
        """Let go for good: the run has ended, so whoever takes the lock can do nothing with it."""
        self.close()
        with suppress(OSError):
            self._path.unlink()

    def __enter__(self) -> "_Lock":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _lock(ledger: Path, run: str) -> _Lock:
    path = ledger.with_name(f"{ledger.name}-run-{run}")
    db = sqlite3.connect(path, timeout=0.0, isolation_level=None)
    try:
        db.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        db.close()
        if "locked" not in str(error):
            raise LedgerError(f"Cannot lock run {run} with {str(path)!r}: {error}.") from None
        raise LedgerError(
            f"Another process is working on run {run} of {str(ledger)!r}; wait for it to end."
        ) from None
    return _Lock(path, db)


@contextmanager
def _spoken(path: Path) -> Iterator[None]:
    """Turn what SQLite says into one sentence."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise LedgerError(
                f"Another process has been writing to {str(path)!r} for {WAIT:g} s; try again."
            ) from None
        raise LedgerError(f"Cannot use the ledger {str(path)!r}: {error}.") from None
    except sqlite3.DatabaseError as error:
        raise LedgerError(f"The ledger {str(path)!r} is damaged: {error}.") from None
