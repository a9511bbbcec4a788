"""Ed25519 keys in files: the private one as PEM for its owner only, the public one as hex."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ppadmm.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def new_key(path: Path) -> str:
    """Make a key pair, PATH and PATH.pub; return the public key in hex."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _write_new(path, pem, 0o600)
    public = public_key(key)
    _write_new(path.with_name(path.name + ".pub"), f"{public}\n".encode(), 0o644)
    return public


def read_key(path: Path) -> "Ed25519PrivateKey":
    """Read a private key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            f"{str(path)!r} holds no Ed25519 private key; make one with: ppadmm key new FILE"
        )
    return key


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
