import re

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from ppadmm.peers.settings import PeerFile


def printed_fingerprint(text):
    return re.findall(r"(?:[0-9a-f]{4} ){7}[0-9a-f]{4}", text)[-1]


@pytest.fixture
def set_up(command):
    """An authority, a site and its request."""
    authority = command("peer", "ca", "new", "stroke study")
    site = command("peer", "new", "hospital-a", "--agent", 0, "--endpoint", "a.example.org:7447")
    asked = command("peer", "request", "hospital-a/peer.toml")
    assert (authority.code, site.code, asked.code) == (0, 0, 0)
    return printed_fingerprint(authority.out), printed_fingerprint(asked.out)


def test_a_site_joins_by_files_and_fingerprints(command, set_up, tmp_path):
    authority, asked = set_up
    done = command("peer", "approve", "hospital-a.request.pem", "--fingerprint", asked)
    assert done.code == 0
    assert "a.example.org" in done.out
    assert printed_fingerprint(done.out) == authority
    short = authority.replace(" ", "").upper()
    arguments = ("hospital-a/peer.toml", "hospital-a.reply.pem", "--fingerprint", short)
    assert command("peer", "join", *arguments).code == 0
    peer = PeerFile.load(tmp_path / "hospital-a" / "peer.toml")
    assert peer.credentials().certificate.is_file()
    assert (peer.name, peer.agent, peer.listen) == ("hospital-a", 0, "tls/0.0.0.0:7447")


def test_a_wrong_fingerprint_writes_nothing(command, set_up, tmp_path):
    authority, asked = set_up
    done = command("peer", "approve", "hospital-a.request.pem", "--fingerprint", authority)
    assert done.code == 2
    assert "nothing was written" in done.err
    assert not (tmp_path / "hospital-a.reply.pem").exists()
    command("peer", "approve", "hospital-a.request.pem", "--fingerprint", asked)
    done = command(
        "peer", "join", "hospital-a/peer.toml", "hospital-a.reply.pem", "--fingerprint", asked
    )
    assert done.code == 2
    assert not (tmp_path / "hospital-a" / "keys" / "authority.pem").exists()


@pytest.mark.parametrize("answer", [True, False])
def test_without_a_fingerprint_a_person_is_asked(command, set_up, tmp_path, monkeypatch, answer):
    monkeypatch.setattr("typer.confirm", lambda *_, **__: answer)
    done = command("peer", "approve", "hospital-a.request.pem")
    assert done.code == (0 if answer else 2)
    assert (tmp_path / "hospital-a.reply.pem").exists() == answer


def test_nothing_is_overwritten(command, set_up, tmp_path):
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = [
        command("peer", "ca", "new", "stroke study"),
        command("peer", "new", "hospital-a", "--agent", 0),
        command("peer", "request", "hospital-a/peer.toml"),
    ]
    assert [done.code for done in again] == [2, 2, 2]
    assert all("not overwritten" in done.err for done in again)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_a_revoked_site_cannot_come_back_under_its_name(command, set_up, tmp_path):
    _, asked = set_up
    command("peer", "approve", "hospital-a.request.pem", "--fingerprint", asked)
    done = command("peer", "ca", "revoke", "hospital-a", "--reason", "laptop stolen")
    assert done.code == 0
    assert (tmp_path / "ca" / "revoked.json").is_file()
    (tmp_path / "hospital-a.reply.pem").unlink()
    done = command("peer", "approve", "hospital-a.request.pem", "--fingerprint", asked)
    assert done.code == 2
    assert "was revoked and stays so" in done.err


def test_missing_files_and_bad_names_are_one_sentence(command):
    for arguments in (
        ("request", "none.toml"),
        ("approve", "none.pem"),
        ("new", "../up", "--agent", 0),
        ("new", "a", "--agent", -1),
        ("new", "a", "--agent", 0, "--endpoint", "nowhere"),
    ):
        done = command("peer", *arguments)
        assert done.code == 2, arguments
        assert done.err.startswith("Error: "), arguments
        assert len(done.err.splitlines()) == 1


class TestAnEncryptedAuthority:
    """Its key decides who may take part: a stolen file alone lets nobody in."""

    @pytest.fixture
    def asked(self, command, tmp_path):
        (tmp_path / "secret").write_text("one word\n")
        (tmp_path / "wrong").write_text("another\n")
        made = command("peer", "ca", "new", "study", "--passphrase-file", "secret", "--json")
        assert (made.code, made.json["encrypted"]) == (0, True)
        command("peer", "new", "hospital-a", "--agent", 0)
        return printed_fingerprint(command("peer", "request", "hospital-a/peer.toml").out)

    def test_its_file_is_encrypted_for_openssl_too(self, asked, tmp_path):
        key = (tmp_path / "ca" / "authority.key").read_bytes()
        assert key.startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
        with pytest.raises(TypeError, match="encrypted"):
            load_pem_private_key(key, None)
        assert load_pem_private_key(key, b"one word").curve.name == "secp256r1"

    def test_approve_and_revoke_need_the_passphrase(self, command, asked, tmp_path, monkeypatch):
        approve = ("peer", "approve", "hospital-a.request.pem", "--fingerprint", asked)
        revoke = ("peer", "ca", "revoke", "hospital-a")
        self.require_refused(command, approve, tmp_path)
        assert not (tmp_path / "hospital-a.reply.pem").exists()
        assert not (tmp_path / "ca" / "issued.json").exists()
        assert command(*approve, "--passphrase-file", "secret").code == 0
        self.require_refused(command, revoke, tmp_path)
        assert not (tmp_path / "ca" / "revoked.json").exists()
        monkeypatch.setenv("PPADMM_PASSPHRASE", "one word")
        assert command(*revoke).code == 0
        refused = command("peer", "approve", "hospital-a.request.pem", "--fingerprint", asked,
                          "--out", "again.pem")  # fmt: skip
        assert "was revoked and stays so" in refused.err

    def require_refused(self, command, words, tmp_path):
        untold, wrong = command(*words), command(*words, "--passphrase-file", "wrong")
        assert (untold.code, wrong.code) == (2, 2)
        assert "is encrypted; give its passphrase in PPADMM_PASSPHRASE" in untold.err
        assert "The passphrase does not open" in wrong.err

    def test_one_without_a_passphrase_says_so(self, command):
        made = command("peer", "ca", "new", "study", "--json")
        assert made.json["encrypted"] is False
        assert "--passphrase encrypts it" in command("peer", "ca", "new", "b", "--folder", "b").out
