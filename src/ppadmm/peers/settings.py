"""A site's own settings (`peer.toml`): who it is, where its data is and whom it talks to.

Nothing in the file is secret, and nothing in it decides what is computed: that is the agreement's.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography import x509

from ppadmm import checks
from ppadmm.errors import InputError
from ppadmm.files import require_format
from ppadmm.peers.agreement import Agreement
from ppadmm.peers.agreement_file import load_agreement, load_signature
from ppadmm.peers.link_settings import Credentials, LinkSettings
from ppadmm.peers.pki import certificates, enrolment
from ppadmm.peers.pki.enrolment import Keys
from ppadmm.peers.pki.names import agent_name, host_of
from ppadmm.peers.pki.revocations import Revocations, RevocationWatch, read_revocations
from ppadmm.peers.transport import HELD

FORMAT = 1
TEMPLATE = """\
# One site of a run. Nothing in this file is secret. Paths are relative to this file.
format = 1

# The name in this site's certificate, and its number in the agreement (the first party is 0).
name = "{name}"
agent = {agent}

# The records (CSV or Parquet) and their public schema; `ppadmm schema` drafts one. All records of
# the file are trained on. A site that only listens leaves `data` away.
data = "data.csv"
# Records larger than memory: a Parquet file with a cap, or a folder of Parquet files (cap 512MB).
# memory = "512MB"
# Records of this site that are NOT in that file, to judge the model by. Their figures stay here.
# test = "test.csv"
schema = "schema.toml"

# The book of everything that was ever spent on these records, and their name in it:
#   ppadmm ledger new site.ledger --owner "{name}"
#   ppadmm ledger grant site.ledger records --epsilon 1 --by "who decides"
ledger = "site.ledger"
dataset = "records"

# What all sites signed: the network, the algorithm, the rounds, everybody's budget; and this
# site's own signature, which `ppadmm peer sign` writes.
agreement = "agreement.json"
signature = "signature.json"

# How neighbours dial this site; the host goes into the certificate. A site that can only dial out
# leaves both lines away.
{endpoint}
# The address to listen on: 0.0.0.0 is every interface. Open this TCP port to the neighbours'
# addresses only.
{listen}

# A page for this machine alone (http://127.0.0.1:PORT) with figures for Prometheus at /metrics.
# status = 8790

[certificates]
# tls.key and signing.key are secret and stay here; certificate.pem and authority.pem come from
# `ppadmm peer join`.
folder = "keys"
# The authority's signed list of revoked names, if there is one, is put beside them, as
# keys/revoked.json, at any time, also during a run. Only if it lies elsewhere:
# revocations = "revoked.json"

# Neighbours and their endpoints are in the agreement: of two that can both be dialled the one with
# the smaller number dials. Only if this site reaches them elsewhere, give one block for each; leave
# the endpoint away for a neighbour that dials this site.
# [[neighbours]]
# agent = 1
# name = "name-in-its-certificate"
# endpoint = "tls/other.example.org:7447"

# A neighbour that can only dial out, like this site, is met at a router (in its block, if there is
# one, `via = "router"` in place of an endpoint). Name the router here.
# [router]
# name = "name-in-its-certificate"
# endpoint = "tls/router.example.org:7447"
"""


@dataclass(frozen=True)
class Link:
    """How one neighbour is reached: dialled at `endpoint`, dialling in, or met at the router."""

    agent: int
    name: str
    endpoint: str | None = None
    via: str | None = None

    def __post_init__(self) -> None:
        checks.count("the number of a neighbour", self.agent, at_least=0)
        _text("the name of a neighbour", self.name)
        if self.endpoint is not None:
            host_of(self.endpoint)
        if self.via not in (None, "router") or (self.via and self.endpoint):
            raise InputError(f'For {self.name!r} give an endpoint, or via = "router", or neither.')


@dataclass(frozen=True)
class PeerFile:
    """What `peer.toml` says; paths are resolved against the folder it lies in."""

    folder: Path
    name: str
    agent: int
    data: str = ""
    memory: str | None = None
    test: str = ""
    schema: str = ""
    agreement: str = ""
    signature: str = "signature.json"
    ledger: str = ""
    dataset: str = ""
    status: int | None = None
    endpoint: str | None = None
    listen: str | None = None
    certificates: Mapping[str, str] = field(default_factory=dict)
    neighbours: tuple[Link, ...] = ()
    router: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        _text("name", self.name)
        checks.count("agent", self.agent, at_least=0)
        for what in ("data", "test", "schema", "agreement", "signature", "ledger", "dataset"):
            if not isinstance(getattr(self, what), str):
                raise InputError(f"Expected {what} to be a text, got {getattr(self, what)!r}.")
        if self.memory is not None and not isinstance(self.memory, str):
            raise InputError(f'Expected memory such as "512MB", got {self.memory!r}.')
        if self.status is not None:
            checks.count("status", self.status, at_most=65535)
        for endpoint in (self.endpoint, self.listen):
            if endpoint is not None:
                host_of(endpoint)
        if unknown := set(self.certificates) - {"folder", "revocations"}:
            raise InputError(f"[certificates] has an unknown entry {min(unknown)!r}; remove it.")
        if self.router is not None and set(self.router) != {"name", "endpoint"}:
            raise InputError(f"[router] needs name and endpoint, got {sorted(self.router)}.")

    @classmethod
    def load(cls, path: Path) -> "PeerFile":
        """Read a file; what is unknown or missing is named."""
        try:
            content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is no valid TOML: {error}.") from None
        way = f"write format = {FORMAT} in its first line, or make it anew with ppadmm peer new"
        require_format(str(path), content.pop("format", None), FORMAT, way)
        try:
            links = tuple(Link(**block) for block in content.pop("neighbours", ()))
            return cls(folder=path.parent, neighbours=links, **content)
        except TypeError as error:
            raise InputError(f"{path} cannot be read: {_named(error)}.") from None

    def signed(self, terms: Agreement) -> bytes:
        """Read this site's signature; it must be on these very terms."""
        return load_signature(self.folder / self.signature, terms, self.agent)

    def terms(self) -> Agreement:
        """Read the agreement."""
        path = self.folder / self.agreement
        if not path.is_file():
            raise InputError(
                f"There is no agreement at {path}; put the file there that was sent to all sites "
                "(ppadmm peer agree writes it)."
            )
        return load_agreement(path)

    @property
    def keys(self) -> Keys:
        """Where the keys and certificates are."""
        return Keys(self.folder / self.certificates.get("folder", "keys"))

    @property
    def hosts(self) -> tuple[str, ...]:
        """The addresses for the certificate; none at a site that only dials out."""
        return () if self.endpoint is None else (host_of(self.endpoint),)

    @property
    def revocations_file(self) -> Path:
        """Where the authority's list of revoked names is looked for: as the file says, or here."""
        listed = self.certificates.get("revocations")
        return self.keys.revocations if listed is None else self.folder / listed

    def revocations(self) -> Revocations:
        """Read the list anew; the authority must have signed it. Without a file nobody is on it."""
        if not self.revocations_file.exists():
            if "revocations" in self.certificates:
                raise InputError(
                    f"There is no list of revocations at {self.revocations_file}; put it there, or "
                    "remove the line from peer.toml."
                )
            return Revocations()
        return read_revocations(self.revocations_file, self._roots())

    def watch_revocations(self) -> RevocationWatch:
        """Return the newest list at any time; a file that cannot be read is refused now."""
        self.revocations()
        return RevocationWatch(self.revocations_file, self._roots())

    @property
    def room(self) -> bytes:
        """The 16 bytes under which sites of the same authority meet."""
        return certificates.room(self._roots())

    def _roots(self) -> list[x509.Certificate]:
        return certificates.read_certificates(_joined(self.keys.authority))

    def refuse_revoked(self, agreement: Agreement) -> None:
        """Refuse an agreement with a party whose certificate was revoked."""
        found = self.revocations()
        for party in agreement.parties:
            if why := found.why(party.name):
                raise InputError(
                    f"T{why[1:]}; draft a new agreement without it, or with its new name."
                )

    def credentials(self, now: datetime | None = None) -> Credentials:
        """Return the files for the links, after a look at each: valid, ours, not revoked."""
        keys = self.keys
        own, *between = certificates.read_certificates(_joined(keys.certificate))
        enrolment.check_own(keys, self.name, own)
        certificates.verify(own, self._roots(), between, now)
        self.revocations().refuse(self.name, own.serial_number)
        return Credentials(keys.authority, keys.certificate, keys.tls)

    def links(self, agreement: Agreement) -> tuple[Link, ...]:
        """Return how every neighbour is reached: as the file says, or else as all agreed."""
        wanted = agreement.graph.neighbours(self.agent)
        if not self.neighbours:
            return tuple(self._link(agreement, j) for j in wanted)
        given = tuple(sorted(link.agent for link in self.neighbours))
        if given != wanted:
            raise InputError(
                f"[[neighbours]] names agents {list(given)}, the agreement {list(wanted)}; name "
                "those, or leave the blocks away."
            )
        for link in self.neighbours:
            if link.name != agreement.parties[link.agent].name:
                raise InputError(
                    f"[[neighbours]] calls agent {link.agent} {link.name!r}, the agreement "
                    f"{agreement.parties[link.agent].name!r}."
                )
        return self.neighbours

    def _link(self, agreement: Agreement, j: int) -> Link:
        mine, theirs = agreement.parties[self.agent], agreement.parties[j]
        if theirs.endpoint and (not mine.endpoint or self.agent < j):
            return Link(j, theirs.name, endpoint=theirs.endpoint)
        if mine.endpoint:
            return Link(j, theirs.name)
        if self.router is None:
            raise InputError(
                f"Neither this site nor {theirs.name!r} can be dialled; name a router in peer.toml."
            )
        return Link(j, theirs.name, via="router")

    def link_settings(self, agreement: Agreement) -> LinkSettings:
        """Return this site's place in a run."""
        credentials, links = self.credentials(), self.links(agreement)
        relayed = {link.agent: link.name for link in links if link.via}
        met = self.router if relayed else None
        return LinkSettings(
            run=self.room,
            agent=self.agent,
            neighbours={link.agent: link.name for link in links if not link.via},
            relayed=relayed,
            credentials=credentials,
            cap=longest_message(agreement),
            held=unread_messages(agreement),
            listen=() if self.listen is None else (_tls(self.listen),),
            connect=tuple(_tls(link.endpoint) for link in links if link.endpoint),
            router=None if met is None else (met["name"], _tls(met["endpoint"])),
        )


def longest_message(terms: Agreement) -> int:
    """Return the cap of a run: its messages and notes fit, nothing longer is taken."""
    from ppadmm.peers import control
    from ppadmm.peers.messages import message_length
    from ppadmm.peers.parts import part_length

    parts = part_length(terms.parameters) if terms.recipe.everyone else 0
    return max(message_length(terms.parameters), parts, control.LONGEST)


def unread_messages(terms: Agreement) -> int:
    """Return how many unread messages of a neighbour are kept: it may hand on those of all."""
    return HELD + (2 * len(terms.parties) if terms.recipe.everyone else 0)


def template(name: str, agent: int, endpoint: str | None) -> str:
    """Return a commented `peer.toml` for a new site."""
    if endpoint is None:
        lines = ('# endpoint = "tls/this-site.example.org:7447"', '# listen = "tls/0.0.0.0:7447"')
    else:
        host_of(endpoint)
        port = endpoint.rpartition(":")[2]
        lines = (f'endpoint = "{_tls(endpoint)}"', f'listen = "tls/0.0.0.0:{port}"')
    checks.count("agent", agent, at_least=0)
    return TEMPLATE.format(name=agent_name(name), agent=agent, endpoint=lines[0], listen=lines[1])


def _joined(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path} is missing; `ppadmm peer join` puts it there.")
    return path


def _tls(endpoint: str) -> str:
    return endpoint if endpoint.startswith("tls/") else f"tls/{endpoint}"


def _text(what: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"Expected {what} to be a text, got {value!r}.")


def _named(error: TypeError) -> str:
    """Turn Python's words about arguments into words about entries."""
    text = str(error).partition("() ")[2] or str(error)
    return text.replace("keyword argument", "entry").replace(
        "required positional argument", "entry"
    )
