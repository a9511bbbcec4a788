"""By what a ledger knows records again: the cells of a table, however they are read."""

import pandas as pd
import pytest

from ppadmm.data import Categorical, Label, Numeric, Schema, load
from ppadmm.data.fingerprint import fingerprint
from ppadmm.errors import BudgetError, DataError
from ppadmm.experiments.booked import Booking
from ppadmm.experiments.spec import RunSpec
from ppadmm.experiments.train import train
from ppadmm.privacy import Budget
from ppadmm.privacy.sqlite_ledger import SqliteLedger

ILL = Label("ill", ("yes",), ("no",))
CODES, AGE = Categorical("code", ("00", "01", "02")), Numeric("age", 0, 99)
READINGS = {
    "codes": Schema((CODES, AGE), ILL),
    "codes as numbers": Schema((Numeric("code", 0, 2), AGE), ILL),
    "one column": Schema((AGE,), ILL),
    "other markers": Schema((CODES, AGE), ILL, missing=("?", "NA", "37")),
    "no markers": Schema((CODES, Categorical("age", ("?", *map(str, range(99))))), ILL, missing=()),
}


@pytest.fixture
def people(tmp_path):
    rows = [f"0{k % 3},{k % 90 if k % 7 else '?'},{'yes' if k % 2 else 'no'}" for k in range(400)]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["code, age,ill", *rows]) + "\n")
    return path


def test_no_schema_makes_other_records_of_a_file(people):
    found = {fingerprint(load(people, schema=schema)) for schema in READINGS.values()}
    assert len(found) == 1


def test_a_file_a_frame_and_parquet_hold_the_same_records(people):
    frame = pd.read_csv(people, skipinitialspace=True)
    frame.to_parquet(people.with_suffix(".parquet"))
    schema = READINGS["one column"]
    sources = (people, frame, frame[["ill", "code", "age"]], people.with_suffix(".parquet"))
    assert len({fingerprint(load(source, schema=schema)) for source in sources}) == 1


def test_one_changed_cell_makes_other_records(people):
    schema, before = READINGS["one column"], people.read_text()
    one = fingerprint(load(people, schema=schema))
    for change in (("01,1,yes", "01,2,yes"), ("01,1,yes", "02,1,yes"), ("01,1,yes", "01,1,no")):
        people.write_text(before.replace(*change, 1))
        assert fingerprint(load(people, schema=schema)) != one


def test_a_file_that_grew_meanwhile_is_refused(people):
    data = load(people, schema=READINGS["codes"])
    people.write_text(people.read_text() + "00,5,yes\n")
    with pytest.raises(DataError, match="changed while it was read"):
        fingerprint(data)


def test_another_schema_is_no_way_to_a_second_budget(people, tmp_path):
    book = tmp_path / "a.ledger"
    with SqliteLedger.create(book, "owner") as ledger:
        for name in ("people", "others"):
            ledger.grant(name, Budget(1.0, 1e-3))
    spec = {"agents": 2, "rounds": 2, "epsilon": 1.0, "delta": 1e-3}
    for name, reading in (("people", "codes"), ("others", "codes as numbers")):
        (tmp_path / f"{name}.toml").write_text(READINGS[reading].to_toml())

    def run(name):
        own = RunSpec(data=str(people), schema=str(tmp_path / f"{name}.toml"), **spec)
        return train(own, booking=Booking(book, name))

    assert run("people").entry["runs"] == 1
    with pytest.raises(BudgetError, match="registered as 'people', not 'others'"):
        run("others")
