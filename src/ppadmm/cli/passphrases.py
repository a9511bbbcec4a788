"""Passphrases of private keys: from a file, from the environment, or asked for."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ppadmm.cli import options

VARIABLE = "PPADMM_PASSPHRASE"
Passphrase = Annotated[
    bool, options.flag("--passphrase", "Ask for a passphrase to encrypt it with.")
]
PassphraseFile = Annotated[
    Path | None,
    options.value(
        "FILE", f"The passphrase of the private key is this file's first line [${VARIABLE}]."
    ),
]


def new_passphrase(key: Path, ask: bool, file: Path | None) -> bytes | None:
    """Return what a new key is encrypted with; None leaves it as it is."""
    secret = _told(file)
    return _asked(f"New passphrase of {key}", twice=True) if secret is None and ask else secret


def opened(key: Path, file: Path | None, any_kind: bool = False) -> Any:
    """Read a private key; where nobody told its passphrase, ask whoever is at the terminal.

    It must be one that signs messages unless `any_kind` will do, such as an authority's.
    """
    from ppadmm.statements.keys import is_encrypted, read_any_key, read_key

    secret = _told(file)
    if secret is None and is_encrypted(key) and sys.stdin.isatty():
        secret = _asked(f"Passphrase of {key}")
    return read_any_key(key, secret) if any_kind else read_key(key, secret)


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
