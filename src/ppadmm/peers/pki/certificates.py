"""What a request or a certificate says, and whether it holds."""

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from ppadmm.errors import InputError
from ppadmm.files import read_small

KEY_URN = "urn:ppadmm:key:"
Signed = x509.Certificate | x509.CertificateSigningRequest


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Read the certificates of a PEM file, the first one first."""
    data = read_small(path)
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        raise InputError(f"{path} holds no certificate in PEM.") from None


def pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Return certificates as text that can be mailed."""
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def alternative(host: str) -> x509.GeneralName:
    """Return a host as a certificate spells it: an IP address or a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def common_name(thing: Signed) -> str:
    """Return the name in the subject; there must be exactly one."""
    found = thing.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(found) != 1:
        raise InputError(f"Expected one name (CN) in the subject, got {len(found)}.")
    return str(found[0].value)


def alternatives(thing: Signed) -> tuple[str, ...]:
    """Return the addresses (DNS names and IPs) that it stands for."""
    names = _san(thing)
    return (
        *names.get_values_for_type(x509.DNSName),
        *(str(address) for address in names.get_values_for_type(x509.IPAddress)),
    )


def signing_key_of(thing: Signed) -> str | None:
    """Return the public message key (hex) that it vouches for, if it has one."""
    uris = _san(thing).get_values_for_type(x509.UniformResourceIdentifier)
    keys = [uri.removeprefix(KEY_URN) for uri in uris if uri.startswith(KEY_URN)]
    if len(keys) > 1 or not all(re.fullmatch(r"[0-9a-f]{64}", key) for key in keys):
        raise InputError(f"Expected one message key of 32 bytes in hexadecimal, got {keys}.")
    return keys[0] if keys else None


def _san(thing: Signed) -> x509.SubjectAlternativeName:
    try:
        return thing.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])


def fingerprint(thing: Signed) -> str:
    """Return SHA-256 in groups of four, short enough to read out over the telephone."""
    text = hashlib.sha256(thing.public_bytes(Encoding.DER)).hexdigest()[:32]
    return " ".join(text[k : k + 4] for k in range(0, 32, 4))


def same_fingerprint(mine: str, theirs: str) -> bool:
    """Compare fingerprints as people type them: spaces, colons and capitals do not count."""
    return re.sub(r"[\s:]", "", mine).lower() == re.sub(r"[\s:]", "", theirs).lower()


def room(roots: Sequence[x509.Certificate]) -> bytes:
    """Return the 16 bytes under which sites that trust the same authority meet."""
    der = roots[0].public_bytes(Encoding.DER)
    return hashlib.sha256(b"ppadmm room 1\0" + der).digest()[:16]


def is_self_issued(certificate: x509.Certificate) -> bool:
    """Say whether it names itself as its issuer, as an authority's own does."""
    return certificate.subject == certificate.issuer


def verify(
    own: x509.Certificate,
    roots: Sequence[x509.Certificate],
    between: Sequence[x509.Certificate] = (),
    now: datetime | None = None,
) -> None:
    """Refuse a certificate that these authorities did not issue, or that is out of date."""
    when = now or datetime.now(UTC)
    if not own.not_valid_before_utc <= when <= own.not_valid_after_utc:
        raise InputError(
            f"The certificate of {common_name(own)!r} is valid from "
            f"{own.not_valid_before_utc:%Y-%m-%d} to {own.not_valid_after_utc:%Y-%m-%d}, and today "
            f"is {when:%Y-%m-%d}; send a new request, or set the clock."
        )
    try:
        policy = PolicyBuilder().store(Store(list(roots))).time(when)
        policy.build_client_verifier().verify(own, list(between))
    except VerificationError as error:
        raise InputError(
            f"The certificate of {common_name(own)!r} was not issued by "
            f"{common_name(roots[0])!r}: {error}."
        ) from None


def key_digest(thing: Signed) -> str:
    """Return SHA-256 (hex) of the public key."""
    der = thing.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def hash_for(key: Any) -> hashes.SHA256 | None:
    """Return the hash to sign with; Ed25519 brings its own."""
    return None if isinstance(key, Ed25519PrivateKey) else hashes.SHA256()
