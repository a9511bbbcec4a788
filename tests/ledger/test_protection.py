"""A grant is for one adjacency: runs of another are refused, and so is who writes them down."""

import json
import math
from dataclasses import replace

import pytest

from ppadmm import canonical
from ppadmm.accounting import (
    Budget,
    Charge,
    Gaussian,
    ObjectivePerturbation,
    RepeatAndSelect,
    Tally,
    recompute,
)
from ppadmm.accounting.composition import together
from ppadmm.accounting.event_data import to_plain
from ppadmm.accounting.gaussian import gdp_epsilon
from ppadmm.accounting.protection import STANDARD, Protection
from ppadmm.datasets import load
from ppadmm.errors import BudgetError, CertificateError, InputError, LedgerError
from ppadmm.ledger.balance import cost
from ppadmm.ledger.chain import read_rows, verify
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.ledger.text import ledger_dict, ledger_text
from ppadmm.runs.ledger_session import LedgerOptions
from ppadmm.runs.run import train
from ppadmm.runs.specification import RunSpec
from ppadmm.statements.certificate import check, require_booked
from tests.ledger.ledgers import AGENTS, RECORDS, granted, rows_of, unlocked
from tests.small_runs import resigned
from tests.statements.signed import KEY, certificate_of, forged

ZERO_OUT = Protection("zero-out")
ledger = pytest.fixture(granted)


def small():
    data = load("synthetic")
    return replace(data, X=data.X[:600], y=data.y[:600], table=None, train_records=500)


def run(path, adjacency, dataset="people"):
    spec = RunSpec(
        agents=2, rounds=4, epsilon=1.0, delta=1e-6, adjacency=adjacency, graph="complete"
    )
    return train(spec, data=small(), booking=LedgerOptions(path, dataset))


@pytest.fixture
def people(tmp_path):
    """A ledger with a budget of ε = 2 for replace-one."""
    path = tmp_path / "b.ledger"
    with OwnerLedger.create(path, "owner") as made:
        made.grant("people", Budget(2.0, 1e-6))
    return path


class TestTheAttack:
    """Two runs of ε = 1, one of each adjacency, under a grant of 2: in truth they cost more."""

    def test_the_second_run_is_refused_and_nothing_is_reserved(self, people):
        run(people, "replace-one")
        before = rows_of(people)
        with pytest.raises(BudgetError) as refused:
            run(people, "zero-out")
        said = str(refused.value)
        assert "protects by zero-out" in said
        assert "'people' is granted for replace-one" in said
        assert f"ppadmm ledger grant {people} NAME --epsilon ε --adjacency zero-out" in said
        assert rows_of(people) == before
        assert not list(people.parent.glob("*-run-*"))

    def test_nor_is_the_first_if_it_is_the_other(self, people):
        with pytest.raises(BudgetError, match="costs of the two do not add up"):
            run(people, "zero-out")
        assert len(rows_of(people)) == 2

    def test_what_would_have_been_booked_was_false(self, people, tmp_path):
        """Why: the noise of both, priced under replace-one, needs more than ε = 2."""
        one = run(people, "replace-one")
        with OwnerLedger.create(tmp_path / "z.ledger", "owner") as other:
            other.grant("people", Budget(2.0, 1e-6), protection=ZERO_OUT)
        two = run(tmp_path / "z.ledger", "zero-out")
        booked = together([one.reserved, two.reserved], 1e-6).epsilon
        assert booked < 2.0
        squares = sum(
            times * (event.ratio * (2.0 / event.records)) ** 2
            for result in (one, two)
            for event, times in result.reserved[0].counts
            if isinstance(event, ObjectivePerturbation)
        )
        assert gdp_epsilon(1e-6, math.sqrt(squares)) > 2.0


class TestGrants:
    def test_a_grant_for_zero_out_takes_runs_of_zero_out(self, tmp_path):
        path = tmp_path / "z.ledger"
        with OwnerLedger.create(path, "owner") as made:
            made.grant("people", Budget(1.0, 1e-6), protection=ZERO_OUT)
        result = run(path, "zero-out")
        assert result.entry["adjacency"] == "zero-out"
        with pytest.raises(BudgetError, match=r"replace-one.*granted for zero-out"):
            run(path, "replace-one")
        books, head = verify(read_rows(path))
        assert books.protection("people") == ZERO_OUT
        assert ledger_dict(books, head)["datasets"][0]["granted"]["adjacency"] == "zero-out"
        assert "(zero-out, adaptive rule" in ledger_text(ledger_dict(books, head))

    def test_a_later_grant_keeps_the_adjacency_of_the_runs(self, people):
        run(people, "replace-one")
        with OwnerLedger.open(people) as open_:
            with pytest.raises(
                BudgetError, match="is a run of replace-one; grant that, not zero-out"
            ):
                open_.grant("people", Budget(9.0, 1e-6), protection=ZERO_OUT)
            open_.grant("people", Budget(3.0, 1e-6))
            assert open_.books.grants["people"]["epsilon"] == 3.0

    def test_before_any_run_it_may_be_changed(self, people):
        with OwnerLedger.open(people) as open_:
            made = open_.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)
            made.end("abandoned")
            open_.grant("people", Budget(2.0, 1e-6), protection=ZERO_OUT)
        assert run(people, "zero-out").entry["adjacency"] == "zero-out"

    def test_events_of_another_adjacency_do_not_pass_under_a_false_name(self, ledger):
        one = ObjectivePerturbation(0.01, 1e-4, records=1)
        hidden = RepeatAndSelect((Tally(((one, 1),)),), 2.0)
        for event in (one, hidden):
            asked = [(0, ((Charge((event,)), 1),))]
            with pytest.raises(BudgetError, match="events are not those of replace-one"):
                ledger.reserve_run("people", RECORDS, "spec", asked, STANDARD)

    @pytest.mark.parametrize(
        "plain", [None, {}, "zero-out", {"adjacency": "none"}, {"adjacency": "zero-out", "x": 1}]
    )
    def test_what_names_no_protection_is_refused(self, ledger, plain):
        body = {k: v for k, v in ledger.books.grants["people"].items()
                if k in ("dataset", "epsilon", "delta", "by", "note", "rule")}  # fmt: skip
        with pytest.raises(BudgetError, match="its fields cannot be read"), ledger.transaction():
            ledger.append("grant", **body, protection=plain)

    def test_an_unknown_adjacency(self):
        with pytest.raises(
            InputError, match="Unknown adjacency 'swap'; choose one of: replace-one"
        ):
            Protection("swap")

    def test_the_command(self, command):
        command("ledger", "new", "a.ledger", "--owner", "us")
        grant = ("ledger", "grant", "a.ledger", "people", "--epsilon", 1)
        assert "granted for replace-one (adaptive rule)" in command(*grant).out
        told = command(*grant, "--adjacency", "zero-out", "--json").json
        assert told["adjacency"] == "zero-out"
        wrong = command(*grant, "--adjacency", "swap")
        assert wrong.code == 2
        assert "choose one of: replace-one, zero-out" in wrong.err
        assert "(zero-out, adaptive rule" in command("ledger", "show", "a.ledger").out


class TestForgeries:
    """Whoever can write the file can make a chain; not one that mixes two adjacencies."""

    def forge(self, path, change):
        """Add a reservation that differs from the last one."""
        copy, db = unlocked(path)
        rows = rows_of(path)
        body = next(json.loads(b) for _, b, _ in rows if b'"kind":"reserve"' in b)
        body |= {"run": "forged", "seq": len(rows) + 1, "previous": rows[-1][2], **change}
        data = canonical.dumps(body)
        values = (len(rows) + 1, data, canonical.digest(data))
        db.execute("INSERT INTO entries VALUES (?, ?, ?)", values)
        db.close()
        return copy

    def test_a_reservation_of_another_adjacency_is_named(self, people):
        run(people, "replace-one")
        copy = self.forge(people, {"protection": ZERO_OUT.to_plain()})
        with pytest.raises(
            LedgerError, match="a run of zero-out, and what is granted is replace-one"
        ):
            verify(read_rows(copy))

    def test_events_of_another_adjacency_are_named_twice(self, people, monkeypatch):
        """By the rules of the books, and by the recomputation, which does not rely on them."""
        run(people, "replace-one")
        event = ObjectivePerturbation(1e-4, 1e-6, records=1)
        charges = [{"events": [{k: v for k, v in to_plain(Tally(((event, 1),)))[0].items()
                                if k != "times"}], "times": 1}]  # fmt: skip
        copy = self.forge(people, {"agents": [{"agent": 0, "charges": charges}]})
        with pytest.raises(LedgerError, match="its events are not those of replace-one"):
            verify(read_rows(copy))
        monkeypatch.setattr(Protection, "covers", lambda *_: True)
        with pytest.raises(LedgerError, match="an event changes 1 records at once"):
            verify(read_rows(copy))


class TestRecomputation:
    def test_it_knows_neighbours_in_a_search_too(self):
        two = Tally(((ObjectivePerturbation(0.1, 0.01, 2), 3), (Gaussian(0.1), 1)))
        search = Tally(((RepeatAndSelect((two,), 3.0), 1),))
        for tally in (two, search):
            recompute.require_adjacency(to_plain(tally), "replace-one")
            with pytest.raises(ValueError, match="changes 2 records at once, by zero-out"):
                recompute.require_adjacency(to_plain(tally), "zero-out")


class TestCertificates:
    @pytest.fixture
    def statement(self, people):
        return json.loads(json.dumps(run(people, "replace-one").disclosure()))

    def test_a_booked_run_says_what_its_grant_protects(self, statement):
        assert statement["booked"]["adjacency"] == statement["adjacency"] == "replace-one"
        check(certificate_of(statement))

    def test_a_grant_of_another_adjacency_is_refused(self, statement):
        def change(body):
            body["statement"]["booked"]["adjacency"] = "zero-out"

        with pytest.raises(CertificateError, match=r"protects by replace-one.*grant for zero-out"):
            check(resigned(certificate_of(statement), KEY, change))

    def test_an_event_of_another_adjacency_is_refused(self):
        def change(body):
            agent = body["statement"]["agents"][0]
            event = {**agent["reserved"][0], "records": 1}
            agent["reserved"].append(event)

        with pytest.raises(CertificateError, match="an event changes 1 records at once"):
            check(forged(change))

    def test_the_ledger_must_say_the_same(self, statement, people):
        books, _ = verify(read_rows(people))
        require_booked(statement, books)
        books.grants["people"]["protection"] = ZERO_OUT.to_plain()
        with pytest.raises(CertificateError, match="protected by zero-out, not replace-one"):
            require_booked(statement, books)
        books.grants["people"]["protection"] = STANDARD.to_plain()
        next(iter(books.runs.values())).body["protection"] = ZERO_OUT.to_plain()
        with pytest.raises(CertificateError, match="protected by zero-out, not replace-one"):
            require_booked(statement, books)
        assert cost(books, "people") <= 2.0
