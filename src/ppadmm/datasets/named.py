"""Data sets by name or by path, encoded and ready to split."""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ppadmm.data.dataset import Dataset
from ppadmm.data.infer import infer_schema
from ppadmm.data.schema import Schema
from ppadmm.data.tables import SUFFIXES, FileIdentity, as_table, is_csv, read_table
from ppadmm.datasets import adult, brazil, synthetic, us
from ppadmm.errors import DataError, InputError

DATA_DIR_VARIABLE = "PPADMM_DATA"
FRAME = "data frame"
"""The name of a data set that came as a frame."""


@dataclass(frozen=True)
class DataSource:
    """A data set known by name: its public schema, what it holds and where it comes from.

    `find` returns the files in a folder, or None; without it the records are made up.
    """

    name: str
    schema: Schema
    records: int
    train_records: int
    origin: str
    licence: str
    help: str = ""
    steps: str = ""
    find: Callable[[Path], object | None] | None = None
    read: Callable[[Path], Any | None] | None = None

    @property
    def features(self) -> int:
        """Number of features, the intercept not counted."""
        return self.schema.dimension - 1

    def present(self, folder: Path | None) -> bool:
        """Whether the files are in `folder`; always where none is needed."""
        return self.find is None or (folder is not None and self.find(folder) is not None)


_UCI = DataSource(
    name="adult",
    schema=adult.ADULT,
    records=adult.RECORDS,
    train_records=adult.TRAIN_RECORDS,
    origin="UCI Machine Learning Repository",
    licence="CC BY 4.0",
    help=adult.HELP,
    find=adult.adult_files,
    read=adult.read_adult,
)
SOURCES = {
    source.name: source
    for source in (
        DataSource(
            name="synthetic",
            schema=synthetic.SYNTHETIC,
            records=synthetic.RECORDS,
            train_records=synthetic.TRAIN_RECORDS,
            origin="made up by ppadmm",
            licence="Apache-2.0",
        ),
        _UCI,
        replace(_UCI, name="adult-onehot", schema=adult.ADULT_ONEHOT),
        DataSource(
            name="us",
            schema=us.US,
            records=us.RECORDS,
            train_records=us.TRAIN_RECORDS,
            origin="US Census Bureau, ACS PUMS",
            licence="public domain",
            help=us.HELP,
            steps=us.STEPS,
            find=us.us_file,
            read=us.read_us,
        ),
        DataSource(
            name="brazil",
            schema=brazil.BRAZIL,
            records=brazil.RECORDS,
            train_records=brazil.TRAIN_RECORDS,
            origin="IPUMS International",
            licence="no redistribution",
            help=brazil.HELP,
            steps=brazil.STEPS,
            find=brazil.brazil_file,
            read=brazil.read_brazil,
        ),
    )
}
NAMES = tuple(SOURCES)
"""The data sets that `load` knows by name."""


def data_folder(data_dir: str | Path | None = None) -> Path | None:
    """Return `data_dir`, else the folder that PPADMM_DATA names, else None."""
    folder = data_dir or os.environ.get(DATA_DIR_VARIABLE)
    return Path(folder) if folder else None


def load(
    data: object,
    *,
    label: str | None = None,
    data_dir: str | Path | None = None,
    schema: Schema | str | Path | None = None,
    drop: Collection[str] = (),
    holder: str | None = None,
) -> Dataset:
    """Load a data set by name (see `NAMES`), a CSV or Parquet file by path, or a data frame.

    Parameters
    ----------
    data : str, Path or frame
        A name, a path, a pandas or polars frame, an Arrow table or a dict of columns.
    label : str, optional
        The column to predict, for a file or frame without a schema.
    data_dir : str or Path, optional
        Where the files of named sets are; else in the folder that PPADMM_DATA names.
    schema : Schema, str or Path, optional
        The schema, or the path of its file. Without one a schema is drafted from the records. It
        is not confirmed: nothing trained on it is private. Named sets have a public one.
    drop : collection of str
        Columns that a draft leaves out.
    holder : str, optional
        The column that says which agent holds a record: no feature, unless a schema lists it.

    Returns
    -------
    Dataset
        Encoded records with their schema.

    Raises
    ------
    DataError
        A table, a schema or a record cannot be used; no cell is quoted.

    Examples
    --------
    >>> load("synthetic")
    <Dataset: X (48842, 41), y (48842,), table (48842, 13)>
    """
    schema = schema if isinstance(schema, Schema | None) else Schema.from_toml(schema)
    if str(data) in SOURCES and isinstance(data, str | Path):
        if label is not None or drop:
            raise InputError(f"{data!r} has a label and columns; give those to files only.")
        return _load_named(str(data), data_dir, schema)
    drop = {*drop, holder} if holder is not None else drop
    if isinstance(data, str | Path):
        return _load_file(Path(data), label, schema, drop)
    _require_label("the data frame", label, schema)
    table = as_table(data)
    if table.num_rows == 0:
        raise DataError(f"The {FRAME} holds no records.")
    return _encoded(FRAME, table, schema or infer_schema(table, str(label), drop=drop))


def _load_named(name: str, data_dir: str | Path | None, schema: Schema | None) -> Dataset:
    source = SOURCES[name]
    table = synthetic.generate() if source.read is None else _find(source, data_dir)
    return _encoded(name, table, schema or source.schema, source.train_records)


def _find(source: DataSource, data_dir: str | Path | None) -> Any:
    folder = data_folder(data_dir)
    way_out = f"point to their folder with --data-dir or {DATA_DIR_VARIABLE}"
    if folder is None:
        raise DataError(f"{source.help}; {way_out}.")
    table = source.read(folder) if source.read else None
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
    _require_label(repr(str(path)), label, schema)
    stamp = FileIdentity.of(path) if path.exists() else None
    # As the cells are: which of them are missing is for the schema to say, cell by cell.
    table = read_table(path, missing=())
    if schema is None:
        schema = infer_schema(table, str(label), drop=drop, infer=is_csv(path))
    return replace(_encoded(path.name, table, schema), origin=stamp)


def _encoded(name: str, table: Any, schema: Schema, train_records: int | None = None) -> Dataset:
    """Encode a table; four fifths are for training where nothing else is said."""
    X, y = schema.encode_coded(table), schema.encode_label(table)
    return Dataset(name, X, y, schema, train_records or max(1, len(y) * 4 // 5), table)


def _require_label(what: str, label: str | None, schema: Schema | None) -> None:
    if schema is None and label is None:
        raise InputError(f"Which column of {what} is the label? Give label or schema.")
    if schema is not None and label not in (None, schema.label.name):
        raise InputError(f"The schema's label is {schema.label.name!r}, not {label!r}; give one.")
