"""Two hosts, as network namespaces with a cable between them that is cut for ten seconds."""

import os
import shutil
import subprocess
import time

import numpy as np
import pytest

from ppadmm.peers.transport import HISTORY
from tests.peers.sites import SEED, Peer, coefficients, local_trace, make_sites, until

pytest.importorskip("zenoh", reason="eclipse-zenoh (extra peer) is not installed")
CUT = 10.0


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True)


@pytest.fixture
def hosts():
    """Two namespaces, 10.213.7.1 and 10.213.7.2; skips where they cannot be made."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    names, ends = [f"ppadmm-{os.getpid()}-{k}" for k in (1, 2)], ["ppv1", "ppv2"]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", ends[0], "netns", names[0], "type", "veth",
           "peer", "name", ends[1], "netns", names[1])  # fmt: skip
    except subprocess.CalledProcessError as error:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
    for k, (name, end) in enumerate(zip(names, ends, strict=True)):
        ip("-n", name, "addr", "add", f"10.213.7.{k + 1}/24", "dev", end)
        ip("-n", name, "link", "set", end, "up")
        ip("-n", name, "link", "set", "lo", "up")
    yield list(zip(names, ends, strict=True))
    for name in names:
        ip("netns", "del", name)


def test_a_link_that_is_cut_for_ten_seconds_delays_and_changes_nothing(hosts, tmp_path):
    sites = make_sites(tmp_path, n=2, graph="complete", rounds=60,
                       hosts=["10.213.7.1", "10.213.7.2"])  # fmt: skip
    peers = [
        Peer(file, "--test-seed", SEED, seam={"pause": 0.05}, host=name)
        for file, (name, _) in zip(sites.files, hosts, strict=True)
    ]
    try:
        until(lambda: sites.made(0, True) >= 10)
        (name, end), _ = hosts
        ip("-n", name, "link", "set", end, "down")
        time.sleep(1.0)
        stopped = sites.made(0, True)
        time.sleep(CUT - 1.0)
        assert sites.made(0, True) <= stopped + HISTORY
        assert stopped < 60
        ip("-n", name, "link", "set", end, "up")
        assert [peer.wait() for peer in peers] == [0, 0], peers[0].words()
    finally:
        for peer in peers:
            peer.kill()
    assert np.array_equal(
        coefficients(sites), local_trace(sites).model(sites.agreement.site_weights)[0]
    )
