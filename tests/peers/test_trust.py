"""Sums in what parties read, sign and certify: each its own share, all the same."""

import json
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ppadmm.data import Categorical, Label, Numeric, Schema
from ppadmm.errors import CertificateError
from ppadmm.peers.agreeing import agreement_text
from ppadmm.peers.agreement import Agreement, Party
from ppadmm.peers.certified import require_agreed
from ppadmm.peers.facts import facts_of
from ppadmm.peers.site import PublicPart
from ppadmm.statements.certificate import check, issue
from ppadmm.statements.consistency import differences
from ppadmm.statements.facts import disclosure_of, statement_of
from ppadmm.statements.trust_claim import TrustClaim

SCHEMA = Schema(
    (Numeric("age", 0, 100), Categorical("sex", ("f", "m"))),
    Label("y", ("1",), ("0",)),
    confirmed=True,
)
KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([i + 1]) * 32) for i in range(4)]
PUBLIC = [key.public_key().public_bytes_raw().hex() for key in KEYS]
TERMS = Agreement(
    parties=tuple(
        Party(f"site-{i}", key, 500 * (i + 1), 1.0 + i) for i, key in enumerate(PUBLIC)
    ),
    edges=((0, 1), (1, 2), (2, 3)), schema=SCHEMA.with_knots(0).digest(),
    parameters=SCHEMA.with_knots(0).dimension, rounds=5, eta=0.01, delta=1e-6, weights="records",
    knots=0, nonce="n", algorithm="newton", trust="sum", colluding=1,
)  # fmt: skip


def certificate(number, terms=TERMS, change=None):
    """What a site signs at the end of a run under these terms, or of what it changed."""
    part = PublicPart(terms, number, SCHEMA.with_knots(0), "records")
    events = part.reserved[number]
    spoke = terms.rounds + terms.trusting.announced
    facts = facts_of(part, events, events, spoke, started="2026-11-18T00:00:00+00:00")
    said = disclosure_of(facts, statement_of(facts))
    if change is not None:
        change(said)
    key, name = KEYS[number], terms.parties[number].name
    options = {"model": b"m", "releases": b"r", "issued": "2026-11-18", "peers": PUBLIC}
    return check(issue(json.loads(json.dumps(said)), key, name=name, **options)).certificate


def test_the_agreement_says_first_whom_its_parties_trust():
    lines = agreement_text(TERMS).splitlines()
    assert lines[1].startswith("  Trust: sum, N = 4 sites, c = 1 of them may collude.")
    text = " ".join(" ".join(lines).split())
    assert "A site that lies, or adds no noise, cannot be noticed" in text
    assert "ε = 1 for all" in text
    local = agreement_text(replace(TERMS, trust="local"))
    assert local.splitlines()[1].startswith("  Trust: local, N = 4 sites.")
    assert "for all" not in local


def test_every_party_of_a_sum_has_the_strictest_epsilon():
    assert [TERMS.epsilon_of(i) for i in range(4)] == [1.0] * 4
    assert [replace(TERMS, trust="local").epsilon_of(i) for i in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_the_certificates_of_a_sum_are_as_agreed_and_agree():
    bodies = [certificate(i) for i in range(4)]
    assert differences(bodies) == []
    assert all("as agreed" in require_agreed(body, TERMS) for body in bodies)
    own = [body["statement"]["agents"][0] for body in bodies]
    assert {agent["claimed"] for agent in own} == {1.0}
    assert len({agent["noise"]["sigma1"] for agent in own}) == 1
    notes = " ".join(bodies[0]["statement"]["caveats"])
    assert "rests on the shares of the 3 of 4 sites that do not collude" in notes


def test_a_site_that_certifies_a_smaller_share_is_named():
    def change(said):
        """Fewer may collude, so that less noise is enough: true in itself, and not agreed."""
        plain = said["trust"]
        said["trust"] = TrustClaim("sum", 4, 0, 0, plain["records"]).to_dict()
        for name in said["agents"][0]["noise"]:
            said["agents"][0]["noise"][name] *= (3 / 4) ** 0.5

    other = certificate(2, change=change)
    with pytest.raises(CertificateError, match=r"trust.colluding is 0, agreed is 1"):
        require_agreed(other, TERMS)
    found = differences([certificate(0), certificate(1), other])
    assert any(line.startswith("trust.colluding differs") for line in found)
    assert any("'site-2' adds a share of" in line for line in found)


def test_a_local_run_is_not_what_was_agreed():
    other = certificate(1, replace(TERMS, trust="local"))
    with pytest.raises(CertificateError, match="of the agreement"):
        require_agreed(other, TERMS)
