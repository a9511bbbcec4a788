"""What records are known by in a ledger: SHA-256 of the cells of all their columns.

A cell is nothing, a number or a text, by its own account: "01", 1 and 1.0 are the same number,
wherever they stand, and NaN, null and an empty text are nothing. So a CSV file, the same as Parquet
and as a data frame are the same records, whatever a schema makes of them. A table may come in
pieces of any size.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ppadmm.data.named import Dataset
from ppadmm.data.stamp import Stamp
from ppadmm.data.stream import StreamedData
from ppadmm.data.tables import is_csv

NUMBER, TEXT = b"n", b"t"
"""What a cell begins with."""
NUMBERS = np.dtype([("kind", "S1"), ("value", "<f8")])
BATCH_ROWS = 2**14


class Column:
    """A hash of the lengths of a column's cells and one of their bytes: no cut shows in them."""

    def __init__(self) -> None:
        self._lengths, self._bytes = hashlib.sha256(), hashlib.sha256()

    def add(self, values: Any) -> None:
        """Take the next values, a chunk of an Arrow column."""
        lengths, content = _numbers(values) if _is_number(values.type) else _texts(values)
        self._lengths.update(lengths.astype("<u4").tobytes())
        self._bytes.update(content)

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
        names = [name.strip() for name in piece.column_names]
        for j, name in enumerate(names):
            own = columns.setdefault((name, names[:j].count(name)), Column())
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
    """Read a CSV file again, every cell as bytes."""
    origin.require_same()
    with pa.csv.open_csv(origin.path) as reader:
        names = reader.schema.names
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.binary()), null_values=[], strings_can_be_null=False
    )
    with pa.csv.open_csv(origin.path, convert_options=convert) as reader:
        for batch in reader:
            yield pa.table(batch.columns, names=names)
    origin.require_same()


def _is_number(kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _numbers(values: Any) -> tuple[Any, bytes]:
    """Return every cell's length and all cells' bytes."""
    plain = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    there = ~np.isnan(plain)
    cells = np.empty(int(there.sum()), NUMBERS)
    cells["kind"], cells["value"] = NUMBER, plain[there] + 0.0  # −0 is 0
    return np.where(there, NUMBERS.itemsize, 0), cells.tobytes()


def _texts(values: Any) -> tuple[Any, bytes]:
    """Do the same for values of any other type; of the same ones only the first is looked at."""
    listed = values.to_pylist()
    spelt: dict[Any, bytes] = {}
    cells = []
    for value in listed:
        known = value if isinstance(value, str | bytes | bool | None) else str(value)
        found = spelt.get(known)
        if found is None:
            found = spelt[known] = _spelt(known)
        cells.append(found)
    return np.array([len(cell) for cell in cells], dtype=np.int64), b"".join(cells)


def _spelt(value: str | bytes | bool | None) -> bytes:
    """Return a cell's bytes: a number where the text is one."""
    if value is None:
        return b""
    if isinstance(value, bool):
        return TEXT + (b"true" if value else b"false")
    text = value.decode(errors="surrogateescape") if isinstance(value, bytes) else value
    text = text.strip()
    try:
        number = float(text)
    except ValueError:
        return TEXT + text.encode(errors="surrogateescape") if text else b""
    if math.isnan(number):
        return b""
    return np.array((NUMBER, number + 0.0), NUMBERS).tobytes()
