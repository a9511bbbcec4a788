"""`ppadmm train` as a user meets it: what it prints, writes and refuses."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from conftest import Outcome

from ppadmm import __version__

RECORDS = 300
QUICK = ("--agents", "3", "--rounds", "4", "--epsilon", "5", "--delta", "1e-3")
SCHEMA = """
confirmed = true
[label]
name = "ill"
positive = ["yes"]
negative = ["no"]
[[columns]]
name = "age"
low = 0
high = 100
[[columns]]
name = "dose"
low = 0
high = 5
scale = "log"
[[columns]]
name = "sex"
categories = ["f", "m"]
"""


@pytest.fixture
def ppadmm(command, tmp_path):
    """Run the command line in a folder with people.csv and schema.toml."""
    write_people(tmp_path / "people.csv")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return command


def people():
    rng = np.random.default_rng(7)
    age, dose = rng.integers(18, 90, RECORDS), rng.random(RECORDS).round(3) * 5
    ill = age / 30 + dose + rng.standard_normal(RECORDS) > 4.3
    return {
        "age": age.tolist(),
        "dose": dose.tolist(),
        "sex": rng.choice(["f", "m"], RECORDS).tolist(),
        "ill": np.where(ill, "yes", "no").tolist(),
    }


def write_people(path, **cells):
    """Write people.csv; `column=value` puts a value into row 5, `column=[...]` replaces all."""
    columns = {name: [str(cell) for cell in column] for name, column in people().items()}
    for name, value in cells.items():
        columns[name] = value if isinstance(value, list) else _with(columns[name], value)
    pa.csv.write_csv(pa.table(columns), path, pa.csv.WriteOptions(quoting_style="none"))


def _with(column, value):
    return [*column[:4], value, *column[5:]]


def private(*more):
    return ("train", "people.csv", "--schema", "schema.toml", *QUICK, *more)


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
            "releases.npz",
            "report.html",
        }
        assert {path.name for path in Path("runs/one").iterdir()} == names
        assert [path.name for path in Path("runs").iterdir()] == ["one"]

    def test_the_files_agree_with_what_was_printed(self, ppadmm):
        figures = ppadmm(*private("--json", "--out", "one")).json
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

    def test_permissions_follow_the_umask(self, ppadmm):
        before = os.umask(0o077)
        try:
            ppadmm(*private("--out", "one"))
        finally:
            os.umask(before)
        assert stat.S_IMODE(Path("one").stat().st_mode) == 0o700


def refused(outcome, code, *fragments):
    """Check for one sentence on standard error, and nothing else."""
    assert outcome.code == code, outcome.err
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith("Error: ")
    assert outcome.err.endswith(".\n")
    for fragment in fragments:
        assert fragment in outcome.err


BAD_SETTINGS = [
    (("--epsilon", "0"), 2, "epsilon > 0, got 0.0"),
    (("--epsilon", "-1"), 2, "epsilon > 0, got -1.0"),
    (("--epsilon", "nan"), 2, "epsilon to be a finite number, got nan"),
    (("--epsilon", "inf"), 2, "epsilon to be a finite number, got inf"),
    (("--delta", "1"), 2, "delta < 1, got 1.0"),
    (("--delta", "0"), 2, "0 < delta < 1, got 0.0"),
    (("--delta", "nan"), 2, "delta to be a finite number, got nan"),
    (("--rounds", "0"), 2, "rounds to be a whole number ≥ 1, got 0"),
    (("--rounds", "-3"), 2, "got -3"),
    (("--agents", "0"), 2, "agents to be a whole number ≥ 1, got 0"),
    (("--agents", "1000"), 2, "at most 240 agents, one record each, got 1000"),
    (("--agents", "1"), 2, "no neighbour"),
    (("--seed", "-1"), 2, "seed to be a whole number ≥ 0, got -1"),
    (("--eta", "0"), 2, "eta > 0, got 0.0"),
    (("--eta", "nan"), 2, "eta to be a finite number, got nan"),
    (("--regularisation", "-2"), 2, "regularisation ≥ 0, got -2.0"),
    (("--beta", "0"), 2, "0 < beta < 1, got 0.0"),
    (("--beta", "1e-30"), 5, "β = 1e-30"),
    (("--graph", "mesh"), 2, "graph 'mesh'"),
    (("--graph", "none.txt"), 2, "'none.txt'"),
    (("--algorithm", "magic"), 2, "algorithm 'magic'"),
    (("--loss", "squared"), 2, "loss 'squared'"),
    (("--calibration", "none"), 2, "calibration 'none'"),
    (("--adjacency", "add-remove"), 2, "adjacency 'add-remove'"),
    (("--solver", "sgd"), 2, "solver 'sgd'"),
    (("--preset", "best"), 2, "preset 'best'"),
    (("--schema", "none.toml"), 3, "'none.toml'"),
    (("--schema", "people.csv"), 3, "'people.csv'"),
    (("--label", "age"), 2, "'age'"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "fragment"),
    BAD_SETTINGS,
    ids=["=".join(arguments) for arguments, *_ in BAD_SETTINGS],
)
def test_bad_settings_are_refused_by_name(ppadmm, arguments, code, fragment):
    refused(ppadmm(*private(*arguments, "--out", "one")), code, fragment)
    assert not Path("one").exists()


BAD_CELLS = [
    ({"dose": "nan"}, ("'dose'", "row 5", "'nan'")),
    ({"dose": "inf"}, ("'dose'", "row 5", "'inf'")),
    ({"dose": "-Infinity"}, ("'dose'", "row 5", "inf'")),
    ({"dose": "much"}, ("'dose'", "row 5", "'much'")),
    ({"ill": ["yes"] * RECORDS}, ("'ill'", "one class", "'yes'")),
    ({"ill": ""}, ("'ill'", "row 5")),
    ({"ill": [f"case {k}" for k in range(RECORDS)]}, ("'ill'", "too many for classes")),
]


@pytest.mark.parametrize(("cells", "fragments"), BAD_CELLS, ids=[str(c)[:24] for c, _ in BAD_CELLS])
def test_bad_cells_are_refused_by_name(ppadmm, cells, fragments):
    write_people("people.csv", **cells)
    arguments = ("train", "people.csv", "--label", "ill", *QUICK, "--out", "one")
    refused(ppadmm(*arguments), 3, *fragments)
    assert not Path("one").exists()


@pytest.mark.parametrize("cell", ["nan", "inf", "much"])
def test_bad_cells_are_refused_with_a_schema_too(ppadmm, cell):
    write_people("people.csv", dose=cell)
    refused(ppadmm(*private("--out", "one")), 3, "'dose'", "row 5", f"'{cell}'")
    assert not Path("one").exists()


BAD_FILES = [
    (("missing.csv", "--label", "ill"), 3, "'missing.csv'"),
    (("empty.csv", "--label", "ill"), 3, "'empty.csv' is empty"),
    (("header.csv", "--label", "ill"), 3, "'header.csv' holds no records"),
    (("people.csv", "--label", "sick"), 3, "'sick'"),
    (("people.csv",), 2, "'people.csv'"),
    (("broken.parquet", "--label", "ill"), 3, "'broken.parquet'"),
    (("folder.csv", "--label", "ill"), 2, "'folder.csv'"),
    (("people.xlsx", "--label", "ill"), 3, "'people.xlsx'"),
    (("adult",), 3, "--data-dir"),
    (("brazil", "--data-dir", "folder.csv"), 3, "'folder.csv'"),
    (("synthetic", "--label", "ill"), 2, "'synthetic'"),
    (("x" * 300 + ".csv", "--label", "ill"), 2, "xxx"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "fragment"),
    BAD_FILES,
    ids=[" ".join(arguments)[:30] for arguments, *_ in BAD_FILES],
)
def test_bad_files_are_refused_by_name(ppadmm, arguments, code, fragment):
    Path("empty.csv").touch()
    Path("header.csv").write_text("age,ill\n")
    Path("broken.parquet").write_text("not parquet")
    Path("folder.csv").mkdir()
    refused(ppadmm("train", *arguments, "--out", "one"), code, fragment)
    assert not Path("one").exists()


@pytest.mark.parametrize(
    ("edges", "fragment"),
    [
        ("0 1\n1 2\n", "Agent 3 has no neighbour"),
        ("0 1\n2 3\n", "disconnected: agents [2, 3]"),
        ("0 1\n1 9\n", "names agent 9"),
        ("0 1\n2 2\n", "2–2"),
        ("0 one\n", "'0 one'"),
        ("", "names no edge"),
    ],
)
def test_bad_networks_are_refused_by_name(ppadmm, edges, fragment):
    Path("edges.txt").write_text(edges)
    arguments = private("--agents", 4, "--graph", "edges.txt", "--out", "one")
    refused(ppadmm(*arguments), 2, fragment)
    assert not Path("one").exists()


def test_a_penalty_too_small_for_the_budget_names_the_smallest(ppadmm):
    arguments = ("--eta", "1e-9", "--out", "one")
    outcome = ppadmm(*private(*arguments))
    refused(outcome, 4, "η = 1e-09", "choose η > ")
    assert not Path("one").exists()
    least = float(outcome.err.split("choose η > ")[1].split(",")[0])
    assert ppadmm(*private("--eta", 1.02 * least, "--json")).json["private"] is True
    refused(ppadmm(*private("--eta", 0.9 * least)), 4, "choose η > ")


def test_an_option_that_is_no_number_is_a_usage_error(ppadmm):
    outcome = ppadmm("train", "--epsilon", "much")
    assert outcome.code == 2
    assert outcome.out == ""
    assert "--epsilon" in outcome.err


def test_an_interrupt_writes_nothing(ppadmm, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ppadmm.engines.local.run", interrupt)
    refused(ppadmm(*private("--out", "one")), 130, "Interrupted; nothing was written")
    assert not Path("one").exists()


def test_an_interrupted_run_with_a_ledger_is_said_to_be_there(ppadmm, monkeypatch):
    from ppadmm.engines import local

    def interrupt(*_):
        raise KeyboardInterrupt

    assert ppadmm("ledger", "new", "a.ledger", "--owner", "me").code == 0
    grant = ("--epsilon", "5", "--delta", "1e-3")
    assert ppadmm("ledger", "grant", "a.ledger", "people", *grant).code == 0
    booked = private("--out", "one", "--ledger", "a.ledger", "--dataset", "people")
    with monkeypatch.context() as patch:
        patch.setattr(local, "_deliver", interrupt)  # after the first charges and releases
        refused(ppadmm(*booked), 130, "stays in 'a.ledger'; the same command with --resume goes on")
    assert not Path("one").exists()
    shown = ppadmm("ledger", "show", "a.ledger")
    assert "not finished" in shown.out
    outcome = ppadmm(*booked, "--resume")
    assert outcome.code == 0, outcome.err
    assert ppadmm("ledger", "verify", "a.ledger").code == 0


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
