"""`ppadmm report` as a user meets it, and the command that a report names."""

import shlex
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

import ppadmm.runs.run
from ppadmm.cli import main
from ppadmm.runs.report.command import command
from ppadmm.runs.specification import RunSpec
from tests.small_runs import copy_of, folder_of


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ppadmm", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out, captured.err

    return call


def test_writes_into_the_folder_over_an_earlier_report(run):
    folder = copy_of("private", Path("one"))
    (folder / "report.html").write_text("old")
    assert run("report", "one") == (0, "Report: one/report.html\n", "")
    assert (folder / "report.html").read_text() == (
        folder_of("private") / "report.html"
    ).read_text()


def test_public_has_a_file_of_its_own(run):
    folder = copy_of("private", Path("one"))
    assert run("report", "one", "--public") == (0, "Report: one/report-public.html\n", "")
    assert "public edition" in (folder / "report-public.html").read_text()
    assert not any(path.name.startswith(".") for path in folder.iterdir())


def test_out_names_another_file(run):
    assert run("report", folder_of("private"), "--out", "mail.html")[:2] == (
        0,
        "Report: mail.html\n",
    )
    code, out, err = run("report", folder_of("private"), "--out", "mail.html")
    assert (code, out) == (2, "")
    assert err == "Error: 'mail.html' exists already; choose another --out or remove it.\n"


def test_what_is_not_private_is_not_made_public(run):
    copy_of("seeded", Path("one"))
    code, out, err = run("report", "one", "--public")
    assert (code, out) == (2, "")
    assert "'one' is not private (the noise follows from the seed 3" in err
    assert not Path("one/report-public.html").exists()


def test_no_run_there(run):
    code, out, err = run("report", "nothing")
    assert (code, out) == (2, "")
    assert err.startswith("Error: There is no run in 'nothing'")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["adult", "--data-dir", "my data", "--seed", "7", "--epsilon", "0.1"],
        ["x.csv", "--label", "a 'quoted' name", "--adjacency", "zero-out"],
        ["--preset", "paper", "--loss", "huber-hinge", "--solver", "newton"],
        ["--epsilons", "0.5,1,2", "--records", "10,0,30", "--agents", "3", "--graph", "ring"],
        ["--algorithm", "ipp", "--test-share", "0.05", "--releases", "9", "--level", "1.5"],
        ["--rounds", "9", "--eta", "0.0123456789012345", "--regularisation", "1e-3"],
        ["--delta", "1e-7", "--beta", "1e-9", "--statistic", "loss", "--test", "svt"],
    ],
    ids=" ".join,
)
def test_the_command_in_a_report_gives_the_same_run(run, monkeypatch, arguments):
    specs = []

    def stop(spec, _, **ignored):
        specs.append(spec)
        raise KeyboardInterrupt

    monkeypatch.setattr(ppadmm.runs.run, "train", stop)
    run("train", *arguments)
    again = shlex.split(command(asdict(specs[0])))
    assert again[0] == "ppadmm"
    run(*again[1:])
    assert len(specs) == 2
    assert specs[0] == specs[1]
    assert isinstance(specs[0], RunSpec)
