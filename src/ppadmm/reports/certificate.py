"""Certificates of run folders: written, checked, and told in words."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppadmm.errors import CertificateError, InputError
from ppadmm.privacy import certificate as certificates
from ppadmm.privacy.certificate import NOT_PROVEN, Verdict
from ppadmm.privacy.chain import read_rows
from ppadmm.privacy.chain import verify as verify_ledger
from ppadmm.privacy.chain_file import now
from ppadmm.privacy.statement import rounded_up

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def certify_run(
    run: Path, key: "Ed25519PrivateKey", name: str, peers: Sequence[str], out: Path | None
) -> Path:
    """Sign the statement of a run folder and write the certificate into a new file."""
    statement = _statement(run)
    data = certificates.issue(
        statement,
        key,
        name=name or (statement["booked"] or {}).get("owner", "unnamed"),
        model=(run / "model.json").read_bytes(),
        releases=(run / "releases.npz").read_bytes(),
        issued=now(),
        peers=peers,
    )
    path = out or run / "certificate.json"
    try:
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise InputError(f"{str(path)!r} exists already; choose another --out.") from None
    return path


def _statement(run: Path) -> dict[str, Any]:
    path = run / "statement.json"
    if not path.is_file():
        raise InputError(
            f"There is no statement.json in {str(run)!r}; name a folder that ppadmm train wrote."
        )
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{str(path)!r} cannot be read: {error}.") from None
    return found


def verified(
    paths: Sequence[Path], trusted: Sequence[str], ledger: Path | None, run: Path | None
) -> list[Verdict]:
    """Check certificates of one run; name the file that does not hold."""
    verdicts = [_checked(path, trusted) for path in paths]
    certificates.require_together(verdicts)
    if len(verdicts) > 1:
        verdicts = [_with(v, "one run, and every signer names the others") for v in verdicts]
    if ledger is not None:
        _require_ledger(verdicts[0], ledger)
        verdicts[0] = _with(verdicts[0], f"the whole chain of {ledger}, and this run in it")
    if run is not None:
        files = (run / "model.json").read_bytes(), (run / "releases.npz").read_bytes()
        certificates.require_files(verdicts[0].certificate, *files)
        verdicts[0] = _with(verdicts[0], f"model and releases in {run}")
    return [_without_ledger(v, ledger) if k == 0 else v for k, v in enumerate(verdicts)]


def _checked(path: Path, trusted: Sequence[str]) -> Verdict:
    try:
        return certificates.check(path.read_bytes(), trusted)
    except CertificateError as error:
        raise CertificateError(f"{path} does not hold. {error}") from None


def _with(verdict: Verdict, what: str) -> Verdict:
    return replace(verdict, checked=(*verdict.checked, what))


def _without_ledger(verdict: Verdict, ledger: Path | None) -> Verdict:
    if ledger is not None or verdict.statement["booked"] is None:
        return verdict
    return replace(verdict, unchecked=(*verdict.unchecked, "the ledger: give --ledger"))


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


def verdict_text(path: Path, verdict: Verdict) -> str:
    """Return what a certificate says, what was checked and what it cannot show."""
    statement, signer = verdict.statement, verdict.certificate["signer"]
    lines = [
        f"{path}: holds. Signed by {signer['name']!r} with {signer['key']}.",
        _headline(statement),
        *(f"Warning: {warning}" for warning in statement["warnings"]),
        "Checked: " + "; ".join(verdict.checked) + ".",
    ]
    if verdict.unchecked:
        lines.append("Not checked: " + "; ".join(verdict.unchecked) + ".")
    lines.append("No certificate can prove: " + "; ".join(NOT_PROVEN) + ".")
    return "\n".join(textwrap.fill(line, 100, subsequent_indent="  ") for line in lines)


def _headline(statement: dict[str, Any]) -> str:
    if not statement["private"]:
        return "NOT PRIVATE: " + "; ".join(statement["not_private_because"]) + "."
    return (
        f"PRIVATE: ε = {rounded_up(statement['epsilon'])} at δ = {statement['delta']:g} for "
        f"{statement['unit']}."
    )
