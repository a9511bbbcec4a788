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
import logging
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any

from ppadmm.errors import InputError
from ppadmm.peers.link_settings import LinkSettings
from ppadmm.peers.transport import HISTORY, Inbox, Status, check_length
from ppadmm.peers.zenoh.configuration import RETRY, direct_configuration, relayed_configuration
from ppadmm.peers.zenoh.session import Line, Strangers

log = logging.getLogger("ppadmm.transport")


class ZenohTransport:
    """A transport of one agent over real links; see `LinkSettings` for what it needs to know."""

    def __init__(self, link: LinkSettings) -> None:
        self._link = link
        self._inbox = Inbox([*link.neighbours, *link.relayed], link.cap, held=link.held)
        router = () if link.router is None else (link.router[0],)
        self._strangers = Strangers({*link.neighbours.values(), *router})
        self._lines: list[Line] = []
        self._last: deque[bytes] = deque(maxlen=HISTORY)
        self._lock = threading.Lock()
        self._open = False
        self._closed = threading.Event()
        self._dialler: threading.Thread | None = None

    def start(self) -> None:
        """Open the links; returns at once, also while neighbours are away."""
        if self._open or self._closed.is_set():
            raise InputError("This transport was started already; make a new one.")
        if self._link.neighbours:
            self._add(self._line(direct_configuration(self._link), self._link.neighbours))
        self._open = True
        atexit.register(self.close)
        if self._link.relayed:
            self._dialler = threading.Thread(target=self._dial_router, daemon=True)
            self._dialler.start()

    def _line(self, configuration: dict[str, Any], neighbours: Iterable[int]) -> Line:
        return Line(configuration, self._link, neighbours, self._inbox, self._strangers)

    def _dial_router(self) -> None:
        """Try until the router answers; afterwards Zenoh itself keeps the link."""
        link, pause = self._link, RETRY["period_init_ms"]
        while not self._closed.is_set():
            try:
                self._add(self._line(relayed_configuration(link), link.relayed))
                return
            except InputError as error:
                log.info("the router does not answer yet: %s", error)
            self._closed.wait(pause / 1000)
            pause = min(pause * RETRY["period_increase_factor"], RETRY["period_max_ms"])

    def _add(self, line: Line) -> None:
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
        check_length(data, self._link.cap)
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
