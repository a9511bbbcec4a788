"""The project's own authority: a folder that one person keeps."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ppadmm import checks
from ppadmm.errors import InputError
from ppadmm.files import require_format, write_private, write_whole
from ppadmm.peers.pki.certificates import (
    KEY_URN,
    alternative,
    alternatives,
    common_name,
    hash_for,
    key_digest,
    pem,
    read_certificates,
    signing_key_of,
)
from ppadmm.peers.pki.names import FileOf, agent_name
from ppadmm.peers.pki.revocations import Revocations, read_revocations
from ppadmm.statements.keys import private_pem, read_any_key

FORMAT = 1
"""Of the register."""
AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365
SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class Authority:
    """A folder with the authority's key, its certificate, a register and the revocations.

    `open_key` reads the key; one that is encrypted needs its passphrase.
    """

    folder: Path
    open_key: Callable[[Path], Any] = read_any_key

    key_file = FileOf("authority.key")
    """Its private key: whoever has it can let anybody in."""
    file = FileOf("authority.pem")
    """Its certificate, which every peer trusts."""
    register = FileOf("issued.json")
    """What was issued: a list of name, serial number and last day."""
    revocations = FileOf("revoked.json")
    """The signed list of revoked names, to be sent to every peer."""

    @property
    def certificate(self) -> x509.Certificate:
        """The authority's own certificate."""
        return read_certificates(self.file)[0]

    def make(
        self,
        name: str,
        days: int = AUTHORITY_DAYS,
        now: datetime | None = None,
        passphrase: bytes | None = None,
    ) -> None:
        """Draw a key, encrypted with a passphrase, and sign a certificate; overwrites neither."""
        if self.file.exists():
            raise InputError(f"{self.file} exists already and is not overwritten; move it away.")
        key, when = ec.generate_private_key(ec.SECP256R1()), now or datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, agent_name(name))])
        builder = _dated(subject, subject, key.public_key(), when, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_usage(authority=True), True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(identifier, False)
        write_private(self.key_file, private_pem(key, passphrase))
        write_whole(self.file, pem([builder.sign(key, hashes.SHA256())]))

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
        issuer, key = self.certificate, self.open_key(self.key_file)
        last = issuer.not_valid_after_utc
        builder = _dated(asked.subject, issuer.subject, asked.public_key(), when, days, last)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_usage(authority=False), True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False)
        builder = builder.add_extension(_names_asked(asked), False)
        builder = builder.add_extension(issuer_key, False)
        return builder.sign(key, hash_for(key))

    def issued(self) -> list[dict[str, Any]]:
        """Return the register: every certificate that was ever issued here."""
        if not self.register.exists():
            return []
        content = json.loads(self.register.read_text())
        found = content.get("format") if isinstance(content, dict) else None
        require_format(str(self.register), found, FORMAT, "use the ppadmm that wrote it")
        entries: list[dict[str, Any]] = content["issued"]
        return entries

    def _note(self, own: x509.Certificate) -> None:
        entry = {
            "name": common_name(own),
            "serial": f"{own.serial_number:x}",
            "until": own.not_valid_after_utc.isoformat(),
            "key": key_digest(own),
        }
        content = {"format": FORMAT, "issued": [*self.issued(), entry]}
        text = json.dumps(content, indent=1) + "\n"
        write_whole(self.register, text.encode())

    def _check_name(self, name: str, asked: x509.CertificateSigningRequest, when: datetime) -> None:
        if name in self.revoked().names:
            raise InputError(
                f"The name {name!r} was revoked and stays so; ask the site for another name."
            )
        for entry in self.issued():
            valid = datetime.fromisoformat(entry["until"]) > when
            if entry["name"] == name and valid and entry["key"] != key_digest(asked):
                raise InputError(
                    f"{name!r} already has a certificate for another key; revoke that first (its "
                    "name is then gone for good), or give this site another name."
                )

    def revoked(self) -> Revocations:
        """Return the present list, empty at first."""
        if not self.revocations.exists():
            return Revocations()
        return read_revocations(self.revocations, [self.certificate])

    def revoke(self, name: str, reason: str = "", now: datetime | None = None) -> Revocations:
        """Add a name to the list for good and sign the list anew."""
        serials = sorted(entry["serial"] for entry in self.issued() if entry["name"] == name)
        if not serials:
            raise InputError(f"No certificate was issued to {name!r}; nothing was revoked.")
        when = (now or datetime.now(UTC)).isoformat(timespec="seconds")
        entry = {"name": name, "serials": serials, "when": when, "reason": reason}
        before = self.revoked()
        new = Revocations(before.number + 1, {**before.entries, name: entry})
        write_whole(self.revocations, new.signed(self.open_key(self.key_file)).encode() + b"\n")
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
    names: list[x509.GeneralName] = [alternative(host) for host in alternatives(asked)]
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
