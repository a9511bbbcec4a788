"""`ppadmm peer`: a site of a run over a network. Here: keys, requests, certificates."""

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppadmm.cli import options
from ppadmm.cli.app import new_group
from ppadmm.cli.common import interruptible, show
from ppadmm.cli.passphrases import Passphrase, PassphraseFile, new_passphrase, opened
from ppadmm.errors import InputError

if TYPE_CHECKING:
    from cryptography import x509

group = new_group("peer", "Train with others over a network, with no server (docs/peers.md).")
authority_group = new_group(
    "ca", "The project's own certificate authority, kept by one person.", group
)

PeerPath = Annotated[Path, options.argument("PEER.toml", "The site's settings.")]
Folder = Annotated[Path, typer.Option("--ca", metavar="DIR", help="Folder of the authority.")]
Days = Annotated[int, options.value("DAYS", "How long it is valid.")]
Fingerprint = Annotated[
    str | None, options.value("HEX", "The fingerprint you were told; otherwise you are asked.")
]


@group.command()
def new(
    name: Annotated[str, options.argument("NAME", "The site's name.")],
    agent: Annotated[int, options.value("N", "Its number in the agreement, from 0.")],
    endpoint: Annotated[
        str | None, options.value("HOST:PORT", "How others dial it [it only dials out].")
    ] = None,
    folder: Annotated[Path | None, options.value("DIR", "New folder [the name].")] = None,
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
    public = keys.public_signing_key()
    plain = {"file": str(file), "keys": str(keys.folder), "public_signing_key": public}
    lines = [
        f"{file}: written; read it and fill in the rest.",
        f"{keys.tls}, {keys.signing}: made. They never leave this site; keep a copy in a safe.",
        f"Public message key, for the agreement: {public}",
        f"Next: ppadmm peer request {quoted(file)}",
    ]
    show(plain if as_json else lines)


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
    mine = certificates.fingerprint(asked)
    lines = [
        f"{place}: written; mail it to whoever keeps the authority.",
        f"Fingerprint, to be read out over the telephone: {mine}",
    ]
    show({"request": str(place), "fingerprint": mine} if as_json else lines)


@group.command()
def approve(
    file: Annotated[Path, options.argument("REQUEST", "What a site sent.")],
    ca: Folder = Path("ca"),
    fingerprint: Fingerprint = None,
    days: Days = 365,
    out: Annotated[Path | None, options.out("FILE", "New file [NAME.reply.pem].")] = None,
    passphrase_file: PassphraseFile = None,
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
    if not as_json:
        addresses = ", ".join(certificates.alternatives(asked))
        lines = [
            f"Name:        {name}",
            f"Addresses:   {addresses or 'none (it only dials out)'}",
            f"Message key: {certificates.signing_key_of(asked) or 'none'}",
        ]
        show(lines)
    _compare("the site", asked, fingerprint, as_json)
    reply = Authority(ca, partial(opened, file=passphrase_file, any_kind=True)).approve(asked, days)
    write_new(place, certificates.pem(reply))
    until, mine = _day(reply[0]), certificates.fingerprint(reply[-1])
    plain = {"reply": str(place), "name": name, "until": until, "authority_fingerprint": mine}
    lines = [
        f"{place}: written, valid until {until}; mail it back.",
        f"Fingerprint of the authority: {mine}",
    ]
    show(plain if as_json else lines)


@group.command()
def join(
    file: PeerPath,
    reply: Annotated[Path, options.argument("REPLY", "What the authority sent.")],
    ca: Annotated[
        Path | None, options.value("FILE", "Your organisation's own authority [in the reply].")
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
        _compare("the authority", trusted[0], fingerprint, as_json)
    own = enrolment.join(peer.keys, peer.name, given, roots)
    vouched = certificates.signing_key_of(own) is not None
    place, until = str(peer.keys.certificate), _day(own)
    plain = {"certificate": place, "name": peer.name, "until": until, "key_vouched": vouched}
    lines = [
        f"{place}: for {peer.name}, until {until}.",
        f"Next: records, schema and ledger, as {file} says; then: ppadmm peer card {quoted(file)}",
        "It does not vouch for the message key: tell the others that key some other safe way.",
    ]
    show(plain if as_json else lines[:2] if vouched else lines)


@authority_group.command("new")
def new_authority(
    name: Annotated[str, options.argument("NAME", "The project's name.")],
    folder: Annotated[Path, options.value("DIR", "New folder.")] = Path("ca"),
    days: Days = 3650,
    passphrase: Passphrase = False,
    passphrase_file: PassphraseFile = None,
    as_json: options.Json = False,
) -> None:
    """Make an authority for one project. Whoever has its key decides who may take part.

    A passphrase encrypts that key; `peer approve` and `peer ca revoke` then need it, too.

    Example: ppadmm peer ca new "stroke study"
    """
    from ppadmm.peers.pki import certificates
    from ppadmm.peers.pki.authority import Authority

    authority = Authority(folder)
    secret = new_passphrase(authority.key_file, passphrase, passphrase_file)
    authority.make(name, days, passphrase=secret)
    mine, until = certificates.fingerprint(authority.certificate), _day(authority.certificate)
    key, file = str(authority.key_file), str(authority.file)
    plain = {"key": key, "certificate": file, "until": until, "fingerprint": mine,
             "encrypted": secret is not None}  # fmt: skip
    how = "encrypted" if secret else "NOT encrypted (--passphrase encrypts it)"
    lines = [
        f"{key}: made, {how}. Keep it off the network; it never needs to be on a peer.",
        f"{file}: its certificate, until {until}.",
        f"Fingerprint, to be read out to every site: {mine}",
    ]
    show(plain if as_json else lines)


@authority_group.command()
def revoke(
    name: Annotated[str, options.argument("NAME", "The name in the certificate.")],
    folder: Folder = Path("ca"),
    reason: Annotated[str, options.value("TEXT", "Why, for the others.")] = "",
    passphrase_file: PassphraseFile = None,
    as_json: options.Json = False,
) -> None:
    """Revoke a name for good and sign the list anew; send the list to every site.

    Example: ppadmm peer ca revoke hospital-a --reason "laptop stolen"
    """
    from ppadmm.peers.pki.authority import Authority

    authority = Authority(folder, partial(opened, file=passphrase_file, any_kind=True))
    found = authority.revoke(name, reason)
    place, names = str(authority.revocations), sorted(found.names)
    lines = [
        f"{place}: list {found.number}, {len(names)} revoked.",
        "Send it to every site, to be put beside its keys as revoked.json; runs heed it at once.",
    ]
    show({"list": place, "number": found.number, "revoked": names} if as_json else lines)


def _compare(
    who: str,
    thing: "x509.Certificate | x509.CertificateSigningRequest",
    told: str | None,
    as_json: bool,
) -> None:
    """Go on only if the fingerprint was compared with its owner; nobody is asked amid JSON."""
    from ppadmm.peers.pki import certificates

    if as_json and told is None:
        raise InputError("With --json nobody is asked; give --fingerprint, as it was read out.")
    mine = certificates.fingerprint(thing)
    if not as_json:
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
