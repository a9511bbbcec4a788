"""A new site: its folder, its settings and its keys."""

from collections.abc import Callable
from pathlib import Path

from ppadmm.errors import InputError
from ppadmm.files import write_new
from ppadmm.peers.pki.enrolment import Keys
from ppadmm.peers.settings import PeerFile, template


def new_site(
    name: str,
    agent: int,
    endpoint: str | None = None,
    folder: Path | None = None,
    passphrase: Callable[[Path], bytes | None] | bytes | None = None,
) -> PeerFile:
    """Make a folder for a site: a commented `peer.toml`, and two private keys that stay in it.

    Parameters
    ----------
    name : str
        The site's name, as in its certificate.
    agent : int
        Its number in the agreement, from 0.
    endpoint : str, optional
        How others dial it, `HOST:PORT`; a site without one only dials out.
    folder : Path, optional
        By default one of that name, below the current folder.
    passphrase : bytes or callable, optional
        Encrypts the key that signs messages; a callable is asked for it, with the key's file, once
        the place is found free. The key of the links has none: Zenoh reads no encrypted file.

    Returns
    -------
    PeerFile
        Its settings, as they were written; `keys` says where the keys are.

    Raises
    ------
    InputError
        If there is a site in that folder already; nothing is overwritten.
    """
    text = template(name, agent, endpoint)
    place = folder or Path(name)
    file = place / "peer.toml"
    require_absent(file)
    keys = Keys(place / "keys")
    keys.make(passphrase(keys.signing) if callable(passphrase) else passphrase)
    write_new(file, text.encode())
    return PeerFile.load(file)


def require_absent(path: Path) -> None:
    """Refuse to write over a file."""
    if path.exists():
        raise InputError(f"{str(path)!r} exists already and is not overwritten; choose another.")
