"""`ppadmm key`, `ppadmm certify` and `ppadmm verify`: statements that others can check."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppadmm.cli.app import app
from ppadmm.cli.common import Json, show

if TYPE_CHECKING:
    from ppadmm.privacy.certificate import Verdict

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
    as_json: Json = False,
) -> None:
    """Make a key pair: FILE, to keep secret, and FILE.pub, to give to the others.

    Example: ppadmm key new hospital.key
    """
    from ppadmm.privacy.keys import new_key

    public = new_key(file)
    if as_json:
        show({"private_key": str(file), "public_key": f"{file}.pub", "public": public})
        return
    show(f"Private key: {file} (keep it secret)\nPublic key:  {file}.pub\n{public}")


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
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="New file [RUN/certificate.json].")
    ] = None,
    as_json: Json = False,
) -> None:
    """Sign the statement of a run, with the ledger's head, the code's version and the peers.

    Example: ppadmm certify runs/first --key hospital.key --peer bank.key.pub
    """
    from ppadmm.privacy.keys import public_key_named, read_key
    from ppadmm.reports.certificate import certify_run

    peers = [public_key_named(each) for each in peer or []]
    path = certify_run(run, read_key(key), name or "", peers, out)
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
    as_json: Json = False,
) -> None:
    """Check certificates: form, signature, and ε worked out again from the events alone.

    The recomputation shares no code with the accountant. Exit code 9 means: do not rely on it.

    Example: ppadmm verify hospital.json bank.json --trust hospital.key.pub --trust bank.key.pub
    """
    from ppadmm.privacy.keys import public_key_named
    from ppadmm.reports.certificate import verdict_text, verified

    trusted = [public_key_named(each) for each in trust or []]
    verdicts = verified(certificates, trusted, ledger, run)
    if as_json:
        show({"certificates": [_plain(verdict) for verdict in verdicts]})
        return
    show("\n\n".join(verdict_text(path, v) for path, v in zip(certificates, verdicts, strict=True)))


def _plain(verdict: "Verdict") -> dict[str, Any]:
    from ppadmm.privacy.certificate import NOT_PROVEN

    statement = verdict.statement
    return {
        "holds": True,
        "private": statement["private"],
        "epsilon": statement["epsilon"],
        "delta": statement["delta"],
        "signer": verdict.certificate["signer"],
        "checked": list(verdict.checked),
        "unchecked": list(verdict.unchecked),
        "not_proven": list(NOT_PROVEN),
    }
