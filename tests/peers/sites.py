"""Sites with folders, certificates and ledgers, and their processes: real TLS on real sockets.

Peers are forked by a process (forking.py) and run the command line. One can be given faults at
the transport's seam, a record of all it sends, and a network namespace to live in.
"""

import atexit
import functools
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ppadmm.accounting import Budget
from ppadmm.data import Categorical, Label, Numeric, Schema
from ppadmm.engines import local
from ppadmm.ledger import MemoryLedger
from ppadmm.ledger.chain import read_rows, verify
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.peers.agreement import Agreement, Party
from ppadmm.peers.agreement_file import load_agreement, save_agreement, save_signature
from ppadmm.peers.pki import enrolment
from ppadmm.peers.pki.authority import Authority
from ppadmm.peers.pki.enrolment import Keys
from ppadmm.peers.pki.names import host_of
from ppadmm.peers.settings import PeerFile
from ppadmm.peers.site import Participant as Part
from ppadmm.peers.site import read_records
from ppadmm.problem import make_graph
from ppadmm.statements.keys import read_key

ROOT = Path(__file__).parents[2]
HERE = "127.0.0.1"
SEED = 7
SCHEMA = Schema(
    columns=(Numeric("age", 0, 100), Numeric("weight", 0, 200), Categorical("sex", ("f", "m"))),
    label=Label("ill", ("yes",), ("no",)),
)


WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
FIRST, EACH = 12_000, 2_000
"""Ports below those that the system gives to outgoing connections: nobody else takes one before
its peer listens. Every worker of pytest has a range of its own."""
_ports = itertools.cycle(FIRST + WORKER % 10 * EACH + (os.getpid() + k) % EACH for k in range(EACH))


def free_ports(n):
    """Return n ports that nothing listens on, none of which was given before."""
    return list(itertools.islice(filter(_is_free, _ports), n))


def _is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HERE, port))
        except OSError:
            return False
    return True


def write_records(path, n, seed):
    """Records in which being old is being ill."""
    rng = np.random.default_rng(seed)
    age, weight = rng.uniform(11, 99, n).round(7), rng.uniform(11, 198, n).round(7)
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


def make_sites(
    folder, n=5, graph="ring", rounds=12, records=400, hosts=None, router=None, **terms
) -> Sites:
    """Make everything that people would: authority, keys, certificates, ledgers, agreement.

    With the endpoint of a `router` no site can be dialled; site n is then the router.
    """
    ports, network = free_ports(n), make_graph(graph, n, 0)
    hosts = hosts or [HERE] * n
    authority = Authority(folder / "ca")
    authority.make("study")
    parties = []
    for i in range(n):
        place = folder / f"site-{i}"
        keys = Keys(place / "keys")
        keys.make()
        reply = authority.approve(enrolment.request(keys, f"site-{i}", [hosts[i]]))
        enrolment.join(keys, f"site-{i}", reply)
        write_records(place / "data.csv", records, seed=i)
        (place / "schema.toml").write_text(SCHEMA.to_toml())
        end = f"{hosts[i]}:{ports[i]}"
        (place / "peer.toml").write_text(PEER.format(i=i, end=end))
        if router is not None:
            end = ""
            text = RELAYED.format(i=i, n=n, end=router)
            (place / "peer.toml").write_text(text)
        parties.append(Party(f"site-{i}", keys.public_signing_key(), records, 2.0, end))
        with OwnerLedger.create(place / "site.ledger", f"site {i}") as ledger:
            ledger.grant("records", Budget(2.0, 1e-4))
    values = {"eta": 0.1, "regularisation": 0.05, "delta": 1e-4, "patience": 60.0,
              "weights": "records", **terms}  # fmt: skip
    agreement = Agreement(
        parties=tuple(parties), edges=network.edges, schema=SCHEMA.digest(),
        parameters=SCHEMA.dimension, rounds=rounds, nonce=datetime.now(UTC).isoformat(), **values,
    )  # fmt: skip
    sites = Sites(folder, n)
    for i, file in enumerate(sites.files):
        save_agreement(agreement, file.parent / "agreement.json")
        key = read_key(PeerFile.load(file).keys.signing)
        save_signature(file.parent / "signature.json", agreement, i, key)
    return sites


PEER = """
format = 1
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


RELAYED = (
    PEER.partition("endpoint")[0]
    + """
[router]
name = "site-{n}"
endpoint = "{end}"
"""
)


def make_router(sites, endpoint):
    """Give the router of the sites a folder, and return its file."""
    place = sites.folder / f"site-{sites.count}"
    keys = Keys(place / "keys")
    keys.make()
    asked = enrolment.request(keys, place.name, [host_of(endpoint)])
    enrolment.join(keys, place.name, Authority(sites.folder / "ca").approve(asked))
    (place / "peer.toml").write_text(
        f'format = 1\nname = "{place.name}"\nagent = {sites.count}\nagreement = "agreement.json"\n'
    )
    save_agreement(sites.agreement, place / "agreement.json")
    return place / "peer.toml"


class Forking:
    """A process of its own that has loaded everything, opened nothing, and forks peers.

    The tests' own process may have Zenoh's threads in it, which do not survive a fork.
    """

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.peers.forking"], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        atexit.register(self.close)

    def ask(self, **question):
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@functools.cache
def forking():
    """The one that forks the peers of this process."""
    return Forking()


class Peer:
    """A process that runs `ppadmm peer run`; `seam` are its faults, `host` its namespace.

    With `router` it runs `ppadmm peer router` and listens there, with `check` `ppadmm peer check`.
    """

    def __init__(self, file, *options, seam=None, host=None, router=None, check=False):
        self.file, self.code = file, None
        words = ["run", file, "--out", file.parent / "results", "--json", "--wait", 60, *options]
        if router is not None:
            words = ["router", file, "--listen", router]
        if check:
            words = ["check", file, *options]
        words = ["peer", *map(str, words)]
        question = {"file": str(file), "options": words, "seam": seam, "host": host}
        self.pid = forking().ask(start=question)

    def wait(self, seconds=120):
        """Return the exit code."""
        end = time.monotonic() + seconds
        while self._poll() is None:
            if time.monotonic() > end:
                self.kill()
                raise AssertionError(f"{self.file} never ended: {self.words()}")
            time.sleep(0.02)
        return self.code

    def _poll(self):
        if self.code is None:
            self.code = forking().ask(poll=self.pid)
        return self.code

    def kill(self, number=signal.SIGKILL):
        """End it, as suddenly as can be."""
        if self._poll() is None:
            os.kill(self.pid, number)
            if number == signal.SIGKILL:
                self.wait()

    @property
    def is_up(self):
        return self._poll() is None

    def words(self):
        """What it printed."""
        path = self.file.parent / "words.txt"
        return path.read_text() if path.exists() else ""

    @property
    def memory(self):
        """Resident bytes."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


def run_sites(sites, *options, seam=None):
    """Run all sites to the end; return their exit codes."""
    peers = [Peer(file, *options, seam=seam) for file in sites.files]
    try:
        return [peer.wait() for peer in peers], peers
    finally:
        for peer in peers:
            peer.kill()


def local_trace(sites, seed=SEED):
    """What the local engine makes of the same records, agreement and seed."""
    return local.run([part.agent(part.rule(), MemoryLedger()) for part in sites.parts(seed)])


def coefficients(sites):
    """The model, after a look that every site wrote the same bytes."""
    assert all(sites.model(i) == sites.model(0) for i in range(sites.count))
    return np.array(list(json.loads(sites.model(0))["coefficients"].values()))


def until(condition, seconds=60):
    """Wait for something to come true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
