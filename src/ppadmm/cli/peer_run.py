"""`ppadmm peer run` and `peer router`: a site's part in a run over a network."""

import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppadmm.cli.common import Json, interruptible, kept_for, show
from ppadmm.cli.passphrases import PassphraseFile, opened
from ppadmm.cli.peer import PeerPath, group
from ppadmm.cli.peer_agree import peer_party
from ppadmm.errors import PpadmmError, UnfinishedError

if TYPE_CHECKING:
    from ppadmm.peers.agreement import Agreement
    from ppadmm.peers.peer import Peer
    from ppadmm.peers.settings import PeerFile
    from ppadmm.peers.taking_part import SiteResult, SiteSettings
    from ppadmm.peers.zenoh.router import Router


class EndedEarlyError(PpadmmError):
    """A run ended before its time, with a valid model and statement."""

    exit_code = 10


@group.command()
def run(
    file: PeerPath,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="New folder [results-RUN beside peer.toml]."),
    ] = None,
    status: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Page and /metrics on 127.0.0.1 [as in peer.toml]."),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Log, one JSON object a line [state-RUN/log.jsonl]."),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(metavar="S", help="Seconds to wait for everybody to begin [for ever]."),
    ] = None,
    test_seed: Annotated[
        int | None,
        typer.Option(
            metavar="INT", help="Simulate: noise from a seed, NOT private; charges no ledger."
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object at the end and nothing else.")
    ] = False,
) -> None:
    """Take part in the run that peer.toml and its agreement describe.

    Charges the site's ledger before noise is drawn and keeps every release before it is sent. The
    same command after a crash goes on where it was, without paying again.

    Exit codes: 0 finished; 10 ended before its time, with a valid model and statement; 12 the
    results are there and not signed; others as for every command (docs/peers.md has the table).

    Example: ppadmm peer run hospital-a/peer.toml
    """
    from ppadmm.peers.outcome import RetrySchedule
    from ppadmm.peers.results import write_site_run
    from ppadmm.peers.status import EventLog
    from ppadmm.peers.taking_part import take_part
    from ppadmm.peers.zenoh.log import ZenohLog
    from ppadmm.peers.zenoh.transport import ZenohTransport
    from ppadmm.runs.folder import require_new

    site = LoadedSite.load(file, test_seed, passphrase_file)
    folder = out or site.peer.folder / f"results-{site.run}"
    require_new(folder)
    transport = ZenohTransport(site.peer.seat(site.setting.party.agreement))
    pace = RetrySchedule() if wait is None else RetrySchedule(wait=wait)
    kept = "start it again to go on; what was paid for is not paid for again"
    _end_as_by_hand()
    port = site.peer.status if status is None else status
    with interruptible(kept), ExitStack() as stack:
        stack.enter_context(logged(log or site.setting.state / "log.jsonl"))
        stack.enter_context(ZenohLog())
        watch = PeerDisplay(stack, site, port, hidden=as_json)
        result = take_part(site.setting, transport, pace, EventLog(), watch)
    unfinished = None
    try:
        with kept_for("the same command"):
            write_site_run(result, folder, site.setting.state, site.setting.key)
    except UnfinishedError as error:
        unfinished = error
    _tell(result, folder, as_json)
    if unfinished is not None:
        raise unfinished
    if result.outcome.reason:
        raise EndedEarlyError(
            f"The run ended before its time: {result.outcome.reason}; model, statement and "
            "certificate are valid."
        )


@group.command()
def router(
    file: PeerPath,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The address to listen on.")
    ] = "0.0.0.0:7447",
    as_json: Json = False,
) -> None:
    """Be the meeting point of sites that can only dial out; it learns no key and keeps nothing.

    PEER.toml is that of the router itself: name, agent (any free number), agreement, keys.

    Example: ppadmm peer router router/peer.toml --listen 0.0.0.0:7447
    """
    import time

    from ppadmm.peers.pki.revocations import EVERY
    from ppadmm.peers.settings import PeerFile

    _let_zenoh_speak()
    peer = PeerFile.load(file)
    terms = peer.terms()
    line = f"Router {peer.name!r} of run {terms.digest[:12]}… listens on {listen}; Ctrl-C ends."
    newest = peer.watch_revocations()
    with interruptible("the router is closed"):
        while True:
            revoked = newest()
            with _router(peer, terms, listen, revoked.names):
                show({"router": peer.name, "run": terms.digest, "listen": listen}
                     if as_json else line)  # fmt: skip
                while newest() is revoked:
                    time.sleep(EVERY)
            line = f"Revoked: {', '.join(sorted(newest().names))}; the links are opened anew."


def _router(
    peer: "PeerFile", terms: "Agreement", listen: str, revoked: Collection[str]
) -> "Router":
    """Return a router for all parties that are not revoked."""
    from ppadmm.peers.settings import longest_message
    from ppadmm.peers.zenoh.configuration import router_configuration
    from ppadmm.peers.zenoh.router import Router

    parties = enumerate(terms.parties)
    members = {i: party.name for i, party in parties if party.name not in revoked}
    configuration = router_configuration(
        peer.room, members, terms.edges, (f"tls/{listen}",), peer.credentials(),
        longest_message(terms.parameters),
    )  # fmt: skip
    return Router(configuration, members.values())


def _let_zenoh_speak() -> None:
    """Show Zenoh's own log, where refused handshakes are, if a person asks for it."""
    import os

    from ppadmm.peers.zenoh.session import show_zenoh_log

    if "RUST_LOG" in os.environ:
        show_zenoh_log()


def _end_as_by_hand() -> None:
    """Let a service manager's SIGTERM end the run as Ctrl-C does: cleanly, to be taken up."""
    import signal

    signal.signal(signal.SIGTERM, signal.default_int_handler)


# What a run needs


@dataclass(frozen=True)
class LoadedSite:
    """A site that has passed every check and can start."""

    peer: "PeerFile"
    setting: "SiteSettings"

    @property
    def run(self) -> str:
        """The short name of the run."""
        return self.setting.party.agreement.digest[:12]

    @classmethod
    def load(
        cls, file: Path, seed: int | None, passphrase_file: Path | None = None
    ) -> "LoadedSite":
        """Read a site's files; a simulation has other folders, so that the two never mix."""
        from ppadmm.peers.agreement_file import load_signature
        from ppadmm.peers.settings import PeerFile
        from ppadmm.peers.taking_part import SiteSettings

        peer = PeerFile.load(file)
        terms = peer.terms()
        party = peer_party(peer, terms, seed)
        name = "state" if seed is None else "simulation"
        return cls(peer, SiteSettings(
            party=party,
            key=opened(peer.keys.signing, passphrase_file),
            signature=load_signature(peer.folder / peer.signature, terms, peer.agent),
            state=peer.folder / f"{name}-{terms.digest[:12]}",
            ledger=peer.folder / peer.ledger if seed is None and peer.ledger else None,
            dataset=peer.dataset or None,
            revocations=peer.watch_revocations(),
        ))  # fmt: skip


@contextmanager
def logged(path: Path) -> Iterator[None]:
    """Write what the peer and its links say to a file, one JSON object a line."""
    import logging

    from ppadmm.peers.status import JsonLines

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

    def __init__(self, stack: ExitStack, site: LoadedSite, port: int | None, hidden: bool) -> None:
        self._stack, self._site, self._port, self._hidden = stack, site, port, hidden

    def __call__(self, peer: "Peer") -> None:
        """Begin to show; ends with the stack."""
        url = None if self._port is None else self._serve(peer, self._port)
        if self._hidden:
            return
        part = self._site.setting.party.public
        if part.not_private_because:
            reasons = "; ".join(part.not_private_because)
            typer.echo(f"NOT PRIVATE: {reasons}.", err=True)
        if sys.stderr.isatty():
            self._stack.enter_context(self._screen(peer, url))
        else:
            where = f"; status page {url}" if url else ""
            typer.echo(f"Run {self._site.run}: waiting for the others{where}.", err=True)

    def _serve(self, peer: "Peer", port: int) -> str:
        from datetime import UTC, datetime

        from ppadmm.peers.metrics import prometheus
        from ppadmm.peers.results import live_page, view_json
        from ppadmm.peers.status_page import StatusPage

        started = datetime.now(UTC).isoformat(timespec="seconds")
        part = self._site.setting.party.public
        private = not part.not_private_because
        pages = {
            "/": lambda: ("text/html; charset=utf-8", live_page(peer, part, started).encode()),
            "/metrics": lambda: ("text/plain; version=0.0.4", prometheus(peer.view(), private)),
            "/view.json": lambda: ("application/json", view_json(peer, part)),
        }
        return self._stack.enter_context(StatusPage(port, pages)).url

    def _screen(self, peer: "Peer", url: str | None) -> Any:
        from rich.console import Console
        from rich.live import Live

        from ppadmm.peers.terminal import screen

        private = not self._site.setting.party.public.not_private_because
        return Live(
            get_renderable=lambda: screen(peer.view(), private, url),
            console=Console(stderr=True),
            refresh_per_second=2,
            transient=True,
        )


def _tell(result: "SiteResult", folder: Path, as_json: bool) -> None:
    from ppadmm import canonical

    part, outcome, certificate = result.part, result.outcome, folder / "certificate.json"
    if as_json:
        show({
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
        })  # fmt: skip
        return
    head = f"{len(outcome.releases)} of {part.agreement.rounds} rounds"
    show(f"{head}; ended before its time: {outcome.reason}." if outcome.reason else f"{head}.")
    show(result.statement.text())
    signed = certificate if certificate.exists() else "none"
    show(f"\nResults:     {folder}\nCertificate: {signed}")
