"""The file of a ledger: entries that are only ever added, each on disk at once.

Entries are canonical JSON (`ppadmm.canonical`). Each holds the hash of the one before it,
and its own hash is SHA-256 of its bytes, so the last hash, the *head*, stands for all of them.
Beside the chain are the bytes of releases and secrets (the key that records are known by, what is
kept of their rows, thresholds), which stay with the owner. Both are bound to the chain: the entry
they belong to holds their digest, so that nothing of them can be deleted or changed unnoticed.

A transaction is synced unless it says otherwise: when it ends, what it wrote is on disk. One that
is not synced is with the system, so it outlives the process; it is on disk as soon as a later one
is, because the write-ahead log is synced as a whole and is read up to its first gap. So after a
power cut entries may be missing at the end, and nowhere else.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ppadmm import canonical
from ppadmm.errors import BudgetError, LedgerError
from ppadmm.files import sync_folder
from ppadmm.ledger.chain import GENESIS, ChainRow, Head, follow
from ppadmm.ledger.locks import spoken
from ppadmm.ledger.state import Body, EntryRefused, LedgerState

SEAL = 16
"""Random bytes before every secret."""
TABLES = ("entries", "payloads", "secrets")
SCHEMA = (
    "CREATE TABLE entries (seq INTEGER PRIMARY KEY, body BLOB NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE payloads (seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL)",
    "CREATE TABLE secrets (seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL)",
    *(
        f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
        for table in TABLES
        for verb in ("UPDATE", "DELETE")
    ),
)


class ChainFile:
    """A ledger's file, open for writing; entries are read once and then as they are added.

    `books` is the sum of all entries that were read, `head` the last of them. `append`, `payload`
    and `secret` are for use inside a `transaction`.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection
        self._begin()

    def _begin(self) -> None:
        self.books, self.head = LedgerState(), Head(0, GENESIS)

    def refresh(self) -> None:
        """Read what other processes have added."""
        with self.transaction():
            pass

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def transaction(self, synced: bool = True) -> Iterator[None]:
        """Hold the only right to write, with all entries read; all is written or nothing."""
        with spoken(self.path):
            self._db.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._read_on()
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                self._begin()
                raise

    def sync(self) -> None:
        """Bring to the disk what was written without waiting for it."""
        log = self.path.with_name(f"{self.path.name}-wal")
        if log.exists():  # SQLite holds no lock on its log, so that closing it again is safe
            descriptor = os.open(log, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            sync_folder(log.parent)

    def _read_on(self) -> None:
        if not self.head.count and self._is_new():
            return
        query = "SELECT seq, body, hash FROM entries WHERE seq > ? ORDER BY seq"
        for seq, body, hash_ in self._db.execute(query, (self.head.count,)).fetchall():
            self.head = follow(self.books, self.head, ChainRow(seq, body, hash_))

    def _is_new(self) -> bool:
        query = "SELECT name FROM sqlite_master WHERE name = 'entries'"
        return self._db.execute(query).fetchone() is None

    def append(
        self, kind: str, payload: bytes | None = None, secret: bytes | None = None, **fields: Any
    ) -> int:
        """Add an entry that the books allow, and what lies beside it; return its number.

        A `secret` is stored behind random bytes, so that its digest in the chain tells nothing.
        """
        seq = self.head.count + 1
        sealed = None if secret is None else secrets.token_bytes(SEAL) + secret
        body = {
            "seq": seq, "kind": kind, "time": now(), "previous": self.head.hash, **fields,
            **({} if sealed is None else {"secret": canonical.digest(sealed)}),
        }  # fmt: skip
        data = canonical.dumps(body)
        try:
            self.books.apply(body)
        except EntryRefused as why:
            raise BudgetError(f"Refused: {why}.") from None
        self.head = Head(seq, canonical.digest(data))
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?)", (seq, data, self.head.hash))
        if payload is not None:
            self._db.execute("INSERT INTO payloads VALUES (?, ?)", (seq, payload))
        if sealed is not None:
            self._db.execute("INSERT INTO secrets VALUES (?, ?)", (seq, sealed))
        return seq

    def secret(self, body: Body) -> bytes:
        """Return the secret beside an entry; it never leaves the file."""
        query = "SELECT bytes FROM secrets WHERE seq = ?"
        found = self._db.execute(query, (body["seq"],)).fetchone()
        if found is None or canonical.digest(found[0]) != body["secret"]:
            raise LedgerError(
                f"The secret beside entry {body['seq']} of {str(self.path)!r} is missing or "
                "changed; take the ledger from a backup."
            )
        return bytes(found[0][SEAL:])

    def payload(self, body: Body) -> bytes:
        """Return the bytes of the release in an entry."""
        seq = body["seq"]
        found = self._db.execute("SELECT bytes FROM payloads WHERE seq = ?", (seq,)).fetchone()
        if found is None or canonical.digest(found[0]) != body["digest"]:
            raise LedgerError(
                f"The bytes of the release in entry {seq} of {str(self.path)!r} are missing or "
                "changed; nothing was sent."
            )
        return bytes(found[0])


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
