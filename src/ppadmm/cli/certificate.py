"""`ppadmm key`, `ppadmm certify` and `ppadmm verify`: statements that others can check."""

from pathlib import Path
from typing import Annotated

import typer

from ppadmm.cli import options
from ppadmm.cli.app import app
from ppadmm.cli.common import show
from ppadmm.cli.passphrases import Passphrase, PassphraseFile, new_passphrase, opened

key_app = typer.Typer(
    name="key",
    help="Keys to sign certificates with (Ed25519).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(key_app)


@key_app.command()
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new private key.")],
    passphrase: Passphrase = False,
    passphrase_file: PassphraseFile = None,
    as_json: options.Json = False,
) -> None:
    """Make a key pair: FILE, to keep secret, and FILE.pub, to give to the others.

    Example: ppadmm key new hospital.key --passphrase
    """
    from ppadmm.statements.keys import new_key

    secret = new_passphrase(file, passphrase, passphrase_file)
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
    path = certify_folder(run, opened(key, passphrase_file), name or "", peers, out)
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
