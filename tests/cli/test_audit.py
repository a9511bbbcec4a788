import json

import pytest

from ppadmm.auditing.opponents import FailingSolver
from ppadmm.mechanisms import PerturbedMinimiser
from ppadmm.solvers import Guarded


def test_the_table_and_the_verdict(command):
    found = command("audit", "--algorithm", "gradient,one-shot,tune", "--runs", 2000)
    assert found.code == 0
    assert found.out.count("passed") == 3
    assert "PASSED: nothing in 3 games" in found.out
    assert "never prove it" in found.out


def test_json_has_the_claim_beside_what_was_shown(command):
    figures = command("audit", "--algorithm", "dvp", "--runs", 2000, "--json").json
    assert figures["passed"]
    (game,) = figures["games"]
    assert game["claimed"] == pytest.approx(4.0)
    assert 0.5 < game["epsilon"] < 4.0
    assert game["gaussian_epsilon"] is None
    assert game["confidence"] == 0.999


def test_the_secure_sampler_in_the_loop(command):
    figures = command("audit", "--algorithm", "pp", "--runs", 200, "--secure", "--json").json
    assert len(figures["games"]) == 9
    assert {game["noise"] for game in figures["games"]} == {"exact sampler, secure"}
    assert all(game["runs"] == 200 and game["passed"] for game in figures["games"])


def test_a_broken_build_gives_exit_code_1(command, monkeypatch):
    monkeypatch.setattr(PerturbedMinimiser, "_draw_linear", lambda self, sub, *_: 0.0 * sub.linear)
    found = command("audit", "--algorithm", "pp", "--runs", 400)
    assert found.code == 1
    assert "EXCEEDED" in found.out
    assert "FAILED: the runs exceed what is claimed (pp" in found.out


def test_how_runs_end_is_looked_at(command, monkeypatch):
    """One side gives up and the other does not: no release is needed to tell them apart."""
    honest = Guarded._tried

    def raises(self, solver, sub, start, tolerance):
        if isinstance(solver, FailingSolver) and solver.fails:
            raise ZeroDivisionError
        return honest(self, solver, sub, start, tolerance)

    monkeypatch.setattr(Guarded, "_tried", raises)
    figures = command("audit", "--algorithm", "pp", "--runs", 200, "--json")
    assert figures.code == 1
    failed = [game for game in json.loads(figures.out)["games"] if not game["passed"]]
    assert [(game["game"], game["attack"]) for game in failed] == [("pp, failing solver", "ending")]


def test_agents_that_always_give_up_do_not_pass(command, monkeypatch):
    """On both sides alike: nobody learns anything, and nothing works."""

    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(PerturbedMinimiser, "_draw_linear", broken)
    found = command("audit", "--algorithm", "one-shot", "--runs", 200)
    assert found.code == 1
    assert "GAVE UP" in found.out
    assert "agents gave up after they had paid (one-shot, second noise)" in found.out


def test_membership(command):
    figures = command("audit", "--membership", "--runs", 16, "--json").json
    names = [(one["algorithm"], one["attack"]) for one in figures["attacks"]]
    assert names == [
        (name, attack) for name in ("non-private", "pp") for attack in ("loss", "likelihood ratio")
    ]
    text = command("audit", "--membership", "--runs", 16).out
    assert "no claim" in text
    assert "PASSED: no guess" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--algorithm", "centralised"), "Unknown algorithm 'centralised'"),
        (("--runs", "20"), "Expected runs to be a whole number ≥ 200"),
        (("--epsilon", "-1"), "Expected epsilon > 0"),
        (("--membership", "--runs", "3"), "Expected models to be a whole number ≥ 8"),
    ],
)
def test_what_cannot_be_audited_is_one_sentence(command, arguments, words):
    found = command("audit", *arguments)
    assert found.code == 2
    assert words in found.err
