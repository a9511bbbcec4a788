"""The words of a statement: no ε is spelt smaller than it is, and no large δ goes unnoticed."""

from dataclasses import replace

import pytest

from ppadmm.accounting import accountant
from ppadmm.algorithms.settings import Speaking
from ppadmm.datasets import load
from ppadmm.runs.run import train
from ppadmm.runs.specification import RunSpec
from ppadmm.statements.claims import delta_warnings, rounded_up
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
