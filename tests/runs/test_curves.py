"""Curves of a run: the same from a result and from its folder, and only what was released."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ppadmm.data.effects import column_effects, effect_sizes, length_range, reference_length
from ppadmm.data.features import Categorical, Numeric
from ppadmm.data.interactions import Interaction
from ppadmm.data.schema import Classes, Label, Schema
from ppadmm.errors import InputError
from ppadmm.runs.curves import HEADINGS, LEAST_PLACES, fitted_curves, no_band_because
from ppadmm.runs.folder import write_run
from ppadmm.runs.report.figures import Figures
from ppadmm.runs.report.page import render
from ppadmm.runs.run import train
from ppadmm.runs.saved import load_run
from ppadmm.runs.specification import RunSpec

COLUMNS = (
    Numeric("age", 0, 100, shape="curve", knots=5),
    Numeric("dose", 0, 1000, scale="log", shape="curve", knots=4),
    Numeric("weight", 0, 200),
    Numeric("visits", 0, 20, shape="steps", knots=3),
    Categorical("month", tuple(f"month {k}" for k in range(20))),
    Categorical("ward", ("north", "south", "<east>")),
)
PLACES = 5 + 4 + 2 + 3 + 20 + 3
TWO = Schema(COLUMNS, Label("ill", ("yes",), ("no",)))
THREE = Schema(COLUMNS, Classes("grade", ("low", "mid", "top")))


def records(n=3000):
    rng = np.random.default_rng(4)
    age = rng.random(n) * 100
    ill = np.abs(age - 50) / 12 + rng.logistic(size=n) > 2.0
    return {
        "age": age,
        "dose": rng.random(n) * 1000,
        "weight": rng.random(n) * 200,
        "visits": rng.integers(0, 20, n).astype(float),
        "month": rng.choice(COLUMNS[-2].categories, n),
        "ward": rng.choice(COLUMNS[-1].categories, n),
        "ill": np.where(ill, "yes", "no"),
        "grade": rng.choice(["low", "mid", "top"], n),
    }


def result_of(schema=TWO, **changes):
    import pyarrow as pa

    given = {"agents": 3, "epsilon": 8.0, "delta": 1e-3, "rounds": 24, **changes}
    return train(RunSpec(schema=schema, **given), data=pa.table(records()))


@pytest.fixture(scope="module")
def result():
    return result_of()


@pytest.fixture(scope="module")
def seeded():
    return result_of(seed=1, epsilon=4.0)


@pytest.fixture(scope="module")
def folder(result, tmp_path_factory):
    return write_run(result, tmp_path_factory.mktemp("runs") / "run")


def test_effects_are_contrasts_of_these_sizes():
    every = column_effects(TWO, np.eye(TWO.dimension))
    for effect, size in zip(every, effect_sizes(TWO), strict=True):
        assert size.values == pytest.approx(np.linalg.norm(effect.values, axis=0))
        assert size.missing == pytest.approx(np.linalg.norm(effect.missing))


class TestCurves:
    def test_values_are_those_of_the_model(self, result):
        expected = {e.name: e.values for e in column_effects(TWO, result.model)}
        for curve in result.curves().curves:
            assert curve.values[0] == pytest.approx(expected[curve.name])
            assert curve.values[0].mean() == pytest.approx(0.0, abs=1e-12)
            assert (curve.half > 0.0).all()
            assert (curve.half_missing > 0.0).all()

    def test_what_matters_most_comes_first(self, seeded):
        curves = seeded.curves()
        ranks = [(not curve.is_told_apart, -curve.importance) for curve in curves.curves]
        assert ranks == sorted(ranks)
        assert curves.curves[0].name == "age"
        assert curves.curves[0].is_told_apart
        assert curves.summary.startswith("What matters most: age")

    def test_noise_is_no_importance(self, seeded):
        first = seeded.curves().curves[0]
        assert replace(first, half=np.abs(first.values) * 3.0).importance == 0.0
        bare = replace(first, half=None)
        assert bare.importance == pytest.approx(np.sqrt((first.values**2).mean()))
        assert 0.0 < first.importance < bare.importance

    def test_a_column_whose_bands_hold_zero_is_not_told_apart(self, seeded):
        first = seeded.curves().curves[0]
        assert not replace(first, half=np.abs(first.values) + 1e-9).is_told_apart
        curves = replace(seeded.curves(), curves=(replace(first, half=first.half + 99.0),))
        assert curves.summary == "No column is told apart from noise."

    def test_factors_are_of_row_lengths(self, result):
        least, most = length_range(TWO)
        length = reference_length(TWO)
        assert result.curves().factors == pytest.approx((length / most, length / least))

    def test_classes_are_told_against_their_mean(self):
        curves = result_of(THREE).curves()
        assert curves.classes == ("low", "mid", "top")
        assert not curves.no_band
        for curve in curves.curves:
            assert curve.values.shape == curve.half.shape == (3, len(curve.places))
            assert curve.values.sum(axis=0) == pytest.approx(0.0, abs=1e-9)

    def test_records_are_not_asked(self, result):
        """The public part of result.json, the schema and the releases are enough."""
        public = json.loads(json.dumps(result.to_dict()))
        for name in [n for n in public if n.startswith("test_") or n in ("history", "sites")]:
            del public[name]
        again = fitted_curves(public, TWO, result.model, result.trace)
        assert again.to_csv() == result.curves().to_csv()


class TestNoBand:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"rounds": 19}, "it takes 20 rounds, there were 19"),
            ({"rounds": 1}, "one release"),
            ({"own": 0}, "releases of all sites"),
            ({"algorithm": "ipp"}, "for this algorithm"),
            ({"algorithm": "of another version"}, "for this algorithm"),
            ({"algorithm": "non-private"}, "No noise"),
            ({"calibration": "paper"}, "calibration"),
            ({"loss": "one-vs-rest"}, "this loss"),
            ({"search": {"grid": []}}, "search"),
        ],
    )
    def test_none_that_was_not_measured(self, result, changes, words):
        figures = {**result.to_dict(), **changes}
        assert words in no_band_because(figures, PLACES)
        found = fitted_curves(figures, TWO, result.model, result.trace)
        assert all(c.half is None and c.half_missing is None for c in found.curves)

    def test_none_with_a_regulariser(self, result):
        figures = result.to_dict()
        figures["spec"] = {**figures["spec"], "regularisation": 0.1}
        assert "regulariser" in no_band_because(figures, PLACES)

    def test_none_with_few_places(self, result):
        assert not no_band_because(result.to_dict(), LEAST_PLACES)
        words = no_band_because(result.to_dict(), LEAST_PLACES - 1)
        assert words == "There is no band: it takes 36 knots and categories, there are 35."

    def test_an_interaction_is_listed_without_a_band(self, tmp_path):
        found = result_of(replace(TWO, interactions=(Interaction(("age", "ward")),)))
        curves = found.curves()
        assert "interactions" in curves.no_band
        (pair,) = [c for c in curves.curves if c.is_listed and len(c.places) == 9]
        assert "50 and <east>" in pair.places
        page = render(load_run(write_run(found, tmp_path / "run")))
        assert "50 and &lt;east&gt;" in page
        assert found.plot_curves() is not None

    def test_a_table_without_bands(self, result):
        figures = {**result.to_dict(), "own": 0}
        rows = fitted_curves(figures, TWO, result.model, result.trace).to_rows()
        assert {row[5:7] for row in rows} == {("", "")}


class TestFolder:
    def test_the_table(self, result, folder):
        rows = list(csv.reader(io.StringIO((folder / "curves.csv").read_text("utf-8"))))
        assert tuple(rows[0]) == HEADINGS
        assert len(rows) - 1 == sum(len(c.places) + 1 for c in result.curves().curves)
        assert all(float(low) < float(v) < float(high) for *_, v, low, high, _ in rows[1:])
        assert ["ward", "category", "yes", "<east>"] in [row[:4] for row in rows]
        assert "0 to 6.66667" in [row[3] for row in rows if row[0] == "visits"]

    def test_a_saved_run_has_the_same_curves(self, result, folder):
        found = Figures(load_run(folder)).curves
        assert found.to_csv() == result.curves().to_csv()

    def test_the_public_page_has_the_bands(self, result, folder):
        run = load_run(folder)
        page, public = render(run), render(run, public=True)
        for text in (page, public):
            assert text.count('class="band"') == 4 + 20 + 3
            assert "The shaded band is what the noise leaves open" in text
            assert "other patients or other records" in text
            assert result.curves().summary in text
            assert "&lt;east&gt;" in text
            assert "<east>" not in text
        part = [text.split('id="model"')[1].split("</section>")[0] for text in (page, public)]
        assert part[0] == part[1]

    def test_another_noise_changes_the_width(self, folder):
        """The band follows the noise that result.json says there was."""
        run = load_run(folder)
        louder = [{k: 2.0 * v for k, v in noise.items()} for noise in run.result["noise"]]
        again = replace(run, result={**run.result, "noise": louder})
        half, twice = (
            {c.name: c.half_missing for c in Figures(each).curves.curves} for each in (run, again)
        )
        assert all(twice[name] == pytest.approx(2.0 * half[name]) for name in half)


class TestFigure:
    def test_a_panel_for_every_column(self, seeded):
        pytest.importorskip("matplotlib")
        shown = [axis for axis in seeded.plot_curves().axes if axis.get_visible()]
        assert len(shown) == len(TWO.columns)
        assert shown[0].get_title().startswith("age")

    def test_it_can_be_saved(self, result, tmp_path: Path):
        pytest.importorskip("matplotlib")
        result.plot_curves().savefig(tmp_path / "curves.png")
        assert (tmp_path / "curves.png").stat().st_size > 10_000

    def test_a_sentence_without_matplotlib(self, result, monkeypatch):
        monkeypatch.setattr("ppadmm.runs.curve_figure.find_spec", lambda name: None)
        with pytest.raises(InputError, match=r"pip install 'ppadmm\[figures\]'"):
            result.plot_curves()
