"""Statements: they fit a published schema, flag false claims and say what was counted."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from ppadmm.accounting import Budget
from ppadmm.data.fingerprint import fingerprint
from ppadmm.datasets import load
from ppadmm.errors import CertificateError
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.runs.certificates import certify_run
from ppadmm.runs.ledger_session import LedgerOptions
from ppadmm.runs.run import train
from ppadmm.runs.specification import RunSpec
from ppadmm.statements.certificate import check
from ppadmm.statements.json_schema import KEYWORDS, require_shape, schema
from tests.small_runs import folder_of
from tests.statements.signed import KEY, RUNS, certificate_of, statement

DOCS = Path(__file__).parents[2] / "docs" / "schemas"


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
        said = result.disclosure()
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
        said = train(spec).disclosure()
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


def test_the_run_folder_holds_the_statement():
    said = json.loads((folder_of("private") / "statement.json").read_text())
    assert said == statement("private")


def test_every_statement_is_a_fresh_copy():
    """Tests change statements of runs that others share."""
    one = statement("pooled")
    one["agents"][0]["reserved"].clear()
    assert statement("pooled")["agents"][0]["reserved"]


def test_what_a_certificate_tells_of_the_records_and_of_time(tmp_path):
    """No digest of records is published, keyed or not, and no time after the start of the run."""
    path = tmp_path / "a.ledger"
    with OwnerLedger.create(path, "owner") as ledger:
        ledger.grant("people", Budget(3.0, 1e-6))
    data = load("synthetic")
    data = replace(data, X=data.X[:300], y=data.y[:300], table=None, train_records=250)
    spec = RunSpec(agents=2, rounds=2, epsilon=1.0, graph="complete")
    result = train(spec, data=data, booking=LedgerOptions(path, "people"))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "statement.json").write_text(json.dumps(result.disclosure()))
    for name in ("model.json", "releases.npz"):
        (folder / name).write_bytes(b"")
    text = certify_run(folder, KEY, "us", [], None).read_text()
    known = fingerprint(data)
    with OwnerLedger.open(path) as ledger:
        (commitment,) = ledger.books.commitments
        secrets = [row[0] for row in ledger._db.execute("SELECT bytes FROM secrets")]
    digests = [known.digest, *known.pieces(), *secrets]
    assert commitment not in text
    assert not any(digest.hex() in text for digest in digests)
    times = re.findall(r"\d\d:\d\d:\d\d", text)
    started = json.loads(text)["certificate"]["statement"]["started"]
    assert times == [started[11:19]]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", json.loads(text)["certificate"]["issued"])
