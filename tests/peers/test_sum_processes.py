"""Runs by sums as people make them: a process each, mutual TLS, ledgers on disk, a sparse graph.

PPADMM_FULL=1 runs every case; without it a few of each (docs/peers.md has the command).
"""

import os
import time

import numpy as np
import pytest

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
