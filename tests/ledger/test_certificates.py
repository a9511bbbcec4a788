"""Statements with a published schema, and certificates that every changed byte breaks."""

import copy
import functools
import json
import random
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from small_runs import finished, folder_of, resigned

from ppadmm.errors import CertificateError, InputError
from ppadmm.experiments.booked import Booking
from ppadmm.experiments.disclosure import disclosure
from ppadmm.experiments.spec import RunSpec
from ppadmm.experiments.train import train
from ppadmm.noise import SecureNoise
from ppadmm.privacy import Budget, keys
from ppadmm.privacy.certificate import check, issue, require_booked
from ppadmm.privacy.chain import read_rows, verify
from ppadmm.privacy.curves import curves
from ppadmm.privacy.events import Tally
from ppadmm.privacy.shapes import KEYWORDS, require_shape, schema
from ppadmm.privacy.sqlite_ledger import SqliteLedger
from ppadmm.privacy.statement import SEEDED, UNITS

RUNS = ("private", "ipp", "seeded", "paper", "bare", "pooled", "one-shot")
DOCS = Path(__file__).parents[2] / "docs" / "schemas"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))


def certificate(name="pooled", key=KEY, **changes):
    options = {"name": "us", "model": b"m", "releases": b"r", "issued": "2026-01-01", **changes}
    return issue(statement(name), key, **options)


def certificate_of(said):
    return issue(said, KEY, name="us", model=b"m", releases=b"r", issued="2026-01-01")


def statement(name):
    """Return a fresh copy of a run's statement."""
    return json.loads(_written(name))


@functools.cache
def _written(name):
    return json.dumps(disclosure(finished(name)))


def forged(change, name="pooled"):
    """A certificate that was changed by its own signer: the signature is good, the content not."""
    return resigned(certificate(name), KEY, change)


class TestStatements:
    @pytest.mark.parametrize("name", RUNS)
    def test_every_statement_fits_the_published_schema(self, name):
        validator = jsonschema.Draft202012Validator(schema("statement"))
        validator.validate(statement(name))
        require_shape("statement", statement(name))

    @pytest.mark.parametrize("name", ["statement", "certificate"])
    def test_the_schemas_are_schemas_and_those_of_the_docs(self, name):
        jsonschema.Draft202012Validator.check_schema(schema(name))
        assert json.loads((DOCS / f"{name}.schema.json").read_text()) == schema(name)

    @pytest.mark.parametrize("name", ["statement", "certificate"])
    def test_our_own_check_knows_every_word_of_the_schemas(self, name):
        def words(rule):
            if isinstance(rule, dict):
                yield from rule
                for key, part in rule.items():
                    inner = part.values() if key in ("properties", "$defs") else [part]
                    for each in inner:
                        yield from words(each)
            elif isinstance(rule, list):
                for part in rule:
                    yield from words(part)

        assert set(words(schema(name))) <= KEYWORDS

    def test_both_checks_find_the_same_faults(self):
        """Every entry of a statement removed, set to something else, or one added."""
        validator = jsonschema.Draft202012Validator(schema("statement"))
        rng = random.Random(0)
        found = 0
        for _ in range(300):
            value = statement("pooled")
            place = rng.choice(list(value))
            owner, spot = value, value[place]
            while isinstance(spot, dict | list) and spot and rng.random() < 0.8:
                place = rng.choice(list(spot) if isinstance(spot, dict) else range(len(spot)))
                owner, spot = spot, spot[place]
            owner[place] = rng.choice([None, -1, True, "x", [], {}, 1.5, 10**9, "rule", 0])
            ours = True
            try:
                require_shape("statement", value)
            except ValueError:
                ours = False
            assert ours == validator.is_valid(value)
            found += not ours
        assert found > 100

    def test_the_paper_at_ten_is_flagged(self):
        """Claimed 10, proven 11.2 (docs/privacy.md, section 9)."""
        result = train(RunSpec.of("paper", epsilon=10.0))
        said = disclosure(result)
        assert said["claim"] == {"calibration": "paper", "epsilon": 10.0, "proven": False}
        assert said["epsilon"] == pytest.approx(11.2, rel=0.01)
        assert not said["private"]
        first = (
            "claim ε = 10 for this noise at agent 0, agent 1, but the accountant proves ε = 11.2"
        )
        assert first in said["warnings"][0]
        assert said["warnings"][0] in result.statement.text()

    def test_claims_are_compared_agent_by_agent(self):
        """Agent 0 claims 10, of which 11.2 is proven; the other claim of 20 would hide it."""
        spec = RunSpec.of("paper", epsilons=(10.0, 20.0, 20.0, 20.0, 20.0))
        said = disclosure(train(spec))
        assert said["agents"][0]["epsilon"] > said["agents"][0]["claimed"] == 10.0
        assert said["claim"]["proven"] is False
        told = [w for w in said["warnings"] if "claim ε = 10 for this noise at agent 0," in w]
        assert len(told) == 1
        sound = certificate_of(said)
        assert check(sound).statement == said
        hidden = json.loads(json.dumps(said))
        hidden["claim"]["proven"] = True
        with pytest.raises(CertificateError, match="It claims"):
            certificate_of(hidden)

    def test_statements_of_earlier_versions_are_read(self):
        """They say less: no claim of each agent, and nothing of a search."""
        said = statement("private")
        del said["tuned"]["search"]
        for agent in said["agents"]:
            del agent["claimed"]
        assert check(certificate_of(said)).statement == said

    def test_a_claim_that_holds_is_not_flagged(self):
        assert statement("private")["claim"]["proven"] is True
        assert not statement("private")["warnings"]

    def test_the_curves_pass_through_the_statement(self):
        curves = statement("private")["curves"]
        epsilons = [e for _, e in curves["epsilon_by_delta"]]
        assert epsilons == sorted(epsilons, reverse=True)
        at = dict(map(tuple, curves["epsilon_by_delta"]))[1e-6]
        assert at == pytest.approx(statement("private")["epsilon"])
        errors = curves["errors_of_an_attacker"]
        assert errors[0][1] > 0.9
        assert errors[-1] == [1.0, 0.0]

    def test_what_is_counted(self):
        said = statement("ipp")
        tests = sum(e["times"] for a in said["agents"] for e in a["booked"] if "kappa" in e)
        assert said["released"]["ObjectivePerturbation"] == tests == sum(
            a["releases"] for a in said["agents"] if a["records"]
        )  # fmt: skip
        assert said["tuned"]["rounds"] == "given"
        assert said["tuned"]["eta"] == "rule"
        assert said["booked"] is None


class TestBytes:
    def test_a_certificate_holds(self):
        verdict = check(certificate(), [keys.public_key(KEY)])
        assert verdict.statement == statement("pooled")
        assert not verdict.unchecked

    def test_every_changed_byte_is_rejected(self):
        """All positions; the lowest bit, the case of a letter, and another value."""
        good = certificate()
        rng = random.Random(1)
        for k, byte in enumerate(good):
            others = {byte ^ 1, byte ^ 0x20, rng.randrange(256)} - {byte}
            for other in others:
                with pytest.raises(CertificateError):
                    check(good[:k] + bytes([other]) + good[k + 1 :])

    def test_every_cut_and_every_insertion_is_rejected(self):
        good = certificate()
        for k in range(0, len(good), 7):
            for bad in (good[:k], good[:k] + good[k + 1 :], good[:k] + b" " + good[k:]):
                with pytest.raises(CertificateError):
                    check(bad)
        for bad in (good + b"\n", good + good, b"\xef\xbb\xbf" + good, b""):
            with pytest.raises(CertificateError):
                check(bad)

    def test_the_same_value_in_other_bytes_is_rejected(self):
        good = certificate()
        value = json.loads(good)
        signature = value["signature"].encode()
        for bad in (
            json.dumps(value).encode() + b"\n",
            json.dumps(value, separators=(",", ":")).encode() + b"\n",
            good.replace(signature, signature.upper()),
            good.replace(b'"format":1', b'"format":1,"format":1'),
            good.replace(b'"format":1', b'"format":1.0'),
            good.replace(b'"times":1', b'"times":1e0'),
        ):
            assert bad != good
            with pytest.raises(CertificateError):
                check(bad)

    def test_a_huge_file_is_refused_before_it_is_read(self):
        with pytest.raises(CertificateError, match="no certificate is so long"):
            check(b"[" * (65 * 2**20))

    def test_deep_nesting_is_refused(self):
        with pytest.raises(CertificateError, match="canonical form"):
            check(b"[" * 200_000 + b"\n")

    @pytest.mark.parametrize("other", [b"<html></html>", b'{"private": true}\n', b""])
    def test_another_file_is_refused_with_the_way_to_a_certificate(self, other):
        with pytest.raises(CertificateError, match="ppadmm certify makes one of a run"):
            check(other)

    def test_another_key_is_not_trusted(self):
        with pytest.raises(CertificateError, match="none of those given"):
            check(certificate(), [keys.public_key(OTHER)])
        assert "give --trust" in check(certificate()).unchecked[0]


def at(*path):
    """Return a function that sets an entry of a certificate."""

    def change(value):
        def apply(body):
            for name in path[:-1]:
                body = body[name]
            body[path[-1]] = value

        return apply

    return change


class TestContent:
    """A signer who lies: the signature is good and the recomputation says no."""

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (at("statement", "epsilon")(0.5), "The run: it states ε = 0.5"),
            (at("statement", "agents", 0, "epsilon")(0.5), "Agent 0: it states ε = 0.5"),
            (at("statement", "epsilon")(None), "states ε = none"),
            (at("statement", "delta")(1e-9), "events give"),
            (at("statement", "agents", 0, "reserved", 0, "ratio")(1e-3), "events give"),
            (at("statement", "agents", 0, "reserved", 0, "times")(0), "events give"),
            (at("statement", "agents", 0, "reserved")([]), "events give"),
            (at("statement", "agents", 0, "booked", 0, "times")(9), "booked more than it reserved"),
            (at("statement", "released")({}), "counts of what was released"),
            (at("statement", "not_private_because")(["a seed"]), "says why it is not"),
            (at("statement", "claim", "epsilon")(0.1), "is proven"),
            (at("statement", "claim", "proven")(None), "is proven"),
            (at("statement", "claim", "calibration")("paper"), "no proven ε"),
            (at("statement", "curves", "epsilon_by_delta", 3, 1)(0.01), "The curve"),
            (at("statement", "curves", "divergence_by_order", 3, 1)(0.0), "The Rényi curve"),
            (at("statement", "curves", "errors_of_an_attacker", 3, 1)(0.99), "attacker's errors"),
            (at("statement", "curves", "epsilon_by_delta", 3, 0)(None), "has a point at None"),
            (at("statement", "curves", "epsilon_by_delta", 3, 0)(2.0), "has a point at 2"),
            (at("statement", "curves", "divergence_by_order", 3, 0)(1.0), "has a point at 1"),
            (at("statement", "curves", "errors_of_an_attacker", 3, 0)(None), "no probabilities"),
            (at("statement", "curves", "gaussian", "ratio")(0.0), "no Gaussian mechanism"),
            (at("statement", "curves", "gaussian", "exact")(True), "no Gaussian mechanism"),
            (at("statement", "unit")("all records of a person"), "It speaks of 'all records"),
            (at("statement", "noise_source")(SEEDED), "noise follows from a seed"),
            (at("statement", "tuned", "on_the_records")(True), "not part of its ε"),
            (at("statement", "agents", 0, "releases")(2), "spoke 2 times and paid for 1"),
            (at("statement", "unknown")(1), "unknown entry 'unknown'"),
            (at("statement", "agents", 0, "reserved", 0, "free")(1), "none of what it may be"),
            (at("statement", "agents", 0, "reserved", 0, "ratio")(-1.0), "none of what it may be"),
            (at("statement", "unit")(5), "is not of type string"),
            (at("format")(2), "is not 1"),
        ],
    )
    def test_a_false_statement_is_rejected(self, change, reason):
        with pytest.raises(CertificateError, match=reason):
            check(forged(change))

    def test_a_claim_of_nobody_is_not_proven(self):
        """Where no agent claims anything, a claim of the run is not true for that reason."""

        def change(body):
            for agent in body["statement"]["agents"]:
                agent["claimed"] = None
            body["statement"]["claim"]["epsilon"] = 0.1

        with pytest.raises(CertificateError, match=r"It claims ε = 0\.1"):
            check(forged(change))

    def test_a_run_that_was_not_paid_for_is_rejected(self):
        """All figures follow from no events at all; the agent spoke nevertheless."""

        def change(body):
            said = body["statement"]
            (agent,) = said["agents"]
            agent.update(reserved=[], booked=[], epsilon=0.0)
            said.update(released={}, epsilon=0.0, curves=json.loads(json.dumps(curves([Tally()]))))

        with pytest.raises(CertificateError, match="spoke 1 times and paid for 0"):
            check(forged(change))

    def test_neighbours_that_leave_a_record_out_are_not_said_to_replace_it(self):
        """ε of zero-out is half that of replace-one: it must not be sold for it."""
        said = disclosure(train(RunSpec(algorithm="centralised", adjacency="zero-out")))
        assert check(certificate_of(said)).statement == said
        said.update(adjacency="replace-one", unit=UNITS["replace-one"])
        with pytest.raises(CertificateError, match="not those of neighbours by replace-one"):
            certificate_of(said)

    def test_nothing_false_is_signed(self):
        false = statement("pooled")
        false["epsilon"] = 0.1
        with pytest.raises(CertificateError, match=r"states ε = 0\.1"):
            issue(false, KEY, name="us", model=b"", releases=b"", issued="")
        false = statement("pooled")
        false["epsilon"] = float("nan")
        with pytest.raises(CertificateError, match="cannot be written down"):
            issue(false, KEY, name="us", model=b"", releases=b"", issued="")

    @pytest.mark.parametrize("name", RUNS)
    def test_every_kind_of_run_is_recomputed(self, name):
        assert check(certificate(name)).statement["private"] == finished(name).statement.private

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"dataset": "others", "granted": 9.0, "spent": 0.0}, "is one of 1 on 'synthetic'"),
            ({"dataset": "unheard of"}, "is one of 1 on 'synthetic'"),
            ({"owner": "somebody"}, "of 'owner', not as certified"),
            ({"runs": 7}, "is one of 1"),
            ({"spent": 0.5}, "was spent, not 0.5"),
            ({"granted": 9.0}, "The ledger grants ε = 2.0"),
            ({"rule": "planned"}, "rule is adaptive"),
            ({"run": "none"}, "not the one certified"),
            ({"ledger": "another"}, "It names ledger another"),
        ],
    )
    def test_a_ledger_says_what_was_booked(self, change, reason, tmp_path):
        path = tmp_path / "a.ledger"
        with SqliteLedger.create(path, "owner") as ledger:
            ledger.grant("synthetic", Budget(2.0, 1e-6))
            ledger.grant("others", Budget(9.0, 1e-6))
        spec = RunSpec(rounds=1, agents=2, epsilon=1.0)
        said = disclosure(train(spec, booking=Booking(path, "synthetic")))
        books, _ = verify(read_rows(path))
        require_booked(said, books)
        said["booked"].update(change)
        with pytest.raises(CertificateError, match=reason):
            require_booked(said, books)


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
        from ppadmm.engines import local

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
        import numpy as np

        with np.load("one/releases.npz") as file:
            for t, sends in enumerate(seen):
                for i, send in enumerate(sends):
                    np.testing.assert_array_equal(file["releases"][t, i], send.release.value[0])
        (run,) = command("ledger", "show", "a.ledger", "--json").json["datasets"][0]["runs"]
        assert (run["state"], run["charges"], run["releases"]) == ("finished", 8, 8)

    def test_results_that_could_not_be_written_are_not_lost(self, command, monkeypatch):
        """The run is finished and paid for, the disk full: --resume shows it again for nothing."""
        from ppadmm.reports import files

        train_ = ("train", "--rounds", 2, "--agents", 2, "--epsilon", 1, "--ledger", "a.ledger")
        command("ledger", "new", "a.ledger", "--owner", "me")
        command("ledger", "grant", "a.ledger", "synthetic", "--epsilon", 1)

        def full(*_):
            raise InputError("No space left on device.")

        with monkeypatch.context() as patch:
            patch.setattr(files, "_write_run", full)
            assert command(*train_, "--out", "one").code == 2
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
        from ppadmm.engines import local

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


def test_the_run_folder_holds_the_statement():
    said = json.loads((folder_of("private") / "statement.json").read_text())
    assert said == statement("private")


def test_a_public_key_is_read_from_a_file_or_from_the_line(tmp_path):
    public = keys.new_key(tmp_path / "k")
    assert keys.public_key_named(str(tmp_path / "k.pub")) == public == keys.public_key_named(public)
    assert keys.public_key(keys.read_key(tmp_path / "k")) == public
    with pytest.raises(InputError, match="is no public key"):
        keys.public_key_named(str(tmp_path / "k"))


TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
PPADMM = [sys.executable, "-c", "from ppadmm.cli import main; main()"]


def typed(answers, *words):
    """Run a command at a terminal and type an answer at every prompt."""
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINAL, *PPADMM, *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with process:
        said = b""
        for answer in answers:
            while not said.endswith(b": "):
                said += process.stdout.read(1)
            process.stdin.write(answer + b"\n")
            process.stdin.flush()
            said += b"."
        said += process.stdout.read()
    return process.returncode, said.decode()


class TestPassphrases:
    @pytest.fixture(autouse=True)
    def _nothing_told(self, monkeypatch):
        monkeypatch.delenv("PPADMM_PASSPHRASE", raising=False)

    def test_an_encrypted_key_opens_with_its_passphrase_only(self, tmp_path):
        path = tmp_path / "k"
        public = keys.new_key(path, "größer".encode())
        assert path.read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
        assert keys.public_key(keys.read_key(path, "größer".encode())) == public
        with pytest.raises(InputError, match="The passphrase does not open"):
            keys.read_key(path, b"other")
        with pytest.raises(InputError, match=r"is encrypted; give its passphrase in PPADMM_PASS"):
            keys.read_key(path)
        with pytest.raises(InputError, match="got an empty one"):
            keys.new_key(tmp_path / "other", b"")
        assert not (tmp_path / "other").exists()

    def test_a_key_without_one_is_read_whatever_is_told(self, tmp_path):
        public = keys.new_key(tmp_path / "k")
        assert keys.public_key(keys.read_key(tmp_path / "k", b"for another key")) == public

    def test_from_the_environment_and_from_a_file(self, command, monkeypatch):
        run = folder_of("pooled")
        Path("secret").write_bytes(b"correct horse\nanother line\n")
        made = command("key", "new", "k", "--passphrase-file", "secret")
        assert "(encrypted; keep it secret)" in made.out
        sign = ("certify", run, "--key", "k", "--out")
        refused = command(*sign, "one")
        assert refused.code == 2
        assert "'k' is encrypted; give its passphrase" in refused.err
        assert command(*sign, "one", "--passphrase-file", "secret").code == 0
        monkeypatch.setenv("PPADMM_PASSPHRASE", "correct horse")
        assert command(*sign, "two").code == 0
        assert command("verify", "two", "--trust", "k.pub").code == 0
        monkeypatch.setenv("PPADMM_PASSPHRASE", "wrong")
        wrong = command(*sign, "three")
        assert wrong.code == 2
        assert "The passphrase does not open 'k'" in wrong.err
        assert not Path("three").exists()
        assert "Cannot read the passphrase" in command(*sign, "x", "--passphrase-file", "no").err
        monkeypatch.setenv("PPADMM_PASSPHRASE", "")
        assert "got an empty one" in command("key", "new", "l").err

    def test_a_key_that_is_not_encrypted_says_so(self, command):
        assert "NOT encrypted" in command("key", "new", "k").out

    def test_asked_for_at_a_terminal(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        code, said = typed([b"one word", b"one word"], "key", "new", "k", "--passphrase")
        assert code == 0, said
        assert "one word" not in said
        keys.read_key(tmp_path / "k", b"one word")
        run = str(folder_of("pooled"))
        code, said = typed([b"one word"], "certify", run, "--key", "k", "--out", "c")
        assert code == 0, said
        code, said = typed([b"no word"], "certify", run, "--key", "k", "--out", "d")
        assert code == 2
        assert "does not open" in said


def test_copies_are_deep():
    """The tests above change statements of runs that others share."""
    one = statement("pooled")
    changed = copy.deepcopy(one)
    changed["agents"][0]["reserved"].clear()
    assert statement("pooled") == one
