"""A ledger with a grant, and one with runs in it."""

import shutil
import sqlite3

import numpy as np

from ppadmm.accounting import Approximate, Budget, Charge, Gaussian
from ppadmm.accounting.protection import STANDARD
from ppadmm.data.fingerprint import Fingerprint
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.ledger.protocol import Sent

GRANT = Budget(1.0, 1e-6)
RECORDS = Fingerprint(b"records")
ONE = Charge((Gaussian(0.05), Approximate(1e-20)))
AGENTS = [(0, ((ONE, 2),)), (1, ((ONE, 1),))]
SENT = Sent(np.array([1.5, -0.0]), np.array([2.0, 1e-300]), True)


def granted(tmp_path):
    """A ledger with a budget for people."""
    with OwnerLedger.create(tmp_path / "a.ledger", "owner") as made:
        made.grant("people", GRANT, by="officer", note="first study")
        yield made


def filled(ledger):
    """A ledger with a finished run, one that is not, and its path."""
    for end in (True, False):
        run = ledger.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)
        for number, times in ((0, 2), (1, 1)):
            book = run.agent(number)
            for round_ in range(times):
                assert book.past(round_) is None
                book.charge(ONE)
                book.record(SENT)
        if end:
            run.end()
        run.close()
    return ledger.path


def rows_of(path):
    with sqlite3.connect(path) as db:
        found = db.execute("SELECT seq, body, hash FROM entries ORDER BY seq").fetchall()
    db.close()
    return found


def unlocked(path):
    """A copy without the triggers that keep honest hands off."""
    copy = path.with_name("copy.ledger")
    shutil.copy(path, copy)
    for suffix in ("-wal",):
        if path.with_name(path.name + suffix).exists():
            shutil.copy(path.with_name(path.name + suffix), copy.with_name(copy.name + suffix))
    db = sqlite3.connect(copy, isolation_level=None)
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        db.execute(f"DROP TRIGGER {name}")
    return copy, db
