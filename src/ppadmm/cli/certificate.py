"""`ppadmm key`, `ppadmm certify` and `ppadmm verify`: statements that others can check."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppadmm.cli import options
from ppadmm.cli.app import app
from ppadmm.cli.common import show

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

key_app = typer.Typer(
    name="key",
    help="Keys to sign certificates with (Ed25519).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(key_app)
VARIABLE = "PPADMM_PASSPHRASE"
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=f"The passphrase of the private key is this file's first line [${VARIABLE}].",
    ),
]


@key_app.command()
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new private key.")],
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Ask for a passphrase to encrypt it with.")
    ] = False,
    passphrase_file: PassphraseFile = None,
    as_json: options.Json = False,
) -> None:
    """Make a key pair: FILE, to keep secret, and FILE.pub, to give to the others.

    Example: ppadmm key new hospital.key --passphrase
    """
    from ppadmm.statements.keys import new_key

    secret = _told(passphrase_file)
    if secret is None and passphrase:
        secret = _asked(f"New passphrase of {file}", twice=True)
    public = new_key(file, secret)
    if as_json:
        encrypted = secret is not None
        keys = {"private_key": str(file), "public_key": f"{file}.pub", "public": public}
        show(keys | {"encrypted": encrypted})
        return
    how = "keep it secret; NOT encrypted" if secret is None else "encrypted; keep it secret"
    show(f"Private key: {file} ({how})\nPublic key:  {file}.pub\n{public}")
    if secret is None:
        show("Whoever reads that file can sign in your name; --passphrase encrypts it.")


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


def _opened(file: Path, passphrase_file: Path | None) -> "Ed25519PrivateKey":
    """Read a private key; where nobody told its passphrase, ask whoever is at the terminal."""
    from ppadmm.statements.keys import is_encrypted, read_key

    secret = _told(passphrase_file)
    if secret is None and is_encrypted(file) and sys.stdin.isatty():
        secret = _asked(f"Passphrase of {file}")
    return read_key(file, secret)


@app.command()
def certify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that train wrote.")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="The private key to sign with.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who signs [the ledger's owner, or the key].")
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Public key of another party; may be repeated."),
    ] = None,
    out: Annotated[Path | None, options.out("FILE", "New file [RUN/certificate.json].")] = None,
    passphrase_file: PassphraseFile = None,
    as_json: options.Json = False,
) -> None:
    """Sign the statement of a run, with the ledger's head, the code's version and the peers.

    Example: ppadmm certify runs/first --key hospital.key --peer bank.key.pub
    """
    from ppadmm.peers.certified import certify_folder
    from ppadmm.statements.keys import public_key_named

    peers = [public_key_named(each) for each in peer or []]
    path = certify_folder(run, _opened(key, passphrase_file), name or "", peers, out)
    show({"certificate": str(path)} if as_json else f"Certificate: {path}")


@app.command()
def verify(
    certificates: Annotated[
        list[Path], typer.Argument(metavar="CERT…", help="Certificates of one run.")
    ],
    trust: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="A public key that is known to be a party's."),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The ledger that the first certificate names."),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="RUN", help="The run folder, to compare its model.")
    ] = None,
    agreement: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your copy of what all peers signed."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check certificates: form, signature, and ε worked out again from the events alone.

    The recomputation shares no code with the accountant. Several certificates must be of one run:
    the same agreement, terms, parties and model; who differs in which entry is named. Exit code 9
    means: do not rely on it.

    Example: ppadmm verify hospital.json bank.json --trust hospital.key.pub --trust bank.key.pub
    """
    from ppadmm.peers.certified import verify_certificates
    from ppadmm.runs.certificates import verdicts_text
    from ppadmm.statements.keys import public_key_named

    trusted = [public_key_named(each) for each in trust or []]
    verdicts = verify_certificates(certificates, trusted, ledger, run, agreement)
    if as_json:
        show({"certificates": [verdict.to_dict() for verdict in verdicts]})
        return
    show(verdicts_text(certificates, verdicts))
