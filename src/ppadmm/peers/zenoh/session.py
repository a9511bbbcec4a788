"""Sessions of Zenoh: one line to some neighbours, and a look at who else connects.

Zenoh runs threads: open a session after any fork, never before.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ppadmm.errors import InputError
from ppadmm.peers.link_settings import LinkSettings
from ppadmm.peers.transport import HISTORY, Inbox
from ppadmm.peers.zenoh.configuration import key_of

if TYPE_CHECKING:
    import zenoh

STRANGERS_KEPT = 20

log = logging.getLogger("ppadmm.transport")


def open_session(configuration: Mapping[str, Any]) -> Any:
    """Open a session, or say why its links cannot be opened."""
    zenoh = _zenoh()
    try:
        return zenoh.open(zenoh.Config.from_json5(json.dumps(configuration)))
    except zenoh.ZError as error:
        where = ", ".join(configuration["listen"]["endpoints"]) or "no endpoint"
        raise InputError(f"The links cannot be opened ({where}): {error}.") from None


def _zenoh() -> Any:
    try:
        import zenoh
    except ImportError:
        raise InputError("Peers need Eclipse Zenoh; install ppadmm with the extra peer.") from None
    return zenoh


def show_zenoh_log(level: str = "warn") -> None:
    """Let Zenoh print its own log: refused handshakes and denied messages show only there."""
    _zenoh().init_log_from_env_or(level)


class Line:
    """One session: my publisher on it, and a subscriber for each neighbour behind it."""

    def __init__(
        self,
        configuration: Mapping[str, Any],
        link: LinkSettings,
        neighbours: Iterable[int],
        inbox: Inbox,
        strangers: "Strangers",
    ) -> None:
        self._session = open_session(configuration)
        try:
            listen = self._session.info.declare_link_events_listener
            self._links = listen(direct(strangers.notice), history=True)
            self._publisher = new_publisher(self._session, key_of(link.run, link.agent))
            self._subscribers = [self._subscribe(link, j, inbox) for j in neighbours]
        except BaseException:
            self._session.close()
            raise

    def _subscribe(self, link: LinkSettings, neighbour: int, inbox: Inbox) -> tuple[Any, Any]:
        """Hear a neighbour; whenever a publisher of its appears, ask for the last messages.

        Zenoh's own subscriber with history is not used: it drops an earlier message of the history
        if a later one came first, and a peer that misses a round waits for ever. Here a message
        may come twice and out of order; the wish to hear goes out before the question, so that
        nothing falls between the two.
        """
        key, appeared = key_of(link.run, neighbour), _zenoh().SampleKind.PUT

        def take(sample: "zenoh.Sample") -> None:
            payload = sample.payload
            inbox.put(neighbour, len(payload), payload.to_bytes)

        def watch(token: Any) -> None:
            inbox.link(neighbour, str(token.key_expr), token.kind == appeared)
            if token.kind == appeared:
                ask_for_history(self._session, str(token.key_expr), take)

        heard = self._session.declare_subscriber(key, direct(take))
        alive = self._session.liveliness()
        return heard, alive.declare_subscriber(f"{key}/@adv/pub/**", direct(watch), history=True)

    def publish(self, data: bytes) -> None:
        """Say something to all neighbours behind this line."""
        self._publisher.put(data)

    def close(self) -> None:
        """End its links."""
        self._session.close()


def new_publisher(session: "zenoh.Session", key: str) -> Any:
    """Declare a publisher whose last messages a late neighbour gets; no heartbeat.

    Messages are numbered by their publisher, so that no clock matters. Sending waits for a slow
    link rather than drop; Zenoh cuts a link that stays full, and history mends it.
    """
    zenoh, ext = _zenoh(), import_module("zenoh.ext")
    return ext.declare_advanced_publisher(
        session,
        key,
        congestion_control=zenoh.CongestionControl.BLOCK,
        express=True,
        cache=ext.CacheConfig(
            HISTORY,
            replies_config=ext.RepliesConfig(congestion_control=zenoh.CongestionControl.BLOCK),
        ),
        sample_miss_detection=ext.MissDetectionConfig(heartbeat=None, sporadic_heartbeat=None),
        publisher_detection=True,
    )


def direct(callback: Callable[[Any], None]) -> Any:
    """Call back in Zenoh's own thread: a thread of Python's would keep the interpreter alive."""
    return _zenoh().handlers.Callback(callback, indirect=False)


def ask_for_history(session: Any, token: str, take: Callable[[Any], None]) -> None:
    """Ask the publisher with this sign of life for its last messages."""
    zenoh = _zenoh()
    session.get(
        token,
        direct(lambda reply: take(reply.ok) if reply.ok is not None else None),
        target=zenoh.QueryTarget.ALL,
        consolidation=zenoh.ConsolidationMode.NONE,
        accept_replies=zenoh.ReplyKeyExpr.ANY,
    )


class Strangers:
    """Keeps and logs the last certificate names that connected without being expected."""

    def __init__(self, expected: Iterable[str]) -> None:
        self._expected = frozenset(expected)
        self._seen: dict[str, None] = {}

    def notice(self, event: Any) -> None:
        """Look at a link that came or went."""
        name = event.link.auth_identifier
        if name is None or name in self._expected or event.kind != _zenoh().SampleKind.PUT:
            return
        log.warning("refused %r at %s: it is not a neighbour", name, event.link.dst)
        self._seen[name] = None
        while len(self._seen) > STRANGERS_KEPT:
            self._seen.pop(next(iter(self._seen)))

    def names(self) -> tuple[str, ...]:
        """Return who connected, in the order of the first time."""
        return tuple(self._seen)
