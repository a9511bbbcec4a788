"""`ppadmm peer`: a site of a run over a network. Here: keys, requests, certificates."""

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppadmm.cli import options
from ppadmm.cli.app import app
from ppadmm.cli.common import interruptible, show
from ppadmm.cli.passphrases import Passphrase, PassphraseFile, new_passphrase

if TYPE_CHECKING:
    from cryptography import x509

group = typer.Typer(
    name="peer",
    help="Train with others over a network, with no server (docs/peers.md).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
authority_group = typer.Typer(
    name="ca",
    help="The project's own certificate authority, kept by one person.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
group.add_typer(authority_group)
app.add_typer(group)

PeerPath = Annotated[Path, typer.Argument(metavar="PEER.toml", help="The site's settings.")]
Folder = Annotated[Path, typer.Option("--ca", metavar="DIR", help="Folder of the authority.")]
Days = Annotated[int, typer.Option(metavar="DAYS", help="How long it is valid.")]
Fingerprint = Annotated[
    str | None,
    typer.Option(metavar="HEX", help="The fingerprint you were told; otherwise you are asked."),
]


@group.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The site's name.")],
    agent: Annotated[int, typer.Option(metavar="N", help="Its number in the agreement, from 0.")],
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="How others dial it [it only dials out]."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="New folder [the name].")
    ] = None,
    passphrase: Passphrase = False,
    passphrase_file: PassphraseFile = None,
    as_json: options.Json = False,
) -> None:
    """Make a folder for a site: a commented peer.toml and two private keys that stay in it.

    A passphrase encrypts the key that signs messages; the key of the links has none, since Zenoh
    reads no encrypted file (docs/transport.md).

    Example: ppadmm peer new hospital-a --agent 0 --endpoint hospital-a.example.org:7447
    """
    from ppadmm.peers.enrolling import new_site

    secret = partial(new_passphrase, ask=passphrase, file=passphrase_file)
    site = new_site(name, agent, endpoint, folder, secret)
    file, keys = site.folder / "peer.toml", site.keys
    if as_json:
        public = keys.public_signing_key()
        show({"file": str(file), "keys": str(keys.folder), "public_signing_key": public})
        return
    show(f"{file}: written; read it and fill in the rest.")
    show(f"{keys.tls}, {keys.signing}: made. They never leave this site; keep a copy in a safe.")
    show(f"Public message key, for the agreement: {keys.public_signing_key()}")
    show(f"Next: ppadmm peer request {quoted(file)}")


@group.command()
def request(
    file: PeerPath,
    out: Annotated[Path | None, options.out("FILE", "New file [NAME.request.pem].")] = None,
    as_json: options.Json = False,
) -> None:
    """Write a request for a certificate, to be mailed to the authority; it holds no secret.

    Example: ppadmm peer request hospital-a/peer.toml
    """
    from cryptography.hazmat.primitives.serialization import Encoding

    from ppadmm.files import write_new
    from ppadmm.peers.pki import certificates, enrolment
    from ppadmm.peers.settings import PeerFile

    peer = PeerFile.load(file)
    asked = enrolment.request(peer.keys, peer.name, peer.hosts)
    place = out or Path(f"{peer.name}.request.pem")
    write_new(place, asked.public_bytes(Encoding.PEM))
    if as_json:
        show({"request": str(place), "fingerprint": certificates.fingerprint(asked)})
        return
    show(f"{place}: written; mail it to whoever keeps the authority.")
    show(f"Fingerprint, to be read out over the telephone: {certificates.fingerprint(asked)}")


@group.command()
def approve(
    file: Annotated[Path, typer.Argument(metavar="REQUEST", help="What a site sent.")],
    ca: Folder = Path("ca"),
    fingerprint: Fingerprint = None,
    days: Days = 365,
    out: Annotated[Path | None, options.out("FILE", "New file [NAME.reply.pem].")] = None,
    as_json: options.Json = False,
) -> None:
    """Issue a certificate for a request, once its fingerprint was compared with the sender.

    Example: ppadmm peer approve hospital-a.request.pem --ca ca
    """
    from ppadmm.files import write_new
    from ppadmm.peers.enrolling import require_absent
    from ppadmm.peers.pki import certificates, enrolment
    from ppadmm.peers.pki.authority import Authority
    from ppadmm.peers.pki.names import agent_name

    asked = enrolment.read_request(file)
    name = certificates.common_name(asked)
    place = out or Path(f"{agent_name(name)}.reply.pem")
    require_absent(place)
    _require_told(as_json, fingerprint)
    if not as_json:
        show(f"Name:        {name}")
        addresses = ", ".join(certificates.alternatives(asked))
        show(f"Addresses:   {addresses or 'none (it only dials out)'}")
        show(f"Message key: {certificates.signing_key_of(asked) or 'none'}")
    _compare("the site", asked, fingerprint, quiet=as_json)
    reply = Authority(ca).approve(asked, days)
    write_new(place, certificates.pem(reply))
    until, mine = _day(reply[0]), certificates.fingerprint(reply[-1])
    if as_json:
        show({"reply": str(place), "name": name, "until": until, "authority_fingerprint": mine})
        return
    show(f"{place}: written, valid until {until}; mail it back.")
    show(f"Fingerprint of the authority: {mine}")


@group.command()
def join(
    file: PeerPath,
    reply: Annotated[Path, typer.Argument(metavar="REPLY", help="What the authority sent.")],
    ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your organisation's own authority [in the reply]."),
    ] = None,
    fingerprint: Fingerprint = None,
    as_json: options.Json = False,
) -> None:
    """Check the certificate that came back and put it in its place.

    Example: ppadmm peer join hospital-a/peer.toml hospital-a.reply.pem
    """
    from ppadmm.peers.pki import certificates, enrolment
    from ppadmm.peers.settings import PeerFile

    peer = PeerFile.load(file)
    given = certificates.read_certificates(reply)
    roots = certificates.read_certificates(ca) if ca else []
    trusted = enrolment.roots_of(given, roots)
    if not peer.keys.authority.exists():
        _require_told(as_json, fingerprint)
        _compare("the authority", trusted[0], fingerprint, quiet=as_json)
    own = enrolment.join(peer.keys, peer.name, given, roots)
    vouched = certificates.signing_key_of(own) is not None
    if as_json:
        place = str(peer.keys.certificate)
        show({"certificate": place, "name": peer.name, "until": _day(own), "key_vouched": vouched})
        return
    show(f"{peer.keys.certificate}: for {peer.name}, until {_day(own)}.")
    show(f"Next: records, schema and ledger, as {file} says; then: ppadmm peer card {quoted(file)}")
    if not vouched:
        show("It does not vouch for the message key: tell the others that key some other safe way.")


@authority_group.command("new")
def new_authority(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The project's name.")],
    folder: Annotated[Path, typer.Option(metavar="DIR", help="New folder.")] = Path("ca"),
    days: Days = 3650,
    as_json: options.Json = False,
) -> None:
    """Make an authority for one project. Whoever has its key decides who may take part.

    Example: ppadmm peer ca new "stroke study"
    """
    from ppadmm.peers.pki import certificates
    from ppadmm.peers.pki.authority import Authority

    authority = Authority(folder)
    authority.make(name, days)
    mine = certificates.fingerprint(authority.certificate)
    if as_json:
        show({"key": str(authority.key_file), "certificate": str(authority.file),
              "until": _day(authority.certificate), "fingerprint": mine})  # fmt: skip
        return
    show(f"{authority.key_file}: made. Keep it off the network; it never needs to be on a peer.")
    show(f"{authority.file}: its certificate, until {_day(authority.certificate)}.")
    show(f"Fingerprint, to be read out to every site: {mine}")


@authority_group.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name in the certificate.")],
    folder: Folder = Path("ca"),
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the others.")] = "",
    as_json: options.Json = False,
) -> None:
    """Revoke a name for good and sign the list anew; send the list to every site.

    Example: ppadmm peer ca revoke hospital-a --reason "laptop stolen"
    """
    from ppadmm.peers.pki.authority import Authority

    authority = Authority(folder)
    found = authority.revoke(name, reason)
    if as_json:
        names = sorted(found.names)
        show({"list": str(authority.revocations), "number": found.number, "revoked": names})
        return
    show(f"{authority.revocations}: list {found.number}, {len(found.names)} revoked.")
    show("Send it to every site, to be put beside its keys as revoked.json; runs heed it at once.")


def _require_told(as_json: bool, told: str | None) -> None:
    """Refuse to ask a person in the middle of JSON."""
    from ppadmm.errors import InputError

    if as_json and told is None:
        raise InputError("With --json nobody is asked; give --fingerprint, as it was read out.")


def _compare(
    who: str,
    thing: "x509.Certificate | x509.CertificateSigningRequest",
    told: str | None,
    quiet: bool = False,
) -> None:
    """Go on only if the fingerprint was compared with its owner."""
    from ppadmm.errors import InputError
    from ppadmm.peers.pki import certificates

    mine = certificates.fingerprint(thing)
    if not quiet:
        show(f"Fingerprint: {mine}")
    if told is not None:
        if not certificates.same_fingerprint(mine, told):
            raise InputError(f"The fingerprint is {mine}, not {told}; nothing was written.")
        return
    with interruptible():
        if not typer.confirm(f"Has {who} read out the same one to you?", default=False):
            raise InputError("The fingerprint was not compared; nothing was written.")


def quoted(path: Path) -> str:
    """Return a path as a shell takes it."""
    return shlex.quote(str(path))


def _day(certificate: "x509.Certificate") -> str:
    return f"{certificate.not_valid_after_utc:%Y-%m-%d}"
