"""Certificates: who may connect, and under which name.

    site                      the project's authority            site
    new keys → request.pem →  approve (reads it, compares     →  join (checks it, keeps it)
                              the fingerprint by telephone)

A site has two private keys, which never leave it: one for TLS (ECDSA P-256, which every
organisation's authority can sign) and one for its messages (Ed25519). A certificate says the
agent's name (CN), the addresses of its endpoint (SAN) and, as a URI `urn:ppadmm:key:…` in the SAN,
the public half of its message key; the request proves that the site holds the TLS key.

A revoked name stays revoked: a site that lost a key makes new keys and asks under a new name. So a
peer needs to look at names only, which is what access control can see.
"""

import hashlib
import ipaddress
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from ppadmm import checks
from ppadmm.errors import InputError

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365
SKEW = timedelta(minutes=5)
LONGEST_FILE = 1 << 20
KEY_URN = "urn:ppadmm:key:"
LIST_DOMAIN = b"ppadmm revocations 1\0"
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9 ._-]{0,62}[A-Za-z0-9])?")

Value = TypeVar("Value")


# Names and endpoints


def agent_name(name: str) -> str:
    """Return a name that a certificate, a file and a log can all carry, or refuse it."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError(
            f"Expected a name of 1 to 64 letters, digits, spaces, dots, dashes or underscores that "
            f"begins and ends with a letter or digit, got {name!r}."
        )
    return name


def host_of(endpoint: str) -> str:
    """Return the host of `tls/host:port` or `host:port`; IPv6 stands in brackets."""
    address = endpoint.removeprefix("tls/")
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:/\s\[\]]+):(\d{1,5})", address)
    if not found or not 0 < int(found[2]) < 65536:
        raise InputError(f"Expected an endpoint like tls/host.example.org:7447, got {endpoint!r}.")
    return found[1].strip("[]")


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


# Files


def write_private(path: Path, data: bytes) -> None:
    """Write a secret that only its owner can read (mode 0600); what exists is never overwritten."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(
            f"{path} exists already and is not overwritten; keep it, or move it away first."
        ) from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def check_private(path: Path) -> Path:
    """Refuse a key that is missing, or that others on this machine can read."""
    if not path.is_file():
        raise InputError(f"The private key {path} is missing; `ppadmm peer new` makes one.")
    if os.name != "nt" and path.stat().st_mode & 0o077:
        raise InputError(f"The private key {path} is readable by others; give: chmod 600 {path}.")
    return path


def read_key(path: Path) -> PrivateKeyTypes:
    """Read a private key in PEM; the file must be its owner's alone."""
    data = check_private(path).read_bytes()
    try:
        return load_pem_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError(f"{path} holds no private key in PEM without a passphrase.") from None


def read_signing_key(path: Path) -> Ed25519PrivateKey:
    """Read the key that signs messages and agreements."""
    key = read_key(path)
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path} holds no Ed25519 key; `ppadmm peer new` makes one.")
    return key


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Read the certificates of a PEM file, the first one first."""
    data = _read(path)
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        raise InputError(f"{path} holds no certificate in PEM.") from None


def _read(path: Path) -> bytes:
    """Read a file that came by mail, if it has a reasonable size."""
    if path.stat().st_size > LONGEST_FILE:
        raise InputError(f"{path} has {path.stat().st_size:,} bytes; expected 1 MiB at most.")
    return path.read_bytes()


def _private_pem(key: Any) -> bytes:
    data: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return data


def pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Return certificates as text that can be mailed."""
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


# What a request or a certificate says


def common_name(thing: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """Return the name in the subject; there must be exactly one."""
    found = thing.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(found) != 1:
        raise InputError(f"Expected one name (CN) in the subject, got {len(found)}.")
    return str(found[0].value)


def alternatives(thing: x509.Certificate | x509.CertificateSigningRequest) -> tuple[str, ...]:
    """Return the addresses (DNS names and IPs) that it stands for."""
    names = _san(thing)
    return (
        *names.get_values_for_type(x509.DNSName),
        *(str(address) for address in names.get_values_for_type(x509.IPAddress)),
    )


def signing_key_of(thing: x509.Certificate | x509.CertificateSigningRequest) -> str | None:
    """Return the public message key (hex) that it vouches for, if it has one."""
    uris = _san(thing).get_values_for_type(x509.UniformResourceIdentifier)
    keys = [uri.removeprefix(KEY_URN) for uri in uris if uri.startswith(KEY_URN)]
    if len(keys) > 1 or not all(re.fullmatch(r"[0-9a-f]{64}", key) for key in keys):
        raise InputError(f"Expected one message key of 32 bytes in hexadecimal, got {keys}.")
    return keys[0] if keys else None


def _san(
    thing: x509.Certificate | x509.CertificateSigningRequest,
) -> x509.SubjectAlternativeName:
    try:
        return thing.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])


def fingerprint(thing: x509.Certificate | x509.CertificateSigningRequest) -> str:
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


# At the site


@dataclass(frozen=True)
class Keys:
    """Where a site keeps its private keys and what it was given for them."""

    folder: Path

    @property
    def tls(self) -> Path:
        """The private key of the TLS links."""
        return self.folder / "tls.key"

    @property
    def signing(self) -> Path:
        """The private key that signs messages."""
        return self.folder / "signing.key"

    @property
    def certificate(self) -> Path:
        """The site's certificate, once it has one."""
        return self.folder / "certificate.pem"

    @property
    def authority(self) -> Path:
        """The certificate of the authority that all peers trust."""
        return self.folder / "authority.pem"

    def make(self) -> None:
        """Draw both private keys; refuses to overwrite either."""
        for path in (self.tls, self.signing):
            if path.exists():
                raise InputError(f"{path} exists already and is not overwritten; move it away.")
        write_private(self.tls, _private_pem(ec.generate_private_key(ec.SECP256R1())))
        write_private(self.signing, _private_pem(Ed25519PrivateKey.generate()))

    def public_signing_key(self) -> str:
        """Return the public message key (hex), as an agreement lists it."""
        public = read_signing_key(self.signing).public_key()
        return public.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def request(keys: Keys, name: str, hosts: Sequence[str]) -> x509.CertificateSigningRequest:
    """Return a signed request for a certificate; it holds nothing secret."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, agent_name(name))])
    urn = x509.UniformResourceIdentifier(KEY_URN + keys.public_signing_key())
    names = [*(_alternative(host) for host in dict.fromkeys(hosts)), urn]
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    key: Any = read_key(keys.tls)
    return builder.sign(key, _digest(key))


def read_request(path: Path) -> x509.CertificateSigningRequest:
    """Read a request and check that its sender holds the key it is for."""
    data = _read(path)
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
    between = [certificate for certificate in rest if not _self_issued(certificate)]
    verify(own, roots, between, now)
    _keep_authority(keys.authority, pem(roots))
    keys.certificate.write_bytes(pem([own, *between]))
    return own


def roots_of(
    reply: Sequence[x509.Certificate], authority: Sequence[x509.Certificate] = ()
) -> list[x509.Certificate]:
    """Return whom to trust: the authority that was given, or the one in the reply."""
    roots = list(authority) or [each for each in reply[1:] if _self_issued(each)]
    if not roots:
        raise InputError("The reply holds no authority's certificate; give the file with --ca.")
    return roots


def check_own(keys: Keys, name: str, own: x509.Certificate) -> None:
    """Refuse a certificate that is not for this site's name and keys."""
    if common_name(own) != name:
        raise InputError(f"The certificate is for {common_name(own)!r}, this site is {name!r}.")
    if own.public_key() != read_key(keys.tls).public_key():
        raise InputError(f"The certificate is not for the key {keys.tls}; send a new request.")
    vouched = signing_key_of(own)
    if vouched is not None and vouched != keys.public_signing_key():
        raise InputError(f"The certificate vouches for another message key than {keys.signing}.")


def _keep_authority(path: Path, pem: bytes) -> None:
    if path.exists() and path.read_bytes() != pem:
        raise InputError(
            f"The authority differs from the one in {path}; if that is meant, move the file away."
        )
    path.write_bytes(pem)


def _self_issued(certificate: x509.Certificate) -> bool:
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


# The authority


@dataclass(frozen=True)
class Authority:
    """A folder with the authority's key, its certificate, a register and the revocations."""

    folder: Path

    @property
    def key_file(self) -> Path:
        """Its private key: whoever has it can let anybody in."""
        return self.folder / "authority.key"

    @property
    def file(self) -> Path:
        """Its certificate, which every peer trusts."""
        return self.folder / "authority.pem"

    @property
    def register(self) -> Path:
        """What was issued: a list of name, serial number and last day."""
        return self.folder / "issued.json"

    @property
    def revocations(self) -> Path:
        """The signed list of revoked names, to be sent to every peer."""
        return self.folder / "revoked.json"

    @property
    def certificate(self) -> x509.Certificate:
        """The authority's own certificate."""
        return read_certificates(self.file)[0]

    def make(self, name: str, days: int = AUTHORITY_DAYS, now: datetime | None = None) -> None:
        """Draw a key and sign a certificate for it; refuses to overwrite either."""
        if self.file.exists():
            raise InputError(f"{self.file} exists already and is not overwritten; move it away.")
        key, when = ec.generate_private_key(ec.SECP256R1()), now or datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, agent_name(name))])
        builder = _dated(subject, subject, key.public_key(), when, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_usage(authority=True), True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(identifier, False)
        write_private(self.key_file, _private_pem(key))
        self.file.write_bytes(pem([builder.sign(key, hashes.SHA256())]))

    def approve(
        self,
        asked: x509.CertificateSigningRequest,
        days: int = CERTIFICATE_DAYS,
        now: datetime | None = None,
    ) -> list[x509.Certificate]:
        """Issue what was asked for and return the reply: the certificate, then the authority's.

        Only the name, the addresses and the message key are taken from the request. A name that
        was given away already is refused while that certificate is valid, unless the keys are the
        same; a revoked name is refused for good.
        """
        checks.count("days", days)
        name, when = agent_name(common_name(asked)), now or datetime.now(UTC)
        self._check_name(name, asked, when)
        own = self._issue(asked, days, when)
        self._note(own)
        return [own, *read_certificates(self.file)]

    def _issue(
        self, asked: x509.CertificateSigningRequest, days: int, when: datetime
    ) -> x509.Certificate:
        issuer, key = self.certificate, self._key()
        last = issuer.not_valid_after_utc
        builder = _dated(asked.subject, issuer.subject, asked.public_key(), when, days, last)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_usage(authority=False), True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False)
        builder = builder.add_extension(_names_asked(asked), False)
        builder = builder.add_extension(issuer_key, False)
        return builder.sign(key, _digest(key))

    def _key(self) -> Any:
        return read_key(self.key_file)

    def issued(self) -> list[dict[str, Any]]:
        """Return the register: every certificate that was ever issued here."""
        if not self.register.exists():
            return []
        entries: list[dict[str, Any]] = json.loads(self.register.read_text())
        return entries

    def _note(self, own: x509.Certificate) -> None:
        entry = {
            "name": common_name(own),
            "serial": f"{own.serial_number:x}",
            "until": own.not_valid_after_utc.isoformat(),
            "key": _key_digest(own),
        }
        _replace(self.register, json.dumps([*self.issued(), entry], indent=1))

    def _check_name(self, name: str, asked: x509.CertificateSigningRequest, when: datetime) -> None:
        if name in self.revoked().names:
            raise InputError(
                f"The name {name!r} was revoked and stays so; ask the site for another name."
            )
        for entry in self.issued():
            valid = datetime.fromisoformat(entry["until"]) > when
            if entry["name"] == name and valid and entry["key"] != _key_digest(asked):
                raise InputError(
                    f"{name!r} already has a certificate for another key; revoke that first (its "
                    "name is then gone for good), or give this site another name."
                )

    def revoked(self) -> "Revocations":
        """Return the present list, empty at first."""
        if not self.revocations.exists():
            return Revocations()
        return read_revocations(self.revocations, [self.certificate])

    def revoke(self, name: str, reason: str = "", now: datetime | None = None) -> "Revocations":
        """Add a name to the list for good and sign the list anew."""
        serials = sorted(entry["serial"] for entry in self.issued() if entry["name"] == name)
        if not serials:
            raise InputError(f"No certificate was issued to {name!r}; nothing was revoked.")
        when = (now or datetime.now(UTC)).isoformat(timespec="seconds")
        entry = {"name": name, "serials": serials, "when": when, "reason": reason}
        before = self.revoked()
        new = Revocations(before.number + 1, {**before.entries, name: entry})
        _replace(self.revocations, new.signed(self._key()))
        return new


def _dated(
    subject: x509.Name,
    issuer: x509.Name,
    key: Any,
    when: datetime,
    days: int,
    last: datetime | None = None,
) -> x509.CertificateBuilder:
    """Begin a certificate that is valid from a little before now; clocks differ."""
    until = when + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(when - SKEW)
        .not_valid_after(until if last is None else min(until, last))
    )


def _names_asked(asked: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = [_alternative(host) for host in alternatives(asked)]
    if (key := signing_key_of(asked)) is not None:
        names.append(x509.UniformResourceIdentifier(KEY_URN + key))
    if not names:
        raise InputError("The request has neither an address nor a message key; ask for a new one.")
    return x509.SubjectAlternativeName(names)


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_digest(thing: x509.Certificate | x509.CertificateSigningRequest) -> str:
    der = thing.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def _digest(key: Any) -> hashes.SHA256 | None:
    """Return the hash to sign with; Ed25519 brings its own."""
    return None if isinstance(key, Ed25519PrivateKey) else hashes.SHA256()


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(path.name + ".part")
    partial.write_text(text + "\n")
    partial.replace(path)


# Revocations


@dataclass(frozen=True)
class Revocations:
    """Names that are refused for good; a newer list has a higher number."""

    number: int = 0
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """The revoked names."""
        return frozenset(self.entries)

    @property
    def serials(self) -> frozenset[str]:
        """The serial numbers (hex) of the revoked certificates."""
        return frozenset(serial for entry in self.entries.values() for serial in entry["serials"])

    def body(self) -> bytes:
        """Return the one spelling that is signed."""
        content = {"number": self.number, "revoked": dict(self.entries)}
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

    def signed(self, key: Any) -> str:
        """Return the list as a JSON text with the authority's signature."""
        data = LIST_DOMAIN + self.body()
        if isinstance(key, Ed25519PrivateKey):
            signature = key.sign(data)
        else:
            signature = key.sign(data, ec.ECDSA(hashes.SHA256()))
        content = {**json.loads(self.body()), "signature": signature.hex()}
        return json.dumps(content, indent=1)

    def refuse(self, name: str, serial: int | None = None) -> None:
        """Refuse a name or a certificate that is on the list."""
        if name in self.names or (serial is not None and f"{serial:x}" in self.serials):
            entry = self.entries.get(name, {})
            why = f" ({entry['reason']})" if entry.get("reason") else ""
            raise InputError(f"The certificate of {name!r} was revoked{why}; ask for a new name.")


def read_revocations(path: Path, roots: Sequence[x509.Certificate]) -> Revocations:
    """Read a list and check that one of these authorities signed it."""
    text = _read(path)
    try:
        content = json.loads(text)
        signature = bytes.fromhex(content.pop("signature"))
        found = Revocations(int(content["number"]), dict(content["revoked"]))
        data = LIST_DOMAIN + found.body()
        well_formed = set(content) == {"number", "revoked"} and found.serials is not None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path} holds no list of revocations; ask for it anew.") from None
    if not well_formed or not any(_signed_by(root, signature, data) for root in roots):
        raise InputError(f"The list of revocations {path} is not signed by the authority.")
    return found


def _signed_by(root: x509.Certificate, signature: bytes, data: bytes) -> bool:
    key: Any = root.public_key()
    extra = (ec.ECDSA(hashes.SHA256()),) if isinstance(key, ec.EllipticCurvePublicKey) else ()
    try:
        key.verify(signature, data, *extra)
    except (InvalidSignature, TypeError):
        return False
    return True
