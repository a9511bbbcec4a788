"""Private keys in files for their owner only, in PEM; public ones as hex.

With a passphrase the PEM is encrypted PKCS#8, as OpenSSL reads it, too. A key that is not encrypted
must be its owner's alone (mode 0600), or it is refused.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppadmm.errors import InputError
from ppadmm.files import write_new, write_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def new_key(path: Path, passphrase: bytes | None = None) -> str:
    """Make a key pair, PATH (encrypted with a passphrase) and PATH.pub; return the public key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    write_private(path, private_pem(key, passphrase))
    public = public_key(key)
    write_new(public_file(path), f"{public}\n".encode())
    return public


def private_pem(key: Any, passphrase: bytes | None = None) -> bytes:
    """Return a private key of any kind as text, for `write_private`."""
    from cryptography.hazmat.primitives import serialization

    lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        lock = serialization.BestAvailableEncryption(_not_empty(passphrase))
    form = serialization.PrivateFormat.PKCS8
    pem: bytes = key.private_bytes(serialization.Encoding.PEM, form, lock)
    return pem


def read_key(path: Path, passphrase: bytes | None = None) -> "Ed25519PrivateKey":
    """Read a key that signs; the passphrase is for one that is encrypted."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = _load(path, passphrase)
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            f"{str(path)!r} holds no Ed25519 private key; make one with: ppadmm key new FILE (a "
            "site's own: ppadmm peer new)"
        )
    return key


def read_any_key(path: Path, passphrase: bytes | None = None) -> Any:
    """Read a private key of any kind, such as that of TLS links."""
    key = _load(path, passphrase)
    if key is None:
        raise InputError(f"{str(path)!r} holds no private key in PEM; ppadmm peer new makes one.")
    return key


def _load(path: Path, passphrase: bytes | None) -> Any:
    """Return the key in a file; None if it holds none."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    locked = is_encrypted(path)
    if locked and passphrase is None:
        raise InputError(
            f"{str(path)!r} is encrypted; give its passphrase in PPADMM_PASSPHRASE or with "
            "--passphrase-file."
        )
    try:
        key = load_pem_private_key(path.read_bytes(), password=passphrase if locked else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if locked:
            raise InputError(f"The passphrase does not open {str(path)!r}; try again.") from None
        return None
    if not locked:
        check_private(path)
    return key


def is_encrypted(path: Path) -> bool:
    """Say whether a private key needs a passphrase."""
    try:
        return b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"Cannot read the private key {str(path)!r}: {reason}.") from None


def check_private(path: Path) -> Path:
    """Refuse a key that others on this machine can read."""
    if os.name != "nt" and path.stat().st_mode & 0o077:
        raise InputError(f"The private key {path} is readable by others; give: chmod 600 {path}.")
    return path


def read_passphrase(path: Path) -> bytes:
    """Return the first line of a file."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"Cannot read the passphrase in {str(path)!r}: {reason}.") from None
    return _not_empty(lines[0] if lines else b"")


def _not_empty(passphrase: bytes) -> bytes:
    if not passphrase:
        raise InputError("Expected a passphrase, got an empty one.")
    return passphrase


def public_key(key: "Ed25519PrivateKey") -> str:
    """Return the public key in hex."""
    return key.public_key().public_bytes_raw().hex()


def public_file(path: Path) -> Path:
    """Return where the public half of a private key lies: beside it."""
    return path.with_name(path.name + ".pub")


def public_key_named(text: str) -> str:
    """Return a public key given as 64 hex digits or as a file that holds them."""
    found = text
    if not re.fullmatch("[0-9a-f]{64}", text):
        found = Path(text).read_text(encoding="ascii", errors="replace").strip()
    if not re.fullmatch("[0-9a-f]{64}", found):
        raise InputError(f"{text!r} is no public key; give 64 hex digits or a .pub file.")
    return found


def is_signed(public: str, signature: str, message: bytes) -> bool:
    """Say whether `signature` is the key's signature of `message`."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True
