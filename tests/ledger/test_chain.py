"""What a ledger finds out: entries edited, removed, reordered, forged or spelt in another way."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppadmm import canonical
from ppadmm.accounting import Budget
from ppadmm.accounting.protection import STANDARD
from ppadmm.errors import BudgetError, LedgerError
from ppadmm.ledger.chain import read_rows, verify
from ppadmm.ledger.owner import OwnerLedger
from tests.ledger.ledgers import AGENTS, RECORDS, filled, granted, rows_of, unlocked

BIG = [{"event": "Gaussian", "ratio": 5.0}]

ledger = pytest.fixture(granted)
full = pytest.fixture(filled)


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

    def test_a_kind_that_is_no_text_is_named(self, full):
        copy, db = unlocked(full)
        (body,) = db.execute("SELECT body FROM entries WHERE seq = 2").fetchone()
        changed = bytes(body).replace(b'"kind":"grant"', b'"kind":[]')
        assert changed != body
        hash_ = canonical.digest(changed)
        db.execute("UPDATE entries SET body = ?, hash = ? WHERE seq = 2", (changed, hash_))
        db.close()
        with pytest.raises(LedgerError, match="Entry 2 is bad: it is of no known kind"):
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
        with pytest.raises(
            LedgerError, match=r"Entry 3 is bad: .* a secret that belongs to it is there"
        ):
            read_rows(copy)
        db.execute("DELETE FROM secrets WHERE seq > 2")
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

    @pytest.mark.parametrize("seq", [1, 3])
    @pytest.mark.parametrize(
        "change",
        ["DELETE FROM secrets WHERE seq = {}", "UPDATE secrets SET bytes = x'00' WHERE seq = {}"],
    )
    def test_secrets_that_were_deleted_or_changed_are_named(self, full, seq, change):
        """Entry 1 has the key that records are known by, entry 3 what is kept of their rows."""
        copy, db = unlocked(full)
        assert len(db.execute("SELECT * FROM secrets").fetchall()) == 2
        db.execute(change.format(seq))
        db.close()
        with pytest.raises(
            LedgerError, match=f"Entry {seq} is bad: the secret beside it is missing"
        ):
            verify(read_rows(copy))

    def test_a_secret_where_none_belongs_is_named(self, full):
        copy, db = unlocked(full)
        db.execute("INSERT INTO secrets VALUES (2, x'00')")
        db.close()
        with pytest.raises(LedgerError, match="Entry 2 is bad: the secret beside it"):
            verify(read_rows(copy))

    def test_records_do_not_register_again_without_the_key(self, full):
        """The salts of earlier versions could be deleted, and records registered a second time."""
        copy, db = unlocked(full)
        db.execute("DELETE FROM secrets")
        db.close()
        with OwnerLedger.open(copy) as open_:
            open_.grant("others", Budget(1.0, 1e-6))
            before = open_.head
            for attempt in (
                lambda: open_.reserve_run("others", RECORDS, "spec", AGENTS, STANDARD),
                lambda: open_.name_of(RECORDS),
                lambda: open_.resume_run("people", RECORDS, "spec"),
            ):
                with pytest.raises(
                    LedgerError, match=r"secret beside entry 1 .* take the ledger from"
                ):
                    attempt()
            open_.refresh()
            assert open_.head == before

    def test_a_threshold_that_was_changed_is_not_used(self, ledger):
        run = ledger.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)
        run.agent(0).keep("threshold", np.array([0.25]))
        with pytest.raises(BudgetError, match="has kept a secret 'threshold' already"):
            run.agent(0).keep("threshold", np.array([9.0]))
        ledger.refresh()
        assert run.agent(0).kept("threshold") == [0.25]
        run.close()
        copy, db = unlocked(ledger.path)
        (body,) = db.execute("SELECT max(seq) FROM secrets").fetchone()
        db.execute("UPDATE secrets SET bytes = zeroblob(24) WHERE seq = ?", (body,))
        db.close()
        with pytest.raises(LedgerError, match=f"Entry {body} is bad"):
            verify(read_rows(copy))
        with OwnerLedger.open(copy) as open_:
            again = open_.resume_run("people", RECORDS, "spec")
            with pytest.raises(LedgerError, match="secret beside entry"):
                again.agent(0).kept("threshold")
            again.close()

    def test_the_chain_says_nothing_of_a_threshold(self, ledger):
        """Its digest is salted: nobody can try all values."""
        for number in (0, 1):
            run = ledger.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)
            run.agent(number).keep("threshold", np.array([0.25]))
            run.close()
        digests = [json.loads(body)["secret"] for _, body, _ in rows_of(ledger.path)
                   if b'"kind":"kept"' in body]  # fmt: skip
        assert len(set(digests)) == 2
        assert canonical.digest(np.array([0.25]).tobytes()) not in digests

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
