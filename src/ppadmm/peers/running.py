"""A site at work: its part in a run, with a log, a status page and a view on the terminal."""

import logging
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ppadmm import canonical
from ppadmm.peers.agreement import Agreement
from ppadmm.peers.loading import LoadedSite
from ppadmm.peers.metrics import prometheus
from ppadmm.peers.outcome import RetrySchedule
from ppadmm.peers.peer import Peer
from ppadmm.peers.pki.revocations import EVERY, Revocations
from ppadmm.peers.results import live_page, view_json, write_site_run
from ppadmm.peers.settings import PeerFile, longest_message
from ppadmm.peers.site import site_benefit
from ppadmm.peers.status import EventLog, JsonLines
from ppadmm.peers.status_page import StatusPage
from ppadmm.peers.taking_part import SiteResult, take_part
from ppadmm.peers.zenoh.configuration import router_configuration
from ppadmm.peers.zenoh.log import ZenohLog
from ppadmm.peers.zenoh.router import Router
from ppadmm.peers.zenoh.session import show_zenoh_log
from ppadmm.runs.benefit import SiteBenefit
from ppadmm.runs.text import benefit_lines

Tell = Callable[[str], None]
"""Takes a line for a person."""


@dataclass(frozen=True)
class Watching:
    """How a run is watched.

    Attributes
    ----------
    port : int, optional
        Of a status page with figures for Prometheus, on 127.0.0.1 alone; 0 takes a free one.
    log : Path, optional
        The log, one JSON object a line; by default `log.jsonl` among the run's state. Of several
        runs in one process each log has the lines of all.
    tell : callable, optional
        Gets lines for a person: why the run is not private, and that it waits for the others.
    screen : bool
        Draw a live view on standard error, which must be a terminal, in place of the second line.
    refusals : bool
        Log links that were refused. Zenoh tells them on standard output alone, which is taken from
        the whole process meanwhile: for one run in a process that prints nothing else.
    """

    port: int | None = None
    log: Path | None = None
    tell: Tell | None = None
    screen: bool = False
    refusals: bool = False


def run_site(
    site: LoadedSite, watching: Watching | None = None, wait: float | None = None
) -> SiteResult:
    """Take a site's part in its run, from the first signature to the last release.

    The site's ledger is charged before noise is drawn, and every release is kept before it is sent.
    Called again after a crash, it goes on where it was and pays for nothing twice.

    Parameters
    ----------
    site : LoadedSite
        What `ppadmm.peers.loading.load_site` returned.
    watching : Watching, optional
        How to watch it; by default there is a log and nothing else.
    wait : float, optional
        Seconds to wait for everybody to begin; for ever if it is left out.

    Returns
    -------
    SiteResult
        What was released and heard, and what may be claimed; `write_results` keeps it.

    Raises
    ------
    PpadmmError
        If the run cannot begin, or the ledger refuses it.
    """
    from ppadmm.peers.zenoh.transport import ZenohTransport

    how = watching or Watching()
    transport = ZenohTransport(site.peer.link_settings(site.settings.party.agreement))
    pace = RetrySchedule() if wait is None else RetrySchedule(wait=wait)
    with ExitStack() as stack:
        stack.enter_context(logged(how.log or site.settings.state / "log.jsonl"))
        if how.refusals:
            stack.enter_context(ZenohLog())
        watch = PeerDisplay(stack, site, how)
        result = take_part(site.settings, transport, pace, EventLog(), watch)
    return replace(result, own=_judged(site, result))


def _judged(site: LoadedSite, result: SiteResult) -> SiteBenefit | None:
    """Judge the joint model, and one of the site's own, on its test records, if it has any.

    The budget is spent by now: whatever goes wrong here must not take the results away.
    """
    if site.test is None or site.test.data is None or result.outcome.reason:
        return None
    with suppress(Exception):
        return site_benefit(site.settings.party, site.test, result.outcome.model)
    return None


def write_results(site: LoadedSite, result: SiteResult, folder: Path | None = None) -> Path:
    """Write what a run gave into a new folder, and sign it.

    Parameters
    ----------
    site : LoadedSite
        The site.
    result : SiteResult
        What `run_site` returned.
    folder : Path, optional
        By default `site.results`.

    Returns
    -------
    Path
        The folder: report, model, statement, releases, agreement, certificate.

    Raises
    ------
    UnfinishedError
        If the results are there, but not the report or the certificate; it says how to make them.
    """
    place = folder or site.results
    write_site_run(result, place, site.settings.state, site.settings.key)
    return place


def result_summary(result: SiteResult, folder: Path) -> dict[str, Any]:
    """Return how a run ended, as plain data.

    Parameters
    ----------
    result : SiteResult
        What `run_site` returned.
    folder : Path
        Where `write_results` has written it.

    Returns
    -------
    dict
        Fit for JSON; `reason` is empty if the run reached its end, `certificate` None without one.
    """
    part, outcome, certificate = result.part, result.outcome, folder / "certificate.json"
    return {
        "run": part.agreement.digest,
        "agent": part.number,
        "rounds": len(outcome.releases),
        "releases": result.releases,
        "private": result.statement.private,
        "not_private_because": list(result.statement.not_private_because),
        "epsilon": result.statement.epsilon,
        "delta": result.statement.delta,
        "reason": outcome.reason,
        "model": canonical.digest((folder / "model.json").read_bytes()),
        "folder": str(folder),
        "certificate": str(certificate) if certificate.exists() else None,
    }


def result_text(result: SiteResult, folder: Path) -> str:
    """Return the same in words, the privacy statement included."""
    found = result_summary(result, folder)
    head = f"{found['rounds']} of {result.part.agreement.rounds} rounds"
    ended = f"; ended before its time: {found['reason']}." if found["reason"] else "."
    places = f"\nResults:     {folder}\nCertificate: {found['certificate'] or 'none'}"
    own = benefit_lines([] if result.own is None else [result.own])
    return "\n".join([head + ended, *own, result.statement.text(), places])


@contextmanager
def logged(path: Path) -> Iterator[None]:
    """Write what the peer and its links say to a file, one JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler, logger = logging.FileHandler(path, encoding="utf-8"), logging.getLogger("ppadmm")
    handler.setFormatter(JsonLines())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        handler.close()


class PeerDisplay:
    """Shows a peer at work: a page on loopback, a view on a terminal or a line at the start."""

    def __init__(self, stack: ExitStack, site: LoadedSite, how: Watching) -> None:
        self._stack, self._site, self._how = stack, site, how

    def __call__(self, peer: Peer) -> None:
        """Begin to show; ends with the stack."""
        port, tell = self._how.port, self._how.tell
        url = None if port is None else self._serve(peer, port)
        reasons = "; ".join(self._site.settings.party.public.not_private_because)
        if tell is not None and reasons:
            tell(f"NOT PRIVATE: {reasons}.")
        if self._how.screen:
            self._stack.enter_context(_screen(peer, not reasons, url))
        elif tell is not None:
            where = f"; status page {url}" if url else ""
            tell(f"Run {self._site.run}: waiting for the others{where}.")

    def _serve(self, peer: Peer, port: int) -> str:
        started = datetime.now(UTC).isoformat(timespec="seconds")
        part = self._site.settings.party.public
        private = not part.not_private_because
        pages = {
            "/": lambda: ("text/html; charset=utf-8", live_page(peer, part, started).encode()),
            "/metrics": lambda: ("text/plain; version=0.0.4", prometheus(peer.view(), private)),
            "/view.json": lambda: ("application/json", view_json(peer, part)),
        }
        return self._stack.enter_context(StatusPage(port, pages)).url


def _screen(peer: Peer, private: bool, url: str | None) -> AbstractContextManager[Any]:
    from rich.console import Console
    from rich.live import Live

    from ppadmm.peers.terminal import screen

    return Live(
        get_renderable=lambda: screen(peer.view(), private, url),
        console=Console(stderr=True),
        refresh_per_second=2,
        transient=True,
    )


# The meeting point of sites that can only dial out


def run_router(
    peer: PeerFile, listen: str, opened: Callable[[Agreement, Revocations | None], None]
) -> None:
    """Be a meeting point until the process is interrupted; it learns no key and keeps nothing.

    Parameters
    ----------
    peer : PeerFile
        The router's own settings: name, agent (any free number), agreement, keys.
    listen : str
        The address to listen on, `HOST:PORT`.
    opened : callable
        Called whenever the links are open: with None at first, then with the list of revocations
        because of which they were opened anew.
    """
    if "RUST_LOG" in os.environ:
        show_zenoh_log()
    terms, newest = peer.terms(), peer.watch_revocations()
    because = None
    while True:
        revoked = newest()
        with make_router(peer, terms, listen, revoked.names):
            opened(terms, because)
            while newest() is revoked:
                time.sleep(EVERY)
        because = newest()


def make_router(
    peer: PeerFile, terms: Agreement, listen: str, revoked: Collection[str] = ()
) -> Router:
    """Return a router for all parties that are not revoked; it listens while its block lasts."""
    parties = enumerate(terms.parties)
    members = {i: party.name for i, party in parties if party.name not in revoked}
    configuration = router_configuration(
        peer.room, members, terms.edges, (f"tls/{listen}",), peer.credentials(),
        longest_message(terms),
    )  # fmt: skip
    return Router(configuration, members.values())
