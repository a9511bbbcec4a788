"""A signed statement, and how anyone checks it without the records and without our accountant.

A certificate is one line of canonical JSON and a newline: no other bytes mean the same, so every
change of a byte is seen. ε is worked out again from the events with `ppadmm.accounting.recompute`.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppadmm import __version__, canonical
from ppadmm.accounting import accountant
from ppadmm.accounting.filters import rule_of
from ppadmm.accounting.protection import Protection
from ppadmm.errors import CertificateError
from ppadmm.files import require_format
from ppadmm.ledger.balance import cost
from ppadmm.ledger.state import LedgerState, ReservedRun
from ppadmm.statements import keys
from ppadmm.statements.json_schema import require_shape
from ppadmm.statements.noise_check import knows_noise
from ppadmm.statements.recheck import (
    TOLERANCE,
    Plain,
    counted,
    knows_curvature,
    knows_weights,
    require_true,
)
from ppadmm.summing.trust import SUM

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT, STATEMENT_FORMAT = 1, 4
DOMAIN = b"ppadmm certificate 1\n"
WEIGHT = "its weight, which follows from all parties' records: give --agreement"
"""What the certificate of one site of many cannot show."""
LARGEST = 64 * 2**20
"""Bytes of a certificate."""
NOT_PROVEN = (
    "that the noise was drawn as it is said, and kept secret",
    "that the records are what they are said to be, and as many",
    "that the code that ran is the code that is named",
    "that nothing else was released, or charged to another ledger",
)
"""What no certificate can show."""
NOT_PROVEN_OF_SUMS = (
    "that no more sites put together what they know than are said to",
    "that no site lied in a sum, or left out its share of the noise",
)


@dataclass(frozen=True)
class Verdict:
    """A certificate that holds: its content, what was checked and what was not.

    `notes` are figures that are true and larger than the events need.
    """

    certificate: Plain
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def statement(self) -> Plain:
        """The statement in it."""
        found: Plain = self.certificate["statement"]
        return found

    @property
    def not_proven(self) -> tuple[str, ...]:
        """What no certificate of such a run can show."""
        by_sum = self.statement["trust"]["kind"] == SUM
        return (*NOT_PROVEN, *(NOT_PROVEN_OF_SUMS if by_sum else ()))

    def to_dict(self) -> Plain:
        """Return what holds, what was checked and what was not, fit for JSON."""
        statement = self.statement
        return {
            "holds": True,
            "private": statement["private"],
            "epsilon": statement["epsilon"],
            "delta": statement["delta"],
            "signer": self.certificate["signer"],
            "checked": list(self.checked),
            "unchecked": list(self.unchecked),
            "trust": statement["trust"],
            "notes": list(self.notes),
            "not_proven": list(self.not_proven),
        }


def issue(
    statement: Plain,
    key: "Ed25519PrivateKey",
    *,
    name: str,
    model: bytes,
    releases: bytes,
    issued: str,
    peers: Sequence[str] = (),
) -> bytes:
    """Return the certificate of a run; a statement that would not verify is not signed.

    `issued` is a day and no time: a certificate that is signed at the end of a run would tell how
    long it took, and of the best of a random number of runs, how many there were.
    """
    body = {
        "format": FORMAT,
        "kind": "ppadmm certificate",
        "issued": issued,
        "signer": {"name": name, "key": keys.public_key(key)},
        "peers": sorted(set(peers) - {keys.public_key(key)}),
        "code": {"ppadmm": __version__, "source": source_digest()},
        "model": canonical.digest(model),
        "releases": canonical.digest(releases),
        "statement": statement,
    }
    try:
        signature = key.sign(DOMAIN + canonical.dumps(body)).hex()
        data = canonical.dumps({"certificate": body, "signature": signature}) + b"\n"
    except (TypeError, ValueError) as error:
        raise CertificateError(f"The statement cannot be written down: {error}.") from None
    check(data)
    return data


def read_certificate(data: bytes) -> Plain:
    """Return the content of a certificate whose form and signature hold."""
    if len(data) > LARGEST:
        raise CertificateError(f"It has {len(data):,} bytes; no certificate is so long.")
    try:
        if not data.endswith(b"\n"):
            raise ValueError("it does not end with a newline")
        value = canonical.loads(data[:-1])
        _require_formats(value)
        _require_signed(value)
        require_shape("certificate", value)
    except ValueError as error:
        raise CertificateError(
            f"It is no certificate in canonical form: {error}; ppadmm certify makes one of a run."
        ) from None
    body: Plain = value["certificate"]
    return body


def _require_formats(value: Any) -> None:
    """Refuse another version by its number: its other entries may mean something else."""
    try:
        outer, inner = value["certificate"]["format"], value["certificate"]["statement"]["format"]
    except (TypeError, KeyError, IndexError):
        return
    way = "verify it with the ppadmm that wrote it"
    require_format("The certificate", outer, FORMAT, way, CertificateError)
    require_format("Its statement", inner, STATEMENT_FORMAT, way, CertificateError)


def _require_signed(value: Any) -> None:
    try:
        body, signature = value["certificate"], value["signature"]
        public = body["signer"]["key"]
    except (TypeError, KeyError, IndexError):
        raise ValueError("it holds no signed content") from None
    for text, digits in ((public, 64), (signature, 128)):
        if not isinstance(text, str) or not re.fullmatch(f"[0-9a-f]{{{digits}}}", text):
            raise ValueError("its key or signature is not in lower-case hexadecimal digits")
    if not keys.is_signed(public, signature, DOMAIN + canonical.dumps(body)):
        raise CertificateError("Its signature is not that of its content.")


def check(data: bytes, trusted: Sequence[str] = ()) -> Verdict:
    """Check one certificate, or raise `CertificateError` saying what does not hold.

    `trusted` are public keys that are known to belong to the parties.
    """
    body = read_certificate(data)
    signer = body["signer"]
    if trusted and signer["key"] not in trusted:
        raise CertificateError(f"It is signed with {signer['key']}, which is none of those given.")
    try:
        larger = require_true(body["statement"])
    except OverflowError:
        raise CertificateError(
            "It holds numbers that are too large to be those of a run."
        ) from None
    notes = tuple(f"true, and more than needed: {each}" for each in larger)
    checked = ["form", "signature", "ε recomputed from the events of every agent", "curves"]
    unchecked = [] if trusted else [f"that the key belongs to {signer['name']!r}: give --trust"]
    if not knows_weights(body["statement"]):
        unchecked.append(WEIGHT)
    if body["statement"]["private"] and not knows_curvature(body["statement"]):
        unchecked.append("κ of its events, which does not follow from the terms it names")
    if body["statement"]["trust"]["kind"] == SUM:
        if knows_noise(body["statement"]):
            checked.append("its share of the noise, from N, c and the records of all sites")
        else:
            unchecked.append("its share of the noise, which does not follow from the terms")
    return Verdict(body, tuple(checked), tuple(unchecked), notes)


# -- a ledger, a run folder --------------------------------------------------------------------


def require_booked(statement: Plain, books: LedgerState) -> None:
    """Check a statement against the books of a verified ledger as they stood at its head."""
    entry = statement["booked"]
    if entry["ledger"] != books.ledger:
        raise CertificateError(f"It names ledger {entry['ledger']}, not {books.ledger}.")
    run = books.runs.get(entry["run"])
    if run is None or run.body["spec"] != statement["settings_digest"]:
        raise CertificateError(f"Run {entry['run']} of the ledger is not the one certified.")
    counted_runs = len(books.counted(run.body["dataset"]))
    named = (entry["owner"], entry["dataset"], entry["runs"])
    if named != (books.owner, run.body["dataset"], counted_runs):
        raise CertificateError(
            f"By the ledger run {entry['run']} is one of {counted_runs} on "
            f"{run.body['dataset']!r} of {books.owner!r}, not as certified."
        )
    _require_same_events(statement, run)
    _require_protection(statement, books)
    _require_sum(entry, books, statement["accountant"])


def _require_protection(statement: Plain, books: LedgerState) -> None:
    """Check that all runs of the grant protect as the statement says, the certified one, too."""
    dataset, adjacency = statement["booked"]["dataset"], statement["adjacency"]
    others = {books.protection(dataset)} | {run.protection for run in books.counted(dataset)}
    for other in others:
        if other != Protection(adjacency):
            raise CertificateError(
                f"By the ledger {dataset!r} is protected by {other}, not {adjacency} as certified."
            )


def _require_sum(entry: Plain, books: LedgerState, version: str) -> None:
    grant, spent = books.grants[entry["dataset"]], cost(books, entry["dataset"])
    if (entry["granted"], entry["delta"]) != (grant["epsilon"], grant["delta"]):
        raise CertificateError(f"The ledger grants ε = {grant['epsilon']}, not {entry['granted']}.")
    if entry["rule"] != rule_of(grant).name:
        raise CertificateError(f"The ledger's rule is {rule_of(grant).name}, not as certified.")
    if not _is_spent(entry["spent"], spent, version == accountant.VERSION):
        raise CertificateError(
            f"By the ledger ε = {spent:.8g} was spent, not {entry['spent']:.8g}."
        )


def _is_spent(said: float, found: float, same: bool) -> bool:
    """Compare two sums; another version's accountant may have found a larger bound."""
    return math.isclose(said, found, rel_tol=TOLERANCE) or (said > found and not same)


def _require_same_events(statement: Plain, run: ReservedRun) -> None:
    from ppadmm.accounting.event_data import to_plain

    for agent, tally in zip(statement["agents"], run.tallies, strict=False):
        if counted(agent["reserved"]) != counted(to_plain(tally)):
            raise CertificateError(
                f"Agent {agent['agent']}: the ledger reserved other events than are certified."
            )
    if len(statement["agents"]) != len(run.tallies):
        raise CertificateError("The ledger reserved for another number of agents.")


def require_files(body: Plain, model: bytes, releases: bytes) -> None:
    """Check that a run folder holds the model and the releases that were certified."""
    for name, data in (("model", model), ("releases", releases)):
        if canonical.digest(data) != body[name]:
            raise CertificateError(f"The {name} in the run folder is not the one certified.")


def source_digest() -> str:
    """Return SHA-256 over the names and contents of this package's source files."""
    root = Path(__file__).parents[1]
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    parts = [[name, canonical.digest((root / name).read_bytes())] for name in names]
    return canonical.digest(canonical.dumps(parts))
