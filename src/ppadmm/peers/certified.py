"""Certificates held against the agreement that all parties signed."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppadmm.errors import CertificateError, InputError
from ppadmm.peers.agreement_file import load_agreement
from ppadmm.runs.certificates import certify_run, read_statement, verified
from ppadmm.statements.certificate import Verdict
from ppadmm.statements.keys import public_key
from ppadmm.statements.trust_claim import TrustClaim

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from ppadmm.peers.agreement import Agreement

Plain = dict[str, Any]
Pairs = dict[str, tuple[Any, Any]]


def certify_folder(
    run: Path,
    key: "Ed25519PrivateKey",
    name: str = "",
    peers: Sequence[str] = (),
    out: Path | None = None,
) -> Path:
    """Sign the statement of a run folder.

    In the folder of a site that took part in an agreement, the agreement says who signs and who the
    others are.
    """
    if (run / "agreement.json").is_file():
        agreed, keys = _agreed(run, read_statement(run), key)
        name, peers = name or agreed, peers or keys
    return certify_run(run, key, name, peers, out)


def _agreed(
    run: Path, statement: dict[str, Any], key: "Ed25519PrivateKey"
) -> tuple[str, list[str]]:
    """Return the signer's name and all parties' keys, if the key is the one that was agreed on."""
    terms = load_agreement(run / "agreement.json")
    if statement["settings_digest"] != terms.digest:
        raise InputError(
            f"{str(run / 'agreement.json')!r} is of another run than the statement beside it; put "
            "back the one that was there."
        )
    party = terms.parties[statement["agents"][0]["agent"]]
    if public_key(key) != party.key:
        raise InputError(
            f"The agreement in {str(run)!r} names the key {party.key[:12]}… for {party.name!r}, "
            f"this one is {public_key(key)[:12]}…; sign with the site's signing.key."
        )
    return party.name, [each.key for each in terms.parties]


def verify_certificates(
    paths: Sequence[Path],
    trusted: Sequence[str] = (),
    ledger: Path | None = None,
    run: Path | None = None,
    agreement: Path | None = None,
) -> list[Verdict]:
    """Check certificates of one run; who has the `agreement` knows all parties' keys from it."""
    if agreement is None:
        return verified(paths, trusted, ledger, run)
    terms = load_agreement(agreement)
    return verified(paths, trusted, ledger, run, lambda body: require_agreed(body, terms))


def require_agreed(body: Plain, terms: Agreement) -> str:
    """Refuse a certificate that says anything else than its signer agreed to."""
    digest, key = body["statement"]["settings_digest"], body["signer"]["key"]
    if digest != terms.digest:
        raise CertificateError(
            f"It is of the agreement {digest[:12]}…, the one given is {terms.digest[:12]}…."
        )
    keys = [party.key for party in terms.parties]
    if key not in keys:
        raise CertificateError(f"It is signed with {key}, which is no party's.")
    pairs = {**_own(body, terms, keys.index(key)), **_common(body["statement"], terms)}
    found = [
        f"{name} is {said!r}, agreed is {agreed!r}"
        for name, (said, agreed) in pairs.items()
        if said != agreed
    ]
    if found:
        raise CertificateError("It is not as agreed: " + "; ".join(found) + ".")
    return f"name, key and terms as agreed ({terms.digest[:12]}…)"


def _own(body: Plain, terms: Agreement, i: int) -> Pairs:
    """Return what is said and agreed of the signer itself."""
    party, agents = terms.parties[i], body["statement"]["agents"]
    others = sorted(each.key for each in terms.parties if each is not party)
    claimed = [agent["claimed"] for agent in agents if agent.get("claimed") is not None]
    return {
        "signer.name": (body["signer"]["name"], party.name),
        "peers": (body["peers"], others),
        "agents": (
            [[agent[name] for name in ("agent", "name", "records", "weight")] for agent in agents],
            [[i, party.name, party.records, terms.site_weights[i]]],
        ),
        "claimed": (claimed, [terms.epsilon_of(i)] * len(claimed)),
    }


def _common(statement: Plain, terms: Agreement) -> Pairs:
    """Return what is said and agreed of the run."""
    run, names = statement["run"], ("algorithm", "rounds", "eta", "regularisation", "beta")
    losses = (terms.loss, f"one-vs-rest {terms.loss}", "multinomial")
    return {
        "schema_digest": (statement["schema_digest"], terms.schema),
        "delta": (statement["delta"], terms.delta),
        "adjacency": (statement["adjacency"], terms.adjacency),
        "calibration": (statement["claim"]["calibration"], terms.calibration),
        **_trust(statement, terms),
        **{f"run.{name}": (run[name], getattr(terms, name)) for name in names},
        "run.loss": (run["loss"], run["loss"] if run["loss"] in losses else terms.loss),
        "run.weights": (run["weights"], terms.weighting),
        "run.parameters": (run["parameters"], terms.parameters),
        "run.edges": (run["edges"], [list(edge) for edge in terms.edges]),
    }


def _trust(statement: Plain, terms: Agreement) -> Pairs:
    """Return what is said and agreed of whom sites trust."""
    records = sum(party.records for party in terms.parties)
    agreed = TrustClaim.of(terms, len(terms.parties), records).to_dict()
    said, names = statement["trust"], ("kind", "sites", "colluding", "repeats", "records")
    return {f"trust.{name}": (said[name], agreed[name]) for name in names}
