"""Records laid out for the compiled kernel: few bytes, read in order, in blocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from ppadmm.arrays import Array
from ppadmm.data.coded import Coded, stack
from ppadmm.data.shard import Shard
from ppadmm.problem.kernels import compiled, layout, width_of
from ppadmm.problem.losses import Loss
from ppadmm.records import HoldsRecords, holds_records

ROWS, FEWEST_ROWS, BLOCK_BYTES = 512, 16, 32768
"""Records in a block: their numbers are read twice, and stay in the cache meanwhile."""

CACHED, STREAMED_BLOCK_BYTES = 4 << 20, 8192
"""More bytes of numbers than this come from memory: smaller blocks, as the next is fetched while
one is computed with."""

SMALL, FEW_ROWS = 1024, 32
"""A shard with fewer records is laid out together with others, in smaller blocks."""

CHOICES_AT_MOST, BENDS_AT_MOST = 16, 256
"""A number, or a place on a curve, with no more different values than this is looked up."""

ENTRIES_AT_MOST = 400
"""Size of one table: three kilobytes, so that it stays in the first-level cache with its sums."""

SAMPLE = 8192
"""How many records are looked at to find columns that go well together."""


@holds_records
class Column(NamedTuple):
    """A column with few different values: which one each record has (n,), of `choices`.

    It is a number (`feature`), a one-hot `group` or a `curve`.
    """

    chosen: Any
    choices: int
    feature: int = -1
    group: int = -1
    curve: int = -1


@holds_records
class Joint(NamedTuple):
    """Columns joined to one code (n,): a number for each combination that occurs, of `size`."""

    codes: Any
    size: int
    columns: tuple[Column, ...]

    def joined(self, column: Column, most: int, rows: int | None = None) -> "Joint | None":
        """Return the code with one more column, by the first `rows` records; None if too large."""
        codes = np.empty_like(self.codes[:rows])
        size = layout().join(
            self.codes[:rows], self.size, column.chosen[:rows], column.choices, most, codes
        )
        return None if size < 0 else Joint(codes, size, (*self.columns, column))


@holds_records
class Tables(NamedTuple):
    """What the codes stand for; all tables lie one after another, `entries` in all.

    A row of `parts` is (start, size, first, feature): entry start + c stands for values[first + c]
    at that feature, or for −1 at features[first + c], which is d where there is nothing.
    """

    parts: Any
    features: Any
    values: Any
    entries: int


@dataclass(frozen=True)
class Packed(HoldsRecords):
    """Coded records v = scale·z in blocks of B rows, column by column within a block.

    Columns with few different values (one-hot groups, numbers that are 0 or 1, curves of whole
    numbers) are joined: each combination of values that occurs has a code. What a code adds to a
    margin is looked up in a table that is filled once per point, and the gradient is read off sums
    per code. The other columns stay numbers, other curves a knot and two weights. Nothing is
    rounded: z is the same to the last bit. The label's sign is part of `scale`; the last block is
    filled up with scale = 0.

    numeric (b, p, B), codes (b, G, B), scale (b, B), knots (b, C, B), weights (b, 2C, B); `places`
    (p,) says which features the numbers are.
    """

    numeric: Any
    codes: Any
    scale: Any
    knots: Any
    weights: Any
    places: Any
    tables: Tables

    @classmethod
    def of(cls, X: Coded, factors: Array, counts: Sequence[int] | None = None) -> list["Packed"]:
        """Lay out diag(factors)·X; the rows of each of several parts, `counts[k]`, by themselves.

        The parts share their tables.
        """
        columns, places, bent = _columns(X)
        joints = _joints(columns, len(X), parts=len(counts or "1"))
        tables = _tables(X, joints)
        starts = np.cumsum([0, *(joint.size for joint in joints)])[:-1]
        codes = np.empty((len(X), len(joints)), np.uint16 if tables.entries <= 2**16 else np.uint32)
        for k, joint in enumerate(joints):
            codes[:, k] = joint.codes + starts[k]
        # The constant is the last feature of a row, but comes after the numbers here.
        among = np.minimum(places, X.numeric.shape[1])
        numbers = np.column_stack([X.numeric, np.ones(len(X))])[:, among]
        scale = (factors * X.scale)[:, None]
        knots, weights = X.knots[:, bent], X.weights[:, bent].reshape(len(X), -1)
        own = counts or [len(X)]
        rows = _rows(len(places) + 2 * len(bent), own)
        arrays = (numbers, codes, scale, knots, weights)
        parts = zip(*(_blocks(array, own, rows) for array in arrays), strict=True)
        return [cls(n, c, s[:, 0], k, w, places, tables) for n, c, s, k, w in parts]

    @classmethod
    def kept(cls, shards: Sequence[Shard]) -> list["Packed"]:
        """Lay out every shard's records once, for all runs that use it; small ones together."""
        fresh = [shard for shard in shards if "_packed" not in vars(shard)]
        small = [shard for shard in fresh if shard.n < SMALL]
        for group in (*([shard] for shard in fresh if shard.n >= SMALL), small):
            if group:
                X = stack([cast(Coded, shard.X) for shard in group])
                labels = np.concatenate([shard.y for shard in group])
                made = cls.of(X, labels, [shard.n for shard in group])
                for shard, packed in zip(group, made, strict=True):
                    vars(shard)["_packed"] = packed
        return [vars(shard)["_packed"] for shard in shards]

    @property
    def nbytes(self) -> int:
        """Bytes that one gradient reads."""
        arrays = (self.numeric, self.codes, self.scale, self.knots, self.weights)
        return int(sum(array.nbytes for array in arrays))

    def gradient(self, theta: Array, loss: Loss, single: bool = False) -> Array:
        """Σ ℓ'(θᵀv)·v over the records, reading them once; (d,) → (d,)."""
        records = self.single if single else self.double
        gradient: Array = compiled().gradient(records, theta, width_of(loss))
        return gradient

    @cached_property
    def double(self) -> tuple[Any, ...]:
        """The records as the compiled functions take them."""
        return self._records(np.float64, np.int64, lambda blocks: blocks)

    @cached_property
    def single(self) -> tuple[Any, ...]:
        """The same in single precision, twice as many records to a block."""
        return self._records(np.float32, np.int32, _paired)

    def _records(self, real: Any, whole: Any, blocks: Callable[[Any], Any]) -> tuple[Any, ...]:
        t = self.tables
        return (
            blocks(self.numeric.astype(real, copy=False)),
            blocks(self.codes),
            blocks(self.scale[:, None].astype(real, copy=False))[:, 0],
            blocks(self.knots),
            blocks(self.weights.astype(real, copy=False)),
            np.empty(0, whole),  # for its type: scratch of that type is each call's own
            self.places,
            (t.parts, t.features, t.values.astype(real, copy=False), t.entries),
        )


def _columns(X: Coded) -> tuple[list[Column], Any, Any]:
    """Split columns into those with few values, those that stay numbers, and other curves.

    The constant 1 is looked up with the others, or is one more number where there are none.
    """
    columns, rest, bent = [], [], []
    for j, column in enumerate(np.ascontiguousarray(X.numeric.T)):
        found, chosen = np.empty(CHOICES_AT_MOST), np.empty(len(X), np.int64)
        count = layout().choices_of(column, found, chosen)
        if count < 0:
            rest.append(j)
        else:
            columns.append(Column(chosen, count, feature=j))
    for c in range(X.knots.shape[1]):
        if (places := _places_on(X, c)) is None:
            bent.append(c)
        else:
            columns.append(Column(*places, curve=c))
    for g, codes in enumerate(X.codes.T.astype(np.int64)):
        chosen = codes - codes.min()
        columns.append(Column(chosen, int(chosen.max()) + 1, group=g))
    if columns:
        columns.append(Column(np.zeros(len(X), np.int64), 1, feature=X.d - 1))
    else:
        rest.append(X.d - 1)
    return columns, np.array(rest, dtype=np.intp), np.array(bent, dtype=np.intp)


def _places_on(X: Coded, curve: int) -> tuple[Any, int] | None:
    """Give every place on a curve a number (n,), if there are few in proportion to records."""
    most = min(BENDS_AT_MOST, max(len(X) // 8, 2))
    both = np.ascontiguousarray(X.weights[:, curve])
    if len(np.unique(both[:SAMPLE, 1])) > most:
        return None
    cells = np.column_stack([X.knots[:, curve].astype(np.float64), both])
    found, chosen = np.unique(cells, axis=0, return_inverse=True)
    return (chosen.ravel().astype(np.int64), len(found)) if len(found) <= most else None


def _joints(columns: list[Column], n: int, parts: int) -> list[Joint]:
    """Join columns where that adds fewest combinations, the one with most choices first."""
    most = min(max(n // parts // 8, 16), ENTRIES_AT_MOST)
    joints: list[Joint] = []
    for column in sorted(columns, key=lambda column: -column.choices):
        tried = [(k, joint.joined(column, most, SAMPLE)) for k, joint in enumerate(joints)]
        growth = [(found.size - joints[k].size, k) for k, found in tried if found is not None]
        best = joints[min(growth)[1]].joined(column, most) if growth else None
        if best is not None:
            joints[min(growth)[1]] = best
        else:
            nothing = Joint(np.zeros(n, np.int64), 1, ())
            joints.append(cast(Joint, nothing.joined(column, column.choices)))
    return joints


def _tables(X: Coded, joints: list[Joint]) -> Tables:
    """Write down what every code stands for, as its first record has it."""
    parts, features, values, start = [], [np.empty(0, np.int64)], [np.empty(0)], 0
    for joint in joints:
        first = np.unique(joint.codes, return_index=True)[1]
        for column in joint.columns:
            for at, value in _entries(X, first, column):
                parts.append((start, joint.size, sum(map(len, features)), column.feature))
                features.append(at)
                values.append(value)
        start += joint.size
    table = np.array(parts, np.int64).reshape(-1, 4)
    return Tables(table, np.concatenate(features), np.concatenate(values), start)


def _entries(X: Coded, rows: Any, column: Column) -> list[tuple[Any, Any]]:
    """Return which features a column is in some rows, and their values: one pair or two."""
    ones = np.ones(len(rows))
    if column.group >= 0:
        return [(X.codes[rows, column.group].astype(np.int64), ones)]
    if column.curve >= 0:
        at, both = X.knots[rows, column.curve].astype(np.int64), X.weights[rows, column.curve]
        return [(at, both[:, 0]), (at + 1, both[:, 1])]
    constant = column.feature == X.d - 1
    values = ones if constant else X.numeric[rows, column.feature]
    return [(np.full(len(rows), column.feature), values)]


def _rows(numbers: int, counts: Sequence[int]) -> int:
    """Return how many records a block has, each with so many numbers: a power of two."""
    most, row = ROWS if max(counts) >= SMALL else FEW_ROWS, 8 * max(numbers, 1)
    block = BLOCK_BYTES if max(counts) * row <= CACHED else STREAMED_BLOCK_BYTES
    fitting = 1 << (block // row).bit_length() - 1
    return min(max(fitting, FEWEST_ROWS), most)


def _paired(blocks: Any) -> Any:
    """(b, p, B) → (⌈b/2⌉, p, 2B): two blocks side by side; one of 0 makes their number even."""
    if len(blocks) % 2:
        blocks = np.concatenate([blocks, np.zeros_like(blocks[:1])])
    b, p, B = blocks.shape
    pairs = blocks.reshape(b // 2, 2, p, B).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(pairs).reshape(b // 2, p, 2 * B)


def _blocks(columns: Any, counts: Sequence[int], rows: int) -> list[Any]:
    """(Σn, p) → (⌈n/B⌉, p, B) for each n of `counts`, the last block filled up with 0."""
    p = columns.shape[1]
    blocks = [-(-n // rows) for n in counts]
    padded = np.zeros((sum(blocks) * rows, p), dtype=columns.dtype)
    gaps = np.cumsum([0, *(b * rows - n for b, n in zip(blocks, counts, strict=True))])[:-1]
    padded[np.arange(len(columns)) + np.repeat(gaps, counts)] = columns
    laid = np.ascontiguousarray(padded.reshape(sum(blocks), rows, p).transpose(0, 2, 1))
    return np.split(laid, np.cumsum(blocks)[:-1])
