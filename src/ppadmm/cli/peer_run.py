"""`ppadmm peer run` and `peer router`: a site's part in a run over a network."""

import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppadmm.cli import options
from ppadmm.cli.common import interruptible, show, written
from ppadmm.cli.passphrases import PassphraseFile, opened
from ppadmm.cli.peer import PeerPath, group
from ppadmm.errors import PpadmmError

if TYPE_CHECKING:
    from ppadmm.peers.agreement import Agreement
    from ppadmm.peers.pki.revocations import Revocations


class EndedEarlyError(PpadmmError):
    """A run ended before its time, with a valid model and statement."""

    exit_code = 10


@group.command()
def run(
    file: PeerPath,
    out: Annotated[
        Path | None, options.out("DIR", "New folder [results-RUN beside peer.toml].")
    ] = None,
    status: Annotated[
        int | None, options.value("PORT", "Page and /metrics on 127.0.0.1 [as in peer.toml].")
    ] = None,
    log: Annotated[
        Path | None, options.value("FILE", "Log, one JSON object a line [state-RUN/log.jsonl].")
    ] = None,
    wait: Annotated[
        float | None, options.value("S", "Seconds to wait for everybody to begin [for ever].")
    ] = None,
    test_seed: Annotated[
        int | None,
        options.value("INT", "Simulate: noise from a seed, NOT private; charges no ledger."),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: options.Json = False,
) -> None:
    """Take part in the run that peer.toml and its agreement describe.

    Charges the site's ledger before noise is drawn and keeps every release before it is sent. The
    same command after a crash goes on where it was, without paying again.

    Exit codes: 0 finished; 10 ended before its time, with a valid model and statement; 12 the
    results are there and not signed; others as for every command (docs/peers.md has the table).

    Example: ppadmm peer run hospital-a/peer.toml
    """
    from ppadmm.peers.loading import load_site
    from ppadmm.peers.running import Watching, result_summary, result_text, run_site, write_results
    from ppadmm.runs.folder import require_new

    site = load_site(file, test_seed, partial(opened, file=passphrase_file))
    folder = out or site.results
    require_new(folder)
    port = site.peer.status if status is None else status
    tell = None if as_json else partial(typer.echo, err=True)
    screen = not as_json and sys.stderr.isatty()
    watching = Watching(port, log, tell, screen, refusals=True)
    # A service manager's SIGTERM ends the run as Ctrl-C does: cleanly, to be taken up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with interruptible("start it again to go on; what was paid for is not paid for again"):
        result = run_site(site, watching, wait)
    _, unfinished = written(lambda: write_results(site, result, folder), "the same command")
    show(result_summary(result, folder) if as_json else result_text(result, folder))
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
        str, options.value("HOST:PORT", "The address to listen on.")
    ] = "0.0.0.0:7447",
    as_json: options.Json = False,
) -> None:
    """Be the meeting point of sites that can only dial out; it learns no key and keeps nothing.

    PEER.toml is that of the router itself: name, agent (any free number), agreement, keys.

    Example: ppadmm peer router router/peer.toml --listen 0.0.0.0:7447
    """
    from ppadmm.peers.running import run_router
    from ppadmm.peers.settings import PeerFile

    peer = PeerFile.load(file)

    def say(terms: "Agreement", because: "Revocations | None") -> None:
        head = f"Router {peer.name!r} of run {terms.digest[:12]}… listens on {listen}; Ctrl-C ends."
        if because is not None:
            head = f"Revoked: {', '.join(sorted(because.names))}; the links are opened anew."
        plain = {"router": peer.name, "run": terms.digest, "listen": listen}
        show(plain if as_json else head)

    with interruptible("the router is closed"):
        run_router(peer, listen, say)
