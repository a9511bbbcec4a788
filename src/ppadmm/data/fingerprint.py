"""What records are known by in a ledger: a hash of the multiset of their rows.

A row is its cells with the names of their columns; the order of rows and of columns does not
matter. A cell is nothing, a number or a text, by its own account: "01", 1 and 1.0 are the same
number, wherever they stand, and NaN, null and an empty text are nothing. So a CSV file, the same
as Parquet and as a data frame, shuffled or not, are the same records, whatever a schema makes of
them. A table may come in pieces of any size.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from ppadmm.data.dataset import Dataset
from ppadmm.data.multiset import WIDTH, Multiset
from ppadmm.data.stream.streamed import StreamedData
from ppadmm.data.tables import is_csv
from ppadmm.records import HoldsRecords

NOTHING, NUMBER, TEXT = range(3)
"""What a cell is."""
SAMPLE = 2**18
"""Rows, about, that are looked for in other records; of fewer, all."""
PIECE = 16
"""Bytes of a row's hash that stand for it in the sample."""
BATCH_ROWS = 2**14
BLOCK = 2**22
"""Bytes, about, of the rows that are written out at a time."""
ROOM = 2**22
"""Bytes of hashes in memory where records are streamed."""
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Fingerprint(HoldsRecords):
    """What a ledger knows records by.

    `digest` is SHA-256 over the sorted hashes of all rows, and how often each is there. `sample`
    holds the beginnings of the hashes that are below `rate`·2^64, a share of all hashes that
    follows from the number of `rows` alone: whether a row is in it depends on that row only.
    """

    digest: bytes
    rows: int = 0
    sample: bytes = b""

    @property
    def rate(self) -> float:
        """The share of all possible rows that the sample is of."""
        return sampling_rate(self.rows)

    def pieces(self) -> Iterator[bytes]:
        """Return the hashes in the sample, one after the other."""
        return (self.sample[k : k + PIECE] for k in range(0, len(self.sample), PIECE))

    def __repr__(self) -> str:
        return f"Fingerprint of {self.rows} rows"


NO_RECORDS = Fingerprint(b"no records")


def sampling_rate(rows: int) -> float:
    """Return which share of rows is looked for in other records."""
    return min(1.0, SAMPLE / max(rows, 1))


def fingerprint(data: Dataset | StreamedData) -> Fingerprint:
    """Return what the records are known by as they came; of records that came encoded, the rows."""
    if isinstance(data, StreamedData):
        return table_fingerprint(_streamed(data), ROOM)
    if not data.tables:
        return matrix_fingerprint(data.X, data.y.tolist())
    for file in data.files:
        if is_csv(file.origin.path):
            file.origin.require_same()
    return table_fingerprint(data.tables)


def table_fingerprint(pieces: Iterable[Any], room: int = 2**62) -> Fingerprint:
    """Return what a table that comes in pieces is known by."""
    found = Multiset(room)
    for piece in pieces:
        header, order = _header([name.strip() for name in piece.column_names])
        rows = max(16, min(BATCH_ROWS, BLOCK // (64 + 42 * len(order))))
        for start in range(0, piece.num_rows, rows):
            block = piece.slice(start, rows)
            columns = [Cells.of(block.column(j)) for j in order]
            found.add(_row_hashes(header, columns, block.num_rows))
    return _known_by(found)


def matrix_fingerprint(X: Any, labels: Sequence[Any]) -> Fingerprint:
    """Return what rows X (n, d) with their labels are known by, dense or sparse."""
    found, n = Multiset(2**62), X.shape[0]
    header = hashlib.sha256(f"ppadmm matrix {X.shape[1]}".encode()).digest()
    for start in range(0, n, rows := max(16, BLOCK // (8 * (X.shape[1] + 64)))):
        block = _sparse(X[start : start + rows])
        given = Cells.of(pa.chunked_array([_array(labels[start : start + rows])]))
        pairs = np.empty(block.nnz, dtype=[("at", "<u8"), ("value", "<f8")])
        pairs["at"], pairs["value"] = block.indices, block.data
        ends = (block.indptr.astype(np.int64) * pairs.itemsize).tolist()
        found.add(_row_hashes(header, [given], block.shape[0], (pairs.tobytes(), ends)))
    return _known_by(found)


def _known_by(found: Multiset) -> Fingerprint:
    digest = hashlib.sha256(b"ppadmm records 3\0")
    share = sampling_rate(found.rows)
    limit = np.uint64(min(int(share * 2.0**64), 2**64 - 1))
    sample = []
    for values, counts in found.counted():
        pairs = np.empty(len(values), dtype=[("hash", f"S{WIDTH}"), ("count", "<u8")])
        pairs["hash"], pairs["count"] = values, counts
        digest.update(pairs.tobytes())
        whole = np.ascontiguousarray(values).view(np.uint8).reshape(-1, WIDTH)
        begins = np.ascontiguousarray(whole[:, :8]).view(">u8")[:, 0]
        sample.append(whole[(begins < limit) | (share == 1.0), :PIECE].tobytes())
    return Fingerprint(digest.digest(), found.rows, b"".join(sample))


# -- rows ---------------------------------------------------------------------------------------


def _header(names: Sequence[str]) -> tuple[bytes, list[int]]:
    """Return a hash of the names and the order in which the columns are looked at."""
    keys = [(name, names[:j].count(name)) for j, name in enumerate(names)]
    order = sorted(range(len(names)), key=keys.__getitem__)
    found = hashlib.sha256(b"ppadmm table\0")
    for j in order:
        label = names[j].encode()
        found.update(len(label).to_bytes(4, "little") + label)
    return found.digest(), order


def _row_hashes(
    header: bytes, columns: Sequence["Cells"], n: int, more: tuple[bytes, Any] | None = None
) -> bytes:
    """Return the hashes of n rows: header, kinds, numbers, hashes of texts, and `more` bytes."""
    kinds = np.stack([cells.kinds for cells in columns], axis=1)
    numbers = np.stack([cells.numbers for cells in columns], axis=1)
    front = [np.tile(np.frombuffer(header, np.uint8), (n, 1)), kinds, numbers.view(np.uint8)]
    fixed = np.hstack(front)
    rows, step = memoryview(fixed.tobytes()), fixed.shape[1]
    rests = [part for part in (_texts(columns), more) if part is not None]
    hashes = []
    for i in range(n):
        row = hashlib.blake2b(rows[i * step : (i + 1) * step], digest_size=WIDTH)
        for data, ends in rests:
            row.update(data[ends[i] : ends[i + 1]])
        hashes.append(row.digest())
    return b"".join(hashes)


def _texts(columns: Sequence["Cells"]) -> tuple[bytes, Any] | None:
    """Return the hashes of all texts, row by row, and where each row begins and the last ends."""
    some = [cells for cells in columns if (cells.kinds == TEXT).any()]
    if not some:
        return None
    there = np.stack([cells.kinds == TEXT for cells in some], axis=1)
    hashes = np.stack([cells.texts for cells in some], axis=1)
    ends = np.concatenate([[0], np.cumsum(there.sum(axis=1)) * WIDTH])
    return hashes[there].tobytes(), ends.tolist()


@dataclass(frozen=True)
class Cells(HoldsRecords):
    """The cells of one column: kinds (n,), numbers (n,) or 0, hashes of texts (n, 32) or 0."""

    kinds: Bytes
    numbers: Any
    texts: Any

    @classmethod
    def of(cls, column: Any) -> "Cells":
        """Read a chunked Arrow column."""
        values = column.combine_chunks()
        n, kind = len(values), values.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            plain = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            there = ~np.isnan(plain)
            numbers = np.where(there, plain, 0.0) + 0.0  # −0 is 0
            kinds = np.where(there, NUMBER, NOTHING).astype(np.uint8)
            return cls(kinds, numbers.astype("<f8"), _no_texts(n))
        coded = _coded(values)
        return _spelt_all(coded.dictionary.to_pylist()).take(coded.indices)

    def take(self, places: Any) -> "Cells":
        """Return the cells at some places, an Arrow array; nothing where that is null."""
        at = places.fill_null(len(self.kinds)).to_numpy(zero_copy_only=False).astype(np.intp)
        kinds = np.append(self.kinds, np.uint8(NOTHING))
        numbers = np.append(self.numbers, 0.0)
        texts = np.concatenate([self.texts, _no_texts(1)])
        return Cells(kinds[at], numbers[at], texts[at])


def _no_texts(n: int) -> Any:
    """Return zeros (n, 32) that take no memory."""
    return np.broadcast_to(np.zeros(WIDTH, np.uint8), (n, WIDTH))


def _coded(values: Any) -> Any:
    """Return values of any type as places in a list of distinct ones."""
    if pa.types.is_dictionary(values.type):
        return values
    try:
        return values.dictionary_encode()
    except pa.ArrowNotImplementedError:
        return _as_texts(values.to_pylist()).dictionary_encode()


def _spelt_all(values: Sequence[Any]) -> Cells:
    """Return the cells of distinct values: a number where a text is one."""
    kinds, numbers = np.zeros(len(values), np.uint8), np.zeros(len(values), "<f8")
    texts = np.zeros((len(values), WIDTH), np.uint8)
    for k, value in enumerate(values):
        found = _spelt(value)
        if isinstance(found, bytes):
            kinds[k] = TEXT
            texts[k] = [*hashlib.blake2b(found, digest_size=WIDTH).digest()]
        elif found is not None:
            kinds[k], numbers[k] = NUMBER, found
    return Cells(kinds, numbers, texts)


def _spelt(value: Any) -> bytes | float | None:
    """Return a text's bytes, a number, or None for nothing."""
    if value is None:
        return None
    if isinstance(value, bool):
        return b"true" if value else b"false"
    text = value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)
    text = text.strip()
    try:
        number = float(text)
    except ValueError:
        return text.encode(errors="surrogateescape") if text else None
    return None if math.isnan(number) else number + 0.0


# -- where rows come from -----------------------------------------------------------------------


def _streamed(data: StreamedData) -> Iterator[Any]:
    """Read all columns of all files, a batch at a time."""
    for _, file in data.files():
        for _, table in file.batches([name.strip() for name in file.names], BATCH_ROWS):
            yield table


def _array(labels: Sequence[Any]) -> Any:
    try:
        return pa.array(labels)
    except (pa.ArrowException, TypeError):
        return _as_texts(labels)


def _as_texts(values: Iterable[Any]) -> Any:
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _sparse(rows: Any) -> Any:
    """Return rows as CSR with every entry once, in order, and no zeros."""
    found = sp.csr_array(rows.tocsr() if hasattr(rows, "tocsr") else rows, copy=True)
    found = found.astype(np.float64)
    found.sum_duplicates()
    found.eliminate_zeros()
    return found
