"""Files and data frames as Arrow tables; no cell changes how another is read."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from numbers import Number
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from ppadmm.data.csv_file import read_csv
from ppadmm.errors import DataError

PARQUET = (".parquet", ".pq")
SUFFIXES = (".csv", ".csv.gz", *PARQUET)


@dataclass(frozen=True)
class FileIdentity:
    """A file by its size, its date and its number on the disk."""

    path: Path
    size: int
    date: int
    number: int

    @classmethod
    def of(cls, path: Path) -> "FileIdentity":
        """Look at a file."""
        status = path.stat()
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ino)

    def require_same(self) -> None:
        """Refuse a file that is not the one it was."""
        try:
            same = FileIdentity.of(self.path) == self
        except OSError:
            same = False
        if not same:
            raise DataError(
                f"The file {str(self.path)!r} changed while it was read; start again when nobody "
                "writes to it."
            )


def read_table(path: str | Path, *, missing: Iterable[str] = ("", "?"), least: int = 1) -> Any:
    """Read a .csv, .csv.gz, .parquet or .pq file as a `pyarrow.Table` with ≥ `least` records.

    In CSV every cell is a text, and null where it equals a marker in `missing`: what is a number is
    for a schema to say. Parquet has types of its own.
    """
    path = Path(path)
    if not path.name.lower().endswith(SUFFIXES):
        raise DataError(f"Cannot tell the format of {str(path)!r}; use {', '.join(SUFFIXES)}.")
    _check_file(path)
    table = read_csv(path, missing) if is_csv(path) else _read_parquet(path)
    if table.num_rows < least:
        raise DataError(f"The file {str(path)!r} holds no records.")
    return table


def as_table(frame: object) -> Any:
    """Turn a pandas or polars frame, a dict of columns or an Arrow table into an Arrow table.

    Categories become their values, truth values the texts true and false. pandas writes a missing
    number as NaN, so NaN from pandas is missing; from anywhere else NaN stays NaN, which the
    encoder refuses. A column that mixes numbers, texts and truth values is refused.
    """
    if isinstance(frame, pa.Table):
        return frame
    convert = _converter(frame)
    for name, cells in _columns(frame):
        _refuse_mixed(name, cells)
    try:
        return convert(frame)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        # Not in Arrow's words: they quote a cell.
        raise DataError(f"Cannot turn the data into a table: {_why(frame)}.") from None


def _converter(frame: object) -> Callable[[Any], Any]:
    library = type(frame).__module__.partition(".")[0]
    if library == "pandas" and hasattr(frame, "columns"):
        return partial(pa.Table.from_pandas, preserve_index=False)
    if library == "polars" and hasattr(frame, "collect"):
        raise DataError(
            "Expected a polars DataFrame, got a LazyFrame; call .collect() on it first."
        )
    if library == "polars" and hasattr(frame, "columns"):
        return methodcaller("to_arrow")
    if isinstance(frame, Mapping):
        return lambda columns: pa.table(dict(columns))
    raise DataError(
        "Expected a pandas or polars frame, a dict of columns or a pyarrow table, "
        f"got {type(frame).__name__}."
    )


def _columns(frame: Any) -> list[tuple[Any, Any]]:
    """Return the columns of a frame or a dict with their names."""
    return list(frame.items()) if hasattr(frame, "items") else []


def _refuse_mixed(name: object, cells: Any) -> None:
    """Arrow turns True into 1 where a number stands in the same column, and not otherwise."""
    dtype = getattr(cells, "dtype", None)
    if str(dtype) == "category":
        dtype = cells.cat.categories.dtype
    if not isinstance(cells, list | tuple) and str(dtype) != "object":
        return
    if found := mixed(cells, nan_is_missing=dtype is not None):
        raise DataError(f"Cannot turn the data into a table: column {name!r} {found}.")


def mixed(cells: Iterable[Any], *, nan_is_missing: bool = False, first: int = 1) -> str | None:
    """Say where cells are not all numbers, all texts or all truth values; None if they are.

    Records are counted from `first`.
    """
    if len({_kind_of(type_) for type_ in set(map(type, cells))} - {None}) < 2:
        return None
    if nan_is_missing:
        cells = [None if isinstance(cell, float) and cell != cell else cell for cell in cells]
    rows = [_kind_of(type(cell)) for cell in cells]
    one = next(filter(None, rows))
    row = next((i for i, kind in enumerate(rows) if kind not in (None, one)), None)
    if row is None:
        return None
    return (
        f"mixes {one} and {rows[row]} (row {row + first} is the first of another kind); make them "
        "one kind"
    )


def _kind_of(type_: type) -> str | None:
    if type_.__name__ in ("NoneType", "NAType", "NaTType"):
        return None
    if issubclass(type_, bool | np.bool_):
        return "truth values"
    if issubclass(type_, Number | Decimal | np.number):
        return "numbers"
    return "texts" if issubclass(type_, str) else f"cells of type {type_.__name__}"


def _why(frame: Any) -> str:
    """Say which column cannot be turned into an Arrow array, and quote no cell."""
    names = [name for name, _ in _columns(frame)]
    if twice := [name for name in names if names.count(name) > 1]:
        return f"Duplicate column names found: {twice[0]!r}; rename one"
    for name, cells in _columns(frame):
        try:
            pa.array(cells)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return f"column {name!r} holds what is neither numbers nor texts, or numbers too large"
    return "every column must be a list of as many cells as the others"


def _read_parquet(path: Path) -> Any:
    with reading_parquet(path):
        table = pa.parquet.read_table(path)
    return table.rename_columns([name.strip() for name in table.column_names])


@contextmanager
def reading_parquet(path: Path) -> Iterator[None]:
    """Name the file in what is said of it."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"There is no file {str(path)!r}.") from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise DataError(f"Cannot read {str(path)!r} as parquet: {reason}.") from None


@contextmanager
def placed(path: Path, start: int = 0, columns: Iterable[str] = ()) -> Iterator[None]:
    """Say in an error which file it is about, and count its row from the start of the file."""
    try:
        yield
    except DataError as error:
        text = _counted_from(str(error), start, columns)
        raise DataError(f"File {str(path)!r}: {text}") from None


def _counted_from(text: str, start: int, columns: Iterable[str]) -> str:
    """Add `start` to the number in "Column 'x', row 7: …"; a column may have any name."""
    for name in columns:
        for kind in ("Column", "Label"):
            head = f"{kind} {name!r}, row "
            if text.startswith(head):
                row = text[len(head) :].split(":")[0].split(" ")[0]
                return f"{head}{int(row) + start}{text[len(head) + len(row) :]}"
    return text


def is_csv(path: Path) -> bool:
    """Whether a file has one of the names of CSV files."""
    return path.name.lower().endswith((".csv", ".csv.gz"))


def _check_file(path: Path) -> None:
    if not path.exists():
        raise DataError(f"There is no file {str(path)!r}.")
    if not path.is_file():
        raise DataError(f"Expected a file, but {str(path)!r} is a directory.")
    if path.stat().st_size == 0:
        raise DataError(f"The file {str(path)!r} is empty.")
