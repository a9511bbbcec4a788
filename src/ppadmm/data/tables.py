"""Files and data frames as Arrow tables."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ppadmm.errors import DataError

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".pq")


def read_table(
    path: str | Path, *, missing: Iterable[str] = ("", "?"), text: Iterable[str] = ()
) -> Any:
    """Read a .csv, .csv.gz, .parquet or .pq file as a `pyarrow.Table` with ≥ 1 record.

    In CSV, cells equal to a marker in `missing` are null, and columns named in `text` are never
    taken for numbers ("01" stays "01").
    """
    path = Path(path)
    kind = _kind(path)
    _check_file(path)
    try:
        table = _read_csv(path, missing, text) if kind == "csv" else pa.parquet.read_table(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError, EOFError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise DataError(f"Cannot read {str(path)!r} as {kind}: {reason}.") from None
    if table.num_rows == 0:
        raise DataError(f"The file {str(path)!r} holds no records.")
    return table.rename_columns([name.strip() for name in table.column_names])


def raw_cells(path: Path, columns: int) -> Any:
    """Read a CSV file of so many columns as bytes, whatever a schema makes of them.

    Names and missing markers are cells like all others; the names are the first row.
    """
    texts = {f"f{k}": pa.binary() for k in range(columns)}
    options = pa.csv.ConvertOptions(column_types=texts, null_values=[])
    header = pa.csv.ReadOptions(autogenerate_column_names=True)
    try:
        return pa.csv.read_csv(path, read_options=header, convert_options=options)
    except (pa.ArrowException, OSError, UnicodeDecodeError, EOFError) as error:
        raise DataError(f"Cannot read {str(path)!r} again: {error}.") from None


def as_table(frame: object) -> Any:
    """Turn a pandas or polars frame, a dict of columns or an Arrow table into an Arrow table.

    Categories become their values, truth values the texts true and false. pandas writes a missing
    number as NaN, so NaN from pandas is missing; from anywhere else NaN stays NaN, which the
    encoder refuses.
    """
    if isinstance(frame, pa.Table):
        return frame
    convert = _converter(frame)
    try:
        return convert(frame)
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = "; ".join(str(part).rstrip(".") for part in error.args)
        raise DataError(f"Cannot turn the data into a table: {reason}.") from None


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


def is_csv(path: Path) -> bool:
    """Whether what is read from a file depends on how: only the cells of CSV have no type."""
    return _kind(path) == "csv"


def _kind(path: Path) -> str:
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise DataError(f"Cannot tell the format of {str(path)!r}; use {', '.join(SUFFIXES)}.")
    return "csv" if name.endswith((".csv", ".csv.gz")) else "parquet"


def _check_file(path: Path) -> None:
    if not path.exists():
        raise DataError(f"There is no file {str(path)!r}.")
    if not path.is_file():
        raise DataError(f"Expected a file, but {str(path)!r} is a directory.")
    if path.stat().st_size == 0:
        raise DataError(f"The file {str(path)!r} is empty.")


def _read_csv(path: Path, missing: Iterable[str], text: Iterable[str]) -> Any:
    # Arrow's own markers include "nan", which must stay visible; and "true" must stay a text.
    convert = pa.csv.ConvertOptions(
        null_values=list(missing),
        true_values=[],
        false_values=[],
        column_types={name: pa.string() for name in text},
    )
    return pa.csv.read_csv(path, convert_options=convert)
