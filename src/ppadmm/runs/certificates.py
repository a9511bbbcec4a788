"""Certificates of run folders: written, checked, and told in words."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppadmm.errors import CertificateError, InputError
from ppadmm.files import write_new
from ppadmm.ledger.chain import Head, read_rows
from ppadmm.ledger.chain import verify as verify_ledger
from ppadmm.ledger.database import now
from ppadmm.ledger.state import LedgerState
from ppadmm.runs.saved import read_json
from ppadmm.runs.tables import fill
from ppadmm.statements import certificate as certificates
from ppadmm.statements import consistency
from ppadmm.statements.certificate import WEIGHT, Verdict
from ppadmm.statements.claims import rounded_up
from ppadmm.statements.noise_check import NOISES
from ppadmm.statements.trust_claim import TrustClaim
from ppadmm.summing.trust import SUM

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Agreed = Callable[[dict[str, Any]], str]
"""Holds a certificate against what its signer agreed to."""


def certify_run(
    run: Path,
    key: "Ed25519PrivateKey",
    name: str = "",
    peers: Sequence[str] = (),
    out: Path | None = None,
) -> Path:
    """Sign the statement of a run folder and write the certificate into a new file."""
    statement = read_statement(run)
    data = certificates.issue(
        statement,
        key,
        name=name or (statement["booked"] or {}).get("owner", "unnamed"),
        model=(run / "model.json").read_bytes(),
        releases=(run / "releases.npz").read_bytes(),
        issued=now()[:10],
        peers=peers,
    )
    path = out or run / "certificate.json"
    write_new(path, data)
    return path


def verify_book(
    file: Path, head: str | None = None, certificate: Path | None = None
) -> tuple[LedgerState, Head]:
    """Check a whole ledger, and that heads which were noted before are still in it.

    Parameters
    ----------
    file : Path
        The ledger.
    head : str, optional
        A head that was noted before.
    certificate : Path, optional
        A certificate, which names a head.

    Returns
    -------
    state, head : LedgerState, Head
        What the ledger says, and its newest head. That entries were cut off at the end shows only
        with a head or a certificate.
    """
    rows = read_rows(file)
    heads: list[str | None] = [head] if head else []
    if certificate is not None:
        body = certificates.read_certificate(certificate.read_bytes())
        if (booked := body["statement"]["booked"]) is None:
            raise CertificateError(f"The certificate {str(certificate)!r} names no ledger.")
        heads.append(str(booked["head"]))
    return [verify_ledger(rows, each) for each in heads or [None]][-1]


def read_statement(run: Path) -> dict[str, Any]:
    """Return the statement.json of a run folder."""
    path = run / "statement.json"
    if not path.is_file():
        raise InputError(
            f"There is no statement.json in {str(run)!r}; name a folder that ppadmm train wrote."
        )
    try:
        return read_json(path, f"The statement {str(path)!r}", certificates.STATEMENT_FORMAT)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{str(path)!r} cannot be read: {error}.") from None


def verified(
    paths: Sequence[Path],
    trusted: Sequence[str],
    ledger: Path | None,
    run: Path | None,
    agreed: Agreed | None = None,
) -> list[Verdict]:
    """Check certificates of one run; name the file that does not hold.

    `agreed` refuses one that is not as all parties agreed, and says what it compared; it knows
    their keys.
    """
    verdicts = [_checked(path, trusted, agreed) for path in paths]
    first, *others = _compared(verdicts) if len(verdicts) > 1 else verdicts
    if ledger is not None:
        _require_ledger(first, ledger)
        first = _with(first, f"the whole chain of {ledger}, and this run in it")
    if run is not None:
        files = (run / "model.json").read_bytes(), (run / "releases.npz").read_bytes()
        certificates.require_files(first.certificate, *files)
        first = _with(first, f"model and releases in {run}")
    if ledger is None and first.statement["booked"] is not None:
        first = replace(first, unchecked=(*first.unchecked, "the ledger: give --ledger"))
    return [first, *others]


def _compared(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Check that certificates agree where those of one run must, and say what that covers."""
    bodies = [verdict.certificate for verdict in verdicts]
    consistency.require_together(bodies)
    done = sum(map(consistency.has_common_model, bodies))
    alike = "one run: the same terms and parties" + (", the same model" if done > 1 else "")
    checked = [_with(verdict, f"{alike}; every signer names the others") for verdict in verdicts]
    if missing := consistency.absent(bodies):
        keys = ", ".join(f"{key[:12]}…" for key in missing)
        note = f"the certificates of {len(missing)} other parties, with the keys {keys}"
        checked[0] = replace(checked[0], unchecked=(*checked[0].unchecked, note))
        return checked
    return [_without(verdict, WEIGHT) for verdict in checked]


def _checked(path: Path, trusted: Sequence[str], agreed: Agreed | None) -> Verdict:
    try:
        verdict = certificates.check(path.read_bytes(), trusted)
        if agreed is None:
            return verdict
        compared = agreed(verdict.certificate)
    except CertificateError as error:
        raise CertificateError(f"{path} does not hold. {error}") from None
    known = replace(verdict, unchecked=())  # whose key it is, the agreement says
    return _with(known, compared)


def _without(verdict: Verdict, note: str) -> Verdict:
    return replace(verdict, unchecked=tuple(each for each in verdict.unchecked if each != note))


def _with(verdict: Verdict, what: str) -> Verdict:
    return replace(verdict, checked=(*verdict.checked, what))


def _require_ledger(verdict: Verdict, ledger: Path) -> None:
    rows, entry = read_rows(ledger), verdict.statement["booked"]
    verify_ledger(rows)
    if entry is None:
        raise CertificateError("The certificate names no ledger; leave out --ledger.")
    if len(rows) < entry["count"] or rows[entry["count"] - 1].hash != entry["head"]:
        raise CertificateError(
            f"The ledger {str(ledger)!r} has no entry {entry['count']} with the hash "
            f"{entry['head']}: it was cut off or exchanged, or it is an old copy."
        )
    certificates.require_booked(verdict.statement, verify_ledger(rows[: entry["count"]])[0])


def verdicts_text(paths: Sequence[Path], verdicts: Sequence[Verdict]) -> str:
    """Return what certificates say, what was checked and what none can show."""
    parts = [_verdict_lines(path, v) for path, v in zip(paths, verdicts, strict=True)]
    last = "No certificate can prove: " + "; ".join(verdicts[0].not_proven) + "."
    parts = [[*parts[0], last]] if len(parts) == 1 else [*parts, [last]]
    return "\n\n".join("\n".join(map(fill, part)) for part in parts)


def _verdict_lines(path: Path, verdict: Verdict) -> list[str]:
    statement, signer = verdict.statement, verdict.certificate["signer"]
    lines = [
        f"{path}: holds. Signed by {signer['name']!r} with {signer['key']}.",
        *_claims(statement),
        *(f"Warning: {warning}" for warning in statement["warnings"]),
        *(f"Note: {note}." for note in verdict.notes),
        "Checked: " + "; ".join(verdict.checked) + ".",
    ]
    if verdict.unchecked:
        lines.append("Not checked: " + "; ".join(verdict.unchecked) + ".")
    return lines


def _claims(statement: dict[str, Any]) -> list[str]:
    """Say what the run cost, and all runs on the records, as far as the certificate knows."""
    if not statement["private"]:
        return ["NOT PRIVATE: " + "; ".join(statement["not_private_because"]) + "."]
    together = (
        "Other runs on the same records add up with it; no ledger that keeps the sum is named."
    )
    if (entry := statement["booked"]) is not None:
        together = (
            f"All {entry['runs']} runs booked on {entry['dataset']!r} so far cost together "
            f"ε = {rounded_up(entry['spent'])} of {entry['granted']:g} at δ = {entry['delta']:g} "
            f"({entry['adjacency']}, {entry['rule']} rule)."
        )
    claim = TrustClaim.from_dict(statement["trust"])
    how = f"PRIVATE, {claim.short}:" if claim.by_sum else "PRIVATE:"
    return [
        f"{how} ε = {rounded_up(statement['epsilon'])} at δ = {statement['delta']:g} for "
        f"{statement['unit']}.",
        *claim.lines(),
        *_shares(statement),
        together,
    ]


def _shares(statement: dict[str, Any]) -> list[str]:
    """Say what share of the noise of a sum a site that speaks for itself added."""
    agents = statement["agents"]
    if statement["trust"]["kind"] != SUM or len(agents) > 1:
        return []
    sizes = ", ".join(f"{NOISES.get(k, k)} = {v:.4g}" for k, v in agents[0]["noise"].items())
    return [f"{agents[0]['name']} says that it added a share of the noise of {sizes}."]
