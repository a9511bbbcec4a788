"""One run with every agent in a Ray actor of its own, which holds that agent's records.

An actor whose process dies is started again and goes on from its folder. Whatever happens, noise is
drawn once and a release is said again word for word:

- noise from the operating system is written down before it is used (`Journal`), and what was
  written down is used again, so that a round which is interrupted and repeated draws nothing new;
- state, books and release of a round are stored in one file before the release leaves the actor
  (`Host.step`), and a round that is stored is not computed again.

What lies in the folder follows from records without noise and is read with pickle: it is for the
organisation's own eyes and is removed at the end of the run.
"""

import io
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ppadmm.agent import Agent, Message, Send, Snapshot
from ppadmm.arrays import Array, Rows
from ppadmm.engines.local import Ending, Trace, ending
from ppadmm.engines.ray import tasks
from ppadmm.errors import InputError, ProtocolError, WorkerError
from ppadmm.files import require_format, write_whole
from ppadmm.ledger.protocol import Ledger
from ppadmm.mechanisms import ChargedNoise
from ppadmm.noise import Key, NoiseSource
from ppadmm.problem import Risk
from ppadmm.records import HoldsRecords, moving_records

Around: TypeAlias = Callable[[NoiseSource], NoiseSource]
Maker: TypeAlias = Callable[[Around], tuple[Agent, Risk]]
"""Makes an agent and what reads its records; its noise source goes through the argument."""

Waiting: TypeAlias = Callable[[], Maker]
"""Fetches a maker, with the records; called only by a host that is new."""

FORMAT = 1
"""Of checkpoints."""
RESTARTS = 5
"""How often an actor may lose its process in one run."""
MARK = "run"
"""A file that every node must see in the folder: it is the same folder everywhere."""


@dataclass(frozen=True)
class Journal:
    """A noise source that writes down every draw before anyone uses it, and draws each key once.

    A key that is there already is answered from the folder. Whether a process dies between a draw
    and its note does not depend on what was drawn, so a draw that was lost has told nobody
    anything.
    """

    source: NoiseSource
    folder: Path
    rows: str = ""
    asked: set[Path] = field(default_factory=set)

    @property
    def secure(self) -> bool:
        """Whether the noise may protect real records."""
        return self.source.secure

    def gaussian(self, values: Array, scale: Array, grid: Array, key: Key) -> Array:
        """Return values + N(0, scale²), the same for the same key."""
        return self._once(key, lambda: self.source.gaussian(values, scale, grid, key))

    def laplace(self, values: Array, scale: Array, grid: Array, key: Key) -> Array:
        """Return values + Lap(scale), the same for the same key."""
        return self._once(key, lambda: self.source.laplace(values, scale, grid, key))

    def gamma(self, size: int, rate: Array, key: Key) -> Array:
        """Return vectors with density ∝ exp(−rate·‖b‖), the same for the same key."""
        return self._once(key, lambda: self.source.gamma(size, rate, key))

    def restricted(self, rows: Rows) -> "Journal":
        """Return the source for some of the replicates, with the same notes."""
        chosen = "_".join(str(k) for k in rows)
        return Journal(
            self.source.restricted(rows), self.folder, f"{self.rows}.{chosen}", self.asked
        )

    def _once(self, key: Key, draw: Callable[[], Array]) -> Array:
        path = self.folder / f"noise-{key.agent}-{key.round}-{key.purpose}{self.rows}.npy"
        if path in self.asked:
            raise ProtocolError(f"Noise for {key} was asked for twice; nothing was released.")
        self.asked.add(path)
        if not path.exists():
            content = io.BytesIO()
            np.save(content, draw(), allow_pickle=False)
            write_whole(path, content.getvalue())
        return np.asarray(np.load(path, allow_pickle=False))

    def clear(self) -> None:
        """Forget the draws of a round that is stored whole."""
        for path in self.asked:
            path.unlink(missing_ok=True)
        self.asked.clear()


@dataclass(frozen=True)
class Checkpoint(HoldsRecords):
    """An agent that has spoken for `round`, with its books and what it said."""

    round: int
    send: Send
    snapshot: Snapshot
    ledgers: tuple[Ledger, ...]
    passes: int
    format: int = FORMAT


class Host(HoldsRecords):
    """One agent and its folder; a host made anew from the same arguments goes on where it was.

    Every call may be repeated: it answers the same. All work is done in calls, not in the making,
    so that an error arrives as it is; every call brings what a new host is to begin with.
    """

    def __init__(self, number: int, folder: str, home: tasks.Home) -> None:
        self.number = number
        self._folder = Path(folder)
        self._path = self._folder / f"agent-{number}.pickle"
        self._home = home
        self._journal: Journal | None = None
        self._last: Checkpoint | None = None
        self._opened: tuple[Agent, Risk] | None = None

    def start(self, waiting: Waiting) -> int:
        """Return T; everything that can be refused is refused here, before any release."""
        return self._open(waiting)[0].algorithm.rounds

    def step(self, t: int, messages: Sequence[Message], waiting: Waiting) -> Send:
        """Take in the messages of round t−1 and speak for round t, or say it again."""
        agent, risk = self._open(waiting)
        if self._last is not None and self._last.round == t:
            return self._last.send
        self._require(t - 1)
        _receive(agent, messages)
        action = agent.next()
        if not isinstance(action, Send):
            raise ProtocolError(f"Round {t}: agent {self.number} did not speak.")
        self._keep(Checkpoint(t, action, agent.snapshot(), agent.ledgers, risk.passes))
        return action

    def finish(self, messages: Sequence[Message], waiting: Waiting) -> Ending:
        """Take in the messages of the last round and hand over the books."""
        agent, risk = self._open(waiting)
        self._require(agent.algorithm.rounds - 1)
        _receive(agent, messages)
        agent.next()
        return ending(agent, risk)

    def _open(self, waiting: Waiting) -> tuple[Agent, Risk]:
        if self._opened is None:
            self._home.enter()
            if not (self._folder / MARK).exists():
                raise InputError(
                    f"The checkpoint folder {str(self._folder)!r} is not there on every node; give "
                    "--checkpoints a folder that all nodes share."
                )
            agent, risk = waiting()(self._around)
            if self._path.exists():
                self._last = _loaded(self._path)
                agent.restore(self._last.snapshot)
                agent.charged = ChargedNoise(self._last.ledgers, agent.charged.source)
                risk.passes = self._last.passes
            self._opened = agent, risk
        return self._opened

    def _around(self, source: NoiseSource) -> NoiseSource:
        """Return the source to use: noise that follows from a seed need not be written down."""
        if not source.secure:
            return source
        self._journal = Journal(source, self._folder)
        return self._journal

    def _keep(self, checkpoint: Checkpoint) -> None:
        with moving_records():
            content = pickle.dumps(checkpoint, protocol=pickle.HIGHEST_PROTOCOL)
        write_whole(self._path, content)
        self._last = checkpoint
        if self._journal is not None:
            self._journal.clear()

    def _require(self, t: int) -> None:
        """Refuse to go on from anything but round t: the noise after it was drawn and is gone."""
        last = -1 if self._last is None else self._last.round
        if last != t:
            raise WorkerError(
                f"Agent {self.number} came back with what it had stored after {last + 1} rounds, "
                f"not after {t + 1}; the run ends here, so that no noise is drawn twice."
            )


def _receive(agent: Agent, messages: Sequence[Message]) -> None:
    for message in messages:
        if message.agent in agent.neighbours:
            agent.receive(message)


def _fetched(ref: Any) -> Maker:
    """Fetch a maker from Ray's store, where the process that drives the run keeps it."""
    maker: Maker = tasks.imported().get(ref)
    return maker


def _loaded(path: Path) -> Checkpoint:
    checkpoint: Checkpoint = pickle.loads(path.read_bytes())  # noqa: S301  (our own folder)
    way = "install the same version on every node and start the run again"
    require_format(f"The checkpoint {path}", getattr(checkpoint, "format", None), FORMAT, way)
    return checkpoint


def run(
    makers: Sequence[Maker],
    on_round: Callable[[int], None] | None = None,
    *,
    address: str | None = None,
    checkpoints: Path | None = None,
) -> tuple[Trace, list[Ending]]:
    """Run one agent per actor to the end; the same numbers as the local engine.

    `checkpoints` is where a folder for the run is made, by default among temporary files; on a
    cluster of several machines it must be shared by them.
    """
    with _folder(checkpoints) as folder, tasks.connected(address) as ray:
        with moving_records():
            stored = [partial(_fetched, ray.put(maker)) for maker in makers]
        hosts = _hosts(ray, len(makers), folder)
        try:
            return _driven(ray, list(zip(hosts, stored, strict=True)), on_round)
        finally:
            for host in hosts:
                ray.kill(host)


def _hosts(ray: Any, count: int, folder: Path) -> list[Any]:
    """Start the actors, spread over the nodes; none waits for a CPU, since all must speak."""
    actor = ray.remote(Host).options(
        num_cpus=0, max_restarts=RESTARTS, max_task_retries=-1, scheduling_strategy="SPREAD"
    )
    home = tasks.Home()
    return [actor.remote(i, str(folder), home) for i in range(count)]


def _driven(
    ray: Any, hosts: Sequence[tuple[Any, Waiting]], on_round: Callable[[int], None] | None
) -> tuple[Trace, list[Ending]]:
    """Go through the rounds in lock step; messages pass through here."""
    started = [host.start.remote(own) for host, own in hosts]
    rounds = [tasks.fetched(ray, ref) for ref in started]  # of several errors, the first
    releases, messages = [], ray.put(())
    for t in range(rounds[0]):
        sends = tasks.fetched(ray, [host.step.remote(t, messages, own) for host, own in hosts])
        releases.append([send.release for send in sends])
        messages = ray.put(tuple(send.message for send in sends))
        if on_round is not None:
            on_round(t)
    endings = tasks.fetched(ray, [host.finish.remote(messages, own) for host, own in hosts])
    models = [end.model for end in endings if end.model is not None]
    return Trace.of(releases, np.stack(models) if models else None), endings


@contextmanager
def _folder(checkpoints: Path | None) -> Iterator[Path]:
    """Give a folder of the run's own that only its owner may open; it goes with the run."""
    if checkpoints is not None:
        checkpoints.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="ppadmm-run-", dir=checkpoints)).absolute()
    try:
        (folder / MARK).touch()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
