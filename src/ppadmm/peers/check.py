"""Looks at everything a run needs before it starts, and says what is wrong in one line each."""

import socket
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ppadmm import __version__
from ppadmm.errors import ForeignError, PpadmmError
from ppadmm.peers import control
from ppadmm.peers.agreement import Agreement
from ppadmm.peers.control import ControlMessage
from ppadmm.peers.link_settings import Credentials
from ppadmm.peers.pki.names import host_of
from ppadmm.peers.transport import Transport

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
        return f"{'ok' if not self.problem else 'PROBLEM'}  {self.what}" + (
            f": {self.problem}" if self.problem else ""
        )


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
        return rows + [
            CheckResult(
                f"stranger {name!r}", "it has a certificate of the authority and is no neighbour"
            )
            for name in status.strangers
        ]

    def _note(self) -> ControlMessage:
        signatures = {} if self.signature is None else {self.agent: self.signature.hex()}
        return ControlMessage(
            self.agent, __version__, time.time(), self.agreement.digest, "checking",
            signatures=signatures, agreement=asdict(self.agreement),
        )  # fmt: skip

    def _listen(self, heard: dict[int, tuple[ControlMessage, float]], until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            found = self.transport.receive(left)
            if found is None:
                return
            try:
                heard[found[0]] = (control.decode(found[1]), time.time())
            except ForeignError:
                continue

    def _judge(
        self, j: int, heard: tuple[ControlMessage, float] | None, link: object
    ) -> Iterable[CheckResult]:
        name = f"{self.agreement.parties[j].name} (agent {j})"
        if heard is None:
            linked = getattr(link, "connected", False)
            why = f"a link but no word; {START}" if linked else self.explain(j)
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
