"""Passphrases of private keys: from a file, from the environment, or asked for."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VARIABLE = "PPADMM_PASSPHRASE"
Passphrase = Annotated[
    bool, typer.Option("--passphrase", help="Ask for a passphrase to encrypt it with.")
]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=f"The passphrase of the private key is this file's first line [${VARIABLE}].",
    ),
]


def new_passphrase(key: Path, ask: bool, file: Path | None) -> bytes | None:
    """Return what a new key is encrypted with; None leaves it as it is."""
    secret = _told(file)
    return _asked(f"New passphrase of {key}", twice=True) if secret is None and ask else secret


def opened(key: Path, file: Path | None) -> "Ed25519PrivateKey":
    """Read a private key; where nobody told its passphrase, ask whoever is at the terminal."""
    from ppadmm.statements.keys import is_encrypted, read_key

    secret = _told(file)
    if secret is None and is_encrypted(key) and sys.stdin.isatty():
        secret = _asked(f"Passphrase of {key}")
    return read_key(key, secret)


def _told(file: Path | None) -> bytes | None:
    """Return a passphrase from a file or from the environment."""
    from ppadmm.statements.keys import read_passphrase

    if file is not None:
        return read_passphrase(file)
    return os.environ[VARIABLE].encode() if VARIABLE in os.environ else None


def _asked(question: str, twice: bool = False) -> bytes:
    return str(
        typer.prompt(question, hide_input=True, confirmation_prompt=twice, err=True)
    ).encode()
