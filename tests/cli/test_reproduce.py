"""`ppadmm reproduce` as a user meets it."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ppadmm.cli import main
from ppadmm.cli.common import Lines
from ppadmm.datasets import load
from ppadmm.errors import DataError
from ppadmm.studies import cell, figures, plots

SMALL = ("--label", "ill", "--seeds", "2", "--splits", "1", "--jobs", "1", "--out", "out")


@pytest.fixture
def reproduce(capsys, monkeypatch, tmp_path):
    """Run the command in this process, in a folder with people.csv, with quick ranges."""
    from tests.studies.people import write_people

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PPADMM_DATA", raising=False)
    write_people(tmp_path / "people.csv", records=1500)
    for name in ("SHARES", "BETAS", "CLIPS", "ALPHAS", "LEVELS"):
        monkeypatch.setattr(figures, name, getattr(figures, name)[1:3])
    monkeypatch.setattr(figures, "CLIPS", (2.0,))
    monkeypatch.setattr(figures, "LINES", (1.0, 2.0))
    monkeypatch.setattr(figures, "BUDGETS", figures.SHOWN)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["ppadmm", "reproduce", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return run


def test_figures_1_to_6(reproduce, tmp_path):
    numbers = ("6", "1", "2", "3", "4", "5", "5")
    code, out, err = reproduce(*numbers, "--data", "people.csv", *SMALL, "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert not result["private"]
    assert [entry["figure"] for entry in result["figures"]] == [1, 2, 3, 4, 5, 6]
    # 1 and 2, 3 and 4 have the paper's own settings in common, 5 and 6 everything
    assert result["cells"] == {"ran": (4 + 4 - 1) + (2 + 4 - 1) + 12, "found": 0}
    for entry in result["figures"]:
        check_files(entry, tmp_path)
        check_points(entry)
    check_a_mean(result["figures"][4], tmp_path)

    before = (tmp_path / "out" / "figure-5.png").read_bytes()
    code, out, err = reproduce("5", "--data", "people.csv", *SMALL)
    assert code == 0
    assert "Figure 5: Test error against ε, people.csv\n  out/figure-5.csv" in out
    assert "0 cells ran, 12 were found finished" in out
    assert out.endswith("NOT PRIVATE: figures are simulations with known seeds.\n")
    assert err == "12 of 12 cells are there already.\n"
    assert (tmp_path / "out" / "figure-5.png").read_bytes() == before


def check_files(entry, tmp_path):
    """The CSV says what the JSON says; the plots are there and not blank."""
    table, png, pdf = (tmp_path / name for name in entry["files"])
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    spoken = [{k: "" if v is None else str(v) for k, v in p.items()} for p in entry["points"]]
    assert rows == spoken
    check_png(png)
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/CIDFontType2" in content  # a Type 42 font
    assert b"/Type3" not in content


def check_png(path):
    from PIL import Image

    image = Image.open(path).convert("RGB")
    assert path.stat().st_size < 150_000
    assert image.width > 1000
    seen = {colour for _, colour in image.getcolors(1 << 24)}
    assert len(seen) > 30
    white = sum(n for n, colour in image.getcolors(1 << 24) if colour == (255, 255, 255))
    assert 0.5 < white / (image.width * image.height) < 0.98


def check_points(entry):
    points = entry["points"]
    assert {point["calibration"] for point in points} == {"paper", "proven"}
    assert "a claim, not a guarantee" in entry["caption"]
    for point in points:
        assert point["std"] >= 0
        if point["calibration"] == "proven" and point["algorithm"] in ("pp", "ipp"):
            assert 0.9 * point["epsilon"] < point["epsilon_proven"] <= point["epsilon"]
        if point["calibration"] == "paper" and point["algorithm"] == "ipp":
            assert point["epsilon_proven"] is None
    algorithms = {1: {"pp"}, 2: {"pp"}, 3: {"ipp"}, 4: {"ipp"}}
    assert {p["algorithm"] for p in points} == algorithms.get(
        entry["figure"], set(figures.ALGORITHMS)
    )
    if entry["figure"] == 6:
        paper = [p for p in points if p["calibration"] == "paper" and p["measure"] == figures.LOSS]
        assert {p["x"] for p in paper} == set(range(1, 31))
        assert {p["epsilon"] for p in paper} == {None, 1.0, 2.0, 10.0}


def check_a_mean(entry, tmp_path):
    """A point is the mean over the replicates in the cell's file."""
    (point,) = (
        p
        for p in entry["points"]
        if (p["calibration"], p["algorithm"], p["x"]) == ("paper", "dvp", 2.0)
        and p["measure"] == figures.ERROR
    )
    kept = [json.loads(path.read_text()) for path in (tmp_path / "out" / "cells").iterdir()]
    kinds = {(k["cell"]["algorithm"], k["cell"]["calibration"]): k["outcomes"] for k in kept}
    (outcome,) = (o for o in kinds["dvp", "paper"] if o["epsilon"] == 2.0)
    first, second = outcome["test_error"]
    assert point["mean"] == pytest.approx((first + second) / 2)
    assert point["std"] == pytest.approx(abs(first - second) / 2)
    assert point["replicates"] == 2


def test_a_data_set_that_is_absent_is_named_in_output_and_plot(reproduce, tmp_path, monkeypatch):
    def people_for_brazil(name, label=None, data_dir=None, schema=None, holder=None):
        if name == "us":
            raise DataError("US needs a file of its own.")
        return load(tmp_path / "people.csv", label="ill")

    monkeypatch.setattr(figures, "load", people_for_brazil)
    monkeypatch.setattr(cell, "load", people_for_brazil)
    drawn = []
    monkeypatch.setattr(figures, "ALGORITHMS", ("dvp", "non-private"))
    monkeypatch.setattr(plots, "_say_absent", lambda axes, reason: drawn.append(reason))
    code, out, _ = reproduce("7", *SMALL[2:])
    assert code == 0
    assert "Absent: US: US needs a file of its own.\n" in out
    assert drawn == ["US needs a file of its own."] * 2
    assert "us" not in (tmp_path / "out" / "figure-7.csv").read_text()
    check_png(tmp_path / "out" / "figure-7.png")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("8",), 2, "Expected a figure from 1 to 7 or all, got '8'."),
        (("1", "x"), 2, "got 'x'"),
        (("5", "--seeds", "0"), 2, "seeds"),
        (("5", "--splits", "0"), 2, "splits"),
        (("5", "--data", "people.csv", "--label", "ill", "--jobs", "0"), 2, "jobs"),
        (("5", "--data", "people.csv", "--label", "ill", "--out", "people.csv"), 2, "people.csv"),
        (("5", "--data", "nothing"), 3, "Unknown data set 'nothing'"),
        (("5",), 3, "PPADMM_DATA"),
        (("7",), 3, "PPADMM_DATA"),
    ],
)
def test_bad_input_is_one_sentence(reproduce, tmp_path, arguments, code, message):
    found, out, err = reproduce(*arguments)
    assert (found, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_without_matplotlib_nothing_starts(reproduce, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    code, out, err = reproduce("5", "--data", "people.csv", *SMALL)
    assert (code, out) == (2, "")
    assert err == "Error: Plots need matplotlib; run: pip install 'ppadmm[figures]'.\n"
    assert not (tmp_path / "out").exists()


def test_ctrl_c_keeps_what_was_finished(tmp_path):
    from tests.studies.people import write_people

    write_people(tmp_path / "people.csv", records=1500)
    command = "from ppadmm.cli import main; main()"
    arguments = ["reproduce", "1", "2", "5", "--data", "people.csv", *SMALL, "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", command, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(figures.__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    kept = tmp_path / "out" / "cells"
    end = time.monotonic() + 60
    while len(list(kept.glob("*.json"))) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err == (
        "Error: Interrupted; finished cells are kept in 'out' and the same command continues "
        "from there.\n"
    )
    assert 2 <= len(list(kept.glob("*.json"))) < 36
    assert not list(kept.glob(".*"))


def test_lines_where_there_is_no_terminal(capsys):
    now = [0.0]
    report = Lines(lambda: now[0])
    report(10, 100)
    for now[0], done in ((10.0, 20), (31.0, 40), (40.0, 50), (70.0, 70), (100.0, 100)):
        report(done, 100)
    assert capsys.readouterr().err.splitlines() == [
        "10 of 100 cells are there already.",
        "40 of 100 cells, about 62 s left.",
        "70 of 100 cells, about 35 s left.",
        "100 of 100 cells, about 0 s left.",
    ]
