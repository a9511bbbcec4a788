"""Sites of a study with certificates, their links, and peers that link up over real TLS."""

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from ppadmm.peers.link_settings import Credentials, LinkSettings
from ppadmm.peers.pki import certificates, enrolment
from ppadmm.peers.pki.authority import Authority
from ppadmm.peers.pki.enrolment import Keys
from ppadmm.peers.zenoh.transport import ZenohTransport
from tests.peers.sites import HERE, free_ports

RUN = bytes(range(16))
CAP = 5000


class Study:
    """An authority and the sites that it approved."""

    def __init__(self, folder, name="study"):
        self.folder, self.count = folder, 0
        self.authority = Authority(folder / f"{name}-authority")
        self.authority.make(name)

    def site(self, name, host=HERE, now=None):
        self.count += 1
        keys = Keys(self.folder / f"site-{self.count}")
        keys.make()
        asked = enrolment.request(keys, name, [host])
        issued = self.authority._issue(asked, 365, now or datetime.now(UTC))
        keys.certificate.write_bytes(certificates.pem([issued]))
        keys.authority.write_bytes(self.authority.file.read_bytes())
        return Credentials(keys.authority, keys.certificate, keys.tls)


def new_study(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("study"))


def site_alpha(study):
    return study.site("alpha")


def site_beta(study):
    return study.site("beta")


class Process:
    """A peer in a process of its own."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("peer_process.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1", "RUST_LOG": "warn"},
        )
        self.log = []

    def ask(self, name, **arguments):
        print(json.dumps([name, arguments]), file=self.process.stdin, flush=True)

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("@ "):
                return json.loads(line[2:])
            self.log.append(line)
        raise AssertionError(f"the process ended: {''.join(self.log)}")

    def do(self, name, **arguments):
        self.ask(name, **arguments)
        answer = self.answer()
        assert "error" not in answer, answer
        return answer["answer"]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def process_maker():
    """Start peers in processes of their own and end them at the end."""
    made = []

    def make():
        made.append(Process())
        return made[-1]

    yield make
    for one in made:
        one.kill()


def transport_maker():
    """Open transports in this process and close them at the end."""
    made = []

    def make(link):
        made.append(Fresh(ZenohTransport(link)))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.close()


def plain(link):
    """A link as JSON, for a process."""
    files = link.credentials
    return {
        **{name: getattr(link, name) for name in ("agent", "cap", "listen", "connect", "router")},
        "run": link.run.hex(),
        "neighbours": dict(link.neighbours),
        "relayed": dict(link.relayed),
        "credentials": [str(files.authority), str(files.certificate), str(files.key)],
    }


def ring_links(study, n=5):
    """Agent i listens and dials agent i + 1."""
    ports = free_ports(n)
    names = [f"agent-{i}" for i in range(n)]
    return [
        LinkSettings(
            RUN,
            i,
            {j: names[j] for j in ((i - 1) % n, (i + 1) % n)},
            study.site(names[i]),
            CAP,
            listen=(f"tls/{HERE}:{ports[i]}",),
            connect=(f"tls/{HERE}:{ports[(i + 1) % n]}",),
        )
        for i in range(n)
    ]


def listener(credentials, cap=CAP, neighbours=None):
    (port,) = free_ports(1)
    return LinkSettings(
        RUN, 0, neighbours or {1: "beta"}, credentials, cap, (f"tls/{HERE}:{port}",)
    )


def dialler(credentials, to, agent=1, cap=CAP, name="alpha"):
    return LinkSettings(RUN, agent, {0: name}, credentials, cap, connect=to.listen)


class Fresh:
    """A transport that hands on every message once: links may repeat, and tests count."""

    def __init__(self, transport):
        self._transport, self._seen = transport, set()
        for name in ("start", "publish", "status", "close"):
            setattr(self, name, getattr(transport, name))

    def receive(self, timeout):
        end = time.monotonic() + timeout
        while True:
            found = self._transport.receive(max(0, end - time.monotonic()))
            if found is None or found not in self._seen:
                self._seen.add(found)
                return found
