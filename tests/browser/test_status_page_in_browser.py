"""The page of a peer at work, in a real browser: it renews itself and loads nothing else."""

import threading
import time

import pytest

from ppadmm.peers.results import live_page
from ppadmm.peers.status_page import StatusPage
from tests.peers.sites import make_sites
from tests.peers.test_status_page import run_in_memory


@pytest.fixture
def at_work(tmp_path):
    """Three peers that make a round when they are told to; yields (url, go on)."""
    sites, peers, steps = make_sites(tmp_path, n=3, rounds=6), {}, threading.Semaphore(0)

    def each_round(peer, part):
        peers[part.number] = (peer, part)
        if part.number == 0:
            steps.acquire(timeout=60)

    runs = threading.Thread(target=run_in_memory, args=(sites, tmp_path / "state", each_round))
    runs.start()
    while 0 not in peers:
        time.sleep(0.01)

    def page():
        peer, part = peers[0]
        text = live_page(peer, part, "2026-11-16T12:00:00+00:00")
        return "text/html; charset=utf-8", text.encode()

    with StatusPage(0, {"/": page}) as served:
        yield served.url, lambda count: [steps.release() for _ in range(count)]
        for _ in range(20):
            steps.release()
        runs.join()


def wait_for(page, condition, seconds=20):
    """Look until something holds; the page's own policy forbids to put a script for that in it."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, page.locator("#live").inner_text()
        page.wait_for_timeout(100)


def rounds(page):
    return int(page.locator("#live-round").inner_text())


def test_it_renews_itself_keeps_its_place_and_asks_nobody_else(browser, at_work):
    url, go_on = at_work
    page = browser.new_page()
    troubles, asked = [], []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url)
    assert page.locator("#live-round").inner_text() == "0"
    assert "NOT PRIVATE" in page.locator("#verdict").inner_text()
    go_on(4)
    wait_for(page, lambda: rounds(page) >= 3)
    assert page.locator("#neighbours tbody tr").count() == 2
    assert page.locator("#live-h").inner_text() == "This site now: training"
    head = page.locator("#agents-table th", has_text="Records")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    go_on(1)
    wait_for(page, lambda: rounds(page) >= 4)
    assert head.get_attribute("aria-sort") == "descending"
    page.locator("h1").click()
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert set(asked) - {url + "favicon.ico"} == {url}
    assert troubles == []
    page.close()


def test_it_says_when_the_peer_is_gone(browser, tmp_path):
    sites, found = make_sites(tmp_path, n=2, graph="complete", rounds=2), {}
    run_in_memory(sites, tmp_path / "state", lambda peer, part: found.update({part.number: part}))
    peers = run_in_memory(sites, tmp_path / "again", lambda *_: None)

    def page():
        text = live_page(peers[0], found[0], "2026-11-16T12:00:00+00:00")
        return "text/html; charset=utf-8", text.encode()

    opened = browser.new_page()
    with StatusPage(0, {"/": page}) as served:
        opened.goto(served.url)
        assert opened.locator("#live-round").inner_text() == "2"
    wait_for(opened, lambda: "no longer answers" in opened.locator("#live-h").inner_text())
    opened.close()
