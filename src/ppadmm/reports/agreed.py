"""Certificates held against the agreement that all parties signed."""

from typing import Any

from ppadmm.agreement import Agreement
from ppadmm.errors import CertificateError

Plain = dict[str, Any]
Pairs = dict[str, tuple[Any, Any]]


def require_agreed(body: Plain, terms: Agreement) -> None:
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


def _own(body: Plain, terms: Agreement, i: int) -> Pairs:
    """Return what is said and agreed of the signer itself."""
    party, agents = terms.parties[i], body["statement"]["agents"]
    others = sorted(each.key for each in terms.parties if each is not party)
    claimed = [agent["claimed"] for agent in agents if agent.get("claimed") is not None]
    return {
        "signer.name": (body["signer"]["name"], party.name),
        "peers": (body["peers"], others),
        "agents": (
            [[agent["agent"], agent["name"], agent["records"]] for agent in agents],
            [[i, party.name, party.records]],
        ),
        "claimed": (claimed, [party.epsilon] * len(claimed)),
    }


def _common(statement: Plain, terms: Agreement) -> Pairs:
    """Return what is said and agreed of the run."""
    run, names = statement["run"], ("algorithm", "rounds", "eta", "regularisation", "beta")
    return {
        "schema_digest": (statement["schema_digest"], terms.schema),
        "delta": (statement["delta"], terms.delta),
        "adjacency": (statement["adjacency"], terms.adjacency),
        "calibration": (statement["claim"]["calibration"], terms.calibration),
        **{f"run.{name}": (run[name], getattr(terms, name)) for name in names},
        "run.parameters": (run["parameters"], terms.parameters),
        "run.edges": (run["edges"], [list(edge) for edge in terms.edges]),
    }
