"""Those who must not get in, as people run them: `ppadmm peer check` and `peer run`, real TLS.

An intruder's own command says what is wrong and stops. One that looks at nothing (`reckless`, see
forking.py) gets as far as the other side lets it.
"""

import json
import shutil
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from ppadmm.peers.certified import verify_certificates
from ppadmm.peers.pki import certificates, enrolment
from ppadmm.peers.pki.authority import Authority
from ppadmm.peers.pki.enrolment import Keys
from tests.peers.sites import (
    SEED,
    Peer,
    coefficients,
    free_ports,
    local_trace,
    make_router,
    make_sites,
    until,
)

pytest.importorskip("zenoh", reason="eclipse-zenoh (extra peer) is not installed")
TEST = ("--test-seed", SEED)


class Intruder:
    """Site 0, which dials the others, with another certificate than its own."""

    def __init__(self, sites):
        self.sites, self.file = sites, sites.files[0]
        self.keys = Keys(self.file.parent / "keys")
        self.authority = Authority(sites.folder / "ca")
        self.own = {
            path: path.read_bytes() for path in (self.keys.certificate, self.keys.authority)
        }

    def none(self):
        self.keys.certificate.unlink()

    def expired(self):
        self._take(self.authority, "site-0", datetime.now(UTC) - timedelta(days=400))

    def another_authority(self):
        other = Authority(self.sites.folder / "other")
        other.make("study")
        self._take(other, "site-0", datetime.now(UTC))
        self.keys.authority.write_bytes(other.file.read_bytes())

    def another_agent(self):
        self._take(self.authority, "gamma", datetime.now(UTC))

    def _take(self, authority, name, when):
        asked = enrolment.request(self.keys, name, ["127.0.0.1"])
        self.keys.certificate.write_bytes(certificates.pem([authority._issue(asked, 365, when)]))

    def repent(self):
        for path, data in self.own.items():
            path.write_bytes(data)

    def command(self, *options, **choices):
        """Run a command as the intruder; return its exit code and its words."""
        (self.file.parent / "words.txt").unlink(missing_ok=True)
        peer = Peer(self.file, *options, **choices)
        return peer.wait(), peer.words()


CASES = {
    "none": ("certificate.pem is missing; `ppadmm peer join` puts it there.", "no certificate"),
    "expired": ("send a new request, or set the clock.", "has expired"),
    "another_authority": ("is not from this site's authority", "does not take this site's"),
    "another_agent": ("is for 'gamma', this site is 'site-0'; join with the reply", "'gamma'"),
}


def refusals(sites, i):
    """What one site says that it refused."""
    rows = [row for row in sites.log(i, True) if row["event"].startswith("refused")]
    assert all(row["level"] == "warning" for row in rows)
    return [row.get("why", row["event"]) for row in rows]


def test_nobody_gets_in_and_the_honest_wait_for_the_right_one(tmp_path):
    sites = make_sites(tmp_path, n=3, rounds=6)
    intruder = Intruder(sites)
    honest = [Peer(file, *TEST) for file in sites.files[1:]]
    try:
        until(lambda: all(len(sites.log(i, True)) >= 2 for i in (1, 2)))
        for case, (advice, why) in CASES.items():
            getattr(intruder, case)()
            code, words = intruder.command("--seconds", 1, check=True)
            problems = [row for row in words.splitlines() if row.startswith("PROBLEM")]
            assert code == 11
            assert problems
            assert all(advice in row for row in problems), words
            assert len(problems) == (2 if case == "another_authority" else 1)
            seam = {"reckless": True, "bare": case == "none"}
            if case == "none":
                intruder.repent()
            code, words = intruder.command(*TEST, "--wait", 2, seam=seam)
            assert code == 6, words
            assert "The run never began" in words
            assert "Traceback" not in words
            intruder.repent()
            for i in (1, 2):
                until(lambda i=i, why=why: any(why in text for text in refusals(sites, i)))
        assert all(peer.is_up for peer in honest)
        assert sites.made(1, True) == sites.made(2, True) == 0
        assert intruder.command(*TEST)[0] == 0
        assert [peer.wait() for peer in honest] == [0, 0], honest[0].words()
    finally:
        for peer in honest:
            peer.kill()
    assert np.array_equal(
        coefficients(sites), local_trace(sites).model(sites.agreement.site_weights)[0]
    )


def test_an_intruder_cannot_take_the_place_of_one_that_is_away(tmp_path):
    """In the middle of a run: the others wait, refuse it, and go on with the right one."""
    sites = make_sites(tmp_path, n=3, rounds=30)
    intruder = Intruder(sites)
    peers = [Peer(file, *TEST, seam={"pause": 0.02}) for file in sites.files]
    try:
        until(lambda: sites.made(0, True) >= 4)
        peers[0].kill()
        intruder.expired()
        log = sites.files[0].parent / "intruder.jsonl"
        seam = {"reckless": True}
        thief = Peer(sites.files[0], *TEST, "--log", log, seam=seam)
        until(lambda: all("has expired" in " ".join(refusals(sites, i)) for i in (1, 2)))
        thief.kill()
        assert peers[1].is_up
        assert sites.made(1, True) < 30
        intruder.repent()
        peers[0] = Peer(sites.files[0], *TEST)
        assert [peer.wait() for peer in peers] == [0, 0, 0], peers[1].words()
    finally:
        for peer in peers:
            peer.kill()
    assert np.allclose(
        coefficients(sites),
        local_trace(sites).model(sites.agreement.site_weights)[0],
        rtol=0,
        atol=1e-7,
    )


def revoke(sites, name, *to):
    """Have the authority revoke a name and mail the list to some sites."""
    authority = Authority(sites.folder / "ca")
    authority.revoke(name, "laptop stolen")
    for i in to:
        shutil.copy(authority.revocations, sites.files[i].parent / "keys" / "revoked.json")


WORDS = "the certificate of 'site-0' was revoked (laptop stolen)"


def test_a_run_with_a_revoked_site_does_not_start(tmp_path):
    sites = make_sites(tmp_path, n=3)
    revoke(sites, "site-0", 0, 1)
    checks = [Peer(file, "--seconds", 1, check=True) for file in sites.files[:2]]
    assert [check.wait() for check in checks] == [11, 11]
    for check, advice in zip(checks, ("ask for a new name", "draft a new agreement"), strict=True):
        rows = [row for row in check.words().splitlines() if "was revoked" in row]
        assert len(rows) == 1
        assert f"was revoked (laptop stolen); {advice}" in rows[0]
    runs = [Peer(file, "--wait", 1) for file in sites.files[:2]]
    assert [run.wait() for run in runs] == [2, 6]
    assert "was revoked (laptop stolen); ask for a new name." in runs[0].words()
    assert f"The run never began: {WORDS}. Nothing was spent." in runs[1].words()
    assert all(run.given_back for i in range(3) for run in sites.books(i).runs.values())


def test_a_site_that_is_revoked_in_a_run_ends_it_with_valid_results(tmp_path):
    """Site 1 reads the list as it runs, site 3 when it comes back; they tell the others."""
    sites = make_sites(tmp_path, n=4, rounds=400)
    peers = [Peer(file, seam={"pause": 0.02}) for file in sites.files]
    try:
        until(lambda: sites.made(3) >= 4)
        peers[3].kill()
        revoke(sites, "site-0", 1, 3)
        assert [peer.wait() for peer in peers[:3]] == [10] * 3, peers[1].words()
        peers[3] = Peer(sites.files[3])
        assert peers[3].wait() == 10, peers[3].words()
    finally:
        for peer in peers:
            peer.kill()
    for i in (1, 3):
        told = [row for row in sites.log(i) if row["event"] == "revoked"]
        assert [(row["agent"], row["why"], row["level"]) for row in told] == [(0, WORDS, "warning")]
    for i in range(1, 4):
        folder = sites.files[i].parent / "results"
        (verdict,) = verify_certificates([folder / "certificate.json"], [], None, folder)
        assert any(WORDS in warning for warning in verdict.statement["warnings"])
        assert json.loads((folder / "model.json").read_bytes())["ended"]
        (run,) = sites.books(i).runs.values()
        assert run.outcome == "finished"


def test_a_router_lets_in_nobody_who_is_revoked(tmp_path):
    endpoint = f"127.0.0.1:{free_ports(1)[0]}"
    sites = make_sites(tmp_path, n=3, rounds=400, router=endpoint)
    file = make_router(sites, endpoint)
    router = Peer(file, router=endpoint)
    peers = [Peer(f, seam={"pause": 0.02}) for f in sites.files]
    try:
        until(lambda: sites.made(1) >= 3)
        authority = Authority(sites.folder / "ca")
        authority.revoke("site-0")
        shutil.copy(authority.revocations, file.parent / "keys" / "revoked.json")
        until(lambda: "Revoked: site-0; the links are opened anew." in router.words())
        until(lambda: [row for row in sites.log(1) if row["event"] == "agent 2 is connected"][1:])
        stuck = sites.made(0)
        assert all(peer.is_up for peer in (*peers, router))
        until(lambda: any(row["event"] == "agent 0 is away" for row in sites.log(1)))
        assert sites.made(0) <= stuck + 2
    finally:
        for peer in (*peers, router):
            peer.kill()
