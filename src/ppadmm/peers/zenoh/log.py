"""Refused links, which only Zenoh's own log shows, told in the log of the peer.

Zenoh can write its log to standard output and nowhere else. While a `ZenohLog` is open, that
descriptor is a pipe, so nothing else may be printed there.
"""

import logging
import os
import re
import sys
import threading
from collections import Counter
from contextlib import AbstractContextManager

from ppadmm.peers.zenoh.session import show_zenoh_log

STANDARD_OUTPUT = 1
COLOURS = re.compile(r"\x1b\[[\d;]*m")
REFUSAL = re.compile(r"zenoh_link_tls::unicast: (.*?)(?:\. Hint: .*)?$")
WORDS = {
    "peer sent no certificates": "it showed no certificate",
    "certificate expired": "its certificate has expired",
    "certificate not valid yet": "its certificate is not valid yet; set both clocks",
    "invalid peer certificate": "its certificate is not from this site's authority",
    "received fatal alert": "it broke off, as it does not take this site's certificate",
}
"""What Zenoh's TLS says of the other side of a link, in the order in which it is looked for."""

log = logging.getLogger("ppadmm.transport")


def in_words(line: str) -> str | None:
    """Return why a link was refused; None for a line about something else."""
    found = REFUSAL.search(COLOURS.sub("", line).rstrip())
    if found is None:
        return None
    return next((words for part, words in WORDS.items() if part in found[1]), found[1])


class ZenohLog(AbstractContextManager["ZenohLog"]):
    """Tells the 1st, 10th, 100th … refusal of each kind: a flood must not fill a disk.

    With RUST_LOG in the environment all of Zenoh's lines go to standard error, too.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._aloud = "RUST_LOG" in os.environ

    def __enter__(self) -> "ZenohLog":
        """Take over standard output."""
        sys.stdout.flush()
        self._before = os.dup(STANDARD_OUTPUT)
        read, write = os.pipe()
        if hasattr(os, "set_blocking"):  # not on Windows before Python 3.12
            os.set_blocking(write, False)  # Zenoh must never wait for this reader
        os.dup2(write, STANDARD_OUTPUT)
        os.close(write)
        self._reader = threading.Thread(target=self._read, args=(read,), daemon=True)
        self._reader.start()
        show_zenoh_log("warn")
        return self

    def __exit__(self, *_: object) -> None:
        """Give standard output back."""
        os.dup2(self._before, STANDARD_OUTPUT)
        os.close(self._before)
        self._reader.join()

    def _read(self, descriptor: int) -> None:
        with open(descriptor, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self.take(line)

    def take(self, line: str) -> None:
        """Take in one line of Zenoh's."""
        if self._aloud:
            sys.stderr.write(line)
        why = in_words(line)
        if why is None:
            return
        kind = why if why in WORDS.values() else "other"
        self._counts[kind] += 1
        if str(self._counts[kind]).strip("0") == "1":
            fields = {"why": why, "count": self._counts[kind]}
            log.warning("refused a link", extra={"fields": fields})
