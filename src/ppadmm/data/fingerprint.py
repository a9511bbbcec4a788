"""What records are known by in a ledger: SHA-256 of all their columns, whatever the schema.

A table may come in pieces of any size. The columns are taken in the order of their names, every
value as text; of a CSV file the cells as they stand there, as what is missing or a number is for
the schema to say.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ppadmm.data.named import Dataset
from ppadmm.data.stamp import Stamp
from ppadmm.data.stream import StreamedData
from ppadmm.data.tables import is_csv

MISSING = 2**32 - 1
"""Stands in place of a length."""
BATCH_ROWS = 2**14


class Column:
    """A hash of the lengths of a column's texts and one of their bytes: no cut shows in them."""

    def __init__(self) -> None:
        self._lengths, self._bytes = hashlib.sha256(), hashlib.sha256()

    def add(self, values: Any) -> None:
        """Take the next values, a chunk of an Arrow column."""
        texts = _texts(values)
        lengths = pc.binary_length(texts).fill_null(MISSING)
        self._lengths.update(lengths.to_numpy(zero_copy_only=False).astype("<u4").tobytes())
        self._bytes.update(_content(texts.drop_null()))

    def digest(self) -> bytes:
        """Return both hashes."""
        return self._lengths.digest() + self._bytes.digest()


def fingerprint(data: Dataset | StreamedData) -> bytes:
    """Return SHA-256 of the records as they came; of records that came encoded, the encoding."""
    if isinstance(data, StreamedData):
        return table_fingerprint(_streamed(data))
    if data.table is None:
        return row_fingerprint([(data.X, data.y)])
    if data.origin is not None and is_csv(data.origin.path):
        return table_fingerprint(_cells(data.origin))
    return table_fingerprint([data.table])


def table_fingerprint(pieces: Iterable[Any]) -> bytes:
    """Return SHA-256 of a table that comes in pieces."""
    columns: dict[tuple[str, int], Column] = {}
    for piece in pieces:
        for j, name in enumerate(piece.column_names):
            place = name, piece.column_names[:j].count(name)
            own = columns.setdefault(place, Column())
            for chunk in piece.column(j).chunks:
                own.add(chunk)
    found = hashlib.sha256(b"ppadmm table 2\0")
    for (name, _), own in sorted(columns.items(), key=lambda item: item[0]):
        label = name.encode()
        found.update(len(label).to_bytes(4, "little") + label + own.digest())
    return found.digest()


def row_fingerprint(parts: Iterable[tuple[Any, Any]]) -> bytes:
    """Return SHA-256 of encoded records (X, y), part by part."""
    found = hashlib.sha256()
    for X, y in parts:
        found.update((X if isinstance(X, np.ndarray) else X.toarray()).tobytes())
        found.update(y.tobytes())
    return found.digest()


def _streamed(data: StreamedData) -> Iterator[Any]:
    """Read all columns of all files, a batch at a time."""
    for group in data.groups:
        for file in group.files:
            for _, table in file.batches([name.strip() for name in file.names], BATCH_ROWS):
                yield table


def _cells(origin: Stamp) -> Iterator[Any]:
    """Read a CSV file again, every cell as text."""
    origin.require_same()
    with pa.csv.open_csv(origin.path) as reader:
        names = reader.schema.names
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[], strings_can_be_null=False
    )
    with pa.csv.open_csv(origin.path, convert_options=convert) as reader:
        for batch in reader:
            yield pa.table(batch.columns, names=[name.strip() for name in names])
    origin.require_same()


def _texts(values: Any) -> Any:
    """Return values as texts, as Arrow writes them; of what it cannot write, as Python does."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return values.cast(pa.large_binary())
    try:
        return values.cast(pa.large_string())
    except pa.ArrowException:
        listed = [None if value is None else str(value) for value in values.to_pylist()]
        return pa.array(listed, pa.large_string())


def _content(texts: Any) -> Any:
    """Return the bytes of all texts, one after another; there are no nulls."""
    if not len(texts):
        return b""
    _, places, content = texts.buffers()
    ends = np.frombuffer(places, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return b"" if content is None else memoryview(content)[ends[0] : ends[-1]]
