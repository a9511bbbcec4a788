"""UCI Adult (census income, 1994): who earns more than 50,000 dollars a year."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ppadmm.data.csv_file import parse_rows
from ppadmm.data.features import Categorical, Column, Numeric
from ppadmm.data.schema import Label, Schema
from ppadmm.data.tables import read_table
from ppadmm.errors import DataError

RECORDS, TRAIN_RECORDS = 48_842, 35_000
HELP = (
    "Adult needs adult.data and adult.test (plain or .gz) from the UCI repository, or OpenML's "
    '"adult" version 2 saved as adult.csv or adult.parquet; `ppadmm data fetch adult` gets them'
)
UCI_FILES = ("adult.data", "adult.test")
_SINGLE = ("adult.csv", "adult.csv.gz", "adult.parquet")

NAMES = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)  # fmt: skip

# Round bounds from what the columns mean, never from the records.
_NUMERIC: tuple[Column, ...] = (
    Numeric("age", 0, 100, whole=True),
    Numeric("fnlwgt", 0, 1_500_000),
    Numeric("education-num", 1, 16, whole=True),
    Numeric("capital-gain", 0, 100_000, "log"),
    Numeric("capital-loss", 0, 5_000, "log"),
    Numeric("hours-per-week", 0, 100, whole=True),
)


def _group(name: str, categories: str) -> Categorical:
    return Categorical(name, tuple(categories.split()))


# The lists of adult.names.
_FOUR_GROUPS: tuple[Column, ...] = (
    _group(
        "workclass",
        "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay "
        "Never-worked",
    ),
    _group(
        "marital-status",
        "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
        "Married-AF-spouse",
    ),
    _group(
        "occupation",
        "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
        "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving "
        "Priv-house-serv Protective-serv Armed-Forces",
    ),
    _group("relationship", "Wife Own-child Husband Not-in-family Other-relative Unmarried"),
)
_OTHER_GROUPS = (
    _group(
        "education",
        "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th "
        "Masters 1st-4th 10th Doctorate 5th-6th Preschool",
    ),
    _group("race", "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"),
    _group("sex", "Female Male"),
    _group(
        "native-country",
        "United-States Cambodia England Puerto-Rico Canada Germany "
        "Outlying-US(Guam-USVI-etc) India Japan Greece South China Cuba Iran Honduras "
        "Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
        "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua "
        "Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru Hong "
        "Holand-Netherlands",
    ),
)
_LABEL = Label("income", positive=(">50K", ">50K."), negative=("<=50K", "<=50K."))

ADULT = Schema(_NUMERIC + _FOUR_GROUPS, _LABEL, agents=_OTHER_GROUPS)
"""6 numeric + one-hot 8 + 7 + 14 + 6 = 41 features, and the intercept."""

ADULT_ONEHOT = Schema(_NUMERIC + _FOUR_GROUPS + _OTHER_GROUPS, _LABEL)
"""6 numeric + one-hot 99 = 105 features, and the intercept."""


def read_adult(folder: Path) -> Any | None:
    """Read all 48,842 records, or None where the files are not in `folder`."""
    files = adult_files(folder)
    if files is None:
        return None
    table = _uci(files) if len(files) > 1 else read_table(files[0])
    table = table.rename_columns(["income" if n == "class" else n for n in table.column_names])
    if table.num_rows != RECORDS:
        raise DataError(
            f"Expected {RECORDS:,} Adult records in {str(folder)!r}, got {table.num_rows:,}; "
            "download the files again."
        )
    return table


def adult_files(folder: Path) -> list[Path] | None:
    """Return adult.data and adult.test, else the one file of OpenML, else None."""
    pair = [file for name in UCI_FILES if (file := plain_or_gz(folder, name))]
    if len(pair) == len(UCI_FILES):
        return pair
    single = first_file(folder, _SINGLE)
    return None if single is None else [single]


def _uci(files: list[Path]) -> Any:
    lines = b"".join(map(_content, files)).replace(b", ", b",")
    try:
        return parse_rows(lines, NAMES, missing=["", "?"])
    except DataError as error:
        raise DataError(f"The Adult files are malformed: {error}; download them again.") from None


def plain_or_gz(folder: Path, name: str) -> Path | None:
    """Return the file `name` or `name`.gz in `folder`, if one is there."""
    return first_file(folder, (name, f"{name}.gz"))


def first_file(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the first of these files that is in `folder`, if any."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def unzipped(file: Path) -> bytes:
    """Return the bytes of a plain or .gz file."""
    try:
        return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"Cannot read {str(file)!r}: {error}.") from None


def _content(file: Path) -> bytes:
    """Return the records as lines, without the comment at the head of adult.test."""
    lines = [line.strip() for line in unzipped(file).splitlines() if line[:1] != b"|"]
    return b"".join(line + b"\n" for line in lines if line)
