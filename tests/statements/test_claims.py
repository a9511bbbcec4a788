"""The words of a statement: no ε is spelt smaller than it is, and no large δ goes unnoticed."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from ppadmm.accounting import accountant
from ppadmm.algorithms.settings import Speaking
from ppadmm.datasets import load
from ppadmm.runs.run import train
from ppadmm.runs.specification import RunSpec
from ppadmm.statements.claims import WEAK, delta_warnings, rounded_up, weakness
from tests.small_runs import finished


@pytest.mark.parametrize(
    ("epsilon", "spelt"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.9999999995, "1"),
        (1.0004, "1.001"),
        (0.41284, "0.4129"),
        (0.32, "0.32"),
        (11.231, "11.24"),
        (1234.5, "1235"),
        (1e-7 / 3, "3.334e-08"),
    ],
)
def test_an_epsilon_is_rounded_up(epsilon, spelt):
    assert rounded_up(epsilon) == spelt
    assert float(spelt) >= epsilon * (1.0 - 1e-9)


def test_the_headline_says_no_less_than_is_proven():
    said = finished("private").statement
    more = replace(said, epsilon=1.0004, epsilons=(1.0004,))
    assert more.text().startswith("PRIVATE: ε = 1.001 at δ = 1e-06")
    assert "at the sum of their δ" in more.text()


@pytest.mark.parametrize("name", ["private", "seeded", "pooled"])
def test_every_statement_says_that_other_runs_add_up(name):
    said = finished(name).statement
    assert any("other runs on the same records" in each for each in said.caveats)
    assert "Note: ε is for this run: other runs on the same records" in said.text()


def test_a_delta_above_one_in_n_is_warned_of():
    assert delta_warnings(0.01, 100) == delta_warnings(0.01, 0) == []
    (said,) = delta_warnings(0.01, 101)
    assert said.startswith("δ = 0.01 is above 1/n = 0.0099: ")


@pytest.mark.parametrize(("algorithm", "warned"), [("one-shot", True), ("non-private", False)])
def test_a_run_warns_of_its_largest_part(algorithm, warned):
    """δ = 0.03 is below 1/20 and above 1/50: agent 0 may lose a record."""
    data = replace(load("synthetic"), table=None)
    data = replace(data, X=data.X[:90], y=data.y[:90], train_records=70)
    spec = RunSpec(
        algorithm=algorithm, agents=2, graph="complete", rounds=1, epsilon=5.0, delta=0.03,
        records=(50, 20),
    )  # fmt: skip
    said = [each for each in train(spec, data=data).statement.warnings if "above 1/n" in each]
    assert [each.partition(":")[0] for each in said] == ["δ = 0.03 is above 1/n = 0.02"] * warned


def test_what_is_stated_is_what_was_reserved_however_little_was_spent():
    """Whether an agent speaks follows from its records: a smaller ε for a silent run would, too."""
    data = load("synthetic")
    few = replace(data, X=data.X[:600], y=data.y[:600], table=None, train_records=500)
    silent = Speaking(test="gaussian", level=1e6)
    spec = RunSpec(algorithm="ipp", agents=2, rounds=6, epsilon=1.0, graph="complete")
    result = train(replace(spec, speaking=silent), data=few)
    assert result.statement.releases == (0, 0)
    assert 0.99 < result.statement.epsilon <= 1.0
    for spent, stated in zip(result.spent, result.statement.epsilons, strict=True):
        assert accountant.epsilon(spent, spec.delta).epsilon < 0.5
        assert 0.99 < stated <= 1.0


class TestALargeEpsilon:
    def test_what_it_means_is_said_in_words(self):
        assert weakness(None) == weakness(1.0) == weakness(10.0) == []
        (said,) = weakness(math.log(29_999))
        assert said.startswith("a weak guarantee: at ε = 10.31 someone who knows two records")
        assert "be wrong only once in 30,000 guesses" in said  # 1/(1 + eᵉ)
        assert "once in many millions of guesses" in weakness(1e6)[0]

    def test_a_private_statement_says_it_once(self):
        said = finished("private").statement
        assert not any(each.startswith(WEAK) for each in said.warnings)
        much = replace(said, epsilon=12.0, epsilons=(12.0,))
        assert sum(each.startswith(WEAK) for each in much.warnings) == 1
        again = replace(much, epsilon=13.0)
        assert [each for each in again.warnings if each.startswith(WEAK)] == weakness(13.0)
        assert replace(again, epsilon=2.0).warnings == said.warnings
        assert "PRIVATE: ε = 12" in much.text()
        assert much.text().count("Warning: a weak guarantee: at ε = 12 ") == 1

    def test_nothing_weak_about_what_is_no_guarantee(self):
        said = finished("seeded").statement
        assert replace(said, epsilon=50.0).warnings == said.warnings

    def test_the_command_line_the_report_and_verify_say_it(self, command):
        train = ("train", "--rounds", 2, "--agents", 3, "--epsilon", 12, "--out", "r")
        words = " ".join(command(*train).out.split())
        assert words.count("Warning: a weak guarantee: at ε = 12 someone who knows") == 1
        assert "a weak guarantee: at ε = 12" in Path("r/report.html").read_text()
        assert json.loads(Path("r/statement.json").read_text())["warnings"] == weakness(12.0)
        assert command("key", "new", "k").code == 0
        assert command("certify", "r", "--key", "k").code == 0
        words = " ".join(command("verify", "r/certificate.json").out.split())
        assert words.count("Warning: a weak guarantee: at ε = 12 someone") == 1
