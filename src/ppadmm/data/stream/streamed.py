"""Shards that are larger than memory.

    Parquet files ── batches ── schema ──▶ X, y ── deal ──▶ blocks of shards ── store ──▶ streams

The files are read once, a batch at a time. Every batch is encoded and checked as a table in memory
is, and each agent's rows go into blocks of a store that keeps what fits and spills the rest.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ppadmm.data.partition import (
    Assignment,
    Partition,
    agents_in_order,
    by_column_codes,
    named_by_column,
    named_by_files,
    seen_values,
)
from ppadmm.data.schema import Schema
from ppadmm.data.sites import Given, called
from ppadmm.data.stream.assignment import LabelReader, Labels, held_out, labels, site_labels
from ppadmm.data.stream.blocks import ShardStream, Streams, Writer
from ppadmm.data.stream.parquet import PAGE, Group, ParquetFile, find_groups
from ppadmm.data.stream.store import one_ahead
from ppadmm.data.tables import placed
from ppadmm.errors import InputError
from ppadmm.records import HoldsRecords

MEMORY = 512 * 10**6
LEAST_MEMORY = 12 * 10**6
BATCH_ROWS = 2**16
ENCODING = 0.125
"""Share of the cap: a batch being encoded."""


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

    def with_schema(self, schema: Schema) -> "StreamedData":
        """Return the same files, to be encoded by another schema."""
        return replace(self, schema=schema)

    @property
    def train_records(self) -> int:
        """How many of the n are for training."""
        return self.n - held_out(self.n)

    @property
    def free(self) -> int:
        """Bytes of the cap besides the pages that the reader holds."""
        return self.memory - self.pages

    def files(self) -> Iterator[tuple[int, ParquetFile]]:
        """Yield all files in order, with the number of their group."""
        return ((k, file) for k, group in enumerate(self.groups) for file in group.files)

    def deal(
        self, partition: Partition, agents: int, seed: int, sizes: Sequence[int] | None = None
    ) -> Streams:
        """Read the files once and deal the records, four fifths for training."""
        plan = _plan(self, partition, agents)
        with self._written(plan, self._dealt(plan, seed, sizes)) as writer:
            return writer.streams(plan.dealt)

    def part(
        self,
        numbers: Collection[int],
        partition: Partition,
        agents: int,
        seed: int,
        sizes: Sequence[int] | None = None,
    ) -> ShardStream:
        """Deal in the same way, but keep only the records of these agents, as one stream."""
        plan = _plan(self, partition, agents)
        whose, nobody = self._dealt(plan, seed, sizes), plan.agents + 1

        def own(batch: "Batch") -> Labels:
            dealt = whose(batch)
            return np.where(np.isin(dealt, list(numbers)), dealt, nobody).astype(np.int32)

        with self._written(plan, own) as writer:
            return writer.of(numbers)

    def whole(self) -> ShardStream:
        """Read the files once; all records are one agent's, and none are for testing."""
        plan = _plan(self, Partition("even"), 1)
        with self._written(plan, lambda batch: np.zeros(batch.table.num_rows, np.int32)) as writer:
            return writer.of([0])

    def _dealt(self, plan: "StreamLayout", seed: int, sizes: Sequence[int] | None) -> "Whose":
        if plan.holder is None:
            dealer = LabelReader(labels(self.n, plan.agents, seed, sizes))
            return lambda batch: dealer.next(batch.table.num_rows)
        readers = [LabelReader(each) for each in site_labels(plan.sizes, held_out(self.n), seed)]
        return partial(_split_by_site, plan.holder, readers)

    @contextmanager
    def _written(self, plan: "StreamLayout", whose: "Whose") -> Iterator["Writer"]:
        """Read the files into a writer; its store goes if anything fails."""
        writer = Writer(self.schema, plan.agents, self.free)
        try:
            for batch in one_ahead(self._batches(plan.columns)):
                with batch.placed():
                    rows = self.schema.encode(batch.table)
                writer.add(*rows, whose(batch))
            yield writer
        except BaseException:
            writer.store.close()
            raise
        finally:
            pa.default_memory_pool().release_unused()

    def _batches(self, columns: Sequence[str]) -> Iterator["Batch"]:
        rows = batch_rows(self.schema, self.free)
        for k, file in self.files():
            for start, table in file.batches(columns, rows):
                yield Batch(file, k, start, table, tuple(columns))


@dataclass(frozen=True)
class Batch(HoldsRecords):
    """Rows of a file from `start` on."""

    file: ParquetFile
    group: int
    start: int
    table: Any
    columns: tuple[str, ...]

    def placed(self) -> Any:
        """Name the file and the row in every error."""
        return placed(self.file.path, self.start, self.columns)


Whose = Callable[[Batch], Labels]
"""Who holds the rows of a batch."""


@dataclass(frozen=True)
class StreamAssignment:
    """How streamed files were dealt: the same again wherever the files can be read."""

    data: StreamedData
    partition: Partition
    agents: int
    seed: int
    sizes: tuple[int, ...] | None = None

    def streams(self) -> Streams:
        """Read everybody's records."""
        return self.data.deal(self.partition, self.agents, self.seed, self.sizes)

    def part(self, numbers: Collection[int]) -> ShardStream:
        """Read the records of these agents."""
        return self.data.part(numbers, self.partition, self.agents, self.seed, self.sizes)


def open_stream(given: Given, schema: Schema | None, memory: int | None = None) -> StreamedData:
    """Look at Parquet files, or folders of them; read no record yet."""
    path = str(given) if isinstance(given, str | Path) else called(given)
    if schema is None:
        raise InputError(
            f"To stream {path!r} a schema is needed: bounds and categories cannot be read off a "
            "part of the records; give schema."
        )
    cap = MEMORY if memory is None else memory
    groups = find_groups(given)
    needed = [*(c.name for c in schema.columns), schema.label.name]
    files = [file for group in groups for file in group.files]
    for file in files:
        file.require(needed)
    pages = max(file.page_bytes(_widths(schema)) for file in files)
    if cap < LEAST_MEMORY + pages:
        raise InputError(
            f"Expected memory of at least {LEAST_MEMORY + pages:,} bytes to stream {path!r}, "
            f"{pages:,} of them for one page of each of its {len(needed)} columns, got {cap:,}."
        )
    return StreamedData(path, groups, schema, cap, pages)


def _widths(schema: Schema) -> dict[str, int]:
    """Return how many bytes a text of each column takes at most, as far as the schema knows."""

    def longest(texts: Sequence[str]) -> int:
        return max(len(text.encode()) for text in (*texts, *schema.missing))

    listed = {c.name: schema.public_values(c.name) for c in schema.columns}
    widths = {name: longest(values) if values else PAGE for name, values in listed.items()}
    return widths | {schema.label.name: longest(schema.label.names)}


def batch_rows(schema: Schema, memory: int) -> int:
    """Return how many rows can be encoded at once within their share of the cap.

    A row takes about 4 floats per feature that is stored (X, twice divided, checked) and 16 per
    column (its cells as they are read, one batch ahead, as text, places and values).
    """
    entries = len(schema.columns) + sum(made.count for made in schema.products) + 1
    stored = 2 * entries if schema.is_sparse() else schema.dimension
    return int(np.clip(ENCODING * memory / (8 * (4 * stored + 16 * entries)), 16, BATCH_ROWS))


@dataclass(frozen=True)
class StreamLayout(HoldsRecords):
    """Who the agents are and which columns to read.

    Where records have holders of their own, `holder` says who holds the rows of a batch and `sizes`
    how many records each has; otherwise they are dealt.
    """

    dealt: Assignment
    columns: tuple[str, ...]
    holder: Whose | None = None
    sizes: tuple[int, ...] = ()

    @property
    def agents(self) -> int:
        """Number of agents."""
        return len(self.dealt.names)


def _plan(data: StreamedData, partition: Partition, agents: int) -> StreamLayout:
    needed = (*(c.name for c in data.schema.columns), data.schema.label.name)
    if partition.column is not None:
        return _plan_by_column(data, partition.column, needed)
    if partition.kind == "files":
        return _plan_by_files(data, needed)
    if partition.kind == "even":
        names = tuple(f"agent {i}" for i in range(agents))
        return StreamLayout(Assignment(names, []), needed)
    raise InputError(
        f"A stream cannot be dealt by its labels ({partition.kind}); choose even, column:NAME or "
        "files, or leave memory out."
    )


def _plan_by_column(data: StreamedData, name: str, needed: tuple[str, ...]) -> StreamLayout:
    schema = data.schema
    for _, file in data.files():
        file.require([name])
    public = schema.public_values(name)
    values = public or _seen(data, name)

    def holder(batch: Batch) -> Labels:
        with batch.placed():
            codes = by_column_codes(batch.table, name, values, schema.missing)
        return codes.astype(np.int32)

    dealt = named_by_column(name, values, [], public is not None)
    counts = sum(
        (np.bincount(holder(batch), minlength=len(values)) for batch in data._batches([name])),
        start=np.zeros(len(values), dtype=np.int64),
    )
    columns = tuple(dict.fromkeys((*needed, name)))
    return StreamLayout(dealt, columns, holder, tuple(counts.tolist()))


def _plan_by_files(data: StreamedData, needed: tuple[str, ...]) -> StreamLayout:
    def holder(batch: Batch) -> Labels:
        return np.full(batch.table.num_rows, batch.group, dtype=np.int32)

    dealt = named_by_files(tuple(group.name for group in data.groups), [])
    return StreamLayout(dealt, needed, holder, tuple(group.rows for group in data.groups))


def _split_by_site(holder: Whose, readers: Sequence[LabelReader], batch: Batch) -> Labels:
    """Give every row to its holder, or to the held-out set, which comes after all of them."""
    codes = holder(batch)
    whose = codes.copy()
    for site in np.unique(codes):
        rows = np.flatnonzero(codes == site)
        whose[rows[readers[site].next(len(rows)) == 1]] = len(readers)
    return whose


def _seen(data: StreamedData, name: str) -> tuple[str, ...]:
    found: set[str] = set()
    for batch in data._batches([name]):
        with batch.placed():
            found.update(seen_values(batch.table, name, data.schema.missing))
    return agents_in_order(name, sorted(found))
