"""Made-up records for five organisations: one CSV each, and the public schema of all.

python make_records.py FOLDER [RECORDS]
"""

import sys
from pathlib import Path

import pyarrow.csv

from ppadmm.data import even
from ppadmm.datasets import SOURCES, load

NAMES = ("hospital-a", "hospital-b", "clinic-c", "practice-d", "institute-e")


def main(folder: Path, records: int) -> None:
    """Write the files."""
    data = load("synthetic")
    parts = even(data.n, len(NAMES), 0)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schema.toml").write_text(SOURCES["synthetic"].schema.to_toml(), encoding="utf-8")
    for name, part in zip(NAMES, parts, strict=True):
        pyarrow.csv.write_csv(data.table.take(part[:records]), folder / f"{name}.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 7000)
