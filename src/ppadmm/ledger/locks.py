"""Ledger files on disk: opened so that what is committed stays, and locked run by run."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ppadmm.errors import LedgerError

APPLICATION = 0x7070_4C32
"""SQLite's application_id of our files: "ppL2", the last letter being the format."""
SQLITE = b"SQLite format 3\0"
"""How every SQLite file begins."""
WAIT = 30.0
"""Seconds to wait for another process to end its transaction."""


def connect(path: Path) -> sqlite3.Connection:
    """Open a file for writing so that what is committed is on disk."""
    with spoken(path):
        db = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
        mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        db.execute("PRAGMA synchronous = FULL")
    if mode != "wal":
        raise LedgerError(
            f"{str(path)!r} lies on a file system without shared memory (write-ahead log refused); "
            "keep ledgers on a local disk."
        )
    return db


def connect_to_read(path: Path) -> sqlite3.Connection:
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
        _require_ours(path, db.execute("PRAGMA application_id").fetchone()[0])
    except BaseException:
        db.close()
        raise
    return db


def _require_ours(path: Path, found: int) -> None:
    if found == APPLICATION:
        return
    if found >> 8 == APPLICATION >> 8:
        raise LedgerError(
            f"The ledger {str(path)!r} has format {chr(found & 0xFF)}, and this version reads "
            f"{chr(APPLICATION & 0xFF)}; use the version that wrote it, or make a new ledger and "
            "grant what is left."
        )
    raise _no_ledger(path, "it is another program's SQLite database")


def _no_ledger(path: Path, why: str) -> LedgerError:
    return LedgerError(
        f"{str(path)!r} is no ledger of ppadmm: {why}; name another file, make one with ppadmm "
        "ledger new FILE, or if it was one, take it from a backup."
    )


def require_file(path: Path) -> None:
    """Refuse a path where no ledger can be, and say what is there instead."""
    if path.is_dir():
        raise LedgerError(f"{str(path)!r} is a folder, not a ledger; name the file in it.")
    if not path.is_file():
        raise LedgerError(
            f"There is no ledger {str(path)!r}; make one with: ppadmm ledger new {path}"
        )
    with spoken(path), path.open("rb") as file:
        start = file.read(len(SQLITE))
    if start != SQLITE:
        raise _no_ledger(path, "it is no SQLite database" if start else "it is empty")


def reserve_name(path: Path) -> None:
    """Make an empty file for its owner only, or say that there is one."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        raise LedgerError(f"{str(path)!r} exists already; choose another name.") from None
    except OSError as error:
        raise LedgerError(f"Cannot make {str(path)!r}: {error.strerror or error}.") from None


class Lock:
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

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def lock(ledger: Path, run: str) -> Lock:
    """Take the right to work on a run, or say that another process has it."""
    path = ledger.with_name(f"{ledger.name}-run-{run}")
    db = None
    with suppress(OSError):  # for nobody else to read, so for nobody else to lock; SQLite says why
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    try:
        db = sqlite3.connect(path, timeout=0.0, isolation_level=None)
        db.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if db is not None:
            db.close()
        if "locked" not in str(error):
            raise LedgerError(
                f"Cannot lock run {run} with {str(path)!r}: {error}; a ledger needs a folder that "
                "can be written to."
            ) from None
        raise LedgerError(
            f"Another process is working on run {run} of {str(ledger)!r}; wait for it to end."
        ) from None
    return Lock(path, db)


@contextmanager
def spoken(path: Path) -> Iterator[None]:
    """Turn what SQLite says into one sentence."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise LedgerError(
                f"Another process has been writing to {str(path)!r} for {WAIT:g} s; try again."
            ) from None
        raise LedgerError(
            f"Cannot use the ledger {str(path)!r}: {error}; a ledger that is written to needs a "
            "file and a folder that can be."
        ) from None
    except sqlite3.DatabaseError as error:
        raise LedgerError(f"The ledger {str(path)!r} is damaged: {error}.") from None
