"""One organisation's records in blocks, which a store keeps in memory or on disk."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppadmm.data.partition import Assignment, Indices
from ppadmm.data.schema import Schema
from ppadmm.data.shard import Matrix, Shard, Vector, scale_rows, stack_rows
from ppadmm.data.stream.assignment import Labels
from ppadmm.data.stream.store import BlockStore, Ticket
from ppadmm.errors import DataError
from ppadmm.records import HoldsRecords

BLOCK = 2**20
"""Bytes of a block: small enough to stay in a core's own cache while it is worked on."""
KEPT, PILES = 0.35, 0.1
"""Shares of the cap: blocks that stay in memory, and unfinished ones."""


@dataclass(frozen=True)
class SignedShard(Shard):
    """Records of two classes as v = y·x with label +1: the same to every loss of a margin."""

    def signed(self) -> Matrix:
        """V, without a copy."""
        return self.X


@dataclass(frozen=True)
class ShardStream(HoldsRecords):
    """One organisation's records in blocks, each a `Shard` with all of its guarantees.

    `counts` says how many records each class has. A `signed` stream has blocks of `SignedShard`.
    """

    store: BlockStore
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
class Streams(HoldsRecords):
    """A data set dealt: a stream for every agent, None for one without records, and a test set."""

    parts: tuple[ShardStream | None, ...]
    test: ShardStream
    dealt: Assignment


@dataclass
class Pile(HoldsRecords):
    """Rows of one agent that are not a whole block yet."""

    X: list[Any] = field(default_factory=list)
    y: list[Vector] = field(default_factory=list)
    rows: int = 0


class Writer(HoldsRecords):
    """Puts encoded rows into blocks; the last stream is the test set.

    Where a block ends, and whether it stays in memory, follows from the schema and the numbers of
    rows alone. Sums over blocks round differently if they are cut differently, and a row with many
    zeros is shorter than others: one record must not move the cuts.
    """

    def __init__(self, schema: Schema, agents: int, memory: int) -> None:
        self.store = BlockStore(int(KEPT * memory))
        self._schema = schema
        self._block = int(min(BLOCK, PILES * memory / (agents + 1)))
        self._row_bytes = row_bytes(schema)
        self._signed = [schema.classes == 2] * agents + [False]
        self._piles = [Pile() for _ in self._signed]
        self._tickets: list[list[Ticket[Shard]]] = [[] for _ in self._signed]
        self._counts = np.zeros((agents + 1, schema.classes), dtype=np.int64)

    def add(self, X: Matrix, y: Vector, whose: Labels) -> None:
        """Add row i to the pile of `whose[i]`; labels beyond the piles are nobody's."""
        order = np.argsort(whose, kind="stable")
        ends = np.searchsorted(whose[order], np.arange(len(self._piles) + 1))
        for k in np.flatnonzero(np.diff(ends)):
            self._pile(int(k), order[ends[k] : ends[k + 1]], X, y)

    def streams(self, dealt: Assignment) -> Streams:
        """Finish the last blocks."""
        for k in range(len(self._piles)):
            self._flush(k)
        streams = [self._stream(k) for k in range(len(self._piles))]
        test = streams.pop()
        if not any(streams):
            raise DataError("No agent has records to train on.")
        return Streams(tuple(streams), _some(test, "test"), dealt)

    def of(self, numbers: Collection[int]) -> ShardStream:
        """Finish the last blocks of these agents and return them as one stream."""
        for k in numbers:
            self._flush(k)
        found = [stream for k in numbers if (stream := self._stream(k)) is not None]
        return joined(found) if found else _some(None, "train")

    def _pile(self, k: int, rows: Indices, X: Any, y: Vector) -> None:
        """Add some of the rows, a block at a time."""
        most = max(1, self._block // self._row_bytes)
        while len(rows):
            pile = self._piles[k]
            some, rows = np.split(rows, [most - pile.rows])
            pile.X.append(X[some])
            pile.y.append(y[some])
            pile.rows += len(some)
            if pile.rows == most:
                self._flush(k)

    def _flush(self, k: int) -> None:
        pile, self._piles[k] = self._piles[k], Pile()
        if not pile.X:
            return
        shard = Shard(stack_rows(pile.X), np.concatenate(pile.y), self._schema.classes)
        self._counts[k] += np.bincount(shard.codes(), minlength=shard.classes)
        size = (shard.n + 1) * self._row_bytes
        self._tickets[k].append(self.store.put(_stored(shard, self._signed[k]), size))

    def _stream(self, k: int) -> ShardStream | None:
        if not self._tickets[k]:
            return None
        d, signed = self._schema.dimension, self._signed[k]
        return ShardStream(self.store, tuple(self._tickets[k]), self._counts[k], d, signed)


def _stored(shard: Shard, signed: bool) -> Shard:
    """Return a checked shard as risks read it fastest: signed for a margin, column-major."""
    X = scale_rows(shard.X, shard.y) if signed else shard.X
    X = np.asfortranarray(X) if isinstance(X, np.ndarray) else X
    y = np.ones_like(shard.y) if signed else shard.y
    kept = object.__new__(SignedShard if signed else Shard)
    # Nothing to check again: the norms and the labels are those of `shard`.
    for name, value in {**vars(shard), "X": X, "y": y}.items():
        object.__setattr__(kept, name, value)
    return kept


def row_bytes(schema: Schema) -> int:
    """Return the most bytes of an encoded row with its label: 8 for a number, 4 for its place."""
    entries = schema.entries + 1
    return 12 * (entries + 1) if schema.is_sparse() else 8 * (schema.dimension + 1)


def _some(stream: ShardStream | None, purpose: str) -> ShardStream:
    if stream is None:
        raise DataError(f"There are no records to {purpose} on.")
    return stream
