"""Ledgers, keys and certificates at the command line, from a grant to a verified certificate."""

import json
from pathlib import Path

import numpy as np
import pytest

from ppadmm.engines import local
from ppadmm.errors import InputError
from ppadmm.noise import SecureNoise
from ppadmm.runs import folder


class TestCommands:
    def test_from_a_ledger_to_a_verified_certificate(self, command):
        def ok(*words):
            outcome = command(*words)
            assert outcome.code == 0, outcome.err
            return outcome

        ok("ledger", "new", "a.ledger", "--owner", "St Mary")
        ok("ledger", "grant", "a.ledger", "synthetic", "--epsilon", 1.2, "--by", "officer")
        train_ = ("train", "--rounds", 2, "--agents", 2, "--epsilon", 1)
        outcome = ok(*train_, "--ledger", "a.ledger", "--out", "one")
        assert "all 1 runs on 'synthetic' together cost ε = 1 of 1.2" in " ".join(
            outcome.out.split()
        )
        assert "Booked: run" in Path("one/statement.txt").read_text()
        old = Path("a.ledger").read_bytes()
        early = json.loads(ok("ledger", "show", "a.ledger", "--json").out)["head"]

        refused = command(*train_, "--ledger", "a.ledger", "--no-save")
        assert refused.code == 4
        assert "would cost ε = 1.578" in refused.err
        assert "granted (by officer); spent: run" in refused.err
        ok("ledger", "grant", "a.ledger", "synthetic", "--epsilon", 2)
        ok(*train_, "--ledger", "a.ledger", "--out", "two")

        ok("key", "new", "k")
        assert Path("k").stat().st_mode & 0o777 == 0o600
        for run in ("one", "two"):
            ok("certify", run, "--key", "k")
        cert = "two/certificate.json"
        sound = ok("verify", cert, "--trust", "k.pub", "--ledger", "a.ledger", "--run", "two")
        assert "PRIVATE: ε = 1 at δ = 1e-06" in sound.out
        assert "No certificate can prove: that the noise was drawn" in sound.out
        assert "Not checked" not in sound.out
        assert "give --ledger" in ok("verify", cert).out
        assert ok("verify", cert, "--json").json["certificates"][0]["epsilon"] <= 1.0

        assert ok("ledger", "verify", "a.ledger", "--certificate", cert, "--head", early).code == 0
        assert "was not checked" in ok("ledger", "verify", "a.ledger").out
        shown = ok("ledger", "show", "a.ledger").out
        assert "synthetic: ε = 1.642" in shown
        assert "of 2 spent" in shown

        wrong = command("verify", cert, "--run", "one")
        assert wrong.code == 9
        assert "model in the run folder is not the one certified" in wrong.err
        for suffix in ("-wal", "-shm"):
            Path(f"a.ledger{suffix}").unlink(missing_ok=True)
        Path("a.ledger").write_bytes(old)
        restored = command("ledger", "verify", "a.ledger", "--certificate", cert)
        assert restored.code == 8
        assert "an old copy" in restored.err
        restored = command("verify", cert, "--ledger", "a.ledger")
        assert restored.code == 9
        assert "an old copy" in restored.err

    @pytest.mark.parametrize(
        "option",
        [
            ("--seed", 1),
            ("--preset", "paper"),
            ("--algorithm", "dvp"),
            ("--algorithm", "non-private"),
        ],
    )
    def test_a_run_that_is_not_private_is_refused(self, command, option):
        command("ledger", "new", "a.ledger", "--owner", "me")
        command("ledger", "grant", "a.ledger", "synthetic", "--epsilon", 100)
        outcome = command("train", *option, "--ledger", "a.ledger", "--no-save")
        assert outcome.code == 4
        assert "is not private" in outcome.err
        assert command("ledger", "show", "a.ledger", "--json").json["datasets"][0]["runs"] == []

    def test_a_broken_run_is_resumed(self, command, monkeypatch):
        """Ctrl-C in the third round: the first two are used again, the run costs once."""
        train_ = ("train", "--rounds", 4, "--agents", 2, "--epsilon", 1, "--ledger", "a.ledger")
        command("ledger", "new", "a.ledger", "--owner", "me")
        command("ledger", "grant", "a.ledger", "synthetic", "--epsilon", 1)
        deliver, seen = local._deliver, []

        def interrupted(agents, sends):
            seen.append(sends)
            if len(seen) == 3:
                raise KeyboardInterrupt
            deliver(agents, sends)

        monkeypatch.setattr(local, "_deliver", interrupted)
        assert command(*train_, "--no-save").code == 130
        monkeypatch.setattr(local, "_deliver", deliver)
        assert command(*train_, "--no-save").code == 4
        assert "that could be resumed" in command(*train_, "--eta", 3, "--no-save", "--resume").err
        outcome = command(*train_, "--out", "one", "--resume")
        assert outcome.code == 0, outcome.err
        with np.load("one/releases.npz") as file:
            for t, sends in enumerate(seen):
                for i, send in enumerate(sends):
                    np.testing.assert_array_equal(file["releases"][t, i], send.release.value[0])
        (run,) = command("ledger", "show", "a.ledger", "--json").json["datasets"][0]["runs"]
        assert (run["state"], run["charges"], run["releases"]) == ("finished", 8, 8)

    def test_results_that_could_not_be_written_are_not_lost(self, command, monkeypatch):
        """The run is finished and paid for, the disk full: --resume shows it again for nothing."""
        train_ = ("train", "--rounds", 2, "--agents", 2, "--epsilon", 1, "--ledger", "a.ledger")
        command("ledger", "new", "a.ledger", "--owner", "me")
        command("ledger", "grant", "a.ledger", "synthetic", "--epsilon", 1)

        def full(*_):
            raise InputError("No space left on device.")

        with monkeypatch.context() as patch:
            patch.setattr(folder, "_write_run", full)
            failed = command(*train_, "--out", "one")
        assert failed.code == 2
        assert "device. What was paid for is kept: the same command with --resume" in failed.err
        before = command("ledger", "show", "a.ledger", "--json").json
        assert before["datasets"][0]["runs"][0]["state"] == "finished"
        monkeypatch.setattr(SecureNoise, "gaussian", full)
        again = command(*train_, "--out", "one", "--resume")
        assert again.code == 0, again.err
        assert command("ledger", "show", "a.ledger", "--json").json == before
        command("key", "new", "k")
        command("certify", "one", "--key", "k")
        assert command("verify", "one/certificate.json", "--ledger", "a.ledger").code == 0

    def test_a_run_that_fails_before_any_charge_is_given_back(self, command, monkeypatch):
        def fail(*_):
            raise KeyboardInterrupt

        command("ledger", "new", "a.ledger", "--owner", "me")
        command("ledger", "grant", "a.ledger", "synthetic", "--epsilon", 1)
        monkeypatch.setattr(local, "run", fail)
        command("train", "--rounds", 2, "--ledger", "a.ledger", "--no-save")
        (dataset,) = command("ledger", "show", "a.ledger", "--json").json["datasets"]
        assert dataset["spent"] == 0
        assert dataset["runs"][0]["state"] == "abandoned"
        assert "given back" in command("ledger", "show", "a.ledger").out

    def test_an_unfinished_run_is_abandoned_by_hand(self, command):
        assert command("ledger", "abandon", "none.ledger", "x").code == 8
        command("ledger", "new", "a.ledger", "--owner", "me")
        outcome = command("ledger", "abandon", "a.ledger", "x")
        assert outcome.code == 4
        assert "run x is not reserved" in outcome.err

    def test_mistakes_are_one_sentence(self, command):
        Path("text").write_text("no key")
        assert "holds no Ed25519 private key" in command("certify", ".", "--key", "text").err
        command("key", "new", "k")
        assert "exists already" in command("key", "new", "k").err
        assert "There is no statement.json" in command("certify", ".", "--key", "k").err
        assert "is no public key" in command("verify", "text", "--trust", "text").err
        assert command("verify", "text").code == 9
        assert "--resume say how to use a ledger" in command("train", "--resume").err
        assert command("train", "--ledger", "none", "--no-save").code == 8
