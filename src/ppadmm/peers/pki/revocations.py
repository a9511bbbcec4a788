"""The signed list of names that are refused for good."""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ppadmm import canonical
from ppadmm.errors import InputError
from ppadmm.files import read_small, require_format

FORMAT = 1
LIST_DOMAIN = b"ppadmm revocations 1\0"
EVERY = 2.0
"""Seconds between two looks at a list that may have been replaced."""

log = logging.getLogger("ppadmm.revocations")


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
        return canonical.dumps_ascii(content)

    def signed(self, key: Any) -> str:
        """Return the list as a JSON text with the authority's signature."""
        data = LIST_DOMAIN + self.body()
        if isinstance(key, Ed25519PrivateKey):
            signature = key.sign(data)
        else:
            signature = key.sign(data, ec.ECDSA(hashes.SHA256()))
        content = {"format": FORMAT, **json.loads(self.body()), "signature": signature.hex()}
        return json.dumps(content, indent=1)

    def why(self, name: str, serial: int | None = None) -> str:
        """Say that a name or a certificate is on the list and why; nothing if it is not."""
        if name not in self.names and (serial is None or f"{serial:x}" not in self.serials):
            return ""
        reason = self.entries.get(name, {}).get("reason")
        return f"the certificate of {name!r} was revoked" + (f" ({reason})" if reason else "")

    def refuse(self, name: str, serial: int | None = None) -> None:
        """Refuse a name or a certificate that is on the list."""
        if why := self.why(name, serial):
            raise InputError(f"T{why[1:]}; ask for a new name.")


def read_revocations(path: Path, roots: Sequence[x509.Certificate]) -> Revocations:
    """Read a list and check that one of these authorities signed it."""
    text = read_small(path)
    try:
        content = json.loads(text)
        way = "ask the authority for a list of this version"
        require_format(f"The list of revocations {path}", content.pop("format", None), FORMAT, way)
        signature = bytes.fromhex(content.pop("signature"))
        found = Revocations(int(content["number"]), dict(content["revoked"]))
        data = LIST_DOMAIN + found.body()
        well_formed = set(content) == {"number", "revoked"} and found.serials is not None
    except InputError:
        raise
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


class RevocationWatch:
    """The newest list in a file that may appear or be replaced at any time.

    A file that cannot be read, is not signed by the authority or is older than what was read
    before changes nothing; that is logged once, and the file is looked at again.
    """

    def __init__(
        self,
        path: Path,
        roots: Sequence[x509.Certificate],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._roots, self._clock = path, roots, clock
        self._newest = Revocations()
        self._seen: object = None
        self._complaint, self._due = "", float("-inf")

    def __call__(self) -> Revocations:
        """Return the newest list; looks at the file every `EVERY` seconds at most."""
        if self._clock() >= self._due:
            self._due = self._clock() + EVERY
            self._look()
        return self._newest

    def _look(self) -> None:
        try:
            state = self._path.stat()
            now = (state.st_mtime_ns, state.st_size, state.st_ino)
            if now != self._seen:
                self._take(read_revocations(self._path, self._roots))
                self._seen, self._complaint = now, ""
        except FileNotFoundError:
            return
        except (InputError, OSError) as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("%s The last good list stays in force.", error)

    def _take(self, found: Revocations) -> None:
        if found.number < self._newest.number:
            raise InputError(
                f"{self._path} is list {found.number}, older than list {self._newest.number}; ask "
                "for the newest."
            )
        if found != self._newest:
            self._newest = found
            log.info("list %d of revocations: %s", found.number, sorted(found.names))
