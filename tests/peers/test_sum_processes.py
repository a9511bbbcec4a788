"""Runs by sums as people make them: a process each, mutual TLS, ledgers on disk, a sparse graph.

PPADMM_FULL=1 runs every case; without it a few of each (docs/peers.md has the command).
"""

import json
import os
import time
from collections import defaultdict

import numpy as np
import pytest

from ppadmm.ledger.chain import read_rows
from ppadmm.ledger.run import decode
from ppadmm.peers.certified import verify_certificates
from ppadmm.peers.messages import kind_of
from ppadmm.peers.parts import PART, PartCodec
from tests.peers.sites import (
    SEED,
    Peer,
    coefficients,
    local_trace,
    make_sites,
    run_sites,
    until,
)

pytest.importorskip("zenoh", reason="eclipse-zenoh (extra peer) is not installed")
FULL = bool(os.environ.get("PPADMM_FULL"))
TRUSTS = [{"trust": "local"}, {"trust": "sum"}]


def sites_by_sums(folder, **terms):
    return make_sites(folder, **{"algorithm": "newton", "rounds": 8, "repeats": 1, **terms})


def expected(sites):
    """The model of the local engine, of the same records, agreement and seed."""
    return local_trace(sites).model(sites.agreement.site_weights)[0]


@pytest.mark.parametrize("trust", TRUSTS)
def test_five_peers_in_a_ring_give_the_model_of_the_local_engine(trust, tmp_path):
    sites = sites_by_sums(tmp_path, **trust)
    codes, peers = run_sites(sites, "--test-seed", SEED)
    assert codes == [0] * 5, [peer.words() for peer in peers]
    assert np.array_equal(coefficients(sites), expected(sites))


KILLS = [(1, 0), (0, 3), (3, 6), (2, 8)]


@pytest.mark.parametrize("trust", TRUSTS)
def test_kill_and_restart_change_neither_the_model_nor_what_is_spent(trust, tmp_path):
    """To the last bit: what all said together is kept, and nobody's old message is needed."""
    sites = sites_by_sums(tmp_path, **trust)
    options, seam = ("--test-seed", SEED), {"pause": 0.03}
    peers = [Peer(file, *options, seam=seam) for file in sites.files]
    try:
        for k, after in KILLS:
            until(lambda k=k, after=after: sites.made(k, True) >= after)
            peers[k].kill()
            time.sleep(1)
            peers[k] = Peer(sites.files[k], *options, seam=seam)
        assert [peer.wait() for peer in peers] == [0] * 5, [peer.words() for peer in peers]
    finally:
        for peer in peers:
            peer.kill()
    assert np.array_equal(coefficients(sites), expected(sites))
    for i in range(5):
        (run,) = sites.books(i, simulated=True).runs.values()
        assert sum(run.charged[i].values()) == sites.agreement.rounds


def said_by(sites):
    """All parts that left any site, by who made them and exchange: a set of payloads each."""
    terms = sites.agreement
    keys = {i: party.public_key() for i, party in enumerate(terms.parties)}
    codec, found = PartCodec(terms.run, keys), defaultdict(set)
    for file in sites.files:
        data, at = (file.parent / "sent.bin").read_bytes(), 0
        while at < len(data):
            length = int.from_bytes(data[at : at + 8])
            message = data[at + 8 : at + 8 + length]
            at += 8 + length
            if kind_of(message) == PART:
                word = codec.decode(message)
                codec.require_signed(word)
                found[word.agent, word.exchange].add(word.values.tobytes())
    return found


def booked(sites, i):
    """The parts in one site's ledger, in order, and how many charges each named."""
    rows = [(json.loads(row.body), row) for row in read_rows(sites.files[i].parent / "site.ledger")]
    kept = [(body, row) for body, row in rows if body["kind"] == "release"]
    return [(decode(row.payload).value.tobytes(), len(body["charges"])) for body, row in kept]


def assert_each_part_is_one_and_paid(sites):
    """Never two contributions to one exchange, and none that was not charged and kept before."""
    for (agent, exchange), parts in said_by(sites).items():
        assert len(parts) == 1, (agent, exchange)
        (charges,) = {n for value, n in booked(sites, agent) if value in parts}
        assert charges == (0 if exchange == 0 else 1)


def test_a_private_run_of_sums_survives_kills(tmp_path):
    sites = sites_by_sums(tmp_path, trust="sum", repeats=2)
    seam = {"pause": 0.03, "note": True}
    peers = [Peer(file, seam=seam) for file in sites.files]
    try:
        for k, after in ((2, 1), (4, 3), (0, 6)):
            until(lambda k=k, after=after: sites.made(k) >= after)
            peers[k].kill()
            peers[k] = Peer(sites.files[k], seam=seam)
        assert [peer.wait() for peer in peers] == [0] * 5, [peer.words() for peer in peers]
    finally:
        for peer in peers:
            peer.kill()
    coefficients(sites)
    assert_each_part_is_one_and_paid(sites)


@pytest.mark.parametrize("after", [0, 1, 4, 8] if FULL else [4])
def test_a_site_that_stays_away_is_left_out_and_the_sum_made_again(after, tmp_path):
    """After no word, the keys, a slope, or all: the others go on, pay once more, and agree."""
    sites = sites_by_sums(tmp_path, trust="sum", patience=3.0)
    seam = {"pause": 0.05, "note": True}
    peers = [Peer(file, seam=seam) for file in sites.files]
    try:
        until(lambda: all(sites.made(i) >= after for i in range(5)))
        peers[1].kill()
        rest = [0, 2, 3, 4]
        assert [peers[i].wait() for i in rest] == [0] * 4, [peer.words() for peer in peers]
    finally:
        for peer in peers:
            peer.kill()
    models = {sites.model(i) for i in rest}
    assert len(models) == 1
    assert_each_part_is_one_and_paid(sites)
    events = [e for e in sites.log(0) if e["event"] == "left out"]
    assert [e["agents"] for e in events] == [[1]]
    paths = [sites.files[i].parent / "results" / "certificate.json" for i in rest]
    verify_certificates(paths, [], None, None)
    late = Peer(sites.files[1])
    assert late.wait() == 10, late.words()


@pytest.mark.parametrize("trust", TRUSTS)
def test_many_peers_on_one_machine_finish_a_run(trust, tmp_path):
    """Fifty with PPADMM_FULL=1."""
    n = 50 if FULL else 10
    sites = sites_by_sums(tmp_path, n=n, graph="small-world", rounds=4, records=100, **trust)
    options = ("--test-seed", SEED, "--wait", 600)
    peers = [Peer(file, *options) for file in sites.files]
    try:
        codes = [peer.wait(600) for peer in peers]
    finally:
        for peer in peers:
            peer.kill()
    assert set(codes) == {0}, [peer.words() for peer in peers]
    assert np.array_equal(coefficients(sites), expected(sites))
