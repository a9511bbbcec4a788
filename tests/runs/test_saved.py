"""Run folders: read back as they were written, or refused by name."""

import json
import threading
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from ppadmm.accounting import accountant
from ppadmm.accounting.event_data import from_plain, to_plain
from ppadmm.errors import InputError
from ppadmm.runs.evaluation import POINTS, rounds_shown
from ppadmm.runs.folder import new_folder, write_run
from ppadmm.runs.report.command import command
from ppadmm.runs.report.figures import Figures
from ppadmm.runs.report.page import write_report
from ppadmm.runs.run import prepare
from ppadmm.runs.saved import load_run
from ppadmm.runs.specification import RunSpec
from tests.small_runs import change, copy_of, finished, folder_of

FILES = {
    "result.json",
    "model.json",
    "statement.json",
    "statement.txt",
    "curves.csv",
    "releases.npz",
    "report.html",
}


class TestFigures:
    def test_the_last_round_is_the_result(self):
        for name in ("private", "ipp"):
            figures = finished(name).to_dict()
            history = figures["history"]
            assert history["rounds"][-1] == figures["rounds"]
            assert history["test_error"][-1] == pytest.approx(figures["test_error"], abs=1e-12)
            assert history["test_log_loss"][-1] == pytest.approx(figures["test_log_loss"])

    def test_a_long_run_is_looked_at_in_few_rounds(self):
        rounds = rounds_shown(100_000)
        assert len(rounds) == POINTS
        assert (rounds[0], rounds[-1]) == (1, 100_000)
        assert rounds_shown(3).tolist() == [1, 2, 3]

    def test_the_majority_share_is_that_of_the_test_labels(self):
        result = finished("private")
        labels = prepare(result.spec).federation.test[1]
        share = max((labels > 0).mean(), (labels < 0).mean())
        assert result.to_dict()["test_majority"] == pytest.approx(share)

    def test_the_ledger_gives_back_its_epsilon(self):
        for name in ("private", "ipp", "pooled"):
            figures = finished(name).to_dict()
            again = [
                accountant.epsilon(from_plain(book["reserved"]), figures["delta"]).epsilon
                for book in figures["ledger"]
            ]
            assert again == pytest.approx(figures["statement"]["epsilons"])

    def test_no_ledger_books_more_than_it_reserved(self):
        rows = Figures(load_run(folder_of("ipp"))).ledger
        assert all(row.spent <= row.reserved for row in rows)
        assert {row.spent for row in rows} != {0}

    def test_an_event_of_a_later_version_is_refused(self):
        plain = to_plain(finished("private").reserved[0])
        assert from_plain(plain) == finished("private").reserved[0]
        with pytest.raises(InputError, match="'Magic' is unknown"):
            from_plain([{"event": "Magic", "times": 1}])

    def test_the_curve_falls_and_passes_through_the_statement(self):
        figures = Figures(load_run(folder_of("private")))
        deltas, epsilons = map(np.array, zip(*figures.curve, strict=True))
        assert (np.diff(epsilons) < 0).all()
        at = np.interp(np.log(1e-6), np.log(deltas), epsilons)
        assert at == pytest.approx(figures.statement["epsilon"], rel=1e-3)

    def test_distance_of_agents_from_their_mean(self):
        figures = Figures(load_run(folder_of("private")))
        last = figures.run.releases[-1]
        apart = np.sqrt(((last - last.mean(axis=0)) ** 2).sum(axis=1).mean())
        assert figures.distances["releases"][-1] == pytest.approx(apart)
        models = finished("private").agent_models
        apart = np.sqrt(((models - models.mean(axis=0)) ** 2).sum(axis=1).mean())
        assert figures.distances["averages"][-1] == pytest.approx(apart)

    def test_columns_of_a_long_raster_are_shares(self, tmp_path):
        run = load_run(folder_of("ipp"))
        figures = Figures(run)
        assert figures.raster == run.spoke.astype(float).tolist()
        long = type(run)(**{**vars(run), "spoke": np.tile([[True, False]], (1000, 1))})
        shares = Figures(long).raster
        assert len(shares) < 1000
        assert all(row == [1.0, 0.0] for row in shares)


class TestFolders:
    def test_the_name_says_when_what_and_on_what(self):
        when = datetime(2026, 11, 15, 22, 45, 19)
        for data, short in (("adult", "adult"), ("/x/my data;.csv.gz", "my-data-.csv")):
            name = new_folder(RunSpec(data=data, algorithm="ipp"), when)
            assert name == Path("runs") / f"20261115-224519-ipp-{short}"

    def test_two_at_once_get_a_folder_each(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        found, result = [], finished("private")
        threads = [
            threading.Thread(target=lambda: found.append(write_run(result))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(found)) == 4
        assert set(found) == set(Path("runs").iterdir())
        for folder in found:
            assert {path.name for path in folder.iterdir()} == FILES

    def test_who_spoke_is_kept(self):
        run = load_run(folder_of("ipp"))
        assert run.spoke.sum(axis=0).tolist() == run.result["releases"]
        assert run.releases.shape[:2] == run.spoke.shape


class TestRefused:
    def refuse(self, folder, match):
        with pytest.raises(InputError, match=match):
            load_run(folder)

    def test_no_run(self, tmp_path):
        self.refuse(tmp_path, "no result.json; name a folder that ppadmm train wrote")
        self.refuse(tmp_path / "none", "There is no run in")

    def test_another_format(self, tmp_path):
        folder = copy_of("private", tmp_path / "run")
        change(folder, "result.json", format=99)
        self.refuse(folder, "has format 99, and this version reads format 3")
        result = json.loads((folder / "result.json").read_text())
        del result["format"]
        (folder / "result.json").write_text(json.dumps(result))
        self.refuse(folder, "has no format, and this version")

    @pytest.mark.parametrize("file", ["model.json", "releases.npz", "statement.txt"])
    def test_a_file_that_is_gone_or_broken(self, tmp_path, file):
        folder = copy_of("private", tmp_path / "run")
        (folder / file).write_bytes(b"\xff\xfe{")
        self.refuse(folder, "cannot be read")
        (folder / file).unlink()
        self.refuse(folder, "cannot be read")

    def test_a_result_that_is_no_object(self, tmp_path):
        (tmp_path / "result.json").write_text("[]")
        self.refuse(tmp_path, "has no format, and this version")

    def test_an_existing_file_is_left_alone(self, tmp_path):
        (tmp_path / "mine.html").write_text("mine")
        with pytest.raises(InputError, match="exists already"):
            write_report(folder_of("private"), tmp_path / "mine.html")
        assert (tmp_path / "mine.html").read_text() == "mine"

    def test_a_place_that_cannot_be_written(self, tmp_path):
        with pytest.raises(InputError, match="Cannot write the report"):
            write_report(folder_of("private"), tmp_path / "none" / "report.html")
        assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_name_did_not_reach_the_disk_is_not_written_twice(tmp_path, monkeypatch):
    def fails(folder):
        raise OSError(5, "Input/output error")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ppadmm.runs.folder.sync_folder", fails)
    with pytest.raises(InputError, match=r"Cannot write the results to .*Input/output error"):
        write_run(finished("private"))
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_a_setting_for_python_only_has_no_command():
    spec = finished("private").to_dict()["spec"]
    assert command(spec) == "ppadmm train synthetic --rounds 6 --agents 4 --epsilon 3.0"
    assert command({**spec, "speaking": {**spec["speaking"], "clip": 5.0}}) is None
