import json

import pytest

from ppadmm.accounting import Budget
from ppadmm.planning.sample_bound import BoundSetting
from ppadmm.planning.sample_sizes import records_needed
from ppadmm.problem import make_graph

SMALL = ("--error", "0.3", "--norm", "2", "--features", "10", "--graph", "ring", "--rounds", "60")


@pytest.fixture
def run(command):
    """Return (code, output, errors) of `ppadmm samples`."""

    def _run(*arguments):
        done = command("samples", *arguments)
        return done.code, done.out, done.err

    return _run


def test_the_figures_are_those_of_the_calculator(run):
    code, out, _ = run(*SMALL, "--epsilons", "0.5,2", "--json")
    assert code == 0
    figures = json.loads(out)
    setting = BoundSetting(10, make_graph("ring", 5), norm=2.0)
    assert figures["pooled"]["records_per_agent"] == records_needed(0.3, setting).n
    rows = {row["epsilon"]: row for row in figures["private"]}
    assert list(rows) == [0.5, 1.0, 2.0]
    for epsilon, row in rows.items():
        budget = Budget(epsilon, 1e-6)
        found = records_needed(0.3, BoundSetting(10, make_graph("ring", 5), 2.0, 0.95, 60, budget))
        assert row["records_per_agent"] == found.n
        assert row["bound"] == pytest.approx(sum(row["parts"].values())) == found.total <= 0.3
        without = figures["without_noise"]["records_per_agent"]
        assert row["records_for_the_noise"] == found.n - without > 0
    assert figures["worst_case_bound"] is True


def test_the_page_says_what_it_is_worth(run):
    code, out, err = run(*SMALL, "--epsilon", "3", "--epsilons", "1")
    assert (code, err) == (0, "")
    assert "60 rounds of PP-ADMM, ε = 3" in out
    assert "A worst-case bound" in out
    lines = [line for line in out.splitlines() if line.startswith("|")]
    total = next(line for line in lines if "total" in line)
    assert all(0.29 < float(cell) <= 0.3 for cell in total.split("|")[2:5])
    assert {len(line.replace("\u0302", "")) for line in lines[:11]} == {len(lines[0])}


def test_rounds_are_chosen_where_they_are_left_open(run):
    _, out, _ = run("--error", "1", "--graph", "complete", "--json")
    figures = json.loads(out)
    assert figures["without_noise"]["rounds"] == 127  # ⌈10·R·√(2·4/5)⌉ = ⌈126.49⌉


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--error", "0"), "Expected error > 0, got 0.0."),
        (("--error", "nan"), "error to be a finite number"),
        (("--error", "0.1", "--epsilon", "-1"), "Expected epsilon > 0, got -1.0."),
        (("--error", "0.1", "--epsilons", "1,x"), "got 'x'"),
        (("--error", "0.1", "--rounds", "5"), "which 5 rounds leave"),
        (
            ("--error", "0.1", "--agents", "1"),
            "agents of a network to be a whole number ≥ 2",
        ),
        (("--error", "0.1", "--graph", "web"), "Unknown graph 'web'"),
        (("--error", "0.1", "--delta", "2"), "Expected 0 < delta < 1, got 2.0."),
    ],
)
def test_bad_input_is_one_sentence(run, arguments, message):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
