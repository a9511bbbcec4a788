"""Parquet files that are too large for memory, read a piece at a time.

The names of columns, the numbers of rows and the dates of the files are looked at first; a file
that is not the same when it has been read as it was then is refused.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from ppadmm.data.columns import column, is_number, is_text
from ppadmm.data.sites import Given, called, find_sites, paths_of
from ppadmm.data.tables import PARQUET, FileIdentity, placed, reading_parquet
from ppadmm.errors import DataError

PAGE = 2**20
"""Bytes of a page, the piece of a column that is decoded at once, as most writers make them."""
LENGTH = 4
"""Bytes of the length of a text."""
READ_AHEAD = 2**16
"""Bytes of a column that are read from disk at once."""


@dataclass(frozen=True)
class ParquetFile:
    """One file as it was found."""

    path: Path
    rows: int
    names: tuple[str, ...]
    types: tuple[Any, ...]
    stamp: FileIdentity

    @classmethod
    def found(cls, path: Path) -> "ParquetFile":
        """Look at a file without reading its records."""
        with reading_parquet(path):
            stamp = FileIdentity.of(path)
            footer = pa.parquet.read_metadata(path)
            schema = footer.schema.to_arrow_schema()
        return cls(path, footer.num_rows, tuple(schema.names), tuple(schema.types), stamp)

    def require(self, columns: Iterable[str]) -> None:
        """Refuse a file in which a column is missing or there twice."""
        empty = pa.table([pa.nulls(0)] * len(self.names), names=[n.strip() for n in self.names])
        for name in columns:
            with placed(self.path):
                column(empty, name)

    def page_bytes(self, widths: Mapping[str, int]) -> int:
        """Return about how much a reader holds: a page of each of the columns in `widths`.

        `widths` says how long a text of a column is at most. The footer knows the pages better,
        but what it knows depends on the records, and what follows from this must not.
        """
        kinds = {name.strip(): type_ for name, type_ in zip(self.names, self.types, strict=True)}
        return sum(min(PAGE, self.rows * _width(kinds[name], widths[name])) for name in widths)

    def batches(self, columns: Iterable[str], rows: int) -> Iterator[tuple[int, Any]]:
        """Yield (first row, counted from 0; table of ≤ `rows` rows with these columns)."""
        wanted = set(columns)
        names = [name for name in self.names if name.strip() in wanted]
        self.stamp.require_same()
        start = 0
        try:
            for table in _read(self.path, names, rows):
                yield start, table.rename_columns([n.strip() for n in table.column_names])
                start += table.num_rows
        except DataError:
            self.stamp.require_same()
            raise
        self.stamp.require_same()


@dataclass(frozen=True)
class Group:
    """The files of one organisation, or of all: a file, or all in a folder."""

    name: str
    files: tuple[ParquetFile, ...]

    @property
    def rows(self) -> int:
        """Number of records."""
        return sum(file.rows for file in self.files)


def find_groups(given: Given) -> tuple[Group, ...]:
    """Look at the files of every site (`find_sites`): one group each."""
    for path in paths_of(given):
        if not path.is_dir():
            _require_parquet(path)
    sites = find_sites(given)
    _require_parquet(sites[0].paths[0])
    groups = tuple(Group(site.name, tuple(map(ParquetFile.found, site.paths))) for site in sites)
    if not any(group.rows for group in groups):
        raise DataError(f"{called(given)!r} holds no records in Parquet files.")
    return groups


def _require_parquet(path: Path) -> None:
    if not path.name.lower().endswith(PARQUET):
        raise DataError(
            f"Only Parquet files ({', '.join(PARQUET)}) and folders of them can be streamed, got "
            f"{str(path)!r}; leave memory out."
        )


def _read(path: Path, names: list[str], rows: int) -> Iterator[Any]:
    # Without a buffer, or with what Arrow calls pre-buffering, whole row groups stay in memory.
    options = {"buffer_size": READ_AHEAD, "pre_buffer": False}
    with reading_parquet(path), pa.parquet.ParquetFile(path, **options) as file:
        yield from _joined(file.iter_batches(rows, columns=names, use_threads=False), rows)


def _joined(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Cut tables of exactly `rows` rows: who wrote the file chose row groups by its records."""
    held: list[Any] = []
    missing = rows
    for batch in batches:
        start = 0
        while len(batch) - start >= missing:
            yield pa.Table.from_batches([*held, batch.slice(start, missing)])
            held, start, missing = [], start + missing, rows
        if start < len(batch):
            held.append(batch.slice(start))
            missing -= len(batch) - start
    if held:
        yield pa.Table.from_batches(held)


def _width(type_: Any, text: int) -> int:
    """Return the most bytes of a cell."""
    kind = type_.value_type if pa.types.is_dictionary(type_) else type_
    if is_text(kind):
        return LENGTH + text
    return max(1, kind.bit_width // 8) if is_number(kind) else PAGE
