"""A meeting point for sites that can only dial out (docs/transport.md)."""

from collections.abc import Iterable
from typing import Any

from ppadmm.peers.zenoh.session import Strangers, direct, open_session


class Router:
    """A meeting point for sites that can only dial out. It keeps no data and learns no key.

    It sees the messages of those sites, which are noised and signed; it can hold them back or
    repeat them, and cannot alter them unnoticed.
    """

    def __init__(self, configuration: dict[str, Any], expected: Iterable[str]) -> None:
        self._configuration = configuration
        self._strangers = Strangers(expected)
        self._session: Any = None
        self._links: Any = None

    def __enter__(self) -> "Router":
        """Listen until the block is left."""
        self._session = open_session(self._configuration)
        listen = self._session.info.declare_link_events_listener
        self._links = listen(direct(self._strangers.notice), history=True)
        return self

    def __exit__(self, *_: object) -> None:
        """End all links."""
        self._session.close()

    def members(self) -> tuple[str, ...]:
        """Return the certificate names that are connected now."""
        names = (link.auth_identifier for link in self._session.info.links())
        return tuple(sorted(name for name in names if name is not None))
