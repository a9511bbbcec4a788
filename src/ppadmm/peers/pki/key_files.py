"""Private keys in files that only their owner can read."""

import os
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from ppadmm.errors import InputError


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


def private_pem(key: Any) -> bytes:
    """Return a private key as text, for `write_private`."""
    data: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return data
