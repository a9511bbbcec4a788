"""A small HTTP server for people and programs on this machine; it binds to loopback only."""

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ppadmm import checks
from ppadmm.errors import InputError

HERE = "127.0.0.1"
SECURITY = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
Page = Callable[[], tuple[str, bytes]]
"""Makes (content type, bytes) of one path, now."""


class StatusPage:
    """Serves `pages` by path while the block lasts; port 0 takes any that is free."""

    def __init__(self, port: int, pages: Mapping[str, Page]) -> None:
        checks.count("status", port, at_least=0, at_most=65535)
        try:
            self._server = ThreadingHTTPServer((HERE, port), _handler(pages))
        except OSError as error:
            raise InputError(
                f"The status page cannot have port {port}: {error.strerror}; choose another "
                "(status = … in peer.toml, or --status)."
            ) from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{HERE}:{self._server.server_port}/"

    def __enter__(self) -> "StatusPage":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(pages: Mapping[str, Page]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers GET and HEAD; a name other than this machine's own is refused."""

        timeout = 10
        server_version, sys_version = "ppadmm", ""

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, body: bool) -> None:
            # A page elsewhere could point a name of its own at 127.0.0.1 and read what is here.
            host = (self.headers.get("Host") or "").rpartition(":")[0]
            page = pages.get(self.path.partition("?")[0])
            if host not in (HERE, "localhost"):
                self.send_error(403)
            elif page is None:
                self.send_error(404)
            else:
                self._send(*page(), body)

        def _send(self, kind: str, content: bytes, body: bool) -> None:
            self.send_response(200)
            for name, value in {**SECURITY, "Content-Type": kind}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: whoever looks is on this machine."""

    return Handler
