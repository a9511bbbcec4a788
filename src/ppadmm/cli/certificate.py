"""`ppadmm key`, `ppadmm certify` and `ppadmm verify`: statements that others can check."""

from pathlib import Path
from typing import Annotated

from ppadmm.cli import options
from ppadmm.cli.app import app, new_group
from ppadmm.cli.common import show
from ppadmm.cli.passphrases import Passphrase, PassphraseFile, new_passphrase, opened

key_app = new_group("key", "Keys to sign certificates with (Ed25519).")


@key_app.command()
def new(
    file: Annotated[Path, options.argument("FILE", "The new private key.")],
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
    keys = {"private_key": str(file), "public_key": f"{file}.pub", "public": public}
    how = "keep it secret; NOT encrypted" if secret is None else "encrypted; keep it secret"
    lines = [f"Private key: {file} ({how})", f"Public key:  {file}.pub", public]
    if secret is None:
        lines.append("Whoever reads that file can sign in your name; --passphrase encrypts it.")
    show({**keys, "encrypted": secret is not None} if as_json else lines)


@app.command()
def certify(
    run: Annotated[Path, options.argument("RUN", "A folder that train wrote.")],
    key: Annotated[Path, options.value("FILE", "The private key to sign with.")],
    name: Annotated[
        str | None, options.value("NAME", "Who signs [the ledger's owner, or the key].")
    ] = None,
    peer: Annotated[
        list[str] | None, options.value("KEY", "Public key of another party; may be repeated.")
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
    certificates: Annotated[list[Path], options.argument("CERT…", "Certificates of one run.")],
    trust: Annotated[
        list[str] | None, options.value("KEY", "A public key that is known to be a party's.")
    ] = None,
    ledger: Annotated[
        Path | None, options.value("FILE", "The ledger that the first certificate names.")
    ] = None,
    run: Annotated[
        Path | None, options.value("RUN", "The run folder, to compare its model.")
    ] = None,
    agreement: Annotated[
        Path | None, options.value("FILE", "Your copy of what all peers signed.")
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
    plain = {"certificates": [verdict.to_dict() for verdict in verdicts]}
    show(plain if as_json else verdicts_text(certificates, verdicts))
