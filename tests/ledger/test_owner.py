"""The ledger file: what it holds, whose it is, and how a run is taken up again."""

import json
import shutil
import sqlite3
import stat

import numpy as np
import pytest

from ppadmm import canonical
from ppadmm.accounting.protection import STANDARD
from ppadmm.data.fingerprint import Fingerprint
from ppadmm.errors import BudgetError, InputError, LedgerError
from ppadmm.ledger.chain import GENESIS, read_rows, verify
from ppadmm.ledger.locks import lock
from ppadmm.ledger.owner import OwnerLedger, commit
from ppadmm.ledger.protocol import Lost
from ppadmm.ledger.run import decode, encode
from tests.ledger.ledgers import AGENTS, ONE, RECORDS, SENT, filled, granted, rows_of

ledger = pytest.fixture(granted)
full = pytest.fixture(filled)


class TestEntries:
    def test_the_file_is_for_its_owner_only(self, ledger):
        assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600

    def test_so_is_all_that_lies_beside_it_during_a_run(self, ledger):
        run = ledger.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)
        run.agent(0).charge(ONE)
        beside = sorted(ledger.path.parent.glob("a.ledger-*"))
        assert {path.name.split("-")[1] for path in beside} == {"run", "shm", "wal"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in beside} == {0o600}
        run.close()

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

    def test_the_commitment_says_nothing_without_the_key(self, full, ledger):
        (commitment,) = ledger.books.commitments
        assert commitment != canonical.digest(b"records")
        text = b"".join(body for _, body, _ in rows_of(full))
        key = ledger.secret(ledger.books.created)
        assert commit(key, b"records") == commitment
        assert len(key) == 32
        assert key not in text
        assert key.hex().encode() not in text

    def test_releases_come_back_bit_by_bit(self):
        again = decode(encode(SENT))
        assert encode(again) == encode(SENT)
        assert again.value.tobytes() == SENT.value.tobytes()

    def test_a_new_ledger_does_not_overwrite(self, ledger):
        with pytest.raises(LedgerError, match="exists already"):
            OwnerLedger.create(ledger.path, "other")
        with pytest.raises(InputError, match="name of the data owner"):
            OwnerLedger.create(ledger.path.with_name("b"), " ")

    def test_other_files_are_refused_and_left_alone(self, tmp_path):
        with pytest.raises(LedgerError, match="There is no ledger"):
            OwnerLedger.open(tmp_path / "none")
        for reader in (OwnerLedger.open, read_rows):
            with pytest.raises(LedgerError, match="is a folder, not a ledger"):
                reader(tmp_path)
        text = tmp_path / "text"
        text.write_text("no database " * 200)
        with pytest.raises(LedgerError, match="damaged"):
            OwnerLedger.open(text)
        other = tmp_path / "other"
        db = sqlite3.connect(other)
        db.execute("CREATE TABLE t (x)")
        db.close()
        before = other.read_bytes()
        with pytest.raises(LedgerError, match="not a ledger of ppadmm"):
            OwnerLedger.open(other)
        assert other.read_bytes() == before

    def test_a_ledger_of_an_earlier_format_is_refused_in_a_sentence(self, full, ledger):
        ledger.close()
        db = sqlite3.connect(full)
        db.execute("PRAGMA application_id = 0x70704C31")
        db.commit()
        db.close()
        for reader in (OwnerLedger.open, read_rows):
            with pytest.raises(
                LedgerError, match="has format 1, and this version reads 2; use the"
            ):
                reader(full)

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


class TestResuming:
    def test_what_was_sent_comes_back_and_what_was_lost_stays_spent(self, ledger):
        run = ledger.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)
        book = run.agent(0)
        book.past(0)
        book.charge(ONE)
        book.record(SENT)
        book.past(1)
        book.charge(ONE)
        run.close()
        again = ledger.resume_run("people", RECORDS, "spec").agent(0)
        assert encode(again.past(0)) == encode(SENT)
        assert again.past(1) == Lost()
        with pytest.raises(BudgetError, match="all 2 releases"):
            again.charge(ONE)

    def test_a_round_is_released_once(self, ledger):
        run = ledger.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)
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
        for fingerprint, spec in ((RECORDS, "other"), (Fingerprint(b"other"), "spec")):
            with pytest.raises(LedgerError, match="that could be resumed"):
                ledger.resume_run("people", fingerprint, spec)

    def test_one_process_works_on_a_run(self, full, ledger):
        run = ledger.resume_run("people", RECORDS, "spec")
        with (
            OwnerLedger.open(full) as other,
            pytest.raises(LedgerError, match="Another process is working on run"),
        ):
            other.resume_run("people", RECORDS, "spec")
        run.close()
        ledger.resume_run("people", RECORDS, "spec").end()

    def test_secrets_are_kept_by_run_and_agent(self, ledger):
        run = ledger.reserve_run("people", RECORDS, "spec", AGENTS, STANDARD)
        run.agent(0).keep("threshold", np.array([0.1]))
        assert run.agent(0).kept("threshold") == [0.1]
        assert run.agent(1).kept("threshold") is None
        run.close()
