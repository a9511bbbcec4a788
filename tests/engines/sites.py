"""Sites with folders, certificates and ledgers, and their processes: real TLS on real sockets.

A process is forked from this one, which has loaded everything and opened no session, and then runs
the command line. It can be given faults at the transport's seam and a record of all it sends.
"""

import json
import os
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ppadmm.agreement import Agreement, Party
from ppadmm.data import Categorical, Label, Numeric, Schema
from ppadmm.engines import pki
from ppadmm.engines.agreement_file import load_agreement, save_agreement, save_signature
from ppadmm.engines.peer_file import PeerFile
from ppadmm.engines.transport import Faults
from ppadmm.experiments.site import Party as Part
from ppadmm.experiments.site import read_records
from ppadmm.privacy import Budget
from ppadmm.privacy.sqlite_ledger import SqliteLedger, read_rows, verify
from ppadmm.problem import make_graph

HERE = "127.0.0.1"
SCHEMA = Schema(
    columns=(Numeric("age", 0, 100), Numeric("weight", 0, 200), Categorical("sex", ("f", "m"))),
    label=Label("ill", ("yes",), ("no",)),
)


def free_ports(n):
    """Return n ports that are free now, all different."""
    probes = [socket.socket() for _ in range(n)]
    for probe in probes:
        probe.bind((HERE, 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def write_records(path, n, seed):
    """Records in which being old is being ill."""
    rng = np.random.default_rng(seed)
    age, weight = rng.uniform(1, 99, n).round(3), rng.uniform(2, 198, n).round(3)
    ill = np.where(age + rng.normal(0, 20, n) > 50, "yes", "no")
    table = {"age": age, "weight": weight, "sex": rng.choice(["f", "m"], n), "ill": ill}
    pa.csv.write_csv(pa.table(table), path)


@dataclass
class Sites:
    """The folders of all sites of a run."""

    folder: Path
    count: int

    @property
    def files(self):
        return [self.folder / f"site-{i}" / "peer.toml" for i in range(self.count)]

    @property
    def agreement(self) -> Agreement:
        return load_agreement(self.folder / "site-0" / "agreement.json")

    def parts(self, seed):
        """Every site's part, as its own process makes it."""
        found = []
        for file in self.files:
            peer = PeerFile.load(file)
            records = read_records(file.parent / "data.csv", file.parent / "schema.toml")
            found.append(Part(self.agreement, peer.agent, records, seed))
        return found

    def books(self, i, simulated=False):
        """The verified books of one site."""
        name = f"simulation-{self.agreement.digest[:12]}/simulation.ledger"
        path = self.files[i].parent / (name if simulated else "site.ledger")
        return verify(read_rows(path))[0]

    def log(self, i, simulated=False):
        """What one site told so far."""
        name = "simulation" if simulated else "state"
        path = self.files[i].parent / f"{name}-{self.agreement.digest[:12]}" / "log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def made(self, i, simulated=False):
        """In how many rounds one site has spoken, as far as its log says."""
        rounds = [e["round"] for e in self.log(i, simulated) if e["event"] == "round"]
        return max(rounds, default=-1) + 1

    def model(self, i):
        return (self.files[i].parent / "results" / "model.json").read_bytes()


def make_sites(folder, n=5, graph="ring", rounds=12, records=400, hosts=None, **terms) -> Sites:
    """Make everything that people would: authority, keys, certificates, ledgers, agreement."""
    ports, network = free_ports(n), make_graph(graph, n, 0)
    hosts = hosts or [HERE] * n
    authority = pki.Authority(folder / "ca")
    authority.make("study")
    parties = []
    for i in range(n):
        place = folder / f"site-{i}"
        keys = pki.Keys(place / "keys")
        keys.make()
        reply = authority.approve(pki.request(keys, f"site-{i}", [hosts[i]]))
        pki.join(keys, f"site-{i}", reply)
        write_records(place / "data.csv", records, seed=i)
        (place / "schema.toml").write_text(SCHEMA.to_toml())
        end = f"{hosts[i]}:{ports[i]}"
        (place / "peer.toml").write_text(PEER.format(i=i, end=end))
        parties.append(Party(f"site-{i}", keys.public_signing_key(), records, 2.0, end))
        with SqliteLedger.create(place / "site.ledger", f"site {i}") as ledger:
            ledger.grant("records", Budget(2.0, 1e-4))
    values = {"eta": 0.1, "regularisation": 0.05, "delta": 1e-4, "patience": 60.0, **terms}
    agreement = Agreement(
        tuple(parties), network.edges, SCHEMA.digest(), SCHEMA.dimension,
        rounds=rounds, nonce=datetime.now(UTC).isoformat(), **values,
    )  # fmt: skip
    sites = Sites(folder, n)
    for i, file in enumerate(sites.files):
        save_agreement(agreement, file.parent / "agreement.json")
        key = pki.read_signing_key(PeerFile.load(file).keys.signing)
        save_signature(file.parent / "signature.json", agreement, i, key)
    return sites


PEER = """
name = "site-{i}"
agent = {i}
data = "data.csv"
schema = "schema.toml"
ledger = "site.ledger"
dataset = "records"
agreement = "agreement.json"
endpoint = "tls/{end}"
listen = "tls/{end}"
"""


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


class Peer:
    """A process that runs `ppadmm peer run`; `seam` are the arguments of its faults."""

    def __init__(self, file, *options, seam=None, prefix=()):
        self.file = file
        self.pid = os.fork()
        if self.pid == 0:
            _be(file, options, seam, prefix)
        self.code = None

    def wait(self, seconds=120):
        """Return the exit code."""
        end = time.monotonic() + seconds
        while self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
                break
            if time.monotonic() > end:
                self.kill()
                raise AssertionError(f"{self.file} never ended: {self.words()}")
            time.sleep(0.02)
        return self.code

    def kill(self, number=signal.SIGKILL):
        """End it, as suddenly as can be."""
        if self.code is None:
            os.kill(self.pid, number)
            if number == signal.SIGKILL:
                self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def words(self):
        path = self.file.parent / "words.txt"
        return path.read_text() if path.exists() else ""

    @property
    def memory(self):
        """Resident bytes."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


def _be(file, options, seam, prefix):
    """Turn this fork into the command; never returns."""
    try:
        os.setsid()
        words = os.open(file.parent / "words.txt", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(words, 1)
        os.dup2(words, 2)
        for enter in prefix:
            enter()
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
        if seam is not None:
            _put_seam(file, **seam)
        sys.argv = ["ppadmm", "peer", "run", str(file), "--out", str(file.parent / "results")]
        sys.argv += ["--json", "--wait", "60", *map(str, options)]
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


def _put_seam(file, loss=0.0, repeat=0.0, delay=0.0, pause=0.0, note=False, seed=0):
    from ppadmm.engines import zenoh_transport

    inner = zenoh_transport.ZenohTransport
    faults = Faults(loss, repeat, delay, longest=6, seed=seed)
    sent = file.parent / "sent.bin" if note else None
    zenoh_transport.ZenohTransport = lambda seat: Seam(inner(seat), faults, pause, sent)


def run_sites(sites, *options, seam=None):
    """Run all sites to the end; return their exit codes."""
    peers = [Peer(file, *options, seam=seam) for file in sites.files]
    try:
        return [peer.wait() for peer in peers], peers
    finally:
        for peer in peers:
            peer.kill()


def until(condition, seconds=60):
    """Wait for something to come true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
