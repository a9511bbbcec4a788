import json

import pytest

from ppadmm.algorithms import ALGORITHMS


@pytest.fixture
def run(command):
    """Return (code, output, errors) of `ppadmm compare`."""

    def _run(*arguments):
        done = command("compare", *arguments)
        return done.code, done.out, done.err

    return _run


SMALL = ("--seeds", "2", "--splits", "1", "--rounds", "3", "--agents", "3", "--graph", "ring")


def test_every_algorithm_at_every_budget(run):
    code, out, _ = run(*SMALL, "--epsilons", "1,4", "--json")
    assert code == 0
    rows = json.loads(out)["rows"]
    assert {row["algorithm"] for row in rows} == set(ALGORITHMS)
    for row in rows:
        if row["algorithm"] == "non-private":
            assert row["epsilon"] is None
            assert row["epsilon_proven"] is None
        else:
            assert 0.9 * row["epsilon"] < row["epsilon_proven"] <= row["epsilon"]
            assert len(row["test_error"]) == 2
        assert 0 < row["test_error_mean"] < 0.6


def test_a_row_is_the_run_that_train_would_do():
    from ppadmm import RunSpec, train
    from ppadmm.studies.compare import Grid, compare

    grid = Grid(algorithms=("pp",), epsilons=(1.0,), seeds=1, splits=1, rounds=5, agents=3)
    row = compare(grid)[0]
    result = train(RunSpec(epsilon=1.0, delta=1e-4, seed=0, rounds=5, agents=3))
    assert row.test_error[0] == pytest.approx(result.metrics.error[0], abs=1e-4)


def test_the_table(run):
    code, out, err = run(*SMALL, "--algorithms", "pp,ipp", "--epsilons", "1")
    assert code == 0
    assert err == ""
    assert out.endswith("NOT PRIVATE: a comparison is a simulation with known seeds.\n")
    head, figures, _ = out.split("\n\n")
    assert head == "Partition even: 3 agents, training records: 11,666 to 11,667."
    lines = figures.splitlines()
    assert lines[0].startswith("| algorithm")
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["pp", "ipp"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--algorithms", "pp,foo"), "Unknown algorithm 'foo'"),
        (("--epsilons", "1,x"), "got 'x'"),
        (("--epsilons", "0"), "> 0"),
        (("--seeds", "0"), "seeds"),
        (("nothing.csv", "--label", "y"), "nothing.csv"),
    ],
)
def test_bad_input(run, arguments, message):
    code, out, err = run(*arguments)
    assert code != 0
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_ends_with_a_summary(command, algorithm):
    done = command("train", "--algorithm", algorithm, "--rounds", "3", "--agents", "3")
    out = done.out
    assert done.code == 0
    assert "test accuracy" in out
    private = algorithm in ("pp", "ipp", "gradient", "newton", "one-shot", "centralised")
    assert ("\nPRIVATE: ε = 1 " in out) == private
    assert ("\nNOT PRIVATE: " in out) != private


def test_gamma_noise_that_cannot_be_calibrated_is_refused_before_any_payment():
    from ppadmm.accounting import Budget
    from ppadmm.algorithms import Settings, Site, build
    from ppadmm.errors import InfeasibleError
    from ppadmm.problem import Logistic, MarginRisk
    from tests.small_problems import random_shard

    site = Site(0, 2, (1,), MarginRisk(random_shard(), Logistic()))
    settings = Settings(10, (1e-6,), (0.0,), (Budget(0.1, 1e-5),))
    for name in ("dvp", "m-admm", "r-admm"):
        with pytest.raises(InfeasibleError, match="below the curvature term"):
            build(name, site, settings)


def test_one_shot_names_the_regularisation_it_needs(command):
    done = command("train", "--algorithm", "one-shot", "--regularisation", "1e-9")
    assert "choose a regularisation > " in done.err


def test_a_comparison_continues_and_may_use_several_processes(run, tmp_path):
    arguments = (*SMALL, "--splits", "2", "--algorithms", "pp,non-private", "--epsilons", "1")
    out_dir = tmp_path / "cells"
    _, first, _ = run(*arguments, "--out", str(out_dir), "--jobs", "2")
    times = {path.name: path.stat().st_mtime_ns for path in out_dir.iterdir()}
    assert len(times) == 4
    _, again, err = run(*arguments, "--out", str(out_dir))
    assert err == "4 of 4 cells are there already.\n"
    assert {path.name: path.stat().st_mtime_ns for path in out_dir.iterdir()} == times
    _, alone, _ = run(*arguments)
    assert first == again == alone
