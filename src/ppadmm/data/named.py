"""Data sets by name or by path, encoded and ready to split."""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ppadmm import checks
from ppadmm.data import adult, brazil, synthetic
from ppadmm.data.columns import column
from ppadmm.data.draft import draft_schema
from ppadmm.data.schema import Categorical, Schema
from ppadmm.data.shard import Matrix, Vector
from ppadmm.data.tables import SUFFIXES, read_table
from ppadmm.errors import DataError, InputError

DATA_DIR_VARIABLE = "PPADMM_DATA"


@dataclass(frozen=True)
class Dataset:
    """Encoded records X (n, d), ‖xᵢ‖ ≤ 1, labels y (n,), and how they came to be.

    `train_records` of the n are for training and the rest for testing; `table` holds the records
    before encoding.
    """

    name: str
    X: Matrix
    y: Vector
    schema: Schema
    train_records: int
    table: Any = None

    def __post_init__(self) -> None:
        if self.n < 2:
            raise DataError(f"Expected at least 2 records in {self.name!r}, got {self.n}.")
        checks.count("train_records", self.train_records)
        if self.train_records >= self.n:
            raise DataError(
                f"Expected more than {self.train_records:,} records in {self.name!r}, so that "
                f"some are left for testing, got {self.n:,}."
            )

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """Number of features, the intercept included."""
        return int(self.X.shape[1])


class _Source(NamedTuple):
    schema: Schema
    train_records: int
    read: Callable[[Path], Any | None] | None
    help: str


_SOURCES = {
    "synthetic": _Source(synthetic.SYNTHETIC, synthetic.TRAIN_RECORDS, None, ""),
    "adult": _Source(adult.ADULT, adult.TRAIN_RECORDS, adult.read_adult, adult.HELP),
    "adult-onehot": _Source(adult.ADULT_ONEHOT, adult.TRAIN_RECORDS, adult.read_adult, adult.HELP),
    "brazil": _Source(brazil.BRAZIL, brazil.TRAIN_RECORDS, brazil.read_brazil, brazil.HELP),
}
NAMES = tuple(_SOURCES)
"""The data sets that `load` knows by name."""


def load(
    name_or_path: str | Path,
    *,
    label: str | None = None,
    data_dir: str | Path | None = None,
    schema: Schema | None = None,
    drop: Collection[str] = (),
) -> Dataset:
    """Load a data set by name (see `NAMES`), or a CSV or Parquet file by path.

    A named set has a public schema. Its files are looked for in `data_dir`, else in the folder
    that the environment variable PPADMM_DATA names. A file needs a `label` column or a `schema`;
    without a schema one is drafted from the records, leaving out `drop`, and is not confirmed:
    nothing trained on it is private.
    """
    if str(name_or_path) in _SOURCES:
        if label is not None or drop:
            raise InputError(f"{name_or_path!r} has a label and columns; give those to files only.")
        return _load_named(str(name_or_path), data_dir, schema)
    return _load_file(Path(name_or_path), label, schema, drop)


def _load_named(name: str, data_dir: str | Path | None, schema: Schema | None) -> Dataset:
    source = _SOURCES[name]
    schema = schema or source.schema
    table = synthetic.generate() if source.read is None else _find(source, data_dir)
    X, y = schema.encode(table)
    return Dataset(name, X, y, schema, source.train_records, table)


def _find(source: _Source, data_dir: str | Path | None) -> Any:
    folder = data_dir or os.environ.get(DATA_DIR_VARIABLE)
    way_out = f"point to their folder with --data-dir or {DATA_DIR_VARIABLE}"
    if not folder:
        raise DataError(f"{source.help}; {way_out}.")
    table = source.read(Path(folder)) if source.read else None
    if table is None:
        raise DataError(f"{source.help}; {str(folder)!r} does not hold them: {way_out}.")
    return table


def _load_file(
    path: Path, label: str | None, schema: Schema | None, drop: Collection[str]
) -> Dataset:
    if not path.name.lower().endswith(SUFFIXES) and not path.exists():
        raise DataError(
            f"Unknown data set {str(path)!r}; choose one of {', '.join(NAMES)}, "
            f"or give the path of a {', '.join(SUFFIXES)} file."
        )
    table = _read(path, label, schema)
    schema = schema or draft_schema(table, str(label), drop=drop)
    X, y = schema.encode(table)
    return Dataset(path.name, X, y, schema, max(1, len(y) * 4 // 5), table)


def _read(path: Path, label: str | None, schema: Schema | None) -> Any:
    if schema is None:
        if label is None:
            raise InputError(f"Which column of {str(path)!r} is the label? Give label or schema.")
        table = read_table(path)
        column(table, label)
        return table
    if label not in (None, schema.label.name):
        raise InputError(f"The schema's label is {schema.label.name!r}, not {label!r}; give one.")
    groups = [c.name for c in schema.columns if isinstance(c, Categorical)]
    return read_table(path, missing=schema.missing, text=groups)
