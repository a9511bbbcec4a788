"""Forks small runs on a ledger and has them killed; talks JSON lines with the test.

A request names an algorithm, an empty folder and, for each process in turn, when it dies: the
number of a step, or seconds after which it is killed from outside. A last process that is not
killed follows. Steps lie before and after every SQL statement, every draw of noise, and every
message that is sent. What is drawn and sent is written down before the step after it.

A death may be a power cut: then the ledger's files become again what they were when they were last
synced, and all that the system had of them since is gone. (What a power cut leaves lies between
this and what a killed process leaves: entries are missing at the end only.)
"""

import json
import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from ppadmm import canonical
from ppadmm.accounting import Budget
from ppadmm.accounting.protection import STANDARD
from ppadmm.algorithms import Settings, build, recipe_named
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.settings import Speaking
from ppadmm.data import Shard
from ppadmm.data.fingerprint import Fingerprint
from ppadmm.datasets import load
from ppadmm.engines import local
from ppadmm.errors import LedgerError
from ppadmm.ledger import balance, chain, database, owner
from ppadmm.ledger import run as run_ledger
from ppadmm.ledger.protocol import Sent
from ppadmm.noise import Key, SecureNoise
from ppadmm.problem import Logistic, make_graph, risk_of
from ppadmm.runs import federation
from ppadmm.runs.ledger_session import LedgerOptions
from ppadmm.runs.specification import RunSpec
from ppadmm.studies.tune import tune
from ppadmm.sum_agent import SumAgent
from ppadmm.summing.trust import Trust

BUDGET = Budget(1.0, 1e-5)
KINDS = {
    "pp": ("pp", {}),
    "ipp": ("ipp", {"speaking": Speaking(test="gaussian", level=-1.0, releases=2)}),
    "svt": ("ipp", {"speaking": Speaking(test="svt", level=-1.0, releases=2)}),
    "gradient": ("gradient", {}),
    "r-admm": ("r-admm", {}),
    "newton": ("newton", {"trust": Trust("local", repeats=1)}),
    "newton-sum": ("newton", {"trust": Trust("sum", repeats=1), "run": b"killed"}),
}
GRAPH = make_graph("complete", 2)
ROUNDS = 2
FINGERPRINT = Fingerprint(b"the same records")


class Steps:
    """Counts; dies at the step that was named."""

    def __init__(self, fatal, log):
        self.count, self.fatal, self.log = 0, fatal, log

    def step(self):
        self.count += 1
        if self.count == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, *what):
        os.write(self.log, (json.dumps(what) + "\n").encode())


class Connection:
    """An SQLite connection with a step before and after every statement.

    It asks SQLite itself whether a commit was synced.
    """

    def __init__(self, real, steps, path):
        self.real, self.steps, self.path = real, steps, path

    def execute(self, *statement):
        self.steps.step()
        found = self.real.execute(*statement)
        if statement[0] == "COMMIT" and self.real.execute("PRAGMA synchronous").fetchone()[0] > 1:
            copy(self.path, disk_of(self.path))
        self.steps.step()
        return found

    def close(self):
        self.real.close()


def disk_of(path):
    """Where the copy is that a power cut leaves."""
    return path.parent / "disk" / path.name


def copy(path, other):
    """Make `other` the ledger that `path` is: the file and its log."""
    other.parent.mkdir(exist_ok=True)
    for suffix in ("", "-wal", "-shm"):
        old, new = (each.with_name(each.name + suffix) for each in (path, other))
        new.unlink(missing_ok=True)
        if old.exists() and suffix != "-shm":  # shared memory is no disk
            shutil.copy(old, new)


WHERE = {}
"""The round of the ledger that each agent is in: in a search, not that of its own run.

Of sums it is that of what was drawn, as a part that was lost is drawn again.
"""


class WatchedNoise(SecureNoise):
    steps: Steps

    def _watched(self, draw, key: Key, *given):
        self.steps.write("drawn", key.agent, WHERE.get(key.agent, key.round), key.purpose)
        self.steps.step()
        found = draw(*given, key)
        self.steps.write("noise", canonical.digest(found.tobytes()))
        self.steps.step()
        return found

    def gaussian(self, values, scale, grid, key):
        return self._watched(super().gaussian, key, values, scale, grid)

    def laplace(self, values, scale, grid, key):
        return self._watched(super().laplace, key, values, scale, grid)

    def gamma(self, size, rate, key):
        return self._watched(super().gamma, key, size, rate)


def rules(kind):
    algorithm, changes = KINDS[kind]
    settings = Settings(ROUNDS, (0.1,), (0.05,), (BUDGET,), beta=1e-9, **changes)
    found = []
    for i in range(GRAPH.size):
        rng = np.random.default_rng(i)
        X = rng.standard_normal((60, 3))
        shard = Shard(X / (1.001 * np.linalg.norm(X, axis=1, keepdims=True)), np.sign(X[:, 0]))
        site = site_in(GRAPH, i, risk_of(shard, Logistic()), [1.0] * GRAPH.size, 60 * GRAPH.size)
        found.append(build(algorithm, site, settings))
    return found


RULES = {kind: rules(kind) for kind in KINDS}
DELIVER = local._deliver
CONNECT = owner.locks.connect
SYNC = database.ChainFile.sync


def small_data():
    data = load("synthetic")
    return replace(data, X=data.X[:150], y=data.y[:150], table=None, train_records=120)


SPEC = RunSpec(
    epsilon=1.0, delta=1e-5, agents=2, rounds=ROUNDS, regularisation=0.05, graph="complete"
)
DATA = small_data()
SEARCHES = {
    "tune": SPEC,
    "tune-svt": replace(
        SPEC, algorithm="ipp", speaking=Speaking(test="svt", level=-1.0, releases=2)
    ),
}


def search(path, kind, steps):
    """Take a search up where it was left, or begin it."""
    watch(steps)
    federation.SecureNoise = WatchedNoise
    follow_places()
    with owner.OwnerLedger.open(path) as ledger:
        states = [run.outcome for run in ledger.books.runs.values()]
    if "finished" in states:
        return
    booking = LedgerOptions(path, "people", resume=None in states)
    tune(SEARCHES[kind], (0.1, 0.2), data=DATA, booking=booking)


def follow_places():
    """Note the round of the ledger that an agent asks about."""
    past = run_ledger.AgentLedger.past

    def placed(ledger, round_):
        found = past(ledger, round_)
        WHERE[ledger._number] = ledger._round
        return found

    run_ledger.AgentLedger.past = placed


def run(path, kind, steps):
    """Take the run up where it was left, or begin it; send, and end it."""
    if kind in SEARCHES:
        search(path, kind, steps)
        return
    watch(steps)
    agent = federation.agent_kind(recipe_named(KINDS[kind][0]))
    if agent is SumAgent:
        follow_places()
    with owner.OwnerLedger.open(path) as ledger:
        if any(run.outcome == "finished" for run in ledger.books.runs.values()):
            return
        asked = [(i, rule.reserved[0]) for i, rule in enumerate(RULES[kind])]
        try:
            book = ledger.resume_run("people", FINGERPRINT, kind)
        except LedgerError:
            book = ledger.reserve_run("people", FINGERPRINT, kind, asked, STANDARD)
        noise = WatchedNoise()
        agents = [
            agent(rule, i, GRAPH.neighbours(i), [book.agent(i)], noise)
            for i, rule in enumerate(RULES[kind])
        ]
        local.run(agents)
        book.end()


def watch(steps):
    WatchedNoise.steps = steps

    def deliver(agents, sends):
        for send in sends:
            heard = send.message.heard
            sent = Sent(heard.value[0], heard.total[0], bool(send.release.spoke[0]))
            digest = canonical.digest(run_ledger.encode(sent))
            steps.step()
            agent, round_ = send.message.agent, send.message.round
            steps.write("sent", agent, WHERE.get(agent, round_), digest)
            steps.step()
        DELIVER(agents, sends)

    local._deliver = deliver
    owner.locks.connect = lambda path: Connection(CONNECT(path), steps, path)

    def sync(ledger):
        SYNC(ledger)
        copy(ledger.path, disk_of(ledger.path))

    database.ChainFile.sync = sync


def child(path, kind, death):
    """Fork a process that dies as it was told, and say how it ended."""
    process = os.fork()
    if process == 0:
        log = os.open(path.with_suffix(".log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        steps = Steps(death.get("step"), log)
        try:
            run(path, kind, steps)
            steps.write("end", steps.count)
            os._exit(0)
        except BaseException as error:
            steps.write("failed", repr(error))
            os._exit(1)
    if "after" in death:
        time.sleep(death["after"])
        os.kill(process, signal.SIGKILL)
    status = os.waitpid(process, 0)[1]
    if "cut" in death and status == signal.SIGKILL:
        copy(disk_of(path), path)
        with path.with_suffix(".log").open("a") as log:
            log.write(json.dumps(["cut"]) + "\n")
    return status


def snapshot(path):
    """What the ledger holds now, from a reader's point of view."""
    books, head = chain.verify(chain.read_rows(path))
    log = path.with_suffix(".log")
    runs = books.runs.values()
    return {
        "head": head.hash,
        "count": head.count,
        "spent": balance.cost(books, "people"),
        "runs": [run.outcome for run in runs],
        "charged": [place for run in runs for place in run.open_charges],
        "released": [
            [*place, body["digest"], body["lost"]]
            for run in runs
            for place, body in run.releases.items()
        ],
        "log": [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else [],
    }


def answer(request):
    path = Path(request["folder"]) / "a.ledger"
    with owner.OwnerLedger.create(path, "owner") as ledger:
        ledger.grant("people", BUDGET)
    copy(path, disk_of(path))
    return [
        {"status": child(path, request["kind"], death), **snapshot(path)}
        for death in [*request["deaths"], {}]
    ]


if __name__ == "__main__":
    SecureNoise().gaussian(np.zeros((1, 2)), np.ones(1), np.full(1, 2.0**-44), Key(0, 0, "warm"))
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
