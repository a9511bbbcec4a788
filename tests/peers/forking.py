"""Forks peers on request, one line of JSON each; see sites.py."""

import ctypes
import json
import os
import sys
import time
import traceback
from pathlib import Path

import zenoh  # noqa: F401

from tests.peers.hub import Faults

CLONE_NEWNET = 0x40000000


def enter(host):
    """Move this process into a network namespace."""
    with Path(f"/var/run/netns/{host}").open() as place:
        if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {host}")


class Seam:
    """A transport that loses, repeats, delays and reorders what comes, and notes what it sends."""

    def __init__(self, inner, faults, pause, sent):
        self._inner, self._faults, self._pause, self._sent = inner, faults, pause, sent
        self._waiting, self._serials, self._step = [], {}, 0
        for name in ("start", "status", "close"):
            setattr(self, name, getattr(inner, name))

    def publish(self, data):
        time.sleep(self._pause)
        if self._sent is not None:
            with self._sent.open("ab") as file:
                file.write(len(data).to_bytes(8) + data)
        self._inner.publish(data)

    def receive(self, timeout):
        end = time.monotonic() + timeout
        while True:
            self._step += 1
            due = [entry for entry in self._waiting if entry[0] <= self._step]
            if due:
                self._waiting.remove(due[0])
                return due[0][1:]
            left = end - time.monotonic()
            found = self._inner.receive(max(0.0, min(left, 0.05)))
            if found is not None:
                self._sort(*found)
            elif left <= 0:
                return None

    def _sort(self, neighbour, data):
        serial = self._serials.get(neighbour, 0)
        self._serials[neighbour] = serial + 1
        for steps in self._faults.fate(neighbour, 0, serial):
            self._waiting.append((self._step + steps, neighbour, data))


def be(file, options, seam, host):
    """Turn this fork into the command; never returns."""
    try:
        os.setsid()
        words = os.open(file.parent / "words.txt", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(words, 1)
        os.dup2(words, 2)
        if host is not None:
            enter(host)
        if seam is not None:
            _put_seam(file, **seam)
        sys.argv = ["ppadmm", *map(str, options)]
        from ppadmm.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 99
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _put_seam(
    file, loss=0.0, repeat=0.0, delay=0.0, pause=0.0, note=False, seed=0, reckless=False,
    bare=False, doubt=1.0,
):  # fmt: skip
    """Put faults in the way; `doubt` is by how much the second accountant errs."""
    from ppadmm.accounting import recompute
    from ppadmm.peers.zenoh import transport as zenoh_transport

    found = recompute.epsilons
    recompute.epsilons = lambda *asked: [doubt * each for each in found(*asked)]
    if reckless:
        _look_at_nothing(bare)

    inner = zenoh_transport.ZenohTransport
    faults = Faults(loss, repeat, delay, longest=6, seed=seed)
    sent = file.parent / "sent.bin" if note else None
    zenoh_transport.ZenohTransport = lambda link: Seam(inner(link), faults, pause, sent)


def _look_at_nothing(bare):
    """Be an intruder: connect with whatever certificate there is, or with none (`bare`)."""
    from ppadmm.peers.link_settings import Credentials
    from ppadmm.peers.settings import PeerFile
    from ppadmm.peers.zenoh import configuration as zenoh_configuration

    def credentials(peer, now=None):
        return Credentials(peer.keys.authority, peer.keys.certificate, peer.keys.tls)

    tls = zenoh_configuration._tls

    def without_certificate(files):
        mine = ("connect_private_key", "connect_certificate")
        rest = {name: value for name, value in tls(files).items() if name not in mine}
        return {**rest, "enable_mtls": False}

    PeerFile.credentials = credentials
    if bare:
        zenoh_configuration._tls = without_certificate


def start(file, options, seam, host):
    """Fork a peer and return its process."""
    pid = os.fork()
    if pid == 0:
        be(Path(file), options, seam, host)
    return pid


def poll(pid):
    """Return the exit code of a peer that has ended."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def main():
    import opendp.prelude  # noqa: F401

    for line in sys.stdin:
        question = json.loads(line)
        answer = start(**question["start"]) if "start" in question else poll(question["poll"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
