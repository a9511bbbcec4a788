"""A site's own keys, its request for a certificate and the reply that it keeps."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ppadmm.errors import InputError
from ppadmm.files import read_small, write_private, write_whole
from ppadmm.peers.pki.certificates import (
    KEY_URN,
    alternative,
    common_name,
    hash_for,
    is_self_issued,
    pem,
    signing_key_of,
    verify,
)
from ppadmm.peers.pki.names import FileOf, agent_name
from ppadmm.statements.keys import (
    new_key,
    private_pem,
    public_file,
    public_key,
    public_key_named,
    read_any_key,
    read_key,
)


@dataclass(frozen=True)
class Keys:
    """Where a site keeps its private keys and what it was given for them."""

    folder: Path

    tls = FileOf("tls.key")
    """The private key of the TLS links."""
    signing = FileOf("signing.key")
    """The private key that signs messages."""
    certificate = FileOf("certificate.pem")
    """The site's certificate, once it has one."""
    authority = FileOf("authority.pem")
    """The certificate of the authority that all peers trust."""
    revocations = FileOf("revoked.json")
    """The authority's list of revoked names, once there is one."""

    def make(self, passphrase: bytes | None = None) -> None:
        """Draw both private keys, that of messages encrypted; refuses to overwrite either.

        The key of the links is not encrypted: Zenoh reads no such file (docs/transport.md).
        """
        for path in (self.tls, self.signing, public_file(self.signing)):
            if path.exists():
                raise InputError(f"{path} exists already and is not overwritten; move it away.")
        self.folder.mkdir(parents=True, exist_ok=True)
        new_key(self.signing, passphrase)
        write_private(self.tls, private_pem(ec.generate_private_key(ec.SECP256R1())))

    def public_signing_key(self) -> str:
        """Return the public message key (hex), as an agreement lists it; needs no passphrase."""
        if (public := public_file(self.signing)).is_file():
            return public_key_named(str(public))
        return public_key(read_key(self.signing))


def request(keys: Keys, name: str, hosts: Sequence[str]) -> x509.CertificateSigningRequest:
    """Return a signed request for a certificate; it holds nothing secret."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, agent_name(name))])
    urn = x509.UniformResourceIdentifier(KEY_URN + keys.public_signing_key())
    names = [*(alternative(host) for host in dict.fromkeys(hosts)), urn]
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    key = read_any_key(keys.tls)
    return builder.sign(key, hash_for(key))


def read_request(path: Path) -> x509.CertificateSigningRequest:
    """Read a request and check that its sender holds the key it is for."""
    data = read_small(path)
    try:
        found = x509.load_pem_x509_csr(data)
        valid = found.is_signature_valid
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(f"{path} holds no certificate request in PEM.") from None
    if not valid:
        raise InputError(f"The request in {path} is not signed by its own key; ask for a new one.")
    return found


def join(
    keys: Keys,
    name: str,
    reply: Sequence[x509.Certificate],
    authority: Sequence[x509.Certificate] = (),
    now: datetime | None = None,
) -> x509.Certificate:
    """Check the certificate that came back and keep it, with the authority's.

    `reply` is the certificate, then the authority's own unless `authority` gives that. Refused: a
    certificate for another key, another name or another message key, one that the authority did
    not issue, and one out of date. A changed authority is never taken in silently.
    """
    own, rest = reply[0], reply[1:]
    roots = roots_of(reply, authority)
    check_own(keys, name, own)
    between = [certificate for certificate in rest if not is_self_issued(certificate)]
    verify(own, roots, between, now)
    _keep_authority(keys.authority, pem(roots))
    write_whole(keys.certificate, pem([own, *between]))
    return own


def roots_of(
    reply: Sequence[x509.Certificate], authority: Sequence[x509.Certificate] = ()
) -> list[x509.Certificate]:
    """Return whom to trust: the authority that was given, or the one in the reply."""
    roots = list(authority) or [each for each in reply[1:] if is_self_issued(each)]
    if not roots:
        raise InputError("The reply holds no authority's certificate; give the file with --ca.")
    return roots


def check_own(keys: Keys, name: str, own: x509.Certificate) -> None:
    """Refuse a certificate that is not for this site's name and keys."""
    if common_name(own) != name:
        raise InputError(
            f"The certificate is for {common_name(own)!r}, this site is {name!r}; join with the "
            "reply to this site's own request."
        )
    if own.public_key() != read_any_key(keys.tls).public_key():
        raise InputError(f"The certificate is not for the key {keys.tls}; send a new request.")
    vouched = signing_key_of(own)
    if vouched is not None and vouched != keys.public_signing_key():
        raise InputError(
            f"The certificate vouches for another message key than {keys.signing}; send a new "
            "request."
        )


def _keep_authority(path: Path, pem: bytes) -> None:
    if path.exists() and path.read_bytes() != pem:
        raise InputError(
            f"The authority differs from the one in {path}; if that is meant, move the file away."
        )
    write_whole(path, pem)
