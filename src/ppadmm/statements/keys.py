"""Ed25519 keys in files: the private one as PEM for its owner only, the public one as hex.

With a passphrase the PEM is encrypted PKCS#8, as OpenSSL reads it, too.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ppadmm.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def new_key(path: Path, passphrase: bytes | None = None) -> str:
    """Make a key pair, PATH (encrypted with a passphrase) and PATH.pub; return the public key."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        lock = serialization.BestAvailableEncryption(_not_empty(passphrase))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)
    _write_new(path, pem, 0o600)
    public = public_key(key)
    _write_new(path.with_name(path.name + ".pub"), f"{public}\n".encode(), 0o644)
    return public


def read_key(path: Path, passphrase: bytes | None = None) -> "Ed25519PrivateKey":
    """Read a private key; the passphrase is for one that is encrypted."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    locked = is_encrypted(path)
    if locked and passphrase is None:
        raise InputError(
            f"{str(path)!r} is encrypted; give its passphrase in PPADMM_PASSPHRASE or with "
            "--passphrase-file."
        )
    try:
        key = load_pem_private_key(path.read_bytes(), password=passphrase if locked else None)
    except (ValueError, TypeError):
        if locked:
            raise InputError(f"The passphrase does not open {str(path)!r}; try again.") from None
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            f"{str(path)!r} holds no Ed25519 private key; make one with: ppadmm key new FILE"
        )
    return key


def is_encrypted(path: Path) -> bool:
    """Say whether a private key needs a passphrase."""
    try:
        return b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"Cannot read the key {str(path)!r}: {reason}.") from None


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


def _write_new(path: Path, data: bytes, mode: int) -> None:
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
            file.write(data)
    except FileExistsError:
        raise InputError(f"{str(path)!r} exists already; choose another name.") from None
