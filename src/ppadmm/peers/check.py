"""Looks at everything a run needs before it starts, and says what is wrong in one line each."""

import socket
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from ppadmm import __version__, checks
from ppadmm.accounting.protection import Protection
from ppadmm.errors import ForeignError, InputError, PpadmmError
from ppadmm.ledger.balance import cost, mixed, refusal
from ppadmm.ledger.chain import read_rows, verify
from ppadmm.peers import control
from ppadmm.peers.agreement import Agreement
from ppadmm.peers.control import ControlMessage
from ppadmm.peers.link_settings import Credentials
from ppadmm.peers.loading import KeyReader, load_participant
from ppadmm.peers.pki.certificates import fingerprint, read_certificates
from ppadmm.peers.pki.names import host_of
from ppadmm.peers.settings import PeerFile
from ppadmm.peers.transport import Neighbour, Transport
from ppadmm.statements.keys import read_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SKEW = 60.0
"""Seconds by which clocks may differ: certificates and logs need them to be roughly right."""
PAUSE = 0.5
START = "start `ppadmm peer run` or `peer check` there, too"
EXPIRED = 10
OTHER_ADDRESS = (62, 64)
"""Codes of OpenSSL: X509_V_ERR_CERT_HAS_EXPIRED, …_HOSTNAME_MISMATCH, …_IP_ADDRESS_MISMATCH."""


@dataclass(frozen=True)
class CheckResult:
    """One thing that was looked at: `problem` is empty if all is well."""

    what: str
    problem: str = ""

    def __str__(self) -> str:
        return f"PROBLEM  {self.what}: {self.problem}" if self.problem else f"ok  {self.what}"


def looked_at(what: str, look: Callable[[], object]) -> CheckResult:
    """Try something; what it refuses is the problem, in its own words."""
    try:
        look()
    except (PpadmmError, OSError) as error:
        return CheckResult(what, str(error))
    return CheckResult(what)


@dataclass(frozen=True)
class ProbeAnswer:
    """What came of dialling an endpoint: whether anyone speaks TLS there, and what is wrong."""

    reached: bool
    problem: str = ""


def probe(endpoint: str, credentials: Credentials, seconds: float = 3.0) -> ProbeAnswer:
    """Dial an endpoint as TLS, as a neighbour would."""
    host, port = host_of(endpoint), int(endpoint.rpartition(":")[2])
    context = ssl.create_default_context(cafile=str(credentials.authority))
    context.load_cert_chain(credentials.certificate, credentials.key)
    try:
        with (
            socket.create_connection((host, port), seconds) as plain,
            context.wrap_socket(plain, server_hostname=host) as link,
        ):
            return ProbeAnswer(True, _refusal(link))
    except ssl.SSLCertVerificationError as error:
        return ProbeAnswer(True, _distrust(error, host))
    except ssl.SSLError as error:
        return ProbeAnswer(True, f"TLS fails ({error.reason}); is that port a peer's?")
    except ConnectionRefusedError:
        return ProbeAnswer(False, f"nothing listens at {host}:{port}; {START}")
    except TimeoutError:
        why = f"no answer from {host}:{port} in {seconds:g} s; open its firewall to this site"
        return ProbeAnswer(False, why)
    except OSError as error:
        why = f"{host}:{port} cannot be reached ({error.strerror or error}); check the name"
        return ProbeAnswer(False, why)


def _distrust(error: ssl.SSLCertVerificationError, host: str) -> str:
    """Say why the certificate of the other side does not hold, and who mends that."""
    if error.verify_code == EXPIRED:
        return "its certificate has expired; it needs a new one (ppadmm peer request there)"
    if error.verify_code in OTHER_ADDRESS:
        return f"its certificate is not for the address {host}; ask it for a right endpoint"
    return (
        f"its certificate is not from this site's authority ({error.verify_message}); compare the "
        "authority's fingerprint at both, and join anew where it is wrong"
    )


def _refusal(link: ssl.SSLSocket) -> str:
    """Wait a moment for an alert: with TLS 1.3 a refused certificate shows only afterwards."""
    link.settimeout(0.5)
    try:
        link.recv(1)
    except TimeoutError:
        return ""
    except ssl.SSLError as error:
        return f"it refuses this site's certificate ({error.reason}); is the authority the same?"
    return ""


@dataclass
class Check:
    """A short visit to the neighbours: says who this is and listens to who they are.

    Where there is no link, `explain` may know why.
    """

    agreement: Agreement
    agent: int
    key: "Ed25519PrivateKey"
    transport: Transport
    signature: bytes | None = None
    explain: Callable[[int], str] = lambda neighbour: ""

    def __call__(self, seconds: float) -> list[CheckResult]:
        """Return one line per neighbour and problem."""
        near = self.agreement.graph.neighbours(self.agent)
        heard: dict[int, tuple[ControlMessage, float]] = {}
        self.transport.start()
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end and len(heard) < len(near):
                self.transport.publish(self._note().encode(self.key))
                self._listen(heard, min(end, time.monotonic() + PAUSE))
            self.transport.publish(self._note().encode(self.key))
            status = self.transport.status()
        finally:
            self.transport.close()
        rows = [row for j in near for row in self._judge(j, heard.get(j), status.neighbours[j])]
        why = "it has a certificate of the authority and is no neighbour"
        return rows + [CheckResult(f"stranger {name!r}", why) for name in status.strangers]

    def _note(self) -> ControlMessage:
        signatures = {} if self.signature is None else {self.agent: self.signature.hex()}
        return ControlMessage(
            self.agent, __version__, time.time(), self.agreement.digest, "checking",
            signatures=signatures, agreement=asdict(self.agreement),
        )  # fmt: skip

    def _listen(self, heard: dict[int, tuple[ControlMessage, float]], until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            found = self.transport.receive(left)
            if found is not None:
                with suppress(ForeignError):
                    heard[found[0]] = (control.decode(found[1]), time.time())

    def _judge(
        self, j: int, heard: tuple[ControlMessage, float] | None, link: Neighbour
    ) -> Iterable[CheckResult]:
        name = f"{self.agreement.parties[j].name} (agent {j})"
        if heard is None:
            why = f"a link but no word; {START}" if link.connected else self.explain(j)
            yield CheckResult(name, why or f"no link; {START}")
            return
        note, when = heard
        yield CheckResult(f"{name}: reached, {note.phase}, round {note.round}")
        if note.version != __version__:
            yield CheckResult(
                name, f"it runs ppadmm {note.version}, this site {__version__}; install the same"
            )
        yield from self._compare(j, name, note)
        ahead = note.time - when
        if abs(ahead) > SKEW:
            way = "ahead" if ahead > 0 else "behind"
            yield CheckResult(
                name, f"its clock is {abs(ahead):.0f} s {way} of this one; set both by NTP"
            )

    def _compare(self, j: int, name: str, note: ControlMessage) -> Iterable[CheckResult]:
        if note.digest == self.agreement.digest:
            signed = note.signatures.get(j)
            if signed is None or not self.agreement.is_signed(j, bytes.fromhex(signed)):
                yield CheckResult(name, "it has not signed the agreement yet (ppadmm peer sign)")
            return
        for entry in note.differences(self.agreement):
            yield CheckResult(name, f"another agreement: {entry}; take the same file at both")


# A site as a whole


def check_site(
    peer: PeerFile, seconds: float = 10.0, open_key: KeyReader = read_key
) -> list[CheckResult]:
    """Look at everything that a run needs, at this site and at its neighbours.

    Parameters
    ----------
    peer : PeerFile
        The site.
    seconds : float
        How long to listen for the neighbours, which must be checking or running, too.
    open_key : callable
        How its message key is read; one that is encrypted needs its passphrase.

    Returns
    -------
    list of CheckResult
        One for each thing that was looked at; those that are wrong have a `problem`. Links are
        looked at only if certificate, keys and agreement hold.
    """
    checks.positive("seconds", seconds)
    key = cache(partial(open_key, peer.keys.signing))
    rows = [
        looked_at(f"certificate and keys{_certified(peer)}", lambda: (peer.credentials(), key())),
        looked_at("agreement", peer.terms),
    ]
    if any(row.problem for row in rows):
        return rows
    terms = peer.terms()
    rows += [
        looked_at("records, schema and this site's part",
                  lambda: load_participant(peer, terms).risk),
        looked_at("signature", lambda: peer.signed(terms)),
        looked_at("ledger", lambda: require_room(peer, terms)),
        looked_at("revocations", lambda: peer.refuse_revoked(terms)),
        looked_at("links", lambda: peer.link_settings(terms)),
    ]  # fmt: skip
    return rows if rows[-1].problem else [*rows, *_visit(peer, terms, key(), seconds)]


def _visit(
    peer: PeerFile, terms: Agreement, key: "Ed25519PrivateKey", seconds: float
) -> list[CheckResult]:
    from ppadmm.peers.zenoh.transport import ZenohTransport

    try:
        signature = peer.signed(terms)
    except InputError:
        signature = None
    why = partial(_no_link, peer, terms)
    visit = Check(terms, peer.agent, key, ZenohTransport(peer.link_settings(terms)), signature, why)
    try:
        return visit(seconds)
    except InputError as error:
        return [CheckResult("port", str(error))]


def _certified(peer: PeerFile) -> str:
    """Return until when the certificate is valid and whose it is, if it can be read."""
    try:
        own = read_certificates(peer.keys.certificate)[0]
        root = read_certificates(peer.keys.authority)[0]
    except (InputError, OSError):
        return ""
    until = f"{own.not_valid_after_utc:%Y-%m-%d}"
    return f" (until {until}; fingerprint of the authority {fingerprint(root)})"


def require_room(peer: PeerFile, terms: Agreement) -> None:
    """Refuse a ledger that does not hold, or that leaves no room for this run.

    Nothing is charged. A run that was begun already, or is not private, needs no room.
    """
    if not peer.ledger:
        raise InputError("peer.toml names no ledger; make one with `ppadmm ledger new`")
    books, name = verify(read_rows(peer.folder / peer.ledger))[0], peer.dataset
    if not name:
        return
    if name not in books.grants:
        raise InputError(f"no budget is granted for {name!r}; grant one with `ppadmm ledger grant`")
    party = load_participant(peer, terms)
    begun = any(run.body["spec"] == terms.digest for run in books.counted(name))
    if begun or party.public.not_private_because:
        return
    if why := mixed(books, name, Protection(terms.adjacency), peer.ledger):
        raise InputError(why)
    more = [party.public.reserved[party.number]]
    if (total := cost(books, name, more)) > books.grants[name]["epsilon"]:
        raise InputError(refusal(books, name, total, more))


def _no_link(peer: PeerFile, terms: Agreement, j: int) -> str:
    """Dial a neighbour by hand, to learn why there is no link.

    One that dials this site need not be open to it; but if it is, its certificate shows.
    """
    link = next(each for each in peer.links(terms) if each.agent == j)
    if link.via:
        return f"no link; {START}, and look after the router"
    endpoint = link.endpoint or terms.parties[j].endpoint
    answer = probe(endpoint, peer.credentials()) if endpoint else None
    if answer is not None and (link.endpoint or answer.reached) and answer.problem:
        return answer.problem
    return "" if link.endpoint else f"no link; {START}; it dials this site at {peer.endpoint}"
