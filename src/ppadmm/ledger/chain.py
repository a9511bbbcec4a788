"""The chain of a ledger's entries: each holds the hash of the one before it.

`follow` is one step of it, on reading; `verify` checks a whole ledger, the bytes of
every release and the sum of every reservation.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ppadmm import canonical
from ppadmm.accounting import accountant, recompute
from ppadmm.accounting.event_data import to_plain
from ppadmm.accounting.filters import rule_of
from ppadmm.errors import LedgerError
from ppadmm.ledger.balance import cost
from ppadmm.ledger.locks import connect_to_read, require_file, spoken
from ppadmm.ledger.state import Body, EntryRefused, LedgerState, ReservedRun

GENESIS = "0" * 64
"""What the first entry has for a previous hash."""
ALL = (
    "SELECT seq, body, hash, payloads.bytes, secrets.bytes FROM entries "
    "LEFT JOIN payloads USING (seq) LEFT JOIN secrets USING (seq) ORDER BY seq"
)
ORPHANS = {
    "the bytes of its release are": "payloads",
    "a secret that belongs to it is": "secrets",
}
ORPHAN = "SELECT min(seq) FROM {} WHERE seq NOT IN (SELECT seq FROM entries)"


@dataclass(frozen=True)
class Head:
    """How many entries there are and the hash of the last: it stands for all of them."""

    count: int
    hash: str


@dataclass(frozen=True)
class ChainRow:
    """An entry as it is stored, with the bytes and the secret beside it, if there are any."""

    seq: int
    body: bytes
    hash: str
    payload: bytes | None = None
    secret: bytes | None = None


def follow(books: LedgerState, head: Head, row: ChainRow) -> Head:
    """Return the head after `row`, taken into the books, or raise `LedgerError` naming it."""
    try:
        books.apply(_linked(head, row))
    except (EntryRefused, ValueError) as why:
        raise LedgerError(f"Entry {head.count + 1} is bad: {why}.") from None
    return Head(row.seq, row.hash)


def _linked(head: Head, row: ChainRow) -> Body:
    """Return what an entry says, if it follows from the one before it."""
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
    return body


def read_rows(path: Path) -> list[ChainRow]:
    """Read all entries of a ledger file without writing to it."""
    require_file(path)
    with spoken(path), closing(connect_to_read(path)) as db:
        rows = [ChainRow(*row) for row in db.execute(ALL)]
        orphans = {
            what: db.execute(ORPHAN.format(table)).fetchone()[0] for what, table in ORPHANS.items()
        }
    for what, orphan in orphans.items():
        if orphan is not None:
            raise LedgerError(f"Entry {orphan} is bad: it is missing, while {what} there.")
    return rows


def verify(rows: Iterable[ChainRow], head: str | None = None) -> tuple[LedgerState, Head]:
    """Check every entry and the bytes of every release; raise `LedgerError` naming the first bad.

    What was cut off at the end cannot be seen from what is left: `head`, a hash that was noted
    elsewhere or is in a certificate, shows it.
    """
    books, last, known, again = LedgerState(), Head(0, GENESIS), head is None, _Again()
    for row in rows:
        last = follow(books, last, row)
        known = known or last.hash == head
        body = canonical.loads(row.body)
        _require_beside(row, body)
        _require_sum(books, body, again)
    if not last.count:
        raise LedgerError("Entry 1 is bad: it is missing; the ledger is empty.")
    if not known:
        raise LedgerError(
            f"No entry has the hash {head}: the ledger was cut off or exchanged, or it is an old "
            f"copy; it ends with entry {last.count}."
        )
    return books, last


def _require_beside(row: ChainRow, body: Body) -> None:
    """Check what lies beside an entry and is bound to it by its digest."""
    for what, data, name in (
        ("the bytes of its release are", row.payload, "digest"),
        ("the secret beside it is", row.secret, "secret"),
    ):
        if (None if data is None else canonical.digest(data)) != body.get(name):
            raise LedgerError(f"Entry {row.seq} is bad: {what} missing or changed.")


def _require_sum(books: LedgerState, body: Body, again: "_Again") -> None:
    """Work out again what was reserved: it must be within the grant, whoever's accountant said so.

    What the entry says itself must be as much only if this version's accountant wrote it.
    """
    if body["kind"] != "reserve":
        return
    again.require_one_adjacency(books, body)
    total, granted = cost(books, body["dataset"]), books.grants[body["dataset"]]["epsilon"]
    said = body["total"] if body["accountant"] == accountant.VERSION else granted
    for found, slack in ((total, 1e-9), (again.cost(books, body["dataset"]), 1e-6)):
        if found > min(said, granted) * (1.0 + slack):
            raise LedgerError(
                f"Entry {body['seq']} is bad: it says that all runs cost ε = {body['total']:.6g}, "
                f"but they cost ε = {found:.6g}."
            )


class _Again:
    """The adaptive rule a second time, with code that is not the accountant's."""

    def __init__(self) -> None:
        self._divergences: dict[tuple[str, float], float] = {}

    def require_one_adjacency(self, books: LedgerState, body: Body) -> None:
        """Check that the events of a run are those of the neighbours that the grant names."""
        adjacency = books.grants[body["dataset"]]["protection"]["adjacency"]
        try:
            for tally in books.runs[body["run"]].tallies:
                recompute.require_adjacency(to_plain(tally), adjacency)
        except ValueError as error:
            raise LedgerError(
                f"Entry {body['seq']} is bad: it is charged to a grant for {adjacency}, but "
                f"{error}."
            ) from None

    def cost(self, books: LedgerState, dataset: str) -> float:
        """Return what the filter compares with ε; 0 where the rule is another."""
        grant, runs = books.grants[dataset], books.counted(dataset)
        order = rule_of(grant).order
        if order is None or len(runs) < 2:
            return 0.0
        return recompute.filtered(
            [self._divergence(run, order) for run in runs],
            [max(recompute.distance(to_plain(t)) for t in run.tallies) for run in runs],
            grant["epsilon"], grant["delta"], order,
        )  # fmt: skip

    def _divergence(self, run: ReservedRun, order: float) -> float:
        key = (run.run, order)
        if key not in self._divergences:
            found = max(recompute.renyi(to_plain(tally), order) for tally in run.tallies)
            self._divergences[key] = found
        return self._divergences[key]
