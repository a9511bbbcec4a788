"""The Brazil census extract (IPUMS International): who earns more than 300 dollars a month.

IPUMS forbids redistribution, so no record is here. The extract names none of its columns: what
kind each one is was judged from the range of its values in the extract, and its bounds are round
numbers for that kind; values beyond them are clipped. They are treated as public because a census
publishes its code lists.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ppadmm.data.features import Numeric
from ppadmm.data.schema import Label, Schema
from ppadmm.datasets.adult import plain_or_gz, unzipped
from ppadmm.errors import DataError

FEATURES, RECORDS, TRAIN_RECORDS = 52, 38_000, 35_000
HELP = (
    "Brazil needs ipums_brazil.dat (plain or .gz), an extract of IPUMS International (register); "
    "`ppadmm data fetch brazil` prints the steps"
)
STEPS = """\
1. Register at https://international.ipums.org and accept its conditions: no redistribution.
2. Order an extract of the Brazil census; the paper's has 38,000 persons and 52 numeric features.
3. Save it as ipums_brazil.dat (or .gz) in the data folder (--data-dir or PPADMM_DATA): numbers
   separated by blanks, no header, and last the label: 1 where the monthly income is over 300
   dollars, else 0.
The paper does not name its columns, so another extract is another data set: give it a schema."""

_DUMMY, _YES_NO = (0.0, 1.0), (1.0, 2.0)
_BOUNDS = dict.fromkeys(range(FEATURES), _DUMMY) | {
    **dict.fromkeys((5, 7, 13, 18, 50), _YES_NO),
    6: (0, 5),  # small counts within a household, larger ones clipped
    10: (0, 5),
    11: (0, 3),
    8: (0, 10),  # counts of rooms or persons, larger ones clipped
    9: (0, 10),
    12: (10, 80),  # apparently years of age
    49: (0, 100),  # apparently hours worked in a week
    51: (0, 60),  # apparently years since an event
}

BRAZIL = Schema(
    tuple(Numeric(f"f{j}", low, high, whole=True) for j, (low, high) in sorted(_BOUNDS.items())),
    Label("income", positive=("1",), negative=("0",)),
)
"""52 numeric features, and the intercept."""


brazil_file = partial(plain_or_gz, name="ipums_brazil.dat")
"""Return the file of the extract in a folder, if it is there."""


def read_brazil(folder: Path) -> Any | None:
    """Read the extract, or None where it is not in `folder`."""
    file = brazil_file(folder)
    if file is None:
        return None
    cells = _numbers(file)
    if cells.shape[1] != FEATURES + 1:
        raise DataError(f"Expected {FEATURES + 1} columns in {str(file)!r}, got {cells.shape[1]}.")
    names = [f"f{j}" for j in range(FEATURES)] + ["income"]
    return pa.table(dict(zip(names, cells.T, strict=True)))


def _numbers(file: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    lines = unzipped(file).splitlines()
    try:
        cells = np.loadtxt(lines, ndmin=2, comments=None)
    except (ValueError, UnicodeDecodeError):
        cells = np.empty((0, 0))
    # An empty line would be left out, and all that follow would move.
    if len(cells) != len(lines):
        row = next((k for k, line in enumerate(lines, 1) if not _is_record(line)), 1)
        raise DataError(
            f"Cannot read {str(file)!r}: line {row} is not {FEATURES + 1} numbers separated by "
            "blanks; make the file again."
        )
    return cells


def _is_record(line: bytes) -> bool:
    try:
        return len(line.split()) == len([float(cell) for cell in line.split()]) == FEATURES + 1
    except ValueError:
        return False
