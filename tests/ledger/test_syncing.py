"""When entries are on disk: once a round with what it says, and before a failure can be seen."""

import os
import shutil

import pytest

from ppadmm.accounting.protection import STANDARD
from ppadmm.agent import Agent, Send
from ppadmm.algorithms.sums import SumAlgorithm
from ppadmm.engines import local
from ppadmm.ledger import owner
from ppadmm.ledger.chain import read_rows, verify
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.ledger.protocol import Lost
from ppadmm.noise import SeededNoise
from ppadmm.sum_agent import SumAgent
from tests.ledger.killed_runs import BUDGET, GRAPH, RULES
from tests.ledger.ledgers import AGENTS, ONE, RECORDS, SENT, filled, granted

NORMAL, FULL = 1, 2
ledger = pytest.fixture(granted)
full = pytest.fixture(filled)


class Watched:
    """An SQLite connection that notes how every commit was synced, as SQLite itself says."""

    def __init__(self, real):
        self.real, self.commits = real, []

    def execute(self, *statement):
        found = self.real.execute(*statement)
        if statement[0] == "COMMIT":
            self.commits.append(self.real.execute("PRAGMA synchronous").fetchone()[0])
        return found

    def close(self):
        self.real.close()


@pytest.fixture
def watched(ledger):
    ledger._db = Watched(ledger._db)
    return ledger


def agents_on(ledger, kind, noise):
    rules = RULES[kind]
    ledger.grant("people", BUDGET)
    asked = [(i, rule.reserved[0]) for i, rule in enumerate(rules)]
    run = ledger.reserve_run("people", RECORDS, kind, asked, STANDARD)
    kinds = [SumAgent if isinstance(rule, SumAlgorithm) else Agent for rule in rules]
    made = [
        kind(rule, i, rule.site.neighbours, [run.agent(i)], noise)
        for i, (kind, rule) in enumerate(zip(kinds, rules, strict=True))
    ]
    return run, made


@pytest.mark.parametrize("kind", sorted(RULES))
def test_an_agent_waits_for_the_disk_once_a_round(watched, kind):
    run, agents = agents_on(watched, kind, SeededNoise((0,)))
    watched._db.commits.clear()
    local.run(agents)
    assert watched._db.commits.count(FULL) == agents[0].algorithm.rounds * GRAPH.size
    run.close()


def test_a_charge_is_not_waited_for_and_a_release_is(watched):
    book = watched.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD).agent(0)
    watched._db.commits.clear()
    for round_ in range(2):
        assert book.past(round_) is None
        book.charge(ONE)
        book.record(SENT)
    assert watched._db.commits == [NORMAL, FULL] * 2


def test_a_charge_can_be_read_by_others_before_it_is_synced(ledger):
    """It is with the system, so it outlives this process."""
    run = ledger.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)
    book = run.agent(0)
    book.past(0)
    book.charge(ONE)
    books, _ = verify(read_rows(ledger.path))
    assert books.runs[run.run].charges == 1


class NoMemory(SeededNoise):
    """The second noise of a release finds the memory full."""

    error = MemoryError

    def gaussian(self, values, scale, grid, key):
        if key.purpose == "output":
            raise self.error
        return super().gaussian(values, scale, grid, key)


class Interrupted(NoMemory):
    """Somebody presses Ctrl-C there."""

    error = KeyboardInterrupt


@pytest.fixture
def synced(monkeypatch, ledger):
    """Copies of the ledger, each as it was when its log was synced from outside of SQLite."""
    copies, fsync = [], os.fsync
    log = ledger.path.with_name(ledger.path.name + "-wal")

    def noted(descriptor):
        fsync(descriptor)
        if os.fstat(descriptor).st_ino == log.stat().st_ino:
            copies.append(ledger.path.with_name(f"copy-{len(copies)}.ledger"))
            for suffix in ("", "-wal"):
                copy = copies[-1].with_name(copies[-1].name + suffix)
                shutil.copy(ledger.path.with_name(ledger.path.name + suffix), copy)

    monkeypatch.setattr(os, "fsync", noted)
    return copies


@pytest.mark.parametrize("failing", [NoMemory, Interrupted])
def test_a_round_that_fails_is_on_disk_before_that_can_be_seen(ledger, synced, failing):
    run, agents = agents_on(ledger, "pp", failing((0,)))
    with pytest.raises(failing.error):
        agents[0].next()
    (copy,) = synced
    books, _ = verify(read_rows(copy))
    assert books.runs[run.run].charges == 1
    assert not books.runs[run.run].releases
    run.close()


def test_a_failed_round_is_spent_and_silent_when_it_is_taken_up(ledger):
    run, agents = agents_on(ledger, "pp", NoMemory((0,)))
    with pytest.raises(MemoryError):
        agents[0].next()
    run.close()
    again = ledger.resume_run("people", RECORDS, "pp")
    assert isinstance(again.agent(0).past(0), Lost)
    agent = Agent(RULES["pp"][0], 0, GRAPH.neighbours(0), [again.agent(0)], SeededNoise((0,)))
    send = agent.next()
    assert isinstance(send, Send)
    assert not send.release.spoke.any()
    assert not send.release.value.any()
    assert again.state.charges == 1
    again.close()


def test_a_ledger_without_a_log_has_nothing_to_sync(tmp_path):
    path = tmp_path / "a.ledger"
    OwnerLedger.create(path, "owner").close()
    assert not path.with_name(path.name + "-wal").exists()
    owner.OwnerLedger(path, owner.locks.connect(path)).sync()


def test_what_was_written_is_what_is_read(full, ledger):
    """The books are kept while writing, and made from the file by whoever reads."""
    books, head = verify(read_rows(full))
    assert (books, head) == (ledger.books, ledger.head)


def test_the_books_of_a_run_with_secrets_are_what_is_read(ledger):
    run, agents = agents_on(ledger, "svt", SeededNoise((0,)))
    local.run(agents)
    books, head = verify(read_rows(ledger.path))
    assert (books, head) == (ledger.books, ledger.head)
    assert run.agent(0).kept("threshold") is not None
    run.close()
