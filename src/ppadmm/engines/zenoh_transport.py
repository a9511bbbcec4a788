"""Direct TLS links between neighbours, by Eclipse Zenoh (extra `peer`).

Agent i speaks on one key, `ppadmm/<run>/<i>/message`. Both sides of a link prove who they are
(mutual TLS), the side that dials checks that the certificate names the address it dialled, and
access control denies everything except this: from the certificate name of neighbour j, what j says
on its own key, and j's wish to hear mine. Nobody is searched for: no multicast, no gossip.

Two sites that both can only dial out meet at a router (`Router`). A link to it is a session of its
own in client mode, because a router does not forward between peers. A router could read and forge;
messages are signed for that reason, and the router's own access control keeps members from speaking
for each other.

Zenoh runs threads: open a transport after any fork, never before.
"""

import atexit
import json
import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ppadmm import checks
from ppadmm.engines.transport import HISTORY, Inbox, Status, check_length
from ppadmm.errors import InputError

if TYPE_CHECKING:
    import zenoh

FRAME = 4096
LEASE = 4000
RETRY = {"period_init_ms": 100, "period_max_ms": 2000, "period_increase_factor": 1.5}
MOST_LINKS = 1000
STRANGERS_KEPT = 20

log = logging.getLogger("ppadmm.transport")


@dataclass(frozen=True)
class Credentials:
    """The PEM files that a link needs: the authority, this site's certificate and its key."""

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class Seat:
    """One agent's place in a run: who it is, who its neighbours are and how they are reached.

    `neighbours` and `relayed` give the certificate name of each neighbour that has a direct link
    and of each that is met at the router. `connect` holds the endpoints to dial; a neighbour whose
    endpoint is not among them dials in. `router` is the (certificate name, endpoint) of the router.
    `cap` is the length of the longest message. Without credentials links are plain TCP and only
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

    def __post_init__(self) -> None:
        checks.count("agent", self.agent, at_least=0)
        checks.count("the cap of a message", self.cap)
        numbers = [*self.neighbours, *self.relayed]
        if not numbers or self.agent in numbers or len(set(numbers)) < len(numbers):
            raise InputError(f"Expected neighbours other than {self.agent}, got {numbers}.")
        if bool(self.relayed) != (self.router is not None):
            raise InputError("Name the router if and only if neighbours are met at it.")
        for endpoint in (*self.listen, *self.connect, *(self.router or ())[1:]):
            _check_endpoint(endpoint, self.credentials is not None)

    def without(self, revoked: Collection[str]) -> "Seat":
        """Return this seat with nobody of a revoked name on its links."""
        kept = {k: v for k, v in self.neighbours.items() if v not in revoked}
        relayed = {k: v for k, v in self.relayed.items() if v not in revoked}
        if not kept and not relayed:
            raise InputError(f"All neighbours of agent {self.agent} were revoked; nobody is left.")
        router = self.router if relayed else None
        return replace(self, neighbours=kept, relayed=relayed, router=router)


def _check_endpoint(endpoint: str, tls: bool) -> None:
    if tls and not re.fullmatch(r"tls/\S+:\d{1,5}", endpoint):
        raise InputError(f"Expected an endpoint like tls/host.example.org:7447, got {endpoint!r}.")
    if not tls and not re.fullmatch(r"tcp/(127\.0\.0\.1|localhost|\[::1\]):\d{1,5}", endpoint):
        raise InputError(
            f"Without certificates only loopback is allowed (tcp/127.0.0.1:…), got {endpoint!r}."
        )


def key_of(run: bytes, agent: int) -> str:
    """Return the key on which an agent speaks."""
    return f"ppadmm/{run.hex()}/{agent}/message"


# Access control: everything that is not listed is denied


def _rules(who: str, speaks: list[str], hears: list[str]) -> list[dict[str, Any]]:
    """Allow the other side `who` to speak on `speaks` and to hear `hears`, and nothing else.

    Seen from here: its messages, answers and signs of life come in on `speaks`, mine go out on
    `hears`; its wishes come in for `hears`, mine go out for `speaks`.
    """
    saying = ["put", "reply", "declare_queryable", "liveliness_token"]
    asking = [
        "declare_subscriber",
        "query",
        "declare_liveliness_subscriber",
        "liveliness_query",
    ]
    return [
        _rule(f"{who} says", "ingress", saying, speaks),
        _rule(f"{who} asks", "ingress", asking, hears),
        _rule(f"to {who} I say", "egress", saying, hears),
        _rule(f"to {who} I ask", "egress", asking, speaks),
    ]


def _rule(name: str, flow: str, messages: list[str], keys: list[str]) -> dict[str, Any]:
    with_history = [pattern for key in keys for pattern in (key, f"{key}/@adv/**")]
    return {
        "id": name,
        "permission": "allow",
        "flows": [flow],
        "messages": messages,
        "key_exprs": with_history,
    }


def _control(allowed: Mapping[str, tuple[list[str], list[str]]], tls: bool) -> dict[str, Any]:
    """Return the section `access_control` for name → (keys it speaks on, keys it may hear)."""
    rules, subjects, policies = [], [], []
    for name, (speaks, hears) in allowed.items():
        if not speaks or not hears:
            continue
        own = _rules(name, speaks, hears)
        rules += own
        subject = {"cert_common_names": [name]} if tls else {"link_protocols": ["tcp"]}
        subjects.append({"id": name, **subject})
        policies.append({"rules": [rule["id"] for rule in own], "subjects": [name]})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


# Configuration


def _configuration(
    mode: str,
    listen: Iterable[str],
    connect: Iterable[str],
    credentials: Credentials | None,
    control: dict[str, Any],
    cap: int,
) -> dict[str, Any]:
    """Return a whole Zenoh configuration: explicit endpoints, no search, caps, no shared memory."""
    return {
        "mode": mode,
        "listen": {"endpoints": list(listen), "exit_on_failure": True},
        "connect": {
            "endpoints": list(connect),
            "timeout_ms": 0 if mode == "client" else -1,
            "exit_on_failure": mode == "client",
            "retry": RETRY,
        },
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "open": {"return_conditions": {"connect_scouted": False, "declares": False}},
        "timestamping": {"enabled": False},
        "adminspace": {"enabled": False},
        "access_control": control,
        "transport": {
            "shared_memory": {"enabled": False},
            "unicast": {"max_sessions": MOST_LINKS, "max_links": 1, "accept_timeout": 5000},
            "link": {
                "protocols": ["tcp" if credentials is None else "tls"],
                "tx": {"lease": LEASE},
                "rx": {"max_message_size": cap + FRAME},
                **({} if credentials is None else {"tls": _tls(credentials)}),
            },
        },
    }


def _tls(credentials: Credentials) -> dict[str, Any]:
    key, certificate = str(credentials.key), str(credentials.certificate)
    return {
        "root_ca_certificate": str(credentials.authority),
        "listen_private_key": key,
        "listen_certificate": certificate,
        "connect_private_key": key,
        "connect_certificate": certificate,
        "enable_mtls": True,
        "verify_name_on_connect": True,
        "close_link_on_expiration": True,
    }


def _keys(run: bytes, agents: Iterable[int]) -> list[str]:
    return [key_of(run, agent) for agent in agents]


def direct_configuration(seat: Seat) -> dict[str, Any]:
    """Return the configuration of the session with the neighbours that have a direct link."""
    mine = _keys(seat.run, [seat.agent])
    allowed = {name: (_keys(seat.run, [j]), mine) for j, name in seat.neighbours.items()}
    if seat.credentials is None:
        allowed = {"loopback": (_keys(seat.run, seat.neighbours), mine)}
    control = _control(allowed, seat.credentials is not None)
    return _configuration("peer", seat.listen, seat.connect, seat.credentials, control, seat.cap)


def relayed_configuration(seat: Seat) -> dict[str, Any]:
    """Return the configuration of the session with the router."""
    if seat.router is None:
        raise InputError(f"Agent {seat.agent} has no router.")
    name, endpoint = seat.router
    allowed = {name: (_keys(seat.run, seat.relayed), _keys(seat.run, [seat.agent]))}
    control = _control(allowed, seat.credentials is not None)
    return _configuration("client", (), [endpoint], seat.credentials, control, seat.cap)


def router_configuration(
    run: bytes,
    members: Mapping[int, str],
    edges: Iterable[tuple[int, int]],
    listen: tuple[str, ...],
    credentials: Credentials,
    cap: int,
) -> dict[str, Any]:
    """Return a router's configuration: each member speaks for itself and hears its neighbours."""
    heard: dict[int, list[int]] = {}
    for i, j in edges:
        heard.setdefault(i, []).append(j)
        heard.setdefault(j, []).append(i)
    allowed = {name: (_keys(run, [i]), _keys(run, heard.get(i, ()))) for i, name in members.items()}
    for endpoint in listen:
        _check_endpoint(endpoint, tls=True)
    return _configuration("router", listen, (), credentials, _control(allowed, True), cap)


# Sessions


def _open(configuration: Mapping[str, Any]) -> Any:
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


class _Line:
    """One session: my publisher on it, and a subscriber for each neighbour behind it."""

    def __init__(
        self,
        configuration: Mapping[str, Any],
        seat: Seat,
        neighbours: Iterable[int],
        inbox: Inbox,
        strangers: "_Strangers",
    ) -> None:
        self._session = _open(configuration)
        try:
            listen = self._session.info.declare_link_events_listener
            self._links = listen(_direct(strangers.notice), history=True)
            self._publisher = _publisher(self._session, key_of(seat.run, seat.agent))
            self._subscribers = [self._subscribe(seat, j, inbox) for j in neighbours]
        except BaseException:
            self._session.close()
            raise

    def _subscribe(self, seat: Seat, neighbour: int, inbox: Inbox) -> tuple[Any, Any]:
        """Hear a neighbour; whenever a publisher of its appears, ask for the last messages.

        Zenoh's own subscriber with history is not used: it drops an earlier message of the history
        if a later one came first, and a peer that misses a round waits for ever. Here a message
        may come twice and out of order; the wish to hear goes out before the question, so that
        nothing falls between the two.
        """
        key = key_of(seat.run, neighbour)
        take = _taker(inbox, neighbour)
        subscriber = self._session.declare_subscriber(key, _direct(take))
        watch = self._session.liveliness().declare_subscriber(
            f"{key}/@adv/pub/**", _direct(self._watcher(inbox, neighbour, take)), history=True
        )
        return subscriber, watch

    def _watcher(
        self, inbox: Inbox, neighbour: int, take: Callable[[Any], None]
    ) -> Callable[[Any], None]:
        appeared = _zenoh().SampleKind.PUT

        def watch(token: Any) -> None:
            inbox.link(neighbour, str(token.key_expr), token.kind == appeared)
            if token.kind == appeared:
                ask_for_history(self._session, str(token.key_expr), take)

        return watch

    def publish(self, data: bytes) -> None:
        self._publisher.put(data)

    def close(self) -> None:
        self._session.close()


def _zenoh_ext() -> Any:
    _zenoh()
    import zenoh.ext

    return zenoh.ext


def _publisher(session: "zenoh.Session", key: str) -> Any:
    """Declare a publisher whose last messages a late neighbour gets; no heartbeat.

    Messages are numbered by their publisher, so that no clock matters. Sending waits for a slow
    link rather than drop; Zenoh cuts a link that stays full, and history mends it.
    """
    zenoh, ext = _zenoh(), _zenoh_ext()
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


def _direct(callback: Callable[[Any], None]) -> Any:
    """Call back in Zenoh's own thread: a thread of Python's would keep the interpreter alive."""
    return _zenoh().handlers.Callback(callback, indirect=False)


def _taker(inbox: Inbox, neighbour: int) -> Callable[["zenoh.Sample"], None]:
    def take(sample: "zenoh.Sample") -> None:
        inbox.put(neighbour, len(sample.payload), sample.payload.to_bytes)

    return take


def ask_for_history(session: Any, token: str, take: Callable[[Any], None]) -> None:
    """Ask the publisher with this sign of life for its last messages."""
    zenoh = _zenoh()
    session.get(
        token,
        _direct(lambda reply: take(reply.ok) if reply.ok is not None else None),
        target=zenoh.QueryTarget.ALL,
        consolidation=zenoh.ConsolidationMode.NONE,
        accept_replies=zenoh.ReplyKeyExpr.ANY,
    )


class _Strangers:
    """Keeps and logs the last certificate names that connected without being expected."""

    def __init__(self, expected: Iterable[str]) -> None:
        self._expected = frozenset(expected)
        self._seen: dict[str, None] = {}

    def expect_no_longer(self, names: Iterable[str]) -> None:
        self._expected = self._expected.difference(names)

    def notice(self, event: Any) -> None:
        name = event.link.auth_identifier
        if name is None or name in self._expected or event.kind != _zenoh().SampleKind.PUT:
            return
        log.warning("refused %r at %s: it is not a neighbour", name, event.link.dst)
        self._seen[name] = None
        while len(self._seen) > STRANGERS_KEPT:
            self._seen.pop(next(iter(self._seen)))

    def names(self) -> tuple[str, ...]:
        return tuple(self._seen)


class ZenohTransport:
    """A transport of one agent over real links; see `Seat` for what it needs to know."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._inbox = Inbox([*seat.neighbours, *seat.relayed], seat.cap)
        router = () if seat.router is None else (seat.router[0],)
        self._strangers = _Strangers({*seat.neighbours.values(), *router})
        self._lines: list[_Line] = []
        self._last: deque[bytes] = deque(maxlen=HISTORY)
        self._lock = threading.Lock()
        self._open = False
        self._closed = threading.Event()
        self._dialler: threading.Thread | None = None

    def start(self) -> None:
        """Open the links; returns at once, also while neighbours are away."""
        if self._open or self._closed.is_set():
            raise InputError("This transport was started already; make a new one.")
        if self._seat.neighbours:
            self._add(self._line(direct_configuration(self._seat), self._seat.neighbours))
        self._open = True
        atexit.register(self.close)
        if self._seat.relayed:
            self._dialler = threading.Thread(target=self._dial_router, daemon=True)
            self._dialler.start()

    def revoke(self, names: Collection[str]) -> None:
        """Cut off neighbours whose certificates were revoked; the others are linked anew."""
        gone = {
            number
            for number, name in (*self._seat.neighbours.items(), *self._seat.relayed.items())
            if name in names
        }
        if not gone:
            return
        self.close()
        self._inbox.bar(gone)
        self._strangers.expect_no_longer(names)
        self._seat = self._seat.without(names)
        self._closed.clear()
        self.start()

    def _line(self, configuration: dict[str, Any], neighbours: Iterable[int]) -> _Line:
        return _Line(configuration, self._seat, neighbours, self._inbox, self._strangers)

    def _dial_router(self) -> None:
        """Try until the router answers; afterwards Zenoh itself keeps the link."""
        seat, pause = self._seat, RETRY["period_init_ms"]
        while not self._closed.is_set():
            try:
                self._add(self._line(relayed_configuration(seat), seat.relayed))
                return
            except InputError as error:
                log.info("the router does not answer yet: %s", error)
            self._closed.wait(pause / 1000)
            pause = min(pause * RETRY["period_increase_factor"], RETRY["period_max_ms"])

    def _add(self, line: _Line) -> None:
        """Put a new line to use; it begins with what was said last."""
        with self._lock:
            if not self._closed.is_set():
                for data in self._last:
                    line.publish(data)
                self._lines.append(line)
                return
        line.close()

    def publish(self, data: bytes) -> None:
        """Give `data` to all neighbours as my latest message."""
        check_length(data, self._seat.cap)
        with self._lock:
            if not self._open:
                raise InputError("This transport is not open; start it first.")
            self._last.append(data)
            for line in self._lines:
                line.publish(data)

    def receive(self, timeout: float) -> tuple[int, bytes] | None:
        """Return the next message and its neighbour, or None after `timeout` seconds."""
        return self._inbox.receive(timeout)

    def status(self) -> Status:
        """Say who is there, who was heard when, and which strangers connected."""
        return Status(self._inbox.neighbours(), self._strangers.names())

    def close(self) -> None:
        """End all links; a second call does nothing."""
        atexit.unregister(self.close)
        self._closed.set()
        with self._lock:
            self._open = False
            lines, self._lines = self._lines, []
        for line in lines:
            line.close()
        if self._dialler is not None:
            self._dialler.join()


class Router:
    """A meeting point for sites that can only dial out. It keeps no data and learns no key.

    It sees the messages of those sites, which are noised and signed; it can hold them back or
    repeat them, and cannot alter them unnoticed.
    """

    def __init__(self, configuration: dict[str, Any], expected: Iterable[str]) -> None:
        self._configuration = configuration
        self._strangers = _Strangers(expected)
        self._session: Any = None
        self._links: Any = None

    def __enter__(self) -> "Router":
        """Listen until the block is left."""
        self._session = _open(self._configuration)
        listen = self._session.info.declare_link_events_listener
        self._links = listen(_direct(self._strangers.notice), history=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all links."""
        self._session.close()

    def members(self) -> tuple[str, ...]:
        """Return the certificate names that are connected now."""
        names = (link.auth_identifier for link in self._session.info.links())
        return tuple(sorted(name for name in names if name is not None))

    def strangers(self) -> tuple[str, ...]:
        """Return the names that connected without being members; they can do nothing."""
        return self._strangers.names()
