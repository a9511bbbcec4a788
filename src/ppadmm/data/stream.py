"""Shards that are larger than memory.

    Parquet files ── batches ── schema ──▶ X, y ── deal ──▶ blocks of shards ── store ──▶ streams

The files are read once, a batch at a time. Every batch is encoded and checked as a table in memory
is, and each agent's rows go into blocks of a store that keeps what fits and spills the rest.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from ppadmm.data.dealing import Dealer, Labels, labels
from ppadmm.data.parquet import Group, ParquetFile, find_groups, placed
from ppadmm.data.partition import (
    Deal,
    Indices,
    Partition,
    agents_in_order,
    by_column_codes,
    named_by_column,
    seen_values,
)
from ppadmm.data.schema import Schema
from ppadmm.data.shard import Matrix, Shard, Vector, scale_rows
from ppadmm.data.store import Store, Ticket, one_ahead
from ppadmm.errors import DataError, InputError

MEMORY = 512 * 10**6
LEAST_MEMORY = 12 * 10**6
BLOCK = 2**20
"""Bytes of a block: small enough to stay in a core's own cache while it is worked on."""
BATCH_ROWS = 2**16
KEPT, ENCODING, PILES = 0.35, 0.125, 0.1
"""Shares of the cap: blocks that stay in memory, a batch being encoded, unfinished blocks."""


@dataclass(frozen=True)
class SignedShard(Shard):
    """Records of two classes as v = y·x with label +1: the same to every loss of a margin."""

    def signed(self) -> Matrix:
        """V, without a copy."""
        return self.X


@dataclass(frozen=True)
class ShardStream:
    """One organisation's records in blocks, each a `Shard` with all of its guarantees.

    `counts` says how many records each class has. A `signed` stream has blocks of `SignedShard`.
    """

    store: Store
    tickets: tuple[Ticket[Shard], ...]
    counts: NDArray[np.int64]
    d: int
    signed: bool = False

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self.counts.sum())

    @property
    def classes(self) -> int:
        """Number of classes K."""
        return len(self.counts)

    def blocks(self) -> Iterator[Shard]:
        """Yield every block; one is valid until the next is asked for."""
        return self.store.stream(self.tickets)

    def close(self) -> None:
        """Delete the records of all streams of the same store."""
        self.store.close()


def joined(streams: Sequence[ShardStream]) -> ShardStream:
    """Return the records of several streams of one store as one."""
    tickets = tuple(ticket for stream in streams for ticket in stream.tickets)
    counts = np.sum([stream.counts for stream in streams], axis=0)
    return replace(streams[0], tickets=tickets, counts=counts)


@dataclass(frozen=True)
class Streams:
    """A data set dealt: a stream for every agent, None for one without records, and a test set."""

    parts: tuple[ShardStream | None, ...]
    test: ShardStream
    dealt: Deal


@dataclass(frozen=True)
class StreamedData:
    """Parquet files, looked at but not read, with the schema that encodes them.

    `memory` is the cap in bytes on what is held of the records at any time, `pages` of them by the
    reader.
    """

    name: str
    groups: tuple[Group, ...]
    schema: Schema
    memory: int = MEMORY
    pages: int = 0

    @property
    def n(self) -> int:
        """Number of records."""
        return sum(group.rows for group in self.groups)

    @property
    def free(self) -> int:
        """Bytes of the cap besides the pages that the reader holds."""
        return self.memory - self.pages

    def deal(
        self, partition: Partition, agents: int, seed: int, sizes: Sequence[int] | None = None
    ) -> Streams:
        """Read the files once and deal the records, four fifths for training."""
        plan = _plan(self, partition, agents)
        random = 1 if partition.names_agents else plan.agents
        dealer = Dealer(labels(self.n, random, seed, sizes))
        with self._writing(plan) as writer:
            for batch in one_ahead(self._batches(plan.columns)):
                whose = plan.whose(batch, dealer.next(batch.table.num_rows))
                writer.add(*_encoded(self.schema, batch), whose)
            return writer.streams(plan.dealt)

    def whole(self) -> ShardStream:
        """Read the files once; all records are one agent's, and none are for testing."""
        plan = _plan(self, Partition("even"), 1)
        with self._writing(plan) as writer:
            for batch in one_ahead(self._batches(plan.columns)):
                everyone = np.zeros(batch.table.num_rows, dtype=np.int32)
                writer.add(*_encoded(self.schema, batch), everyone)
            return writer.first()

    @contextmanager
    def _writing(self, plan: "Plan") -> Iterator["Writer"]:
        writer = Writer(self.schema, plan.agents, self.free)
        try:
            yield writer
        except BaseException:
            writer.store.close()
            raise
        finally:
            pa.default_memory_pool().release_unused()

    def _batches(self, columns: Sequence[str]) -> Iterator["Batch"]:
        rows = batch_rows(self.schema, self.free)
        for k, group in enumerate(self.groups):
            for file in group.files:
                for start, table in file.batches(columns, rows):
                    yield Batch(file, k, start, table, tuple(columns))


@dataclass(frozen=True)
class Batch:
    """Rows of a file from `start` on."""

    file: ParquetFile
    group: int
    start: int
    table: Any
    columns: tuple[str, ...]

    def placed(self) -> Any:
        """Name the file and the row in every error."""
        return placed(self.file, self.start, self.columns)


def open_stream(path: str, schema: Schema | None, memory: int | None = None) -> StreamedData:
    """Look at a Parquet file or a folder of such files; read no record yet."""
    if schema is None:
        raise InputError(
            f"To stream {path!r} a schema is needed: bounds and categories cannot be read off a "
            "part of the records; give schema."
        )
    cap = MEMORY if memory is None else memory
    groups = find_groups(path)
    needed = [*(c.name for c in schema.columns), schema.label.name]
    files = [file for group in groups for file in group.files]
    for file in files:
        file.require(needed)
    pages = max(file.page_bytes(needed) for file in files)
    if cap < LEAST_MEMORY + pages:
        raise InputError(
            f"Expected memory of at least {LEAST_MEMORY + pages:,} bytes to stream {path!r}, "
            f"{pages:,} of them for one page of each of its {len(needed)} columns, got {cap:,}."
        )
    return StreamedData(path, groups, schema, cap, pages)


def batch_rows(schema: Schema, memory: int) -> int:
    """Return how many rows can be encoded at once within their share of the cap.

    A row takes about 4 floats per feature that is stored (X, twice divided, checked) and 16 per
    column (its cells as they are read, one batch ahead, as text, places and values).
    """
    entries = len(schema.columns) + 1
    stored = 2 * entries if schema.is_sparse() else schema.dimension
    return int(np.clip(ENCODING * memory / (8 * (4 * stored + 16 * entries)), 16, BATCH_ROWS))


@dataclass
class Pile:
    """Rows of one agent that are not a whole block yet."""

    X: list[Any] = field(default_factory=list)
    y: list[Vector] = field(default_factory=list)
    bytes: int = 0


class Writer:
    """Puts encoded rows into blocks; the last stream is the test set."""

    def __init__(self, schema: Schema, agents: int, memory: int) -> None:
        self.store = Store(int(KEPT * memory))
        self._schema = schema
        self._block = int(min(BLOCK, PILES * memory / (agents + 1)))
        self._signed = [schema.classes == 2] * agents + [False]
        self._piles = [Pile() for _ in self._signed]
        self._tickets: list[list[Ticket[Shard]]] = [[] for _ in self._signed]
        self._counts = np.zeros((agents + 1, schema.classes), dtype=np.int64)

    def add(self, X: Matrix, y: Vector, whose: Labels) -> None:
        """Add row i to the pile of `whose[i]`; labels beyond the piles are nobody's."""
        order = np.argsort(whose, kind="stable")
        ends = np.searchsorted(whose[order], np.arange(len(self._piles) + 1))
        for k in np.flatnonzero(np.diff(ends)):
            for rows in _cut(order[ends[k] : ends[k + 1]], X, self._block):
                self._pile(int(k), X[rows], y[rows])

    def streams(self, dealt: Deal) -> Streams:
        """Finish the last blocks."""
        for k in range(len(self._piles)):
            self._flush(k)
        streams = [self._stream(k) for k in range(len(self._piles))]
        test = streams.pop()
        if not any(streams):
            raise DataError("No agent has records to train on.")
        return Streams(tuple(streams), _some(test, "test"), dealt)

    def first(self) -> ShardStream:
        """Finish the only agent's last block."""
        self._flush(0)
        return _some(self._stream(0), "train")

    def _pile(self, k: int, X: Any, y: Vector) -> None:
        if self._piles[k].bytes + _bytes(X) > self._block:
            self._flush(k)
        pile = self._piles[k]
        pile.X.append(X)
        pile.y.append(y)
        pile.bytes += _bytes(X)

    def _flush(self, k: int) -> None:
        pile, self._piles[k] = self._piles[k], Pile()
        if not pile.X:
            return
        X: Any = vstack(pile.X, format="csr") if issparse(pile.X[0]) else np.vstack(pile.X)
        shard = Shard(X, np.concatenate(pile.y), self._schema.classes)
        self._counts[k] += np.bincount(shard.codes(), minlength=shard.classes)
        self._tickets[k].append(self.store.put(_stored(shard, self._signed[k])))

    def _stream(self, k: int) -> ShardStream | None:
        if not self._tickets[k]:
            return None
        d, signed = self._schema.dimension, self._signed[k]
        return ShardStream(self.store, tuple(self._tickets[k]), self._counts[k], d, signed)


@dataclass(frozen=True)
class Plan:
    """Who the agents are, which columns to read, and who holds the rows of a batch.

    `whose` gets the labels of a deal among agents, or of one into training and test only.
    """

    dealt: Deal
    columns: tuple[str, ...]
    whose: Callable[[Batch, Labels], Labels]

    @property
    def agents(self) -> int:
        """Number of agents."""
        return len(self.dealt.names)


def _plan(data: StreamedData, partition: Partition, agents: int) -> Plan:
    needed = (*(c.name for c in data.schema.columns), data.schema.label.name)
    if partition.column is not None:
        return _plan_by_column(data, partition.column, needed)
    if partition.kind == "files":
        return _plan_by_files(data, needed)
    if partition.kind == "even":
        names = tuple(f"agent {i}" for i in range(agents))
        return Plan(Deal(names, []), needed, lambda batch, dealt: dealt)
    raise InputError(
        f"A stream cannot be dealt by its labels ({partition.kind}); choose even, column:NAME or "
        "files, or leave memory out."
    )


def _plan_by_column(data: StreamedData, name: str, needed: tuple[str, ...]) -> Plan:
    schema = data.schema
    for group in data.groups:
        for file in group.files:
            file.require([name])
    public = schema.public_values(name)
    values = public or _seen(data, name)

    def whose(batch: Batch, dealt: Labels) -> Labels:
        with batch.placed():
            codes = by_column_codes(batch.table, name, values, schema.missing)
        return _named(codes, dealt, len(values))

    dealt = named_by_column(name, values, [], public is not None)
    return Plan(dealt, tuple(dict.fromkeys((*needed, name))), whose)


def _plan_by_files(data: StreamedData, needed: tuple[str, ...]) -> Plan:
    names = tuple(group.name for group in data.groups)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"Two agents would be called {twice!r}; rename the file or the folder.")
    dealt = Deal(
        names,
        [],
        caveat="Which agent holds a record follows from the file that it is in: that, and how many "
        "records each agent has, count as public and are not protected.",
    )
    return Plan(dealt, needed, lambda batch, whose: _named(batch.group, whose, len(names)))


def _named(agent: Any, dealt: Labels, agents: int) -> Labels:
    """Turn training (0) and test (1) into the agent's number and `agents`."""
    return np.where(dealt == 0, agent, agents).astype(np.int32)


def _seen(data: StreamedData, name: str) -> tuple[str, ...]:
    found: set[str] = set()
    for batch in data._batches([name]):
        with batch.placed():
            found.update(seen_values(batch.table, name, data.schema.missing))
    return agents_in_order(name, sorted(found))


def _encoded(schema: Schema, batch: Batch) -> tuple[Matrix, Vector]:
    with batch.placed():
        return schema.encode(batch.table)


def _stored(shard: Shard, signed: bool) -> Shard:
    """Return a checked shard as risks read it fastest: signed for a margin, column-major."""
    X = scale_rows(shard.X, shard.y) if signed else shard.X
    y = np.ones_like(shard.y) if signed else shard.y
    kept = object.__new__(SignedShard if signed else Shard)
    # Nothing to check again: the norms and the labels are those of `shard`.
    for name, value in {**vars(shard), "X": _column_major(X), "y": y}.items():
        object.__setattr__(kept, name, value)
    return kept


def _column_major(X: Matrix) -> Matrix:
    return np.asfortranarray(X) if isinstance(X, np.ndarray) else X


def _cut(rows: Indices, X: Matrix, block: int) -> list[Indices]:
    """Cut rows into pieces of about a block's bytes."""
    each = _bytes(X) / X.shape[0]
    return np.array_split(rows, min(len(rows), 1 + int(len(rows) * each / block)))


def _bytes(X: Any) -> int:
    arrays = (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)
    return sum(int(array.nbytes) for array in arrays)


def _some(stream: ShardStream | None, purpose: str) -> ShardStream:
    if stream is None:
        raise DataError(f"There are no records to {purpose} on.")
    return stream
