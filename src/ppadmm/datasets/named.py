"""Data sets by name or by path, encoded and ready to split."""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ppadmm.data.coded import Coded
from ppadmm.data.dataset import DataFile, Dataset
from ppadmm.data.infer import infer_schema
from ppadmm.data.schema import Schema
from ppadmm.data.shard import Vector, stack_rows
from ppadmm.data.sites import Given, SiteFiles, called, find_sites, spelt
from ppadmm.data.tables import SUFFIXES, FileIdentity, as_table, is_csv, placed, read_table
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
        """Number of features if all numbers are lines, the intercept not counted."""
        return self.schema.with_knots(0).dimension - 1

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
    """Load a data set by name (see `NAMES`), CSV or Parquet files by path, or a data frame.

    Parameters
    ----------
    data : str, Path, list of them, or frame
        A name, the path of a file or a folder, several paths, a pandas or polars frame, an Arrow
        table or a dict of columns. Each of several files is a site (`ppadmm.data.find_sites`).
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
    <Dataset: X (48842, 76), y (48842,), table (48842, 13)>
    """
    schema = schema if isinstance(schema, Schema | None) else Schema.from_toml(schema)
    if isinstance(data, str | Path) and str(data) in SOURCES:
        if label is not None or drop:
            raise InputError(f"{data!r} has a label and columns; give those to files only.")
        return _load_named(str(data), data_dir, schema)
    drop = {*drop, holder} if holder is not None else drop
    if isinstance(data, str | Path | list | tuple):
        return _load_files(data, label, schema, drop)
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


def _load_files(
    given: Given, label: str | None, schema: Schema | None, drop: Collection[str]
) -> Dataset:
    """Read every file by itself and encode it by the one schema."""
    named = spelt(given)
    for path in [Path(named)] if isinstance(named, str) else map(Path, named):
        if not path.exists() and not path.name.lower().endswith(SUFFIXES):
            raise DataError(
                f"Unknown data set {str(path)!r}; choose one of {', '.join(NAMES)}, "
                f"or give the path of a {', '.join(SUFFIXES)} file."
                if isinstance(named, str)
                else f"There is no file or folder {str(path)!r}; several sites are files or "
                "folders, not data sets that are known by name."
            )
    name = called(given)
    _require_label(repr(named if isinstance(named, str) else name), label, schema)
    files = _read_files(find_sites(given))
    if schema is None:
        schema = infer_schema(_one_table(files), str(label), drop=drop, infer=_are_csv(files))
    if len(files) == 1:
        return replace(_encoded(name, files[0].table, schema), files=files)
    parts = [_encoded_file(file, schema) for file in files]
    X, y = stack_rows([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    return Dataset(name, X, y, schema, _for_training(len(y)), files=files)


def _read_files(sites: Sequence[SiteFiles]) -> tuple[DataFile, ...]:
    """Read the files as their cells are; which of them are missing is for the schema to say.

    One of several may have no records: its site only listens.
    """
    least = 1 if sum(len(site.paths) for site in sites) == 1 else 0

    def read(site: str, path: Path) -> DataFile:
        stamp = FileIdentity.of(path)
        return DataFile(site, read_table(path, missing=(), least=least), stamp)

    return tuple(read(site.name, path) for site in sites for path in site.paths)


def _encoded_file(file: DataFile, schema: Schema) -> tuple[Coded, Vector]:
    with placed(file.origin.path):
        return schema.encode_coded(file.table), schema.encode_label(file.table)


def _one_table(files: Sequence[DataFile]) -> Any:
    """Return all records as one table, to draft a schema from; all files need the same columns."""
    first = files[0]
    for file in files[1:]:
        apart = set(first.table.column_names) ^ set(file.table.column_names)
        if apart:
            raise DataError(
                f"The files {str(first.origin.path)!r} and {str(file.origin.path)!r} have "
                f"different columns (only one has {min(apart)!r}); give a schema, which says "
                "which of them to use."
            )
    if len(files) == 1:
        return first.table
    try:
        tables = [file.table.select(first.table.column_names) for file in files]
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowException, KeyError):
        raise DataError(
            "The files have columns of one name and different types; give a schema, which says "
            "what they are."
        ) from None


def _are_csv(files: Sequence[DataFile]) -> bool:
    return is_csv(files[0].origin.path)


def _encoded(name: str, table: Any, schema: Schema, train_records: int | None = None) -> Dataset:
    """Encode a table; four fifths are for training where nothing else is said."""
    X, y = schema.encode_coded(table), schema.encode_label(table)
    return Dataset(name, X, y, schema, train_records or _for_training(len(y)), table)


def _for_training(n: int) -> int:
    return max(1, n * 4 // 5)


def _require_label(what: str, label: str | None, schema: Schema | None) -> None:
    if schema is None and label is None:
        raise InputError(f"Which column of {what} is the label? Give label or schema.")
    if schema is not None and label not in (None, schema.label.name):
        raise InputError(f"The schema's label is {schema.label.name!r}, not {label!r}; give one.")
