"""Certificates: every changed byte breaks them, and so does a signer's lie."""

import json
import random

import pytest

from ppadmm.accounting import Budget
from ppadmm.accounting.curves import curves, type_two
from ppadmm.accounting.events import Tally
from ppadmm.errors import CertificateError
from ppadmm.ledger.chain import read_rows, verify
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.runs.ledger_session import LedgerOptions
from ppadmm.runs.run import train
from ppadmm.runs.specification import RunSpec
from ppadmm.statements import keys
from ppadmm.statements.certificate import check, issue, require_booked
from ppadmm.statements.claims import SEEDED
from ppadmm.statements.trust_claim import UNITS
from tests.small_runs import finished
from tests.statements.signed import KEY, OTHER, RUNS, certificate, certificate_of, forged, statement


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
            (at("statement", "agents", 0, "reserved", 0, "ratio")(9.0), "events give"),
            (at("statement", "agents", 0, "reserved", 0, "times")(2), "events give"),
            (at("statement", "agents", 0, "reserved", 0, "ratio")(1e-3), "more than it reserved"),
            (at("statement", "agents", 0, "reserved", 0, "times")(0), "more than it reserved"),
            (at("statement", "agents", 0, "reserved")([]), "more than it reserved"),
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
            (at("format")(2), "has format 2, and this version reads format 1"),
        ],
    )
    def test_a_false_statement_is_rejected(self, change, reason):
        with pytest.raises(CertificateError, match=reason):
            check(forged(change))

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (at("statement", "epsilon")(3.1), "but 3 is the largest of its agents"),
            (at("statement", "agents", 0, "epsilon")(2.9999), r"Agent 0: it states ε = 2\.9999"),
            (at("statement", "agents", 0, "epsilon")(None), "but inf is the largest of its agents"),
            (at("statement", "curves", "errors_of_an_attacker", 3, 1)(-0.1), "no probabilities"),
            (at("statement", "curves", "epsilon_by_delta")([[0.5, 9.9]]), "do not follow from ε"),
        ],
    )
    def test_figures_that_do_not_fit_one_another_are_rejected(self, change, reason):
        with pytest.raises(CertificateError, match=reason):
            check(forged(change))

    @pytest.mark.parametrize("factor", [1.0001, 1.006, 40.0])
    def test_a_larger_epsilon_is_true_and_told(self, factor):
        """An accountant that stops in the other valley states a true bound, not a false one."""

        def change(body):
            said = body["statement"]
            (agent,) = said["agents"]
            agent["epsilon"] = said["epsilon"] = factor * agent["epsilon"]
            agent["claimed"] = said["claim"]["epsilon"] = 2.0 * factor * agent["claimed"]

        verdict = check(forged(change))
        assert len(verdict.notes) == 2
        assert verdict.notes[0].startswith(
            f"true, and more than needed: Agent 0: ε = {3 * factor:g} at"
        )
        assert "where the events give 3 " in verdict.notes[0] + " "
        assert not check(certificate()).notes

    def test_verify_says_what_is_larger_than_needed(self, command, tmp_path):
        def change(body):
            body["statement"]["curves"]["divergence_by_order"][3][1] *= 2.0
            agents = body["statement"]["agents"]
            body["statement"]["epsilon"] = agents[0]["epsilon"] = 4.0
            body["statement"]["claim"]["epsilon"] = agents[0]["claimed"] = 5.0

        (tmp_path / "cert.json").write_bytes(forged(change))
        done = command("verify", "cert.json")
        assert done.code == 0, done.err
        assert "PRIVATE: ε = 4 at δ = 1e-06" in done.out
        said = " ".join(done.out.split())
        assert "Note: true, and more than needed: The run: ε = 4 at δ = 1e-06, where the" in said
        (plain,) = command("verify", "cert.json", "--json").json["certificates"]
        assert len(plain["notes"]) == 2

    def test_larger_curves_are_true_and_told(self):
        def change(body):
            curves_ = body["statement"]["curves"]
            pairs = [(1.01 * e, delta) for delta, e in curves_["epsilon_by_delta"]]
            curves_["epsilon_by_delta"] = [[delta, e] for e, delta in pairs]
            rows = curves_["errors_of_an_attacker"]
            curves_["errors_of_an_attacker"] = [[a, type_two(a, pairs)] for a, _ in rows]
            curves_["divergence_by_order"] = [
                [order, 1.01 * d] for order, d in curves_["divergence_by_order"]
            ]

        (note,) = check(forged(change)).notes
        assert "The curve: ε = " in note

    def test_a_claim_below_a_larger_epsilon_is_not_proven(self):
        """What is stated counts: a run is not private by a bound that it does not state."""

        def change(body):
            said = body["statement"]
            said["agents"][0]["epsilon"] = said["epsilon"] = 3.1

        with pytest.raises(CertificateError, match=r"It claims ε = 3\.0, and ε = 3\.1 is"):
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
        said = train(RunSpec(algorithm="centralised", adjacency="zero-out")).disclosure()
        assert check(certificate_of(said)).statement == said
        said.update(adjacency="replace-one", unit=UNITS["replace-one"])
        with pytest.raises(CertificateError, match="not those of neighbours by replace-one"):
            certificate_of(said)

    def test_nothing_false_is_signed(self):
        false = statement("pooled")
        false["epsilon"] = 0.1
        with pytest.raises(CertificateError, match=r"states ε = 0\.1"):
            issue(false, KEY, name="us", model=b"", releases=b"", issued="2026-01-01")
        false = statement("pooled")
        false["epsilon"] = float("nan")
        with pytest.raises(CertificateError, match="cannot be written down"):
            issue(false, KEY, name="us", model=b"", releases=b"", issued="2026-01-01")

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
        with OwnerLedger.create(path, "owner") as ledger:
            ledger.grant("synthetic", Budget(2.0, 1e-6))
            ledger.grant("others", Budget(9.0, 1e-6))
        spec = RunSpec(rounds=1, agents=2, epsilon=1.0)
        said = train(spec, booking=LedgerOptions(path, "synthetic")).disclosure()
        books, _ = verify(read_rows(path))
        require_booked(said, books)
        said["booked"].update(change)
        with pytest.raises(CertificateError, match=reason):
            require_booked(said, books)

    def test_a_sum_of_an_earlier_accountant_may_be_larger(self, tmp_path):
        path = tmp_path / "a.ledger"
        with OwnerLedger.create(path, "owner") as ledger:
            ledger.grant("synthetic", Budget(2.0, 1e-6))
        spec = RunSpec(rounds=1, agents=2, epsilon=1.0)
        said = train(spec, booking=LedgerOptions(path, "synthetic")).disclosure()
        books, _ = verify(read_rows(path))
        said["booked"]["spent"] *= 1.01
        with pytest.raises(CertificateError, match=r"was spent, not 1\.01"):
            require_booked(said, books)
        said["accountant"] = "4"
        require_booked(said, books)
        said["booked"]["spent"] *= 0.98
        with pytest.raises(CertificateError, match=r"was spent, not 0\.98"):
            require_booked(said, books)
