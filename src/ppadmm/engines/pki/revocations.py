"""The signed list of names that are refused for good."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ppadmm.engines.files import read_small
from ppadmm.errors import InputError

LIST_DOMAIN = b"ppadmm revocations 1\0"


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
    text = read_small(path)
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
