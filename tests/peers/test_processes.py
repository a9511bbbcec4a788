"""Peers as people run them: a process each, mutual TLS, ledgers on disk.

PPADMM_FULL=1 runs every case; without it a few of each (docs/peers.md has the command).
"""

import json
import os
import signal
import time

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ppadmm.engines import local
from ppadmm.errors import CertificateError
from ppadmm.ledger.chain import read_rows
from ppadmm.ledger.run import decode
from ppadmm.peers import control
from ppadmm.peers.certified import verify_certificates
from ppadmm.peers.messages import FINAL, VALUE, Codec, kind_of
from ppadmm.statements.keys import read_key
from tests.peers.sites import (
    SEED,
    Peer,
    coefficients,
    free_ports,
    local_trace,
    make_router,
    make_sites,
    run_sites,
    until,
)
from tests.small_runs import resigned

pytest.importorskip("zenoh", reason="eclipse-zenoh (extra peer) is not installed")
FULL = bool(os.environ.get("PPADMM_FULL"))


def spent(sites, i, simulated=False):
    """What one site reserved and charged; nothing may be open or spent twice."""
    (run,) = sites.books(i, simulated).runs.values()
    assert run.outcome == "finished"
    assert sorted(run.releases) == [(i, t) for t in range(sites.agreement.rounds)]
    return run.reserved[i], run.charged[i]


def test_five_peers_give_the_model_of_the_local_engine(tmp_path):
    sites = make_sites(tmp_path)
    codes, peers = run_sites(sites, "--test-seed", SEED)
    assert codes == [0] * 5, [peer.words() for peer in peers]
    assert np.array_equal(
        coefficients(sites), local_trace(sites).model(sites.agreement.site_weights)[0]
    )
    assert json.loads(peers[0].words())["private"] is False
    statement = (sites.files[0].parent / "results" / "statement.txt").read_text()
    assert "NOT PRIVATE: the noise follows from the seed 7" in statement
    assert not sites.books(0).runs


def test_loss_repetition_and_reordering_over_tls_change_nothing(tmp_path):
    sites = make_sites(tmp_path, rounds=30 if FULL else 12)
    seam = {"loss": 0.3, "repeat": 0.3, "delay": 0.5}
    codes, peers = run_sites(sites, "--test-seed", SEED, seam=seam)
    assert codes == [0] * 5, [peer.words() for peer in peers]
    assert np.array_equal(
        coefficients(sites), local_trace(sites).model(sites.agreement.site_weights)[0]
    )


KILLS = [(1, 0), (0, 5), (3, 11), (2, 20)]
if FULL:
    KILLS = [(k % 5, r) for k, r in enumerate([*range(0, 24, 2), 23, 23, 23])]


@pytest.mark.parametrize("kills", [[k] for k in KILLS] if FULL else [KILLS[:2], KILLS[2:]])
def test_kill_and_restart_change_neither_the_model_nor_what_is_spent(kills, tmp_path):
    """Round 0 is before the first word. To solver tolerance: a restarted solve starts elsewhere."""
    sites = make_sites(tmp_path, rounds=24)
    options, seam = ("--test-seed", SEED), {"pause": 0.02}
    peers = [Peer(file, *options, seam=seam) for file in sites.files]
    try:
        for k, after in kills:
            until(lambda k=k, after=after: sites.made(k, True) >= after)
            peers[k].kill()
            time.sleep(3)
            peers[k] = Peer(sites.files[k], *options, seam=seam)
        assert [peer.wait() for peer in peers] == [0] * 5, [peer.words() for peer in peers]
    finally:
        for peer in peers:
            peer.kill()
    trace = local_trace(sites)
    assert np.allclose(
        coefficients(sites), trace.model(sites.agreement.site_weights)[0], rtol=0, atol=1e-7
    )
    for i in range(5):
        reserved, charged = spent(sites, i, simulated=True)
        assert charged == reserved


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    """A private run in which two sites were killed at no particular moment; all sent is noted."""
    sites = make_sites(tmp_path_factory.mktemp("private"), rounds=16)
    seam = {"pause": 0.02, "note": True}
    peers = [Peer(file, seam=seam) for file in sites.files]
    for k, after in ((2, 3), (4, 9)):
        until(lambda k=k, after=after: sites.made(k) >= after)
        peers[k].kill()
        peers[k] = Peer(sites.files[k], seam=seam)
    assert [peer.wait() for peer in peers] == [0] * 5, [peer.words() for peer in peers]
    return sites


def test_a_private_run_survives_kills_and_pays_once(private):
    coefficients(private)
    for i in range(5):
        reserved, charged = spent(private, i)
        assert all(charged[charge] <= times for charge, times in reserved.items())
        assert sum(charged.values()) >= 15


def test_a_report_explains_no_curve_that_it_lacks(private):
    folders = [file.parent for file in private.files]
    page = (folders[0] / "results" / "report.html").read_text("utf-8")
    assert "it has no curve over all agents to follow" in page
    assert "Averages that come together" not in page


def test_five_certificates_verify_and_name_each_other(private):
    folders = [file.parent for file in private.files]
    paths = paths_of(private)
    keys = [party.key for party in private.agreement.parties]
    verdicts = verify_certificates(paths, keys, folders[0] / "site.ledger", folders[0] / "results")
    assert all(verdict.statement["private"] for verdict in verdicts)
    assert {v.statement["settings_digest"] for v in verdicts} == {private.agreement.digest}
    assert len({v.certificate["model"] for v in verdicts}) == 1
    assert [v.statement["agents"][0]["agent"] for v in verdicts] == list(range(5))
    assert all(v.statement["epsilon"] <= 2.0 for v in verdicts)


def paths_of(sites):
    return [file.parent / "results" / "certificate.json" for file in sites.files]


def lie(sites, i, folder, change, key=None):
    """All certificates, of which site i has changed its own and signed it anew."""
    paths = paths_of(sites)
    key = read_key(sites.files[i].parent / "keys" / "signing.key") if key is None else key
    changed = folder / "certificate.json"
    changed.write_bytes(resigned(paths[i].read_bytes(), key, change))
    return [changed if k == i else path for k, path in enumerate(paths)]


def put(*path):
    """Overwrite one entry."""
    *way, last, value = path

    def change(body):
        for name in way:
            body = body[name]
        body[last] = value

    return change


def as_site_one(body):
    agent = body["statement"]["agents"][0]
    agent["agent"], agent["name"], body["signer"]["name"] = 1, "site-1", "site-1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            put("model", "ab" * 32),
            "model differs ('site-3': abababababab…; 'site-0', ",
        ),
        (put("statement", "settings_digest", "ab" * 32), "settings_digest differs ('site-3': abab"),
        (put("statement", "run", "rounds", 17), "run.rounds differs ('site-3': 17; "),
        (
            put("statement", "run", "edges", [[0, 1], [1, 2], [2, 3], [3, 4]]),
            "run.edges differs ('site-3': ",
        ),
        (put("peers", []), "'site-3' does not name "),
        (put("signer", "name", "site-9"), "'site-9' speaks of the records of 'site-3'"),
        (as_site_one, "all speak of agent 1"),
    ],
)
def test_a_site_that_lies_in_its_own_certificate_is_named(private, tmp_path, change, words):
    """Each holds by itself: the signature is good and ε is what its events give."""
    paths = lie(private, 3, tmp_path, change)
    verify_certificates([paths[3]], [], None, None)
    with pytest.raises(CertificateError) as refused:
        verify_certificates(paths, [], None, None)
    assert words in str(refused.value)


def renamed(body):
    body["statement"]["agents"][0]["name"] = body["signer"]["name"] = "clinic"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (renamed, "signer.name is 'clinic', agreed is 'site-3'"),
        (
            put("statement", "agents", 0, "records", 4000),
            "names 2000 records, its agents have 4000",
        ),
        (put("statement", "run", "rounds", 17), "run.rounds is 17, agreed is 16"),
        (put("peers", []), "peers is [], agreed is ["),
        (put("statement", "settings_digest", "ab" * 32), "of the agreement abababababab…"),
    ],
)
def test_a_certificate_that_is_not_as_agreed_is_named(private, tmp_path, change, words):
    """Also where nobody else says otherwise, as with a name or a number of records."""
    agreement = private.files[0].parent / "agreement.json"
    for verdict in verify_certificates(paths_of(private), [], None, None, agreement):
        assert not any("--trust" in text for text in verdict.unchecked)
    paths = lie(private, 3, tmp_path, change)
    with pytest.raises(CertificateError) as refused:
        verify_certificates(paths[3:4], [], None, None, agreement)
    assert words in str(refused.value)


def test_another_key_in_the_place_of_a_site_is_seen(private, tmp_path):
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw().hex()
    paths = lie(private, 3, tmp_path, put("signer", "key", public), key)
    with pytest.raises(CertificateError, match=f"'site-0' does not name {public} of 'site-3'"):
        verify_certificates(paths, [], None, None)
    with pytest.raises(CertificateError, match="which is no party's"):
        verify_certificates(paths, [], None, None, private.files[0].parent / "agreement.json")


def test_parties_whose_certificates_are_missing_are_counted(private):
    verdicts = verify_certificates(paths_of(private)[:3], [], None, None)
    assert "the certificates of 2 other parties, with the keys " in verdicts[0].unchecked[2]
    assert "the same model" in verdicts[0].checked[-1]


def messages(path):
    """All that a site gave to its links, in order."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8])
        yield data[at + 8 : at + 8 + length]
        at += 8 + length


def released(sites, i):
    """What the ledger of one site says was released, by round."""
    rows = read_rows(sites.files[i].parent / "site.ledger")
    found = {}
    for row in rows:
        body = json.loads(row.body)
        if body["kind"] == "release":
            found[body["round"]] = decode(row.payload)
    return found


def average(sent):
    """The average of the last half of what was spoken."""
    rounds = sorted(sent)
    releases = np.array([sent[t].value for t in rounds])[:, None, None]
    spoke = np.array([sent[t].spoke for t in rounds])[:, None, None]
    return local.Trace(releases, spoke).agent_models()[0, 0]


def test_every_byte_that_was_sent_is_in_the_ledger_or_public(private):
    """Values are the ledger's releases, finals their averages, notes hold no number but clocks."""
    terms = private.agreement
    keys = {i: party.public_key() for i, party in enumerate(terms.parties)}
    codec = Codec(terms.run, terms.parameters, keys)
    ledgers = [released(private, i) for i in range(5)]
    for i, file in enumerate(private.files):
        kinds = set()
        for data in messages(file.parent / "sent.bin"):
            kinds.add(kind_of(data))
            if kind_of(data) == VALUE:
                message = codec.decode(data)
                sent = ledgers[i][message.round]
                assert message.agent == i
                assert np.array_equal(message.heard.value[0], sent.value)
                assert np.array_equal(message.heard.total[0], sent.total)
            elif kind_of(data) == FINAL:
                final = codec.decode(data, FINAL)
                assert np.array_equal(final.heard.value[0], average(ledgers[final.agent]))
                assert np.array_equal(final.heard.total[0], ledgers[final.agent][15].total)
            else:
                assert_public(control.decode(data), i, terms)
        assert kinds == {VALUE, FINAL, control.NOTE}


def assert_public(note, i, terms):
    from dataclasses import asdict

    assert (note.agent, note.digest, note.reason) == (i, terms.digest, "")
    assert abs(note.time - time.time()) < 3600
    assert note.agreement in (None, json.loads(json.dumps(asdict(terms))))
    assert all(terms.is_signed(k, bytes.fromhex(s)) for k, s in note.signatures.items())
    assert 0 <= note.round <= terms.rounds
    assert set(note.finals) <= set(range(5))


def test_a_run_is_not_made_twice(private):
    """The same agreement again: refused, or rebuilt from what is on disk, and never paid again."""
    file = private.files[1]
    before = (file.parent / "site.ledger").read_bytes(), private.model(1)
    again = Peer(file)
    assert again.wait() == 2
    assert "exists already" in again.words()
    (file.parent / "results").rename(file.parent / "moved")
    assert Peer(file).wait() == 0
    assert private.model(1) == before[1]
    assert len(private.books(1).runs) == 1


def test_a_missing_site_ends_the_run_with_valid_results(tmp_path):
    sites = make_sites(tmp_path, n=3, rounds=200, patience=2.0)
    peers = [Peer(file, seam={"pause": 0.02}) for file in sites.files]
    until(lambda: sites.made(1) >= 4)
    peers[1].kill()
    assert [peers[0].wait(), peers[2].wait()] == [10, 10], peers[0].words()
    for i in (0, 2):
        folder = sites.files[i].parent / "results"
        (verdict,) = verify_certificates([folder / "certificate.json"], [], None, folder)
        assert any("ended before its time" in w for w in verdict.statement["warnings"])
        assert json.loads((folder / "model.json").read_bytes())["ended"]
        (run,) = sites.books(i).runs.values()
        assert run.outcome == "finished"


def test_a_service_manager_can_stop_and_start_it(tmp_path):
    sites = make_sites(tmp_path, n=3, rounds=30)
    peers = [Peer(file, "--test-seed", SEED, seam={"pause": 0.02}) for file in sites.files]
    until(lambda: sites.made(1, True) >= 4)
    peers[1].kill(signal.SIGTERM)
    assert peers[1].wait() == 130
    assert "start it again to go on" in peers[1].words()
    peers[1] = Peer(sites.files[1], "--test-seed", SEED)
    assert [peer.wait() for peer in peers] == [0] * 3
    assert np.allclose(
        coefficients(sites),
        local_trace(sites).model(sites.agreement.site_weights)[0],
        rtol=0,
        atol=1e-7,
    )


def test_sites_that_only_dial_out_meet_at_a_router(tmp_path):
    """The router goes away in the middle and comes back; the sites wait."""
    endpoint = f"127.0.0.1:{free_ports(1)[0]}"
    sites = make_sites(tmp_path, n=3, rounds=30, router=endpoint)
    file = make_router(sites, endpoint)
    router = Peer(file, router=endpoint)
    peers = [Peer(f, "--test-seed", SEED, seam={"pause": 0.02}) for f in sites.files]
    try:
        until(lambda: sites.made(1, True) >= 5)
        router.kill()
        time.sleep(1)
        router = Peer(file, router=endpoint)
        assert [peer.wait() for peer in peers] == [0] * 3, peers[0].words() + router.words()
    finally:
        for peer in (*peers, router):
            peer.kill()
    assert np.array_equal(
        coefficients(sites), local_trace(sites).model(sites.agreement.site_weights)[0]
    )


def test_a_site_with_other_terms_is_named_and_nothing_is_spent(tmp_path):
    from dataclasses import replace

    from ppadmm.peers.agreement_file import save_agreement, save_signature

    sites = make_sites(tmp_path, n=3)
    place = sites.files[2].parent
    other = replace(sites.agreement, eta=0.2, rounds=13)
    save_agreement(other, place / "agreement.json")
    key = read_key(place / "keys" / "signing.key")
    save_signature(place / "signature.json", other, 2, key)
    codes, peers = run_sites(sites)
    assert codes == [6, 6, 6]
    for k, words in ((0, "rounds: mine is 12, theirs is 13"), (2, "eta: mine is 0.2")):
        assert words in peers[k].words()
        assert "Nothing was spent" in peers[k].words()
    assert all(run.given_back for i in range(3) for run in sites.books(i).runs.values())


def test_many_peers_on_one_machine_finish_a_run(tmp_path):
    """Fifty with PPADMM_FULL=1."""
    sites = make_sites(tmp_path, n=50 if FULL else 10, graph="small-world", rounds=6)
    codes, peers = run_sites(sites, "--test-seed", SEED)
    assert set(codes) == {0}, [peer.words() for peer in peers]
    assert np.array_equal(
        coefficients(sites), local_trace(sites).model(sites.agreement.site_weights)[0]
    )
