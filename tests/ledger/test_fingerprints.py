"""By what a ledger knows records again: the cells of a table, however they are read."""

import json
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ppadmm.accounting import Budget
from ppadmm.accounting.protection import STANDARD, Protection
from ppadmm.data import Categorical, Label, Numeric, Schema
from ppadmm.data.fingerprint import fingerprint
from ppadmm.datasets import load
from ppadmm.errors import BudgetError, DataError, OverlapWarning
from ppadmm.ledger.chain import read_rows, verify
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.ledger.text import ledger_dict
from ppadmm.runs.ledger_session import LedgerOptions
from ppadmm.runs.run import train
from ppadmm.runs.specification import RunSpec

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
    with OwnerLedger.create(book, "owner") as ledger:
        for name in ("people", "others"):
            ledger.grant(name, Budget(1.0, 1e-3))
    spec = {"agents": 2, "rounds": 2, "epsilon": 1.0, "delta": 1e-3}
    for name, reading in (("people", "codes"), ("others", "codes as numbers")):
        (tmp_path / f"{name}.toml").write_text(READINGS[reading].to_toml())

    def run(name):
        own = RunSpec(data=str(people), schema=str(tmp_path / f"{name}.toml"), **spec)
        return train(own, booking=LedgerOptions(book, name))

    assert run("people").entry["runs"] == 1
    with pytest.raises(BudgetError, match="registered as 'people', not 'others'"):
        run("others")


@pytest.fixture
def two_grants(tmp_path):
    """A ledger that grants a budget to two names."""
    book = tmp_path / "a.ledger"
    with OwnerLedger.create(book, "owner") as ledger:
        for name in ("people", "others"):
            ledger.grant(name, Budget(1.0, 1e-3))
    return book


class TestTheSameRecordsAgain:
    """A copy of a file whose budget is spent, under another grant of the same ledger."""

    SCHEMA = READINGS["codes"]
    SPEC = RunSpec(agents=2, rounds=2, epsilon=1.0, delta=1e-3)

    def frame(self, path, seed=None):
        rng = np.random.default_rng(0)
        frame = pd.read_csv(path, skipinitialspace=True, dtype=str)
        frame["weight"] = rng.normal(70.0, 9.0, len(frame)).round(3)
        return frame if seed is None else frame.sample(frac=1.0, random_state=seed)

    def run(self, book, name, frame):
        return train(
            self.SPEC, data=load(frame, schema=self.SCHEMA), booking=LedgerOptions(book, name)
        )

    def test_shuffled_is_refused(self, people, two_grants):
        self.run(two_grants, "people", self.frame(people))
        for other in (
            self.frame(people, 1),
            self.frame(people, 2)[["ill", "weight", "age", "code"]],
        ):
            with pytest.raises(BudgetError, match="registered as 'people', not 'others'"):
                self.run(two_grants, "others", other)

    def test_changed_in_a_record_it_is_told_to_the_owner_alone(self, people, two_grants):
        self.run(two_grants, "people", self.frame(people))
        other = self.frame(people, 1)
        other.iloc[0, other.columns.get_loc("weight")] = 99.0
        with pytest.warns(OverlapWarning) as caught:
            result = self.run(two_grants, "others", other)
        (said,) = [str(each.message) for each in caught]
        share = int(said.split("about ")[1].split(" %")[0])
        assert share >= 50
        assert "By an estimate" in said
        assert "charged as 'people', where ε = 1 is spent" in said
        assert "charge them there, with --dataset people" in said
        shown = json.dumps([result.disclosure(), result.to_dict()]) + result.statement.text()
        assert "estimate" not in shown
        assert " %" not in shown
        books, head = verify(read_rows(two_grants))
        assert "overlap" not in json.dumps(ledger_dict(books, head))

    def test_two_names_of_two_adjacencies_do_not_even_add_up(self, people, two_grants):
        self.run(two_grants, "people", self.frame(people))
        other = self.frame(people)
        other.iloc[0, other.columns.get_loc("weight")] = 99.0
        with OwnerLedger.open(two_grants) as ledger:
            ledger.grant("others", Budget(1.0, 1e-3), protection=Protection("zero-out"))
        spec, data = replace(self.SPEC, adjacency="zero-out"), load(other, schema=self.SCHEMA)
        said = "neither budget, as costs of zero-out and of replace-one do not add up"
        with pytest.warns(OverlapWarning, match=said):
            train(spec, data=data, booking=LedgerOptions(two_grants, "others"))

    def test_other_records_and_other_versions_are_quiet(self, people, two_grants):
        self.run(two_grants, "people", self.frame(people))
        with OwnerLedger.open(two_grants) as ledger:
            ledger.grant("people", Budget(3.0, 1e-3))
        version, stranger = self.frame(people, 3), self.frame(people)
        version.iloc[0, 0] = "02"
        stranger["weight"] += 0.0005
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.run(two_grants, "people", version)
            self.run(two_grants, "others", stranger)

    def test_records_that_were_never_charged_are_no_matter(self, people, two_grants):
        frame = self.frame(people)
        known = fingerprint(load(frame, schema=self.SCHEMA))
        with OwnerLedger.open(two_grants) as ledger:
            made = ledger.reserve_run("people", known, "spec", [(0, ())], STANDARD)
            made.end("abandoned")
        frame.iloc[0, 0] = "02"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.run(two_grants, "others", frame)

    def test_the_command_says_it_in_one_sentence(self, people, two_grants, tmp_path):
        first, second = self.frame(people), self.frame(people, 1)
        second.iloc[0, second.columns.get_loc("weight")] = 99.0
        first.to_csv(tmp_path / "one.csv", index=False)
        second.to_csv(tmp_path / "two.csv", index=False)
        (tmp_path / "s.toml").write_text(self.SCHEMA.to_toml())

        def run(data, name):
            words = f"train {data} --schema s.toml --agents 2 --rounds 2 --delta 1e-3 --epsilon 1"
            more = f"--no-save --ledger {two_grants} --dataset {name}"
            code = "from ppadmm.cli import main; main()"
            start = [sys.executable, "-c", code, *words.split(), *more.split()]
            return subprocess.run(start, cwd=tmp_path, capture_output=True, text=True, check=True)

        assert run("one.csv", "people").stderr == ""
        told = run("two.csv", "others")
        assert told.stderr.startswith("Warning: By an estimate, about ")
        assert len(told.stderr.splitlines()) == 1
        assert "estimate" not in told.stdout


def test_a_finished_run_that_is_shown_again_leaves_no_lock(tmp_path):
    book = tmp_path / "a.ledger"
    with OwnerLedger.create(book, "owner") as ledger:
        ledger.grant("synthetic", Budget(1.0, 1e-3))
    spec = RunSpec(agents=2, rounds=2, epsilon=1.0, delta=1e-3, records=(30, 30))
    first = train(spec, booking=LedgerOptions(book))
    again = train(spec, booking=LedgerOptions(book, resume=True))
    np.testing.assert_array_equal(again.trace.releases, first.trace.releases)
    assert again.entry == first.entry
    assert not list(tmp_path.glob("*-run-*"))
