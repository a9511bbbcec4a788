"""Certificates of one run: each holds by itself, and together they must say the same."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ppadmm.errors import CertificateError
from ppadmm.statements import keys
from ppadmm.statements.certificate import check, issue
from ppadmm.statements.consistency import ENDED, absent, differences, require_together
from tests.small_runs import resigned
from tests.statements.signed import KEY, OTHER, certificate, statement

OURS, THEIRS = keys.public_key(KEY), keys.public_key(OTHER)


def body(run="pooled", key=KEY, peers=(OURS, THEIRS), **changes):
    options = {"name": "us", "model": b"m", "releases": b"r", "issued": "2026-01-01", **changes}
    return check(issue(statement(run), key, peers=peers, **options)).certificate


def test_two_who_name_each_other_agree():
    one, two = body(), body(key=OTHER)
    assert one["peers"] == [THEIRS]
    assert differences([one, two]) == []
    assert absent([one]) == [THEIRS]
    assert absent([one, two]) == []


def test_one_alone_has_nobody_to_differ_from():
    assert differences([body()]) == []


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"peers": ()}, f"'bank' does not name {OURS} of 'us' among its peers"),
        ({"model": b"x"}, "model differs ('us': "),
        ({"name": "us", "model": b"x"}, f"'us' ({THEIRS[:12]}…): "),
        ({"key": KEY}, f"2 of them are signed with the same key {OURS} ('us', 'bank')"),
    ],
)
def test_who_differs_in_what_is_named(other, words):
    two = body(**{"key": OTHER, "name": "bank", **other})
    with pytest.raises(CertificateError) as refused:
        require_together([body(), two])
    assert words in str(refused.value)


def test_other_runs_differ_in_every_entry_that_differs():
    found = differences([body(), body("one-shot", key=OTHER, name="bank", model=b"x")])
    assert {line.split()[0] for line in found} >= {"settings_digest", "run.algorithm", "model"}
    assert "run.algorithm differs ('us': centralised; 'bank': one-shot)" in found


def test_a_third_party_that_one_of_them_names_is_a_difference():
    third = keys.public_key(Ed25519PrivateKey.from_private_bytes(bytes(range(2, 34))))
    found = differences([body(), body(key=OTHER, name="bank", peers=(OURS, third))])
    assert found == [f"'us' does not name {third} among its peers"]


def test_who_ended_before_its_time_has_no_common_model():
    def end(content):
        content["statement"]["warnings"].append(f"{ENDED}a neighbour stayed away.")

    two = certificate(key=OTHER, peers=[OURS], model=b"its own")
    ended = check(resigned(two, OTHER, end)).certificate
    assert differences([body(), ended]) == []
    assert differences([body(), check(two).certificate]) != []


def test_the_command_says_who_differs_and_its_exit_code_is_nine(command, tmp_path):
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_bytes(certificate(peers=[THEIRS]))
    two.write_bytes(certificate(key=OTHER, peers=[OURS]))
    assert command("verify", one, two).code == 0
    two.write_bytes(certificate(key=OTHER, peers=[OURS], model=b"x"))
    done = command("verify", one, two)
    assert (done.code, done.out) == (9, "")
    assert done.err.startswith("Error: They do not agree: model differs ('us' (")
    assert len(done.err.splitlines()) == 1
    assert command("verify", two).code == 0
