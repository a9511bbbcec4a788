"""`ppadmm train` as a user meets it: what it prints and writes."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from ppadmm import __version__
from tests.cli.people import QUICK, SCHEMA, in_folder, people, private, refused, write_people
from tests.conftest import Outcome

ppadmm = pytest.fixture(in_folder)


class TestJson:
    def test_every_figure_is_there_with_its_type(self, ppadmm):
        figures = ppadmm(*private("--json", "--seed", 1)).json
        kinds = {
            "algorithm": str,
            "calibration": str,
            "epsilon": float,
            "delta": float,
            "adjacency": str,
            "private": bool,
            "not_private_because": list,
            "agents": int,
            "rounds": int,
            "releases": list,
            "test_error": float,
            "test_error_per_agent": list,
            "test_auc": float,
            "test_log_loss": float,
            "train_loss": float,
            "passes": float,
            "seconds": float,
            "noise": list,
        }
        assert {name: type(figures[name]) for name in kinds} == kinds
        assert figures["agents"] == 3
        assert figures["rounds"] == 4
        assert figures["releases"] == [4, 4, 4]
        assert len(figures["test_error_per_agent"]) == 3
        assert all(0 <= error <= 1 for error in figures["test_error_per_agent"])
        assert len(figures["noise"]) == 3
        assert all(scales["sigma1"] > 0 < scales["sigma2"] for scales in figures["noise"])

    def test_is_one_object_and_nothing_else(self, ppadmm):
        outcome = ppadmm(*private("--json"))
        assert outcome.out.count("\n") == 1
        assert isinstance(outcome.json, dict)
        assert outcome.err == ""

    def test_has_no_number_that_json_cannot_say(self, ppadmm):
        columns = people()
        first = {name: column[:6] for name, column in columns.items()}
        first["ill"] = ["yes", "no"] * 3  # six records: the test set may hold one class only
        write_people("six.csv", **first)
        outcome = ppadmm(
            "train", "six.csv", "--label", "ill", *QUICK, "--algorithm", "non-private", "--json"
        )
        assert outcome.json["epsilon"] is None
        assert "NaN" not in outcome.out


class TestPrivacy:
    def test_secure_noise_and_a_public_schema_are_private(self, ppadmm):
        figures = ppadmm(*private("--json")).json
        assert figures["private"] is True
        assert figures["not_private_because"] == []
        assert figures["train_loss"] is None
        assert figures["epsilon"] == 5.0
        assert 0 < figures["epsilon_proven"] <= 5.0

    def test_secure_noise_does_not_repeat(self, ppadmm):
        first, second = (ppadmm(*private("--json")).json for _ in range(2))
        assert first["test_log_loss"] != second["test_log_loss"]

    def test_a_seed_repeats_and_is_not_private(self, ppadmm):
        first, second, other = (
            ppadmm(*private("--json", "--seed", seed)).json for seed in (3, 3, 4)
        )
        for figures in (first, second):
            del figures["seconds"], figures["started"]
        assert first == second
        assert first["test_log_loss"] != other["test_log_loss"]
        assert first["private"] is False
        assert "the seed 3" in " ".join(first["not_private_because"])
        assert first["train_loss"] > 0

    def test_the_paper_claims_and_does_not_prove(self, ppadmm):
        arguments = ("train", "people.csv", "--schema", "schema.toml", "--preset", "paper")
        figures = ppadmm(*arguments, "--json").json
        assert figures["private"] is False
        assert "not proven" in " ".join(figures["not_private_because"])
        assert figures["calibration"] == "paper"
        assert figures["epsilon"] == 1.0  # the claim
        assert figures["epsilon_proven"] > 0  # what the accountant can say about that noise
        assert (figures["rounds"], figures["eta"]) == (30, 0.5)

    def test_what_is_given_goes_before_the_preset(self, ppadmm):
        figures = ppadmm(*private("--preset", "paper", "--json")).json
        assert (figures["rounds"], figures["epsilon"]) == (4, 5.0)

    def test_without_noise_nothing_is_private(self, ppadmm):
        figures = ppadmm(*private("--algorithm", "non-private", "--json")).json
        assert figures["private"] is False
        assert figures["epsilon"] is None
        assert figures["epsilon_proven"] is None

    def test_an_inferred_schema_is_not_private(self, ppadmm):
        figures = ppadmm("train", "people.csv", "--label", "ill", *QUICK, "--json").json
        assert figures["private"] is False
        assert "inferred" in " ".join(figures["not_private_because"])

    def test_an_unconfirmed_schema_is_not_private(self, ppadmm):
        Path("schema.toml").write_text(SCHEMA.replace("true", "false"))
        assert ppadmm(*private("--json")).json["private"] is False


class TestInputs:
    def test_parquet_gives_the_numbers_of_csv(self, ppadmm):
        pa.parquet.write_table(pa.table(people()), "people.parquet")
        errors = [
            ppadmm("train", name, "--schema", "schema.toml", *QUICK, "--seed", 1, "--json").json[
                "test_log_loss"
            ]
            for name in ("people.csv", "people.parquet")
        ]
        assert errors[0] == pytest.approx(errors[1], rel=1e-12)

    def test_a_network_from_a_file(self, ppadmm):
        Path("edges.txt").write_text("# a line\n0 1\n1 2\n")
        figures = ppadmm(*private("--graph", "edges.txt", "--json")).json
        assert figures["graph"] == {"name": "edges.txt", "edges": [[0, 1], [1, 2]]}

    def test_huber_hinge(self, ppadmm):
        figures = ppadmm(*private("--loss", "huber-hinge", "--json")).json
        assert figures["private"] is True
        assert figures["spec"]["loss"] == "huber-hinge"

    @pytest.mark.parametrize("graph", ["complete", "ring", "star", "grid", "small-world"])
    def test_every_network(self, ppadmm, graph):
        assert ppadmm(*private("--graph", graph, "--json")).json["graph"]["name"] == graph

    @pytest.mark.parametrize("solver", ["fixed-metric", "newton", "lbfgs"])
    def test_every_solver(self, ppadmm, solver):
        assert ppadmm(*private("--solver", solver, "--json")).json["private"] is True

    def test_zero_out(self, ppadmm):
        figures = ppadmm(*private("--adjacency", "zero-out", "--json")).json
        assert figures["adjacency"] == "zero-out"


class TestText:
    def test_says_accuracy_and_that_it_is_private(self, ppadmm):
        outcome = ppadmm(*private())
        assert outcome.code == 0
        assert outcome.err == ""
        assert "test accuracy" in outcome.out
        assert "\nPRIVATE: ε = " in outcome.out
        assert outcome.out.endswith("/report.html\n")

    def test_says_that_it_is_not(self, ppadmm):
        outcome = ppadmm(*private("--seed", 1))
        assert "\nNOT PRIVATE: the noise follows from the seed 1" in outcome.out
        assert "\nPRIVATE" not in outcome.out

    def test_no_line_is_longer_than_a_terminal(self, ppadmm):
        assert max(map(len, ppadmm(*private("--seed", 1)).out.splitlines())) <= 100

    def test_help_shows_the_defaults(self, ppadmm):
        outcome = ppadmm("train", "--help")
        assert outcome.code == 0
        for default in ("[5]", "[erdos-renyi]", "[1e-6]", "[1e-8]", "[replace-one]"):
            assert default in outcome.out

    def test_version(self, ppadmm):
        assert ppadmm("--version").out == f"ppadmm {__version__}\n"


class TestFiles:
    def test_a_run_is_written(self, ppadmm):
        outcome = ppadmm(*private("--out", "runs/one"))
        assert outcome.out.endswith("\nResults: runs/one\nReport:  runs/one/report.html\n")
        names = {
            "result.json",
            "model.json",
            "statement.json",
            "statement.txt",
            "curves.csv",
            "releases.npz",
            "report.html",
        }
        assert {path.name for path in Path("runs/one").iterdir()} == names
        assert [path.name for path in Path("runs").iterdir()] == ["one"]

    def test_the_files_agree_with_what_was_printed(self, ppadmm):
        figures = ppadmm(*private("--json", "--linear", "--out", "one")).json
        assert json.loads(Path("one/result.json").read_text()) == figures
        assert Path("one/statement.txt").read_text().startswith("PRIVATE: ε = ")
        model = json.loads(Path("one/model.json").read_text())
        assert list(model["coefficients"]) == ["age", "dose", "sex=f", "sex=m", "intercept"]
        assert model["private"] is True
        with np.load("one/releases.npz") as file:
            releases = file["releases"]
            assert file["private"]
            assert file["spoke"].all()
        assert releases.shape == (4, 3, 5)
        mean = releases[2:].mean(axis=(0, 1))
        assert list(model["coefficients"].values()) == pytest.approx(mean)

    def test_files_that_are_not_private_say_so(self, ppadmm):
        ppadmm(*private("--seed", 1, "--out", "one"))
        assert json.loads(Path("one/result.json").read_text())["private"] is False
        model = json.loads(Path("one/model.json").read_text())
        assert model["private"] is False
        assert "the seed 1" in model["not_private_because"][0]
        with np.load("one/releases.npz") as file:
            assert not file["private"]
        assert Path("one/statement.txt").read_text().startswith("NOT PRIVATE: ")

    def test_without_out_the_folder_is_named_after_the_run(self, ppadmm):
        lines = ppadmm(*private()).out.splitlines()[-2:]
        folder = Path(lines[0].removeprefix("Results: "))
        assert re.fullmatch(r"runs/\d{8}-\d{6}-pp-people", str(folder))
        assert lines[1] == f"Report:  {folder}/report.html"
        assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")
        assert list(Path("runs").iterdir()) == [folder]

    @pytest.mark.parametrize("option", ["--no-save", "--json"])
    def test_nothing_is_saved(self, ppadmm, option):
        before = sorted(Path().iterdir())
        outcome = ppadmm(*private(option))
        assert outcome.code == 0
        assert "Report:" not in outcome.out
        assert sorted(Path().iterdir()) == before

    def test_no_save_and_out_contradict_each_other(self, ppadmm):
        refused(ppadmm(*private("--no-save", "--out", "one")), 2, "--no-save", "'one'")
        assert not Path("one").exists()

    def test_a_place_for_runs_that_cannot_be_written(self, ppadmm):
        Path("runs").write_text("mine")
        refused(ppadmm(*private()), 2, "runs' is not a folder", "--out")
        assert Path("runs").read_text() == "mine"

    def test_an_existing_folder_is_left_alone(self, ppadmm):
        Path("one").mkdir()
        Path("one/mine.txt").write_text("mine")
        refused(ppadmm(*private("--out", "one")), 2, "'one' exists already")
        assert [path.name for path in Path("one").iterdir()] == ["mine.txt"]
        assert Path("one/mine.txt").read_text() == "mine"

    def test_a_dangling_link_is_left_alone(self, ppadmm):
        Path("one").symlink_to("nowhere")
        refused(ppadmm(*private("--out", "one")), 2, "'one' exists already")

    def test_a_file_in_the_way(self, ppadmm):
        refused(ppadmm(*private("--out", "people.csv/one")), 2, "people.csv' is not a folder")

    def test_a_name_that_is_too_long(self, ppadmm):
        refused(ppadmm(*private("--out", "x" * 300)), 2, "xxx", "Cannot write the results")

    def test_a_folder_that_cannot_be_written_to(self, ppadmm, monkeypatch):
        monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
        refused(ppadmm(*private("--out", "one")), 2, "'one'", "cannot be written to")

    def test_a_disk_that_fills_up_leaves_nothing(self, ppadmm, monkeypatch):
        def full(*_, **__):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(np, "savez_compressed", full)
        before = sorted(Path().iterdir())
        refused(ppadmm(*private("--out", "one")), 2, "'one'", "No space left on device")
        assert sorted(Path().iterdir()) == before

    def test_a_report_that_cannot_be_made_takes_no_results_away(self, ppadmm, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr("ppadmm.runs.report.page.render", lambda *_: 1 / 0)
            done = ppadmm(*private("--out", "one"))
        assert done.code == 12
        assert done.out.startswith("pp on people.csv: ")
        assert "The results are in 'one', all of them, but report.html could not be" in done.err
        assert not Path("one/report.html").exists()
        assert ppadmm("report", "one").code == 0
        assert ppadmm("key", "new", "k").code == ppadmm("certify", "one", "--key", "k").code == 0

    def test_permissions_follow_the_umask(self, ppadmm):
        before = os.umask(0o077)
        try:
            ppadmm(*private("--out", "one"))
        finally:
            os.umask(before)
        assert stat.S_IMODE(Path("one").stat().st_mode) == 0o700


class TestProcess:
    """The installed command in a process of its own."""

    COMMAND = (sys.executable, "-c", "from ppadmm.cli import main; main()")

    def run(self, *arguments, **environment):
        return subprocess.run(
            [*self.COMMAND, *arguments],
            capture_output=True,
            encoding=environment.get("PYTHONIOENCODING", "utf-8"),
            env={**os.environ, **environment},
            timeout=60,
            check=False,
        )

    def test_json_goes_to_standard_output_alone(self, ppadmm):
        done = self.run(*private("--json"))
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["private"] is True

    def test_an_error_goes_to_standard_error_alone(self, ppadmm):
        done = self.run("train", "missing.csv", "--label", "y")
        refused(Outcome(done.returncode, done.stdout, done.stderr), 3, "'missing.csv'")

    def test_a_terminal_without_greek_letters(self, ppadmm):
        done = self.run(*private(), PYTHONIOENCODING="latin-1")
        assert done.returncode == 0, done.stderr
        assert "PRIVATE" in done.stdout


def test_centralised_says_that_all_records_are_at_one_place(command):
    out = command("train", "--algorithm", "centralised", "--seed", 1, "--no-save").out
    said = " ".join(out.split())
    assert said.startswith("centralised on synthetic: all records of 5 agents at one place, no net")
    assert "erdos" not in said


def test_curves_lines_and_knots(ppadmm):
    def features(*words):
        return ppadmm(*private("--json", *words)).json["features"]

    assert (features("--linear"), features("--knots", 4), features("--knots", 0)) == (5, 13, 5)
    assert features() == 15
    for words, said in (
        (("--linear", "--knots", 4), "Straight lines have no knots; leave out --linear"),
        (("--knots", 1), "Expected 2 knots or more, or 0 for straight lines, got 1."),
    ):
        refused = ppadmm(*private(*words))
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert said in refused.err
