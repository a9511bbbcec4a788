"""A site as its own files describe it: its records, its part in an agreement, what a run needs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ppadmm import checks
from ppadmm.errors import DataError, InputError
from ppadmm.peers.agreement import Agreement
from ppadmm.peers.settings import PeerFile
from ppadmm.peers.site import Participant, SiteRecords, read_records
from ppadmm.peers.taking_part import SiteSettings
from ppadmm.records import HoldsRecords
from ppadmm.statements.keys import read_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KeyReader = Callable[[Path], "Ed25519PrivateKey"]
"""Opens a private key's file, with its passphrase if it has one."""


@dataclass(frozen=True)
class LoadedSite(HoldsRecords):
    """A site that has passed every check and can start.

    Attributes
    ----------
    peer : PeerFile
        What its `peer.toml` says.
    settings : SiteSettings
        What it brings to the run: its part, its keys, its books.
    test : SiteRecords, optional
        Records that are not trained on, to judge the model by.
    """

    peer: PeerFile
    settings: SiteSettings
    test: SiteRecords | None = None

    @property
    def run(self) -> str:
        """The short name of the run."""
        return self.settings.party.agreement.digest[:12]

    @property
    def results(self) -> Path:
        """The folder for its results, unless another is named."""
        return self.peer.folder / f"results-{self.run}"


def load_site(
    file: str | Path, seed: int | None = None, open_key: KeyReader = read_key
) -> LoadedSite:
    """Read all that a site needs for its run.

    Parameters
    ----------
    file : path
        The site's `peer.toml`.
    seed : int, optional
        Simulate: the noise follows from it, and the run is NOT private. A simulation has other
        folders and charges no ledger, so that the two never mix.
    open_key : callable
        How its message key is read; one that is encrypted needs its passphrase.

    Returns
    -------
    LoadedSite
        To be given to `ppadmm.peers.running.run_site`.

    Raises
    ------
    InputError
        If a file is missing, the agreement is not signed or lists this site otherwise.
    DataError
        If the records or their schema are not what was agreed on.
    """
    peer = PeerFile.load(Path(file))
    terms = peer.terms()
    party = load_participant(peer, terms, seed)
    name = "state" if seed is None else "simulation"
    return LoadedSite(peer, SiteSettings(
        party=party,
        key=open_key(peer.keys.signing),
        signature=peer.signed(terms),
        state=peer.folder / f"{name}-{terms.digest[:12]}",
        ledger=peer.folder / peer.ledger if seed is None and peer.ledger else None,
        dataset=peer.dataset or None,
        revocations=peer.watch_revocations(),
    ), load_test(peer, terms.knots))  # fmt: skip


def load_records(peer: PeerFile, knots: int | None = None) -> SiteRecords:
    """Read a site's records and their public schema, as its file and the agreement say."""
    if not peer.schema:
        raise InputError("peer.toml names no schema; give schema = …")
    place = peer.folder / peer.schema
    if not place.is_file():
        raise DataError(
            f"There is no schema at {place}; put the schema file there that all sites use (one of "
            "them drafts it with `ppadmm schema` and confirms it)."
        )
    memory = None if peer.memory is None else checks.byte_size("memory", peer.memory)
    return read_records(peer.folder / peer.data if peer.data else None, place, memory, knots)


def load_test(peer: PeerFile, knots: int | None) -> SiteRecords | None:
    """Read the records that a site judges models by, if it has any."""
    if not peer.test:
        return None
    place = peer.folder / peer.test
    if place.is_dir():
        raise InputError(
            f"Expected test = … to be a file of records, got the folder {str(place)!r}."
        )
    return read_records(place, peer.folder / peer.schema, knots=knots)


def load_participant(peer: PeerFile, terms: Agreement, seed: int | None = None) -> Participant:
    """Return a site's part in an agreement, after a look at every entry that concerns it."""
    party = Participant(terms, peer.agent, load_records(peer, terms.knots), seed)
    listed = terms.parties[peer.agent]
    if listed.name != peer.name:
        raise InputError(f"Agent {peer.agent} of the agreement is {listed.name!r}, not this site.")
    if listed.key != peer.keys.public_signing_key():
        raise InputError(
            f"The agreement lists another message key for {peer.name!r} than this site has."
        )
    return party
