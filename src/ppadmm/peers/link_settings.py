"""One agent's place on a network: who it is, whom it talks to and how they are reached."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ppadmm import checks
from ppadmm.errors import InputError
from ppadmm.peers.transport import HELD


@dataclass(frozen=True)
class Credentials:
    """The PEM files that a link needs: the authority, this site's certificate and its key."""

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class LinkSettings:
    """One agent's place in a run: who it is, who its neighbours are and how they are reached.

    `neighbours` and `relayed` give the certificate name of each neighbour that has a direct link
    and of each that is met at the router. `connect` holds the endpoints to dial; a neighbour whose
    endpoint is not among them dials in. `router` is the (certificate name, endpoint) of the router.
    `cap` is the length of the longest message, and of each neighbour `held` unread ones are kept,
    of no more bytes than `HELD` of the longest. Without credentials links are plain TCP and only
    loopback is allowed: that is for measurements.
    """

    run: bytes
    agent: int
    neighbours: Mapping[int, str]
    credentials: Credentials | None
    cap: int
    listen: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    relayed: Mapping[int, str] = field(default_factory=dict)
    router: tuple[str, str] | None = None
    held: int = HELD

    def __post_init__(self) -> None:
        checks.count("agent", self.agent, at_least=0)
        checks.count("the cap of a message", self.cap)
        numbers = [*self.neighbours, *self.relayed]
        if not numbers or self.agent in numbers or len(set(numbers)) < len(numbers):
            raise InputError(f"Expected neighbours other than {self.agent}, got {numbers}.")
        if bool(self.relayed) != (self.router is not None):
            raise InputError("Name the router if and only if neighbours are met at it.")
        for endpoint in (*self.listen, *self.connect, *(self.router or ())[1:]):
            check_endpoint(endpoint, self.credentials is not None)


def check_endpoint(endpoint: str, tls: bool) -> None:
    """Refuse what is no endpoint, and plain TCP beyond this machine."""
    if tls and not re.fullmatch(r"tls/\S+:\d{1,5}", endpoint):
        raise InputError(f"Expected an endpoint like tls/host.example.org:7447, got {endpoint!r}.")
    if not tls and not re.fullmatch(r"tcp/(127\.0\.0\.1|localhost|\[::1\]):\d{1,5}", endpoint):
        raise InputError(
            f"Without certificates only loopback is allowed (tcp/127.0.0.1:…), got {endpoint!r}."
        )
