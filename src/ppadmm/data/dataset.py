"""Encoded records with the schema that encoded them."""

from dataclasses import dataclass, replace
from typing import Any

from ppadmm import checks
from ppadmm.data.schema import Schema
from ppadmm.data.shard import Matrix, Vector, stack_rows
from ppadmm.data.tables import FileIdentity
from ppadmm.errors import DataError
from ppadmm.records import HoldsRecords


@dataclass(frozen=True)
class DataFile(HoldsRecords):
    """One file as it was read, and the site whose it is."""

    site: str
    table: Any
    origin: FileIdentity


@dataclass(frozen=True)
class Dataset(HoldsRecords):
    """Encoded records and how they came to be. It prints its shapes and refuses to be pickled.

    Parameters
    ----------
    name : str
        What the data are called in results.
    X : array or CSR matrix (n, d)
        Encoded records, ‖xᵢ‖ ≤ 1.
    y : array (n,)
        −1 and +1 for two classes, 0 … K−1 for more.
    schema : Schema
        What encoded them.
    train_records : int
        How many of the n are for training; the rest is for testing.
    table : Arrow table, optional
        The records before encoding, if they came as one table.
    files : tuple of DataFile
        The files that they were read from, in the order of the records.
    """

    name: str
    X: Matrix
    y: Vector
    schema: Schema
    train_records: int
    table: Any = None
    files: tuple[DataFile, ...] = ()

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
    def tables(self) -> tuple[Any, ...]:
        """The records before encoding, in their order; none if they came encoded."""
        return tuple(f.table for f in self.files) if self.table is None else (self.table,)

    def with_schema(self, schema: Schema) -> "Dataset":
        """Return the records as another schema encodes them; as they are if they came encoded."""
        if schema == self.schema or not self.tables:
            return self
        X = stack_rows([schema.encode_coded(table) for table in self.tables])
        return replace(self, X=X, schema=schema)

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """Number of features, the intercept included."""
        return int(self.X.shape[1])
