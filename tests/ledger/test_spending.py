"""Who may spend what: reservations, rules, races, and the sum over runs."""

import subprocess
import sys
from collections import Counter

import pytest

from ppadmm.accounting import Budget, Charge, Gaussian, NonPrivate, Pure, Tally, epsilon, recompute
from ppadmm.accounting.composition import MOST_SUMS, together
from ppadmm.accounting.filters import best_order, filtered
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.accounting.protection import STANDARD
from ppadmm.data.fingerprint import Fingerprint
from ppadmm.errors import BudgetError, InputError, LedgerError
from ppadmm.ledger import balance
from ppadmm.ledger.balance import cost
from ppadmm.ledger.chain import read_rows, verify
from tests.ledger.ledgers import AGENTS, GRANT, ONE, RECORDS, filled, granted

ledger = pytest.fixture(granted)
full = pytest.fixture(filled)


class TestSpending:
    def test_a_charge_must_be_reserved(self, ledger):
        run = ledger.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)
        book = run.agent(1)
        book.past(0)
        book.charge(ONE)
        with pytest.raises(BudgetError, match="all 1 releases reserved"):
            book.charge(ONE)
        with pytest.raises(BudgetError, match="all 0 releases"):
            book.charge(Charge((Gaussian(0.2),)))
        ledger.refresh()
        assert book.spent == Tally.of([ONE])
        assert book.reserved == Tally.of([ONE])
        run.close()

    def test_nothing_is_reserved_less_than_0_times(self, ledger):
        """It would make room for other runs."""
        for times in (-1, 0.5):
            with pytest.raises(InputError, match="times of a charge to be a whole number ≥ 0"):
                ledger.reserve_run("people", RECORDS, "spec", [(0, ((ONE, times),))], STANDARD)
        ledger.refresh()
        assert not ledger.books.runs

    def test_another_run_than_was_reserved_is_refused(self, ledger):
        run = ledger.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)
        run.agent(0).reserve([(ONE, 2)])
        with pytest.raises(BudgetError, match="another run than was reserved"):
            run.agent(0).reserve([(ONE, 3)])
        run.close()

    def test_runs_are_added_up_jointly_and_refused_with_the_sum(self, ledger):
        ledger.grant("people", Budget(1.0, 1e-6), by="officer", rule="planned")
        big = [(0, ((Charge((Gaussian(0.15),)), 1),))]
        for k in (1, 2):
            run = ledger.reserve_run("people", RECORDS, "spec", big, STANDARD)
            run.agent(0).charge(Charge((Gaussian(0.15),)))
            run.end()
            alone = epsilon(Tally(((Gaussian(0.15), k),)), 1e-6).epsilon
            assert ledger.spent("people") == pytest.approx(alone)
        before = ledger.head
        third = epsilon(Tally(((Gaussian(0.15), 3),)), 1e-6).epsilon
        assert third > 1.0
        message = rf"would cost ε = {third:.4g}.*ε = 1 is granted \(by officer\); spent: run {{0}}"
        first = next(iter(ledger.books.runs))
        with pytest.raises(BudgetError, match=message.format(first)):
            ledger.reserve_run("people", RECORDS, "spec", big, STANDARD)
        ledger.refresh()
        assert ledger.head == before
        assert not list(ledger.path.parent.glob("*-run-*"))

    def test_an_unfinished_run_counts_as_reserved(self, full, ledger):
        states = [run.outcome for run in ledger.books.counted("people")]
        assert states == ["finished", None]
        both = [[Tally.of([ONE], 2)], [Tally.of([ONE], 2)]]
        assert ledger.spent("people") == filtered(both, GRANT, best_order(GRANT))

    def test_only_a_run_without_any_charge_is_given_back(self, ledger):
        run = ledger.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)
        assert ledger.spent("people") > 0
        run.end("abandoned")
        assert ledger.spent("people") == 0
        run = ledger.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)
        run.agent(0).charge(ONE)
        run.close()
        spent = ledger.spent("people")
        ledger.abandon(run.run)
        assert ledger.spent("people") == spent > 0
        with pytest.raises(BudgetError, match="is abandoned"):
            run.agent(0).charge(ONE)

    def test_a_lower_grant_holds_at_once(self, full, ledger):
        ledger.grant("people", Budget(0.1, 1e-6))
        with pytest.raises(BudgetError, match=r"ε = 0.1 is granted"):
            ledger.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)

    def test_records_are_charged_under_one_name(self, full, ledger):
        ledger.grant("others", Budget(1.0, 1e-6))
        with pytest.raises(BudgetError, match="registered as 'people', not 'others'"):
            ledger.reserve_run("others", RECORDS, "spec", AGENTS, STANDARD)
        ledger.reserve_run(
            "people", Fingerprint(b"corrected records"), "spec", AGENTS, STANDARD
        ).close()
        assert set(ledger.books.commitments.values()) == {"people"}
        assert len(ledger.books.commitments) == 2
        assert ledger.name_of(Fingerprint(b"corrected records")) == "people"
        assert ledger.name_of(Fingerprint(b"unknown")) is None

    def test_no_budget_no_run(self, ledger):
        with pytest.raises(BudgetError, match="No budget is granted for 'others'"):
            ledger.reserve_run("others", RECORDS, "spec", AGENTS, STANDARD)

    def test_a_run_without_any_theorem_is_refused(self, ledger):
        bare = [(0, ((Charge((NonPrivate(),)), 1),))]
        with pytest.raises(BudgetError, match="ε = inf"):
            ledger.reserve_run("people", Fingerprint(b"r"), "spec", bare, STANDARD)


class TestRules:
    BIG = Charge((Gaussian(0.15),))
    RUN = ((0, ((BIG, 1),)),)

    def spend(self, ledger, run=RUN):
        made = ledger.reserve_run("people", RECORDS, "spec", run, STANDARD)
        made.agent(0).charge(run[0][1][0][0])
        made.end()

    def test_the_rule_and_its_order_are_in_the_grant(self, ledger):
        assert ledger.books.grants["people"]["rule"] == {
            "name": "adaptive", "order": best_order(GRANT)
        }  # fmt: skip
        ledger.grant("people", GRANT, rule="planned")
        assert ledger.books.grants["people"]["rule"] == {"name": "planned"}
        with pytest.raises(InputError, match="Unknown rule 'best'"):
            ledger.grant("people", GRANT, rule="best")

    def test_the_only_run_may_use_the_whole_grant_and_then_nothing_is_left(self, ledger):
        all_of_it = Charge((Gaussian(gdp_ratio(1.0, 1e-6)),))
        self.spend(ledger, ((0, ((all_of_it, 1),)),))
        assert ledger.spent("people") == pytest.approx(1.0)
        tiny = ((0, ((Charge((Gaussian(1e-9),)), 1),)),)
        with pytest.raises(BudgetError, match="would cost"):
            ledger.reserve_run("people", Fingerprint(b"r"), "s", tiny, STANDARD)

    def test_a_run_that_only_a_plan_would_allow_is_refused_and_told_so(self, ledger):
        self.spend(ledger)
        more = ((0, ((Charge((Gaussian(0.175),)), 1),)),)
        with pytest.raises(BudgetError, match=r"--rule planned, they would cost ε = 0\.97"):
            ledger.reserve_run("people", RECORDS, "spec", more, STANDARD)
        ledger.grant("people", GRANT, rule="planned")
        self.spend(ledger, more)

    @pytest.mark.parametrize(
        "rule", [{"name": "adaptive"}, {"name": "adaptive", "order": 0.5},
                 {"name": "planned", "free": 1}, "adaptive", None],
    )  # fmt: skip
    def test_a_rule_that_makes_no_sense_is_refused(self, ledger, rule):
        body = {k: v for k, v in ledger.books.grants["people"].items()
                if k in ("dataset", "epsilon", "delta", "by", "note", "protection")}  # fmt: skip
        with pytest.raises(BudgetError, match="its fields cannot be read"), ledger.transaction():
            ledger.append("grant", **body, rule=rule)

    def test_both_ways_to_add_up_are_asked_when_a_ledger_is_verified(self, ledger, monkeypatch):
        for _ in range(2):
            self.spend(ledger)
        rows = read_rows(ledger.path)
        verify(rows)
        for module, name in ((balance, "filtered"), (recompute, "renyi")):
            with monkeypatch.context() as patch:
                real = getattr(module, name)
                patch.setattr(module, name, lambda *given, real=real: 1.1 * real(*given))
                with pytest.raises(LedgerError, match="it says that all runs cost"):
                    verify(rows)


RACE = """
import sys
from pathlib import Path
from ppadmm.data.fingerprint import Fingerprint
from ppadmm.errors import BudgetError
from ppadmm.accounting import Charge, Gaussian
from ppadmm.accounting.protection import STANDARD
from ppadmm.ledger.owner import OwnerLedger
ledger = OwnerLedger.open(Path(sys.argv[1]))
sys.stdin.readline()
won = 0
for _ in range(8):
    try:
        run = [(0, ((Charge((Gaussian(0.1),)), 1),))]
        ledger.reserve_run("people", Fingerprint(b"r"), "spec", run, STANDARD)
        won += 1
    except BudgetError:
        pass
print(won)
"""


def test_two_processes_cannot_spend_the_same_budget(ledger):
    """Both ask for all that is left, again and again; together they get no more than there is."""
    start = [sys.executable, "-c", RACE, str(ledger.path)]
    both = [
        subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    won = sum(int(process.communicate()[0]) for process in both)
    each, order = [Tally(((Gaussian(0.1), 1),))], best_order(GRANT)
    assert won == max(k for k in range(20) if filtered([each] * k, GRANT, order) <= 1.0)
    books, _ = verify(read_rows(ledger.path))
    assert cost(books, "people") <= 1.0


class TestTotals:
    def test_a_record_may_be_dealt_to_any_agent_in_each_run(self):
        """The worst choice of one agent per run, not the worst agent of all runs."""
        first = [Tally(((Gaussian(0.3), 1),)), Tally(((Gaussian(0.1), 1),))]
        second = [Tally(((Gaussian(0.1), 1),)), Tally(((Gaussian(0.4), 1),))]
        expected = epsilon(Tally(((Gaussian(0.3), 1), (Gaussian(0.4), 1))), 1e-6).epsilon
        assert together([first, second], 1e-6).epsilon == pytest.approx(expected)

    def test_one_run_costs_its_worst_agent(self):
        agents = [Tally(((Gaussian(r), 3),)) for r in (0.1, 0.2)] + [Tally()]
        expected = epsilon(agents[1], 1e-6).epsilon
        assert together([agents], 1e-6).epsilon == pytest.approx(expected)

    def test_many_runs_are_bounded_from_above(self):
        runs = [[Tally(((Gaussian(0.01 * (k + j) + 1e-4 * k), 1),)) for j in (1, 2, 3)]
                for k in range(10)]  # fmt: skip
        worst = Counter()
        for agents in runs:
            worst.update(dict(max(agents, key=lambda t: t.counts[0][0].ratio).counts))
        exact = epsilon(Tally(tuple(worst.items())), 1e-6).epsilon
        assert MOST_SUMS < 3**10
        assert together(runs, 1e-6).epsilon == pytest.approx(exact)

    def test_many_runs_of_unlike_agents_are_bounded_from_above(self):
        runs = [[Tally(((Gaussian(0.1 + 0.01 * k), 1),)), Tally(((Pure(0.05),  1),))]
                for k in range(12)]  # fmt: skip
        worst = Tally(tuple((Gaussian(0.1 + 0.01 * k), 1) for k in range(12)))
        assert together(runs, 1e-6).epsilon >= epsilon(worst, 1e-6).epsilon
