"""A table of people, its schema, and quick training runs on it."""

import numpy as np
import pyarrow as pa
import pyarrow.csv

RECORDS = 300
QUICK = ("--agents", "3", "--rounds", "4", "--epsilon", "5", "--delta", "1e-3")
SCHEMA = """
format = 1
confirmed = true
[label]
name = "ill"
positive = ["yes"]
negative = ["no"]
[[columns]]
name = "age"
low = 0
high = 100
[[columns]]
name = "dose"
low = 0
high = 5
scale = "log"
[[columns]]
name = "sex"
categories = ["f", "m"]
"""


def in_folder(command, tmp_path):
    """Run the command line in a folder with people.csv and schema.toml."""
    write_people(tmp_path / "people.csv")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return command


def people():
    rng = np.random.default_rng(7)
    age, dose = rng.integers(18, 90, RECORDS), rng.random(RECORDS).round(3) * 5
    ill = age / 30 + dose + rng.standard_normal(RECORDS) > 4.3
    return {
        "age": age.tolist(),
        "dose": dose.tolist(),
        "sex": rng.choice(["f", "m"], RECORDS).tolist(),
        "ill": np.where(ill, "yes", "no").tolist(),
    }


def write_people(path, **cells):
    """Write people.csv; `column=value` puts a value into row 5, `column=[...]` replaces all."""
    columns = {name: [str(cell) for cell in column] for name, column in people().items()}
    for name, value in cells.items():
        columns[name] = value if isinstance(value, list) else _with(columns[name], value)
    pa.csv.write_csv(pa.table(columns), path, pa.csv.WriteOptions(quoting_style="none"))


def _with(column, value):
    return [*column[:4], value, *column[5:]]


def private(*more):
    return ("train", "people.csv", "--schema", "schema.toml", *QUICK, *more)


def refused(outcome, code, *fragments):
    """Check for one sentence on standard error, and nothing else."""
    assert outcome.code == code, outcome.err
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith("Error: ")
    assert outcome.err.endswith(".\n")
    for fragment in fragments:
        assert fragment in outcome.err
