"""US census microdata (ACS PUMS, Connecticut, 2018, 2019, 2021): who earns over 25,000 dollars.

Codes and ranges are those of the Census Bureau's PUMS data dictionary, whose name of each variable
stands beside its column, or round numbers of ours where said so. Of the columns in the file these
are not features: `person_weight` (the survey's, not the person's), `year` and `puma` (they may
name the agents), `industry` (grouped by whoever made the file: there is no public list), and
`hispanic`, `place_of_birth`, `parent_employment`, `speaks_english` and `marriages` (so that there
are 58 features, as in the paper).
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ppadmm.data.columns import column, numbers
from ppadmm.data.features import Categorical, Column, Numeric
from ppadmm.data.schema import Label, Schema
from ppadmm.data.tables import read_table
from ppadmm.datasets.adult import first_file
from ppadmm.errors import DataError

FILE_RECORDS, RECORDS, TRAIN_RECORDS = 92_368, 40_000, 35_000
INCOME = 25_000
HELP = (
    "US needs us_acs.csv (plain or .gz) or us_acs.parquet, made from the Census Bureau's ACS PUMS "
    "files of Connecticut; `ppadmm data fetch us` prints the steps"
)
STEPS = """\
1. From https://www2.census.gov/programs-surveys/acs/data/pums/ take, for each of 2018, 2019 and
   2021, 1-Year/csv_pct.zip (persons in Connecticut) and csv_hct.zip (their households); or order
   the same variables from IPUMS USA (https://usa.ipums.org, registration).
2. Join persons and households on SERIALNO and keep the persons aged 15 or over.
3. Name the columns as docs/data.md lists them; multiply amounts of money by ADJINC / 1,000,000.
4. Save the 92,368 records as us_acs.csv.gz in the data folder (--data-dir or PPADMM_DATA)."""
_SEED = 20_080_450

# One feature each: 1 means yes and 2 no, unless said otherwise.
_TWO_VALUED: tuple[Column, ...] = (
    Numeric("sex", 1, 2, whole=True),  # SEX: 1 male, 2 female
    Numeric("disability", 1, 2, whole=True),  # DIS
    Numeric("health_coverage", 1, 2, whole=True),  # HICOV
    Numeric("private_insurance", 1, 2, whole=True),  # PRIVCOV
    Numeric("public_insurance", 1, 2, whole=True),  # PUBCOV
    Numeric("food_stamps", 1, 2, whole=True),  # FS
    Numeric("other_language", 1, 2, whole=True),  # LANX
    Numeric("multigeneration", 1, 2, whole=True),  # MULTG: 1 no, 2 yes
    Numeric("grandparents", 0, 1, whole=True),  # HUGCL: 0 no, 1 yes
)
_NUMERIC: tuple[Column, ...] = (
    Numeric("age", 0, 99, whole=True),  # AGEP, top-coded at 99
    Numeric("education", 1, 24, whole=True),  # SCHL, ordered: 1 no schooling … 24 doctorate
    Numeric("hours_per_week", 0, 99, whole=True),  # WKHP, 99 and more; 0 who did not work
    Numeric(
        "family_size", 1, 10, whole=True
    ),  # NPF goes to 20: a round number, larger ones clipped
    Numeric("children", 0, 10, whole=True),  # NOC goes to 19: as above
    Numeric("public_assistance_income", 0, 30_000, "log"),  # PAP: a round number
    Numeric("social_security_income", 0, 50_000),  # SSP: a round number
)


def _codes(name: str, last: int) -> Categorical:
    return Categorical(name, tuple(str(code) for code in range(1, last + 1)))


_GROUPS: tuple[Column, ...] = (
    _codes("class_of_worker", 9),  # COW
    _codes("employment", 6),  # ESR
    _codes("marital_status", 5),  # MAR
    _codes("citizenship", 5),  # CIT
    _codes("tenure", 4),  # TEN
    _codes("military", 4),  # MIL
    _codes("race", 9),  # RAC1P
)
# The Bureau's 26 areas of Connecticut (PUMA of 2010, in use until 2021). They are published
# geography; this list was copied from the file, for want of the Bureau's own to compare with.
_AREAS = (
    "00100 00101 00102 00103 00104 00105 00300 00301 00302 00303 00304 00305 00306 00500 00700 "
    "00900 00901 00902 00903 00904 00905 00906 01100 01101 01300 01500"
)

US = Schema(
    _NUMERIC + _TWO_VALUED + _GROUPS,
    Label("income", positive=(">25K",), negative=("<=25K",)),
    agents=(
        Categorical("year", ("2018", "2019", "2021")),
        Categorical("puma", tuple(_AREAS.split())),
    ),
)
"""7 numeric + 9 two-valued + one-hot 9 + 6 + 5 + 5 + 4 + 4 + 9 = 58 features, and the intercept."""


us_file = partial(first_file, names=("us_acs.csv.gz", "us_acs.csv", "us_acs.parquet"))
"""Return the file of the records in a folder, if it is there."""


def read_us(folder: Path) -> Any | None:
    """Read the 40,000 sampled records, or None where the file is not in `folder`."""
    file = us_file(folder)
    if file is None:
        return None
    table = read_table(file)
    if table.num_rows != FILE_RECORDS:
        raise DataError(
            f"Expected {FILE_RECORDS:,} records in {str(file)!r}, got {table.num_rows:,}; make the "
            "file again, or train on it as a file of your own with a schema."
        )
    return _labelled(table.take(pa.array(sample(FILE_RECORDS))))


def sample(n: int) -> Any:
    """Return 40,000 of 0…n−1, ascending: those with the smallest of n numbers of a fixed seed."""
    draws = np.random.Generator(np.random.PCG64(_SEED)).random(n)
    return np.sort(np.argsort(draws, kind="stable")[:RECORDS])


def _labelled(table: Any) -> Any:
    """Replace the income in dollars by its class."""
    dollars, present = numbers(column(table, "income"), "income", US.missing)
    if not present.all():
        row = int(np.argmin(present)) + 1
        raise DataError(f"Column 'income', sampled row {row} is missing; make the file again.")
    classes = pa.array(np.where(dollars > INCOME, ">25K", "<=25K"))
    return table.set_column(table.column_names.index("income"), "income", classes)
