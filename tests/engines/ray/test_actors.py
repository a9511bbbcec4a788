"""An agent per Ray actor: the numbers of the local engine, whoever is killed on the way."""

import functools
import os
import pickle
import signal
import threading
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ppadmm.agent import Agent
from ppadmm.data import Label, Numeric, Schema
from ppadmm.engines import local
from ppadmm.engines.ray import actors
from ppadmm.engines.ray.actors import Host, Journal
from ppadmm.engines.ray.tasks import Home
from ppadmm.errors import BudgetError, InfeasibleError, InputError, ProtocolError, WorkerError
from ppadmm.noise import Key, SecureNoise, SeededNoise
from ppadmm.records import moving_records
from ppadmm.runs import run as train
from ppadmm.runs.agent_factory import StreamPart, agent_factories
from ppadmm.runs.run import run
from ppadmm.runs.specification import RunSpec
from tests.processes import descendants, name_of
from tests.small_problems import assert_alike

SMALL = RunSpec(agents=2, graph="complete", rounds=6, epsilon=2.0, records=(900, 1200))
ALIKE = ("reserved", "spent", "noise", "passes", "train_loss")


prepare = functools.cache(train.prepare)


@functools.cache
def run_here(spec):
    return run(prepare(spec))


def makers_of(spec):
    prepared = prepare(spec)
    own = [replace(prepared.settings, budgets=(budget,)) for budget in spec.budgets]
    return agent_factories(prepared.federation, prepared.method, own, spec.seed, spec.guaranteed)


class Counting(SecureNoise):
    """Secure noise that counts its draws by key."""

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "draws", Counter())

    def gaussian(self, values, scale, grid, key):
        self.draws[key] += 1
        return super().gaussian(values, scale, grid, key)


class Killed(BaseException):
    """Stands for the end of a process."""


class Stage:
    """Hosts driven in this process, made anew whenever one is `killed`."""

    def __init__(self, spec, folder):
        self.makers, self.folder, self.noise = makers_of(spec), folder, Counting()
        (folder / actors.MARK).touch()
        self.hosts = [self.host(i) for i in range(len(self.makers))]

    def host(self, i):
        return Host(i, str(self.folder), Home())

    def waiting(self, i):
        def maker(around):
            secure = self.makers[i].seed is None
            return self.makers[i](lambda source: around(self.noise if secure else source))

        return lambda: maker

    def ask(self, i, method, *arguments):
        """Call a host as Ray does: one that dies is made anew and asked again."""
        while True:
            try:
                return getattr(self.hosts[i], method)(*arguments, self.waiting(i))
            except Killed:
                self.hosts[i] = self.host(i)

    def run(self):
        rounds, messages, trace = self.ask(0, "start"), (), []
        for t in range(rounds):
            sends = [self.ask(i, "step", t, messages) for i in range(len(self.hosts))]
            trace.append([send.release for send in sends])
            messages = tuple(send.message for send in sends)
        endings = [self.ask(i, "finish", messages) for i in range(len(self.hosts))]
        return local.Trace.of(trace), endings


def dying(monkeypatch, owner, name, at, before):
    """Let the calls `at` of a function end the process, before its work or after it."""
    real, calls = getattr(owner, name), Counter()

    def function(*arguments, **named):
        calls[name] += 1
        if before and calls[name] in at:
            raise Killed
        result = real(*arguments, **named)
        if not before and calls[name] in at:
            raise Killed
        return result

    monkeypatch.setattr(owner, name, function)


POINTS = {
    "while it solves": (Agent, "_speak", True),
    "between the draws and the checkpoint": (Agent, "_speak", False),
    "before a file is written": (actors, "write_whole", True),
    "after a file was written": (actors, "write_whole", False),
    "before the release leaves": (Host, "_keep", False),
    "at the end": (actors, "ending", False),
}


@pytest.mark.parametrize("algorithm", ["pp", "ipp"])
@pytest.mark.parametrize("point", POINTS)
def test_wherever_an_actor_dies_the_numbers_are_those_of_the_local_engine(
    monkeypatch, tmp_path, point, algorithm
):
    spec = replace(SMALL, algorithm=algorithm, seed=4)
    expected = run_here(spec)
    owner, name, before = POINTS[point]
    dying(monkeypatch, owner, name, {2, 5, 6, 11}, before)
    trace, endings = Stage(spec, tmp_path).run()
    np.testing.assert_array_equal(trace.releases, expected.trace.releases)
    np.testing.assert_array_equal(trace.spoke, expected.trace.spoke)
    assert [end.spent[0] for end in endings] == expected.spent
    assert [end.reserved[0] for end in endings] == expected.reserved
    assert np.mean([end.passes for end in endings]) == expected.passes


BY_SUMS = [replace(SMALL, algorithm="newton", trust=trust, repeats=1) for trust in ("local", "sum")]


@pytest.mark.parametrize("spec", BY_SUMS, ids=("local", "sum"))
@pytest.mark.parametrize("point", POINTS)
def test_sums_are_those_of_the_local_engine_wherever_an_actor_dies(
    monkeypatch, tmp_path, point, spec
):
    """Keys, masks and the place in the books come back with the checkpoint."""
    expected = run_here(replace(spec, seed=4))
    owner, name, before = POINTS[point]
    dying(monkeypatch, owner, name, {2, 5, 6, 11}, before)
    trace, endings = Stage(replace(spec, seed=4), tmp_path).run()
    first = len(trace.releases) - len(expected.trace.releases)  # keys are no releases
    np.testing.assert_array_equal(trace.releases[first:], expected.trace.releases)
    models = np.stack([end.model for end in endings])
    np.testing.assert_array_equal(models, expected.trace.models)
    assert [end.spent[0] for end in endings] == expected.spent


@pytest.mark.parametrize("algorithm", ["pp", "ipp"])
@pytest.mark.parametrize("point", POINTS)
def test_secure_noise_is_used_once_wherever_an_actor_dies(monkeypatch, tmp_path, point, algorithm):
    """A draw that was written down is never made again; the books end as if nobody had died."""
    spec = replace(SMALL, algorithm=algorithm)
    owner, name, before = POINTS[point]
    stage = Stage(spec, tmp_path)
    noted = Counter()
    real = actors.np.save

    def save(file, value, **options):
        noted[value.tobytes()] += 1
        real(file, value, **options)

    monkeypatch.setattr(actors.np, "save", save)
    dying(monkeypatch, owner, name, {2, 5, 6, 11}, before)
    trace, endings = stage.run()
    lost = sum(noted.values()) - len(stage.noise.draws)
    if point == "before a file is written":
        assert 0 < lost <= 4  # drawn, not written down, and hence seen by nobody
    else:
        assert lost == 0
        assert set(stage.noise.draws.values()) == {1}
    assert trace.releases.shape[:2] == (6, 2)
    if algorithm == "pp":
        assert all(count == 6 for end in endings for _, count in end.spent[0].counts)
    for end in endings:
        most = dict(end.reserved[0].counts)
        assert all(count <= most[event] for event, count in end.spent[0].counts)


def test_a_round_that_was_stored_is_said_again_word_for_word(tmp_path):
    stage = Stage(SMALL, tmp_path)
    first = stage.ask(0, "step", 0, ())
    draws = stage.noise.draws.copy()
    stage.hosts[0] = stage.host(0)
    again = stage.ask(0, "step", 0, ())
    assert pickle.dumps(again) == pickle.dumps(first)
    assert stage.noise.draws == draws
    assert not list(tmp_path.glob("noise-*"))


def test_b_is_taken_up_again_if_the_process_dies_between_the_two_noises(monkeypatch, tmp_path):
    stage = Stage(SMALL, tmp_path)
    stage.ask(0, "start")

    def dies(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("ppadmm.mechanisms.minimiser.PerturbedMinimiser._add_noise", dies)
        with pytest.raises(Killed):
            stage.hosts[0].step(0, (), stage.waiting(0))
    (note,) = tmp_path.glob("noise-*")
    b = np.load(note)
    seen = []
    real = actors.np.load
    monkeypatch.setattr(actors.np, "load", lambda *a, **k: seen.append(real(*a, **k)) or seen[-1])
    stage.hosts[0] = stage.host(0)
    stage.hosts[0].step(0, (), stage.waiting(0))
    np.testing.assert_array_equal(seen[0], b)
    assert stage.noise.draws == {Key(0, 0, "linear"): 1, Key(0, 0, "output"): 1}


def test_an_agent_that_lost_its_folder_does_not_go_on(tmp_path):
    stage = Stage(SMALL, tmp_path)
    sends = [stage.ask(i, "step", 0, ()) for i in range(2)]
    messages = tuple(send.message for send in sends)
    (tmp_path / "agent-1.pickle").unlink()
    stage.hosts[1] = stage.host(1)
    with pytest.raises(WorkerError, match="stored after 0 rounds, not after 1"):
        stage.ask(1, "step", 1, messages)
    (tmp_path / actors.MARK).unlink()
    stage.hosts[0] = stage.host(0)
    with pytest.raises(InputError, match="--checkpoints a folder that all nodes share"):
        stage.ask(0, "step", 1, messages)


def test_noise_for_one_key_is_not_given_out_twice(tmp_path):
    journal = Journal(SecureNoise(), tmp_path)
    one = np.ones(1)
    journal.gaussian(np.zeros((1, 3)), one, one / 100, Key(0, 0, "linear"))
    with pytest.raises(ProtocolError, match="asked for twice"):
        journal.gaussian(np.zeros((1, 3)), one, one / 100, Key(0, 0, "linear"))
    other = journal.restricted(np.array([0]))
    other.gaussian(np.zeros((1, 3)), one, one / 100, Key(0, 0, "linear"))
    assert len(list(tmp_path.iterdir())) == 2
    journal.clear()
    assert not list(tmp_path.iterdir())


def test_a_restored_agent_keeps_its_books_within_the_budget(tmp_path):
    stage = Stage(replace(SMALL, rounds=1), tmp_path)
    sends = [stage.ask(i, "step", 0, ()) for i in range(2)]
    stage.hosts[0] = stage.host(0)
    agent, _ = stage.hosts[0]._open(stage.waiting(0))
    assert [ledger.spent for ledger in agent.ledgers] == [agent.ledgers[0].reserved]
    with pytest.raises(BudgetError, match="releases reserved for this run are spent"):
        agent.ledgers[0].charge(agent.algorithm.mechanism.charges[0])
    assert len(sends) == 2


def actor_processes():
    """Return the processes of actors below this one."""
    return {pid for pid in descendants(os.getpid()) if name_of(pid).startswith(b"ray::Host")}


class Killer:
    """Ends an actor's process after round 1 and another in the middle of round 4."""

    def __init__(self):
        self.killed = []

    def __call__(self, done, of):
        if done == 2:
            self.kill()
        if done == 4:
            threading.Timer(0.002, self.kill).start()

    def kill(self):
        pid = min(actor_processes() - set(self.killed))
        os.kill(pid, signal.SIGKILL)
        self.killed.append(pid)


def test_the_same_numbers_as_the_local_engine(ray_cluster):
    prepared = prepare(replace(SMALL, algorithm="ipp", seed=1))
    here, there = run(prepared), run(prepared, engine=actors.run)
    np.testing.assert_array_equal(there.trace.releases, here.trace.releases)
    np.testing.assert_array_equal(there.model, here.model)
    for name in ALIKE:
        assert getattr(there, name) == getattr(here, name), name
    assert there.statement == here.statement


@pytest.mark.parametrize("spec", BY_SUMS, ids=("local", "sum"))
def test_the_same_sums_as_the_local_engine(ray_cluster, spec):
    prepared = prepare(replace(spec, seed=3))
    here, there = run(prepared), run(prepared, engine=actors.run)
    np.testing.assert_array_equal(there.trace.models, here.trace.models)
    np.testing.assert_array_equal(there.trace.releases, here.trace.releases)
    np.testing.assert_array_equal(there.model, here.model)
    for name in ALIKE:
        assert getattr(there, name) == getattr(here, name), name


@pytest.mark.parametrize("seed", [1, None])
def test_actors_that_are_killed_are_taken_up_where_they_were(ray_cluster, tmp_path, capfd, seed):
    prepared = prepare(replace(SMALL, seed=seed))
    killer = Killer()

    def engine(makers, on_round):
        return actors.run(makers, on_round, checkpoints=tmp_path / "kept")

    there = run(prepared, killer, engine=engine)
    while len(killer.killed) < 2:
        time.sleep(0.01)
    here = run(prepared)
    if seed is not None:
        np.testing.assert_array_equal(there.trace.releases, here.trace.releases)
        np.testing.assert_array_equal(there.model, here.model)
    for name in ("reserved", "spent", "noise"):
        assert getattr(there, name) == getattr(here, name), name
    assert there.statement == here.statement
    assert there.statement.private == (seed is None)
    assert list((tmp_path / "kept").iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def streamed(tmp_path):
    """A spec of two Parquet files that every process reads for itself."""
    rng = np.random.default_rng(0)
    schema = Schema((Numeric("x", 0, 1), Numeric("z", 0, 1)), Label("y", ("yes",), ("no",)))
    (tmp_path / "s.toml").write_text(schema.to_toml())
    (tmp_path / "records").mkdir()
    for name, n in (("north", 1100), ("south", 1500)):
        x, z = rng.random(n), rng.random(n)
        y = np.where(x + 0.2 * rng.standard_normal(n) > 0.5, "yes", "no")
        pq.write_table(pa.table({"x": x, "z": z, "y": y}), tmp_path / f"records/{name}.parquet")
    return RunSpec(
        data=str(tmp_path / "records"), schema=str(tmp_path / "s.toml"), partition="files",
        graph="complete", rounds=4, epsilon=2.0, seed=1, memory=20 * 10**6,
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", ["pp", "centralised"])
def test_streams_are_read_by_the_actors_that_need_them(ray_cluster, streamed, algorithm):
    spec = replace(streamed, algorithm=algorithm)
    killed = []

    def kill(done, of):
        if done == 2 and algorithm == "pp":
            killed.append(min(actor_processes()))
            os.kill(killed[0], signal.SIGKILL)

    here, there = train.train(spec), train.train(spec, kill, engine=actors.run)
    np.testing.assert_array_equal(there.trace.releases, here.trace.releases)
    np.testing.assert_array_equal(there.model, here.model)
    assert there.statement == here.statement
    assert there.spent == here.spent
    assert len(killed) == (algorithm == "pp")


def test_no_streamed_record_is_sent(streamed):
    prepared = train.prepare(streamed)
    own = [replace(prepared.settings, budgets=(budget,)) for budget in prepared.spec.budgets]
    sent = agent_factories(prepared.federation, prepared.method, own, 1, True)
    assert [type(role.part) for role in sent] == [StreamPart, StreamPart]
    with moving_records():
        pickled = [pickle.dumps(role) for role in sent]
    assert all(len(content) < 5_000 for content in pickled)
    for i, role in enumerate(map(pickle.loads, pickled)):
        mine, theirs = role.site().risk.stream, prepared.federation.parts[i]
        for a, b in zip(mine.blocks(), theirs.blocks(), strict=True):
            np.testing.assert_array_equal(a.X, b.X)
    prepared.federation.close()


def test_what_cannot_be_calibrated_is_refused_in_the_same_words(ray_cluster):
    prepared = prepare(replace(SMALL, eta=1e-9, epsilon=0.1))
    with pytest.raises(InfeasibleError) as here:
        run(prepared)
    with pytest.raises(InfeasibleError) as there:
        run(prepared, engine=actors.run)
    assert str(there.value) == str(here.value)


def test_the_command_gives_the_same_result(ray_cluster, command):
    words = ("train", "--rounds", "3", "--agents", "2", "--seed", "2", "--json")
    here, there = command(*words), command(*words, "--engine", "ray")
    assert there.err == ""
    changing = {"started", "seconds"}
    mine, theirs = (
        {k: v for k, v in done.json.items() if k not in changing} for done in (there, here)
    )
    assert_alike(mine, theirs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--engine", "pool"), "Unknown engine 'pool'; choose one of: local, ray."),
        (("--ray-address", "auto"), "--ray-address auto needs --engine ray."),
        (("--checkpoints", "x"), "--checkpoints 'x' needs --engine ray."),
    ],
)
def test_bad_options(command, arguments, message):
    ended = command("train", *arguments)
    assert (ended.code, ended.out, ended.err) == (2, "", f"Error: {message}\n")


def test_seeded_noise_is_not_written_down(tmp_path):
    stage = Stage(replace(SMALL, seed=1), tmp_path)
    stage.ask(0, "step", 0, ())
    assert isinstance(stage.hosts[0]._open(stage.waiting(0))[0].charged.source, SeededNoise)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent-0.pickle", actors.MARK]
