"""What a peer shows while it runs: nothing that was computed from records without noise."""

import json
import re
import threading

import numpy as np
import pytest

from ppadmm.errors import InputError
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import SeededNoise
from ppadmm.peers.metrics import prometheus
from ppadmm.peers.peer import Peer
from ppadmm.peers.pki.key_files import read_signing_key
from ppadmm.peers.results import live_page, view_json
from ppadmm.peers.settings import PeerFile
from ppadmm.peers.store import PeerStore
from ppadmm.peers.terminal import screen
from tests.peers.hub import Hub
from tests.peers.in_memory import QUICK
from tests.peers.sites import make_sites

CLOCKS = re.compile(
    r'"(?:elapsed|waiting|heard|seconds_left|clock)": [-+.e\d]+|_waiting_seconds\{[^\n]*'
)
"""Times: of so many, one has the digits of some value now and then."""


@pytest.fixture
def seen(monkeypatch):
    """Every value that noise was added to, before it was."""
    values, true = [], SeededNoise.gaussian

    def gaussian(self, bare, *rest):
        values.append(np.array(bare))
        return true(self, bare, *rest)

    monkeypatch.setattr(SeededNoise, "gaussian", gaussian)
    return values


def run_in_memory(sites, folder, each_round):
    """Run all sites in threads; `each_round(k, peer, part)` is called from each after a round."""
    hub, peers = Hub(sites.agreement.edges, cap=1 << 20), []
    for part, file in zip(sites.parts(3), sites.files, strict=True):
        key = read_signing_key(PeerFile.load(file).keys.signing)
        agent = part.agent(part.rule(), MemoryLedger())
        signature = sites.agreement.sign(key)
        end, store = hub.end(part.number), PeerStore(folder / str(part.number))

        def tell(event, part=part, **_):
            if event in ("round", "signed", "averages"):
                each_round(peers[part.number], part)

        peers.append(Peer(agent, sites.agreement, key, signature, end, store, QUICK, tell))
    threads = [threading.Thread(target=peer.run) for peer in peers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return peers


@pytest.mark.parametrize("algorithm", ["pp", "ipp", "gradient"])
def test_pages_metrics_and_views_hold_released_values_only(algorithm, tmp_path, seen):
    sites = make_sites(tmp_path, n=3, rounds=5, algorithm=algorithm)
    shown, lock = [], threading.Lock()

    def look(peer, part):
        texts = [live_page(peer, part.public, "2026-11-16T12:00:00+00:00")]
        texts += [prometheus(peer.view(), False).decode(), view_json(peer, part.public).decode()]
        with lock:
            shown.extend(texts)

    peers = run_in_memory(sites, tmp_path / "state", look)
    assert len(shown) >= 3 * 3 * 6
    bare = {f"{abs(v):.6g}" for array in seen for v in np.ravel(array) if v}
    assert len(bare) > 30
    released = {f"{abs(v):.6g}" for peer in peers for v in np.ravel(peer.so_far()[0]) if v}
    numbers = {
        f"{float(word):.6g}"
        for text in shown
        for word in re.findall(r"\d+\.\d+(?:e-?\d+)?", CLOCKS.sub("", text))
    }
    assert not (bare - released) & numbers
    assert "NOT PRIVATE" in shown[0]
    assert "the noise follows from the seed 3" in shown[0]
    views = [json.loads(text) for text in shown if text.startswith("{")]
    assert views
    assert not any(view["private"] for view in views)
    assert all("follows from the seed 3" in view["not_private_because"][0] for view in views)


def test_the_view_on_a_terminal_names_rounds_neighbours_budget_and_who_is_waited_for(tmp_path):
    from rich.console import Console

    sites = make_sites(tmp_path, n=3, rounds=3)
    texts = []

    def look(peer, part):
        console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa
        console.print(screen(peer.view(), private=False, url="http://127.0.0.1:1/"))
        texts.append(console.export_text())
        console.file.close()

    run_in_memory(sites, tmp_path / "state", look)
    assert any("of 3 releases paid; ε ≤ 2 in all" in text for text in texts)
    assert all("NOT PRIVATE" in text and "http://127.0.0.1:1/" in text for text in texts)
    assert any("site-1 (agent 1)" in text and "up" in text for text in texts)


def test_metrics_are_in_the_text_format(tmp_path):
    sites = make_sites(tmp_path, n=3, rounds=3)
    texts = []

    def look(peer, _):
        texts.append(prometheus(peer.view(), private=len(texts) % 2 == 0).decode())

    run_in_memory(sites, tmp_path / "state", look)
    sample = re.compile(
        r'ppadmm_[a-z_]+\{run="[0-9a-f]{12}",agent="\d"(,[a-z]+="\w+")?\} [\d.e+-]+'
    )
    lines = texts[-1].splitlines()
    for line in lines:
        assert line.startswith(("# HELP ppadmm_", "# TYPE ppadmm_")) or sample.fullmatch(line), line
    told = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert told == {line.partition("{")[0] for line in lines if line[0] != "#"} != set()
    for k, text in enumerate(texts):
        found = re.findall(r"^ppadmm_private\{.*\} (\d)$", text, re.MULTILINE)
        assert found == [str(1 - k % 2)]


def test_a_port_that_is_taken_is_named():
    from ppadmm.peers.status_page import StatusPage

    with StatusPage(0, {}) as page:
        port = int(page.url.rpartition(":")[2].strip("/"))
        with pytest.raises(InputError, match=f"cannot have port {port}"):
            StatusPage(port, {})
    with StatusPage(port, {}) as again:
        assert again.url == page.url
