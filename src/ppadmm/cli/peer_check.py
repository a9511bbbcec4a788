"""`ppadmm peer check`: a look at everything that a run needs, at this site and its neighbours."""

from functools import cache, partial
from typing import TYPE_CHECKING, Annotated

import typer

from ppadmm.cli.common import Json, interruptible, show
from ppadmm.cli.passphrases import PassphraseFile, opened
from ppadmm.cli.peer import PeerPath, group, quoted
from ppadmm.cli.peer_agree import peer_party
from ppadmm.errors import InputError, PpadmmError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ppadmm.peers.agreement import Agreement
    from ppadmm.peers.check import CheckResult
    from ppadmm.peers.settings import PeerFile


class ProblemsError(PpadmmError):
    """`peer check` found something that is wrong."""

    exit_code = 11


@group.command()
def check(
    file: PeerPath,
    seconds: Annotated[
        float, typer.Option(metavar="S", help="How long to listen for the neighbours.")
    ] = 10.0,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Look at everything a run needs, at this site and at its neighbours; one line for each.

    Reaches each neighbour (which must be running `peer check` or `peer run`), compares versions,
    agreements and clocks. Exit code 11 if anything is wrong.

    Example: ppadmm peer check hospital-a/peer.toml
    """
    from ppadmm import checks
    from ppadmm.peers.settings import PeerFile

    with interruptible():
        peer, patience = PeerFile.load(file), checks.positive("seconds", seconds)
        rows = _look(peer, cache(partial(opened, peer.keys.signing, passphrase_file)), patience)
    problems = [row for row in rows if row.problem]
    if as_json:
        show({"ok": not problems, "found": [vars(row) for row in rows]})
    else:
        show("\n".join(map(str, rows)))
    if problems:
        raise ProblemsError(f"Problems found: {len(problems)}; mend them and check again.")
    if not as_json:
        show(f"All is well. Next: ppadmm peer run {quoted(file)}")


def _look(
    peer: "PeerFile", key: "Callable[[], Ed25519PrivateKey]", seconds: float
) -> "list[CheckResult]":
    from ppadmm.peers.agreement_file import load_signature
    from ppadmm.peers.check import Check, CheckResult, looked_at
    from ppadmm.peers.zenoh.transport import ZenohTransport

    rows = [
        looked_at(f"certificate and keys{_certified(peer)}", lambda: (peer.credentials(), key())),
        looked_at("agreement", peer.terms),
    ]
    if any(row.problem for row in rows):
        return rows
    terms = peer.terms()
    rows += [
        looked_at("records, schema and this site's part", lambda: peer_party(peer, terms).risk),
        looked_at("signature", lambda: _signature(peer, terms)),
        looked_at("ledger", lambda: _ledger(peer, terms)),
        looked_at("revocations", lambda: peer.refuse_revoked(terms)),
        looked_at("links", lambda: peer.seat(terms)),
    ]
    if rows[-1].problem:
        return rows
    try:
        signature = load_signature(peer.folder / peer.signature, terms, peer.agent)
    except InputError:
        signature = None
    why = partial(_no_link, peer, terms)
    visit = Check(terms, peer.agent, key(), ZenohTransport(peer.seat(terms)), signature, why)
    try:
        return rows + visit(seconds)
    except InputError as error:
        return [*rows, CheckResult("port", str(error))]


def _certified(peer: "PeerFile") -> str:
    """Return until when the certificate is valid and whose it is, if it can be read."""
    from ppadmm.peers.pki.certificates import fingerprint, read_certificates

    try:
        own, root = (
            read_certificates(path)[0] for path in (peer.keys.certificate, peer.keys.authority)
        )
    except (InputError, OSError):
        return ""
    until = f"{own.not_valid_after_utc:%Y-%m-%d}"
    return f" (until {until}; fingerprint of the authority {fingerprint(root)})"


def _signature(peer: "PeerFile", terms: "Agreement") -> None:
    from ppadmm.peers.agreement_file import load_signature

    load_signature(peer.folder / peer.signature, terms, peer.agent)


def _ledger(peer: "PeerFile", terms: "Agreement") -> None:
    """Refuse a ledger that does not hold, or that leaves no room for this run."""
    from ppadmm.accounting.protection import Protection
    from ppadmm.ledger.balance import cost, mixed, refusal
    from ppadmm.ledger.chain import read_rows, verify

    if not peer.ledger:
        raise InputError("peer.toml names no ledger; make one with `ppadmm ledger new`")
    books, name = verify(read_rows(peer.folder / peer.ledger))[0], peer.dataset
    if not name:
        return
    if name not in books.grants:
        raise InputError(f"no budget is granted for {name!r}; grant one with `ppadmm ledger grant`")
    party = peer_party(peer, terms)
    begun = any(run.body["spec"] == terms.digest for run in books.counted(name))
    if begun or party.public.not_private_because:
        return
    if why := mixed(books, name, Protection(terms.adjacency), peer.ledger):
        raise InputError(why)
    more = [party.public.reserved[party.number]]
    if (total := cost(books, name, more)) > books.grants[name]["epsilon"]:
        raise InputError(refusal(books, name, total, more))


def _no_link(peer: "PeerFile", terms: "Agreement", j: int) -> str:
    """Dial a neighbour by hand, to learn why there is no link.

    One that dials this site need not be open to it; but if it is, its certificate shows.
    """
    from ppadmm.peers.check import START, probe

    link = next(each for each in peer.links(terms) if each.agent == j)
    if link.via:
        return f"no link; {START}, and look after the router"
    endpoint = link.endpoint or terms.parties[j].endpoint
    answer = probe(endpoint, peer.credentials()) if endpoint else None
    if answer is not None and (link.endpoint or answer.reached) and answer.problem:
        return answer.problem
    return "" if link.endpoint else f"no link; {START}; it dials this site at {peer.endpoint}"
