import functools
import json
import os
import re
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from ppadmm.errors import InputError
from ppadmm.files import write_private
from ppadmm.peers.agreement import Agreement, Party
from ppadmm.peers.pki import certificates, enrolment
from ppadmm.peers.pki.authority import Authority, _usage
from ppadmm.peers.pki.enrolment import Keys
from ppadmm.peers.pki.names import host_of
from ppadmm.peers.pki.revocations import read_revocations
from ppadmm.peers.settings import PeerFile, template
from ppadmm.statements.keys import private_pem, read_any_key


@pytest.fixture
def authority(tmp_path):
    made = Authority(tmp_path / "ca")
    made.make("stroke study")
    return made


@pytest.fixture
def keys(tmp_path):
    made = Keys(tmp_path / "site")
    made.make()
    return made


def asked(keys, name="hospital-a", hosts=("a.example.org", "10.0.0.7")):
    return enrolment.request(keys, name, hosts)


def test_private_keys_are_the_owners_alone_and_never_overwritten(keys, authority):
    for path in (keys.tls, keys.signing, authority.key_file):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = keys.tls.read_bytes()
    with pytest.raises(InputError, match="exists already and is not overwritten"):
        keys.make()
    with pytest.raises(InputError, match="exists already and is not overwritten"):
        write_private(keys.tls, b"x")
    with pytest.raises(InputError, match="exists already and is not overwritten"):
        authority.make("again")
    assert keys.tls.read_bytes() == before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no file modes")
def test_a_key_that_others_can_read_is_refused(keys):
    keys.tls.chmod(0o640)
    with pytest.raises(InputError, match="readable by others; give: chmod 600"):
        read_any_key(keys.tls)


def test_a_request_holds_the_public_halves_and_nothing_secret(keys, tmp_path):
    found = asked(keys)
    file = tmp_path / "request.pem"
    file.write_bytes(found.public_bytes(Encoding.PEM))
    read = enrolment.read_request(file)
    assert certificates.common_name(read) == "hospital-a"
    assert certificates.alternatives(read) == ("a.example.org", "10.0.0.7")
    assert certificates.signing_key_of(read) == keys.public_signing_key()
    assert b"PRIVATE" not in file.read_bytes()


def test_a_request_that_was_tampered_with_is_refused(keys, tmp_path):
    data = asked(keys).public_bytes(Encoding.DER).replace(b"hospital-a", b"hospital-b")
    file = tmp_path / "request.pem"
    file.write_bytes(x509.load_der_x509_csr(data).public_bytes(Encoding.PEM))
    with pytest.raises(InputError, match="not signed by its own key"):
        enrolment.read_request(file)
    file.write_bytes(b"hello")
    with pytest.raises(InputError, match="no certificate request"):
        enrolment.read_request(file)


def test_request_approve_join(keys, authority):
    reply = authority.approve(asked(keys))
    own = enrolment.join(keys, "hospital-a", reply)
    assert certificates.common_name(own) == "hospital-a"
    assert certificates.alternatives(own) == ("a.example.org", "10.0.0.7")
    assert certificates.signing_key_of(own) == keys.public_signing_key()
    left = own.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=364) < left <= timedelta(days=365)
    assert certificates.read_certificates(keys.certificate) == [own]
    assert certificates.read_certificates(keys.authority) == [authority.certificate]
    assert enrolment.join(keys, "hospital-a", authority.approve(asked(keys))) != own


def test_a_site_that_only_dials_out_needs_no_address(keys, authority):
    own = enrolment.join(keys, "hospital-a", authority.approve(asked(keys, hosts=())))
    assert certificates.alternatives(own) == ()


def test_only_what_was_shown_is_taken_from_a_request(keys, authority):
    """A request that asks to be an authority itself gets a plain certificate."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hospital-a")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    names = x509.SubjectAlternativeName([x509.DNSName("a.example.org")])
    greedy = builder.add_extension(names, False).sign(read_any_key(keys.tls), hashes.SHA256())
    own = authority.approve(greedy)[0]
    assert not own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not own.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_join_refuses_what_is_not_for_this_site(keys, authority, tmp_path):
    reply = authority.approve(asked(keys))
    with pytest.raises(InputError, match="is for 'hospital-a', this site is 'other'"):
        enrolment.join(keys, "other", reply)
    others = Keys(tmp_path / "other")
    others.make()
    with pytest.raises(InputError, match="is not for the key"):
        enrolment.join(others, "hospital-a", reply)
    with pytest.raises(InputError, match="holds no authority's certificate"):
        enrolment.join(keys, "hospital-a", reply[:1])
    foreign = Authority(tmp_path / "foreign")
    foreign.make("stroke study")
    with pytest.raises(InputError, match="was not issued by 'stroke study'"):
        enrolment.join(keys, "hospital-a", [reply[0], foreign.certificate])
    assert not keys.certificate.exists()
    assert not keys.authority.exists()


def test_another_authority_is_not_taken_in_silently(keys, authority, tmp_path):
    enrolment.join(keys, "hospital-a", authority.approve(asked(keys)))
    foreign = Authority(tmp_path / "foreign")
    foreign.make("stroke study")
    with pytest.raises(InputError, match="The authority differs from the one in"):
        enrolment.join(keys, "hospital-a", foreign.approve(asked(keys)))


def test_an_expired_certificate_is_refused_with_its_dates(keys, authority):
    reply = authority.approve(asked(keys))
    later = datetime.now(UTC) + timedelta(days=366)
    with pytest.raises(InputError, match="send a new request, or set the clock"):
        enrolment.join(keys, "hospital-a", reply, now=later)


def test_a_name_is_given_to_one_key_only(keys, authority, tmp_path):
    authority.approve(asked(keys))
    authority.approve(asked(keys))
    others = Keys(tmp_path / "other")
    others.make()
    with pytest.raises(InputError, match="already has a certificate for another key"):
        authority.approve(asked(others))
    later = datetime.now(UTC) + timedelta(days=366)
    authority.approve(asked(others), now=later)


@pytest.mark.parametrize("name", ["", " a", "a/b", "a\nb", "x" * 65, "ä", "*", "../up"])
def test_names_that_cannot_be_in_a_file_or_a_log_are_refused(name, keys):
    with pytest.raises(InputError, match="Expected a name"):
        asked(keys, name)


def test_a_revoked_name_stays_revoked(keys, authority, tmp_path):
    own = enrolment.join(keys, "hospital-a", authority.approve(asked(keys)))
    authority.revoke("hospital-a", "laptop stolen")
    found = read_revocations(authority.revocations, [authority.certificate])
    assert found.number == 1
    assert found.names == {"hospital-a"}
    assert found.serials == {f"{own.serial_number:x}"}
    with pytest.raises(InputError, match=r"'hospital-a' was revoked \(laptop stolen\)"):
        found.refuse("hospital-a")
    with pytest.raises(InputError, match="was revoked"):
        found.refuse("renamed", own.serial_number)
    found.refuse("hospital-b", own.serial_number + 1)
    with pytest.raises(InputError, match="was revoked and stays so"):
        authority.approve(asked(keys))
    with pytest.raises(InputError, match="No certificate was issued to 'hospital-b'"):
        authority.revoke("hospital-b")


def test_a_forged_list_of_revocations_is_refused(keys, authority, tmp_path):
    authority.approve(asked(keys))
    authority.revoke("hospital-a")
    content = json.loads(authority.revocations.read_text())
    roots = [authority.certificate]
    file = tmp_path / "forged.json"
    for changed in (
        {**content, "revoked": {}},
        {**content, "number": 9},
        {**content, "more": 1},
        {**content, "signature": "00"},
    ):
        file.write_text(json.dumps(changed))
        with pytest.raises(InputError, match="not signed by the authority"):
            read_revocations(file, roots)
    unreadable = '{"format": 1, "number": 1, "revoked": [], "signature": "zz"}'
    for text in ("", "[]", '{"format": 1}', unreadable):
        file.write_text(text)
        with pytest.raises(InputError, match="holds no list of revocations"):
            read_revocations(file, roots)


def organisations_own(folder):
    """An organisation's authority with one in between, of P-384, made without our code."""
    now = datetime.now(UTC)

    def make(name, issuer, key, signer, depth):
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        above = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer or subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=900))
            .add_extension(x509.BasicConstraints(ca=True, path_length=depth), True)
            .add_extension(_usage(authority=True), True)
            .add_extension(own, False)
            .add_extension(above, False)
        )
        return builder.sign(signer, hashes.SHA384())

    keys = [ec.generate_private_key(ec.SECP384R1()) for _ in range(2)]
    root = make("Clinic Root", None, keys[0], keys[0], 1)
    between = make("Clinic Issuing", root.subject, keys[1], keys[0], 0)
    issuing = Authority(folder)
    write_private(issuing.key_file, private_pem(keys[1]))
    issuing.file.write_bytes(certificates.pem([between]))
    return root, issuing


def test_an_organisations_own_authority_can_issue(keys, tmp_path):
    root, issuing = organisations_own(tmp_path / "own")
    reply = issuing.approve(asked(keys))
    own = enrolment.join(keys, "hospital-a", reply, [root])
    assert certificates.read_certificates(keys.authority) == [root]
    assert certificates.read_certificates(keys.certificate) == [own, issuing.certificate]


def peer_toml(tmp_path, extra="", name="hospital-a"):
    file = tmp_path / "peer.toml"
    file.write_text(template(name, 0, "127.0.0.1:7447") + extra)
    return file


NEIGHBOURS = """
[[neighbours]]
agent = 1
name = "hospital-b"
endpoint = "tls/b.example.org:7447"

[[neighbours]]
agent = 2
name = "hospital-c"

[[neighbours]]
agent = 3
name = "hospital-d"
via = "router"

[router]
name = "router"
endpoint = "router.example.org:7447"
"""


def joined(tmp_path, authority, extra=NEIGHBOURS):
    peer = PeerFile.load(peer_toml(tmp_path, extra))
    peer.keys.make()
    enrolment.join(peer.keys, peer.name, authority.approve(asked(peer.keys, hosts=peer.hosts)))
    return peer


def terms(edges, endpoints=("", "", "", "")):
    """An agreement between hospital-a to hospital-d."""
    parties = tuple(
        Party(f"hospital-{'abcd'[i]}", bytes([i + 1]).hex() * 32, 10, 1.0, endpoint)
        for i, endpoint in enumerate(endpoints)
    )
    return Agreement(
        parties=parties, edges=edges, schema="5e" * 32, parameters=12, rounds=3, eta=0.1,
        delta=1e-6, weights="records", nonce="n",
    )  # fmt: skip


STAR = ((0, 1), (0, 2), (0, 3))


def test_a_peer_file_gives_link_settings(tmp_path, authority):
    peer = joined(tmp_path, authority)
    assert peer.hosts == ("127.0.0.1",)
    link = peer.link_settings(terms(STAR))
    assert link.run == certificates.room([authority.certificate])
    assert link.cap == 1 << 20
    assert link.neighbours == {1: "hospital-b", 2: "hospital-c"}
    assert link.relayed == {3: "hospital-d"}
    assert link.listen == ("tls/0.0.0.0:7447",)
    assert link.connect == ("tls/b.example.org:7447",)
    assert link.router == ("router", "tls/router.example.org:7447")
    assert link.credentials.key == tmp_path / "keys" / "tls.key"


def test_neighbours_and_endpoints_follow_from_the_agreement(tmp_path, authority):
    peer = joined(tmp_path, authority, "")
    ends = ("a.example:1", "b.example:2", "", "d.example:4")
    links = {link.agent: link for link in peer.links(terms(STAR, ends))}
    assert {j: link.endpoint for j, link in links.items()} == {
        1: "b.example:2", 2: None, 3: "d.example:4"
    }  # fmt: skip
    other = replace(peer, agent=3, router={"name": "r", "endpoint": "r.example:1"})
    assert [link.endpoint for link in other.links(terms(STAR, ends))] == [None]
    silent = replace(peer, agent=2)
    assert silent.links(terms(STAR, ends))[0].endpoint == "a.example:1"
    with pytest.raises(InputError, match="can be dialled; name a router"):
        silent.links(terms(STAR))
    met = replace(silent, router=other.router)
    assert met.links(terms(STAR))[0].via == "router"


def test_blocks_that_contradict_the_agreement_are_named(tmp_path, authority):
    peer = joined(tmp_path, authority)
    with pytest.raises(InputError, match=r"names agents \[1, 2, 3\], the agreement \[1\]"):
        peer.link_settings(terms(((0, 1), (1, 2), (2, 3))))
    renamed = replace(peer.neighbours[0], name="bank")
    with pytest.raises(InputError, match="calls agent 1 'bank', the agreement 'hospital-b'"):
        replace(peer, neighbours=(renamed, *peer.neighbours[1:])).link_settings(terms(STAR))


def revoked(authority, folder, *names):
    """Have names revoked and put the list beside a site's keys."""
    for name in names:
        keys = Keys(folder / name)
        if not any(entry["name"] == name for entry in authority.issued()):
            keys.make()
            authority.approve(asked(keys, name))
        authority.revoke(name)
    (folder / "keys" / "revoked.json").write_bytes(authority.revocations.read_bytes())


def test_a_list_beside_the_keys_is_found(tmp_path, authority):
    peer = joined(tmp_path, authority)
    peer.refuse_revoked(terms(STAR))
    revoked(authority, tmp_path, "hospital-b")
    with pytest.raises(InputError, match="'hospital-b' was revoked"):
        peer.refuse_revoked(terms(STAR))
    assert peer.watch_revocations()().names == {"hospital-b"}
    peer.credentials()
    revoked(authority, tmp_path, "hospital-a")
    with pytest.raises(InputError, match="'hospital-a' was revoked"):
        peer.credentials()


def test_a_list_that_the_file_names_must_be_there(tmp_path, authority):
    peer = joined(tmp_path, authority)
    file = tmp_path / "peer.toml"
    file.write_text(file.read_text().replace("# revocations", "revocations"))
    elsewhere = PeerFile.load(file)
    with pytest.raises(InputError, match="There is no list of revocations at"):
        elsewhere.watch_revocations()
    revoked(authority, tmp_path, "hospital-b")
    (tmp_path / "keys" / "revoked.json").rename(tmp_path / "revoked.json")
    assert elsewhere.revocations().names == {"hospital-b"}
    assert peer.revocations().names == set()


def test_a_certificate_that_ran_out_is_refused_at_the_start(tmp_path, authority):
    peer = joined(tmp_path, authority)
    with pytest.raises(InputError, match="send a new request"):
        peer.credentials(datetime.now(UTC) + timedelta(days=366))
    peer.keys.certificate.unlink()
    with pytest.raises(InputError, match="`ppadmm peer join` puts it there"):
        peer.credentials()


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ('[[neighbours]]\nagent = -1\nname = "b"', "number of a neighbour"),
        ('[[neighbours]]\nagent = 1\nname = ""', "name of a neighbour"),
        ('[[neighbours]]\nagent = 1\nname = "b"\nport = 3', "unexpected entry 'port'"),
        ('[[neighbours]]\nagent = 1\nname = "b"\nendpoint = "b"', "Expected an endpoint like"),
        ('[[neighbours]]\nagent = 1\nname = "b"\nvia = "air"', 'or via = "router"'),
        ('[router]\nname = "r"', "needs name and endpoint"),
        ("[surprise]\nx = 1", "unexpected entry 'surprise'"),
        ("name = ", "no valid TOML"),
    ],
)
def test_a_peer_file_that_cannot_be_read_says_why(extra, words, tmp_path):
    with pytest.raises(InputError, match=words):
        PeerFile.load(peer_toml(tmp_path, extra))


@pytest.mark.parametrize("endpoint", [None, "127.0.0.1:7447"])
def test_every_setting_of_a_new_file_can_be_switched_on(endpoint, tmp_path):
    """Each block or line that is commented out, alone: it must land in the right section."""
    text, file = template("hospital-a", 0, endpoint), tmp_path / "peer.toml"
    blocks = re.findall(r"(?m)^# \[+\w+\]+\n(?:# \w+ = .*\n?)+", text)
    rest = functools.reduce(lambda left, block: left.replace(block, ""), blocks, text)
    lines = re.findall(r"(?m)^# \w+ = .*\n", rest)
    names = set()
    for part in (*blocks, *lines):
        file.write_text(text.replace(part, re.sub(r"(?m)^# ", "", part)))
        PeerFile.load(file)
        names.add(re.search(r"\w+", part)[0])
    assert names >= {"neighbours", "router", "status", "revocations"}
    assert ("listen" in names) == (endpoint is None)


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [
        ("tls/a.example.org:7447", "a.example.org"),
        ("a:1", "a"),
        ("[::1]:7447", "::1"),
        ("10.0.0.1:65535", "10.0.0.1"),
    ],
)
def test_the_host_of_an_endpoint(endpoint, host):
    assert host_of(endpoint) == host


@pytest.mark.parametrize("endpoint", ["a", "a:0", "a:65536", "tcp/a:1", "a:b", "::1:7447", ""])
def test_what_is_no_endpoint_is_refused(endpoint):
    with pytest.raises(InputError, match="Expected an endpoint like"):
        host_of(endpoint)
