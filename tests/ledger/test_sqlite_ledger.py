"""The ledger file: what it refuses, what it finds out, and who may spend."""

import json
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.errors import BudgetError, InputError, LedgerError
from ppadmm.privacy import (
    Approximate,
    Budget,
    Charge,
    Gaussian,
    Pure,
    Tally,
    accounts,
    canonical,
    epsilon,
    recompute,
)
from ppadmm.privacy.accounts import cost
from ppadmm.privacy.chain import GENESIS, read_rows, verify
from ppadmm.privacy.filters import best_order, filtered
from ppadmm.privacy.gaussian import gdp_ratio
from ppadmm.privacy.ledger import Lost, Sent
from ppadmm.privacy.ledger_files import lock
from ppadmm.privacy.run_ledger import decode, encode
from ppadmm.privacy.sqlite_ledger import SqliteLedger, commit
from ppadmm.privacy.totals import MOST_SUMS, together

GRANT = Budget(1.0, 1e-6)
ONE = Charge((Gaussian(0.05), Approximate(1e-20)))
AGENTS = [(0, ((ONE, 2),)), (1, ((ONE, 1),))]
BIG = [{"event": "Gaussian", "ratio": 5.0}]
SENT = Sent(np.array([1.5, -0.0]), np.array([2.0, 1e-300]), True)


@pytest.fixture
def ledger(tmp_path):
    with SqliteLedger.create(tmp_path / "a.ledger", "owner") as made:
        made.grant("people", GRANT, by="officer", note="first study")
        yield made


@pytest.fixture
def full(ledger):
    """A ledger with a finished run, one that is not, and its path."""
    for end in (True, False):
        run = ledger.reserve_run("people", b"records", "spec", AGENTS)
        for number, times in ((0, 2), (1, 1)):
            book = run.agent(number)
            for round_ in range(times):
                assert book.past(round_) is None
                book.charge(ONE)
                book.record(SENT)
        if end:
            run.end()
        run.close()
    return ledger.path


def rows_of(path):
    with sqlite3.connect(path) as db:
        found = db.execute("SELECT seq, body, hash FROM entries ORDER BY seq").fetchall()
    db.close()
    return found


def unlocked(path):
    """A copy without the triggers that keep honest hands off."""
    copy = path.with_name("copy.ledger")
    shutil.copy(path, copy)
    for suffix in ("-wal",):
        if path.with_name(path.name + suffix).exists():
            shutil.copy(path.with_name(path.name + suffix), copy.with_name(copy.name + suffix))
    db = sqlite3.connect(copy, isolation_level=None)
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        db.execute(f"DROP TRIGGER {name}")
    return copy, db


class TestEntries:
    def test_the_file_is_for_its_owner_only(self, ledger):
        assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600

    def test_what_is_written_is_on_disk(self, ledger):
        assert ledger._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert ledger._db.execute("PRAGMA synchronous").fetchone()[0] == 2

    def test_every_entry_holds_the_hash_of_the_one_before(self, full):
        previous = GENESIS
        for seq, body, hash_ in rows_of(full):
            entry = json.loads(body)
            assert (entry["seq"], entry["previous"]) == (seq, previous)
            assert canonical.digest(body) == hash_
            previous = hash_

    @pytest.mark.parametrize("table", ["entries", "payloads", "secrets"])
    @pytest.mark.parametrize("verb", ["DELETE FROM {}", "UPDATE {} SET rowid = rowid + 100"])
    def test_sql_cannot_change_it(self, full, table, verb):
        db = sqlite3.connect(full)
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(verb.format(table))
        db.close()

    def test_the_commitment_says_nothing_without_its_salt(self, full, ledger):
        (commitment,) = ledger.books.commitments
        assert commitment != canonical.digest(b"records")
        text = b"".join(body for _, body, _ in rows_of(full))
        salt = ledger.secret(f"salt/{commitment}")
        assert commit(salt, b"records") == commitment
        assert salt not in text
        assert salt.hex().encode() not in text

    def test_releases_come_back_bit_by_bit(self):
        again = decode(encode(SENT))
        assert encode(again) == encode(SENT)
        assert again.value.tobytes() == SENT.value.tobytes()

    def test_a_new_ledger_does_not_overwrite(self, ledger):
        with pytest.raises(LedgerError, match="exists already"):
            SqliteLedger.create(ledger.path, "other")
        with pytest.raises(InputError, match="name of the data owner"):
            SqliteLedger.create(ledger.path.with_name("b"), " ")

    def test_other_files_are_refused_and_left_alone(self, tmp_path):
        with pytest.raises(LedgerError, match="There is no ledger"):
            SqliteLedger.open(tmp_path / "none")
        for reader in (SqliteLedger.open, read_rows):
            with pytest.raises(LedgerError, match="is a folder, not a ledger"):
                reader(tmp_path)
        text = tmp_path / "text"
        text.write_text("no database " * 200)
        with pytest.raises(LedgerError, match="damaged"):
            SqliteLedger.open(text)
        other = tmp_path / "other"
        db = sqlite3.connect(other)
        db.execute("CREATE TABLE t (x)")
        db.close()
        before = other.read_bytes()
        with pytest.raises(LedgerError, match="not a ledger of ppadmm"):
            SqliteLedger.open(other)
        assert other.read_bytes() == before

    def test_a_lock_that_cannot_be_made_is_explained(self, tmp_path):
        with pytest.raises(LedgerError, match="needs a folder that can be written to"):
            lock(tmp_path / "none" / "a.ledger", "ab")

    def test_a_copy_in_a_folder_that_cannot_be_written_is_read(self, full, ledger, tmp_path):
        ledger.close()
        folder = tmp_path / "archive"
        folder.mkdir()
        shutil.copy(full, folder / "a.ledger")
        folder.chmod(0o500)
        try:
            assert verify(read_rows(folder / "a.ledger"))[1].count == len(rows_of(full))
        finally:
            folder.chmod(0o700)


class TestTampering:
    def test_a_sound_ledger_verifies(self, full, ledger):
        books, head = verify(read_rows(full), ledger.head.hash)
        assert head == ledger.head
        assert books.owner == "owner"

    def test_an_edited_entry_is_named(self, full):
        for seq, body, _ in rows_of(full):
            copy, db = unlocked(full)
            changed = bytes(body).replace(b'"kind"', b'"kimd"')
            db.execute("UPDATE entries SET body = ? WHERE seq = ?", (changed, seq))
            db.close()
            with pytest.raises(LedgerError, match=f"Entry {seq} is bad"):
                verify(read_rows(copy))

    def test_an_edited_entry_with_a_hash_to_match_is_found_by_the_next(self, full):
        copy, db = unlocked(full)
        (body,) = db.execute("SELECT body FROM entries WHERE seq = 2").fetchone()
        changed = bytes(body).replace(b'"epsilon":1.0', b'"epsilon":9.0')
        assert changed != body
        hash_ = canonical.digest(changed)
        db.execute("UPDATE entries SET body = ?, hash = ? WHERE seq = 2", (changed, hash_))
        db.close()
        with pytest.raises(LedgerError, match="Entry 3 is bad: it does not follow"):
            verify(read_rows(copy))

    def test_a_removed_entry_is_named(self, full):
        for seq, _, _ in rows_of(full)[:-1]:
            copy, db = unlocked(full)
            db.execute("DELETE FROM entries WHERE seq = ?", (seq,))
            db.close()
            with pytest.raises(LedgerError, match=f"Entry {seq} is bad: it is missing"):
                verify(read_rows(copy))

    def test_reordered_entries_are_named(self, full):
        copy, db = unlocked(full)
        for old, new in ((5, 1000), (6, 5), (1000, 6)):
            db.execute("UPDATE entries SET seq = ? WHERE seq = ?", (new, old))
        db.close()
        with pytest.raises(LedgerError, match="Entry 5 is bad: it carries another number"):
            verify(read_rows(copy))

    def test_a_cut_is_seen_with_the_head_only(self, full, ledger):
        last = ledger.head
        copy, db = unlocked(full)
        db.execute("DELETE FROM entries WHERE seq > 2")
        with pytest.raises(LedgerError, match="while the bytes of its release are there"):
            read_rows(copy)
        db.execute("DELETE FROM payloads")
        db.close()
        assert verify(read_rows(copy))[1].count == 2
        with pytest.raises(LedgerError, match=r"cut off or exchanged.*ends with entry 2"):
            verify(read_rows(copy), last.hash)

    @pytest.mark.parametrize(
        "change", ["UPDATE payloads SET bytes = x'00'", "DELETE FROM payloads"]
    )
    def test_changed_bytes_of_a_release_are_named(self, full, change):
        copy, db = unlocked(full)
        db.execute(change)
        db.close()
        with pytest.raises(LedgerError, match=r"Entry \d+ is bad: the bytes of its release"):
            verify(read_rows(copy))

    def test_a_forged_chain_that_charges_too_much_is_named(self, full, ledger):
        """Whoever can write the file can make a chain; not one that says what cannot be."""
        copy, db = unlocked(full)
        seq, previous = ledger.head.count + 1, ledger.head.hash
        body = next(body for _, body, _ in rows_of(full) if b'"kind":"charge"' in body)
        forged = canonical.dumps({**json.loads(body), "seq": seq, "previous": previous})
        db.execute("INSERT INTO entries VALUES (?, ?, ?)", (seq, forged, canonical.digest(forged)))
        db.close()
        with pytest.raises(LedgerError, match=f"Entry {seq} is bad: run"):
            verify(read_rows(copy))

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"agents": [{"agent": 0, "charges": [{"events": BIG, "times": -100}]}]}, "≥ 0"),
            ({"agents": [{"agent": 0, "charges": [{"events": BIG, "times": 0.5}]}]}, "≥ 0"),
            ({"agents": [{"agent": 0, "charges": [{"events": BIG, "times": 1}]}]}, "but they cost"),
            (
                {
                    "agents": [{"agent": 0, "charges": [{"events": BIG, "times": 1}]}],
                    "accountant": "another",
                },
                "but they cost",
            ),
        ],
    )
    def test_a_forged_reservation_is_named(self, full, ledger, change, why):
        """Less than nothing would make room for more; nor may an accountant be made up."""
        copy, db = unlocked(full)
        seq, previous = ledger.head.count + 1, ledger.head.hash
        body = next(body for _, body, _ in rows_of(full) if b'"kind":"reserve"' in body)
        other = {"seq": seq, "previous": previous, "run": "forged", **change}
        forged = canonical.dumps({**json.loads(body), **other})
        db.execute("INSERT INTO entries VALUES (?, ?, ?)", (seq, forged, canonical.digest(forged)))
        db.close()
        with pytest.raises(LedgerError, match=f"Entry {seq} is bad: .*{why}"):
            verify(read_rows(copy))

    def test_a_damaged_file_is_one_sentence(self, full, ledger):
        ledger.close()
        data = bytearray(full.read_bytes())
        data[200:4000] = bytes(3800)
        full.write_bytes(bytes(data))
        with pytest.raises(LedgerError):
            verify(read_rows(full))

    @given(data=st.data())
    def test_no_other_bytes_have_the_same_value(self, data):
        plain = st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5)
            | st.floats(allow_nan=False, allow_infinity=False),
            lambda inner: st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=8,
        )  # fmt: skip
        value = data.draw(plain)
        try:
            written = canonical.dumps(value)
        except UnicodeEncodeError:
            return
        assert canonical.dumps(canonical.loads(written)) == written
        for other in (b" " + written, written + b"\n", written + b" "):
            with pytest.raises(ValueError, match="written in another way"):
                canonical.loads(other)

    @pytest.mark.parametrize(
        "text", ['{"a":1,"a":1}', '{"b":1,"a":1}', "1e5", "1E+05", "-0", "01", "NaN", "1.00",
                 '"\\u0041"', "[1,]", '"\\ud800"', "[" * 100_000, "1" * 5000, ""],
    )  # fmt: skip
    def test_other_spellings_are_refused(self, text):
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own reason
            canonical.loads(text.encode())


class TestSpending:
    def test_a_charge_must_be_reserved(self, ledger):
        run = ledger.reserve_run("people", b"records", "spec", AGENTS)
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
                ledger.reserve_run("people", b"records", "spec", [(0, ((ONE, times),))])
        ledger.refresh()
        assert not ledger.books.runs

    def test_another_run_than_was_reserved_is_refused(self, ledger):
        run = ledger.reserve_run("people", b"records", "spec", AGENTS)
        run.agent(0).reserve([(ONE, 2)])
        with pytest.raises(BudgetError, match="another run than was reserved"):
            run.agent(0).reserve([(ONE, 3)])
        run.close()

    def test_runs_are_added_up_jointly_and_refused_with_the_sum(self, ledger):
        ledger.grant("people", Budget(1.0, 1e-6), by="officer", rule="planned")
        big = [(0, ((Charge((Gaussian(0.15),)), 1),))]
        for k in (1, 2):
            run = ledger.reserve_run("people", b"records", "spec", big)
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
            ledger.reserve_run("people", b"records", "spec", big)
        ledger.refresh()
        assert ledger.head == before
        assert not list(ledger.path.parent.glob("*-run-*"))

    def test_an_unfinished_run_counts_as_reserved(self, full, ledger):
        states = [run.outcome for run in ledger.books.counted("people")]
        assert states == ["finished", None]
        both = [[Tally.of([ONE], 2)], [Tally.of([ONE], 2)]]
        assert ledger.spent("people") == filtered(both, GRANT, best_order(GRANT))

    def test_only_a_run_without_any_charge_is_given_back(self, ledger):
        run = ledger.reserve_run("people", b"records", "spec", AGENTS)
        assert ledger.spent("people") > 0
        run.end("abandoned")
        assert ledger.spent("people") == 0
        run = ledger.reserve_run("people", b"records", "spec", AGENTS)
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
            ledger.reserve_run("people", b"records", "spec", AGENTS)

    def test_records_are_charged_under_one_name(self, full, ledger):
        ledger.grant("others", Budget(1.0, 1e-6))
        with pytest.raises(BudgetError, match="registered as 'people', not 'others'"):
            ledger.reserve_run("others", b"records", "spec", AGENTS)
        ledger.reserve_run("people", b"corrected records", "spec", AGENTS).close()
        assert set(ledger.books.commitments.values()) == {"people"}
        assert len(ledger.books.commitments) == 2
        assert ledger.name_of(b"corrected records") == "people"
        assert ledger.name_of(b"unknown") is None

    def test_no_budget_no_run(self, ledger):
        with pytest.raises(BudgetError, match="No budget is granted for 'others'"):
            ledger.reserve_run("others", b"records", "spec", AGENTS)

    def test_a_run_without_any_theorem_is_refused(self, ledger):
        from ppadmm.privacy import NonPrivate

        with pytest.raises(BudgetError, match="ε = inf"):
            ledger.reserve_run("people", b"r", "spec", [(0, ((Charge((NonPrivate(),)), 1),))])


class TestRules:
    BIG = Charge((Gaussian(0.15),))
    RUN = ((0, ((BIG, 1),)),)

    def spend(self, ledger, run=RUN):
        made = ledger.reserve_run("people", b"records", "spec", run)
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
        with pytest.raises(BudgetError, match="would cost"):
            ledger.reserve_run("people", b"r", "s", ((0, ((Charge((Gaussian(1e-9),)), 1),)),))

    def test_a_run_that_only_a_plan_would_allow_is_refused_and_told_so(self, ledger):
        self.spend(ledger)
        more = ((0, ((Charge((Gaussian(0.175),)), 1),)),)
        with pytest.raises(BudgetError, match=r"--rule planned, they would cost ε = 0\.97"):
            ledger.reserve_run("people", b"records", "spec", more)
        ledger.grant("people", GRANT, rule="planned")
        self.spend(ledger, more)

    def test_a_ledger_of_an_earlier_version_is_read_and_goes_on_as_planned(self, ledger):
        with ledger.transaction():
            ledger.append("grant", dataset="people", epsilon=1.0, delta=1e-6, by="x", note="")
        for k in (1, 2):
            self.spend(ledger)
            assert ledger.spent("people") == epsilon(Tally(((Gaussian(0.15), k),)), 1e-6).epsilon
        assert verify(read_rows(ledger.path))[1] == ledger.head

    @pytest.mark.parametrize(
        "rule", [{"name": "adaptive"}, {"name": "adaptive", "order": 0.5},
                 {"name": "planned", "free": 1}, "adaptive", None],
    )  # fmt: skip
    def test_a_rule_that_makes_no_sense_is_refused(self, ledger, rule):
        body = {k: v for k, v in ledger.books.grants["people"].items()
                if k in ("dataset", "epsilon", "delta", "by", "note")}  # fmt: skip
        with pytest.raises(BudgetError, match="its fields cannot be read"), ledger.transaction():
            ledger.append("grant", **body, rule=rule)

    def test_both_ways_to_add_up_are_asked_when_a_ledger_is_verified(self, ledger, monkeypatch):
        for _ in range(2):
            self.spend(ledger)
        rows = read_rows(ledger.path)
        verify(rows)
        for module, name in ((accounts, "filtered"), (recompute, "renyi")):
            with monkeypatch.context() as patch:
                real = getattr(module, name)
                patch.setattr(module, name, lambda *given, real=real: 1.1 * real(*given))
                with pytest.raises(LedgerError, match="it says that all runs cost"):
                    verify(rows)


class TestResuming:
    def test_what_was_sent_comes_back_and_what_was_lost_stays_spent(self, ledger):
        run = ledger.reserve_run("people", b"records", "spec", AGENTS)
        book = run.agent(0)
        book.past(0)
        book.charge(ONE)
        book.record(SENT)
        book.past(1)
        book.charge(ONE)
        run.close()
        again = ledger.resume_run("people", b"records", "spec").agent(0)
        assert encode(again.past(0)) == encode(SENT)
        assert again.past(1) == Lost()
        with pytest.raises(BudgetError, match="all 2 releases"):
            again.charge(ONE)

    def test_a_round_is_released_once(self, ledger):
        run = ledger.reserve_run("people", b"records", "spec", AGENTS)
        book = run.agent(0)
        book.past(0)
        book.charge(ONE)
        book.record(SENT)
        with pytest.raises(BudgetError, match="has released for round 0 already"):
            book.record(SENT)
        with pytest.raises(BudgetError, match="has released for round 0 already"):
            book.charge(ONE)
        run.close()

    def test_only_the_same_records_and_settings_are_taken_up(self, full, ledger):
        for fingerprint, spec in ((b"records", "other"), (b"other", "spec")):
            with pytest.raises(LedgerError, match="that could be resumed"):
                ledger.resume_run("people", fingerprint, spec)

    def test_one_process_works_on_a_run(self, full, ledger):
        run = ledger.resume_run("people", b"records", "spec")
        with (
            SqliteLedger.open(full) as other,
            pytest.raises(LedgerError, match="Another process is working on run"),
        ):
            other.resume_run("people", b"records", "spec")
        run.close()
        ledger.resume_run("people", b"records", "spec").end()

    def test_secrets_are_kept_by_run_and_agent(self, ledger):
        run = ledger.reserve_run("people", b"records", "spec", AGENTS)
        run.agent(0).keep("threshold", np.array([0.1]))
        assert run.agent(0).kept("threshold") == [0.1]
        assert run.agent(1).kept("threshold") is None
        run.close()


RACE = """
import sys
from pathlib import Path
from ppadmm.errors import BudgetError
from ppadmm.privacy import Charge, Gaussian
from ppadmm.privacy.sqlite_ledger import SqliteLedger
ledger = SqliteLedger.open(Path(sys.argv[1]))
sys.stdin.readline()
won = 0
for _ in range(8):
    try:
        ledger.reserve_run("people", b"r", "spec", [(0, ((Charge((Gaussian(0.1),)), 1),))])
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
