"""What a report says, and that nothing in a run can break out of it."""

import base64
import functools
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from ppadmm.errors import InputError
from ppadmm.runs.curves import LEAST_ROUNDS
from ppadmm.runs.report.page import best_guess, render, write_report
from ppadmm.runs.saved import COVERED, load_run
from tests.small_runs import EVIL, SPECS, change, copy_of, finished, folder_of

VOID = {"meta", "link", "br", "img", "input", "hr"}
ALL = [*SPECS, "hostile"]


class Page(HTMLParser):
    """The elements, texts and scripts of a page; fails on one that is not closed."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.open, self.texts, self.raw = [], [], [], {}
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            self.raw.setdefault(self.open[-1], []).append(data)
        else:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def all(self, name):
        return [attributes for tag, attributes in self.elements if tag == name]


@functools.cache
def source(name, public=False):
    return render(load_run(folder_of(name)), public)


@pytest.mark.parametrize("name", ALL)
class TestEveryRun:
    def test_is_a_sound_document(self, name):
        page = Page(source(name))
        names = [tag for tag, _ in page.elements]
        assert [names.count(tag) for tag in ("h1", "main", "header", "footer", "nav")] == [1] * 5
        ids = [a["id"] for _, a in page.elements if "id" in a]
        assert len(ids) == len(set(ids))
        for _, attributes in page.elements:
            for key in ("aria-labelledby", "href"):
                for target in attributes.get(key, "").split():
                    assert target.removeprefix("#") in ids
        levels = [int(tag[1]) for tag in names if re.fullmatch("h[1-6]", tag)]
        assert all(b - a <= 1 for a, b in pairwise(levels))

    def test_every_header_cell_has_a_scope_and_every_plot_a_title(self, name):
        page = Page(source(name))
        assert all(a.get("scope") in ("col", "row") for a in page.all("th"))
        plots = [a for a in page.all("svg") if a.get("role") == "img"]
        assert all(a.get("aria-labelledby") for a in plots)
        assert all(a.get("aria-hidden") for a in page.all("svg") if a not in plots)

    def test_loads_nothing_and_keeps_to_a_strict_policy(self, name):
        page = Page(source(name))
        assert not any(key in a for _, a in page.elements for key in ("src", "style", "srcset"))
        assert not any(key.startswith("on") for _, a in page.elements for key in a)
        assert all(a["href"].startswith("#") for a in page.all("a"))
        policy = next(a for a in page.all("meta") if "http-equiv" in a)["content"]
        hashes = dict(re.findall(r"(style|script)-src '(sha256-[^']+)'", policy))
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        for kind, text in (("style", page.raw["style"][0]), ("script", page.raw["script"][-1])):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert hashes[kind] == f"sha256-{digest}"

    def test_the_embedded_figures_are_those_of_the_folder(self, name):
        page = Page(source(name))
        embedded = json.loads(page.raw["script"][0])
        folder = folder_of(name)
        assert embedded["result"] == json.loads((folder / "result.json").read_text())
        assert embedded["model"] == json.loads((folder / "model.json").read_text())

    def test_says_what_was_run_and_how_to_do_it_again(self, name):
        result, text = finished(name).to_dict(), Page(source(name)).text
        how = "on the pooled records of" if name == "pooled" else "together by"
        assert f"trained {how} {result['agents']} agents" in text
        assert f"{sum(result['records']):,} training records" in text
        assert "ppadmm train " in text
        assert f"ppadmm {result['version']}" in text
        assert result["started"][:4] in text

    def test_is_what_train_wrote_into_the_folder(self, name):
        assert (folder_of(name) / "report.html").read_text() == source(name)


class TestVerdict:
    def test_private(self):
        text = Page(source("private")).text
        assert "Private: ε = 3 at δ = 1e-6 for one record of one agent, replaced" in text
        assert "NOT PRIVATE" not in text
        guess = 100 * math.exp(3) / (1 + math.exp(3))
        assert f"at most {math.ceil(guess * 10) / 10:.1f} %" in text

    @pytest.mark.parametrize(
        ("name", "reason", "way"),
        [
            ("seeded", "the noise follows from the seed 3", "Leave out --seed"),
            ("paper", "the paper's calibration is not proven", "proven calibration"),
            ("bare", "the algorithm adds no noise", "Choose --algorithm pp, ipp, gradient"),
        ],
    )
    def test_not_private_and_why_and_what_to_do(self, name, reason, way):
        page = Page(source(name))
        assert any(a.get("class") == "banner bad" for a in page.all("div"))
        assert not any(a.get("class") == "banner good" for a in page.all("div"))
        for words in ("NOT PRIVATE", reason, way, "Nothing is promised."):
            assert words in page.text

    def test_an_unconfirmed_schema(self, tmp_path):
        folder = copy_of("seeded", tmp_path / "run")
        model = json.loads((folder / "model.json").read_text())
        change(folder, "model.json", schema={**model["schema"], "confirmed": False})
        text = Page(render(load_run(folder))).text
        assert "confirmed = true (--schema FILE)" in text
        assert "The schema was NOT confirmed as public." in text

    def test_a_claim_of_the_paper_is_called_one(self):
        assert "is what the paper's formulas claim" in Page(source("paper")).text

    def test_warnings_are_shown(self):
        assert finished("paper").statement.warnings
        assert finished("paper").statement.warnings[0] in Page(source("paper")).text

    @pytest.mark.parametrize("name", ["private", "ipp", "seeded", "hostile"])
    def test_the_statement_is_whole(self, name):
        run, text = load_run(folder_of(name)), Page(source(name)).text
        stated = run.result["statement"]
        for words in (stated["unit"], stated["adjacency"], stated["noise_source"]):
            assert words in text
        assert f"version {stated['accountant']}" in text
        assert all(" ".join(c.split()) in text for c in stated["caveats"])
        assert " ".join(run.statement.split()) in text
        for heading in ("Tuning", "Public inputs", "What is covered", "Unit of protection"):
            assert heading in text

    def test_epsilon_is_worked_out_again(self, tmp_path):
        assert "the same." in Page(source("private")).text
        folder = copy_of("private", tmp_path / "run")
        ledger = json.loads((folder / "result.json").read_text())["ledger"]
        ledger[0]["reserved"][0]["times"] *= 3
        change(folder, "result.json", ledger=ledger)
        text = Page(render(load_run(folder))).text
        assert "not the same. Ask before relying on it." in text
        assert "ε = 3, the same." not in text

    def test_best_guess_is_the_bound_of_kairouz(self):
        assert best_guess(0.0, 0.0) == 0.5
        assert best_guess(1.0, 0.0) == pytest.approx(math.e / (1 + math.e))
        assert best_guess(0.0, 0.2) == pytest.approx(0.6)
        assert best_guess(800.0, 1e-6) == 1.0
        assert best_guess(None, 1e-6) is None


class TestContents:
    def test_accuracy_against_the_commonest_class(self):
        result, text = finished("private").to_dict(), Page(source("private")).text
        assert f"{100 * (1 - result['test_error']):.1f} %" in text
        assert f"commonest class gets {100 * result['test_majority']:.1f} %" in text
        assert "local diagnostic, not covered by ε" in text

    def test_plots(self):
        def plots(name):
            found = {a.get("id") for a in Page(source(name)).all("svg")} - {None}
            names = {name.removeprefix("plot-") for name in found}
            columns = {name for name in names if name.startswith("column-")}
            assert columns == {f"column-0-{j}" for j in range(12)}
            return names - columns

        always = {"accuracy", "test-error", "test-log-loss", "distance", "network", "curve"}
        assert plots("private") == always | {"guess"}
        assert plots("ipp") == always | {"guess", "raster", "sites"}
        assert plots("seeded") == always
        assert plots("bare") == always - {"curve"}
        assert plots("pooled") == {"guess", "curve"}
        assert plots("one-shot") == {"guess", "curve", "accuracy", "network"}

    def test_a_row_for_every_agent_and_feature(self):
        page = source("ipp")
        agents = page.split('id="agents-table"')[1].split("</table>")[0]
        assert len(re.findall(r'<th scope="row"', agents)) == 4
        values = re.findall(r'data-value="([^"]+)">(?:3,000|9,000|7,000|0)<', agents)
        assert set(values) >= {"3000", "9000", "7000"}
        table = page.split('id="coefficients-table"')[1].split("</table>")[0]
        model = json.loads((folder_of("ipp") / "model.json").read_text())["coefficients"]
        names = re.findall(r'class="feature">([^<]+)<', table)
        assert names == sorted(model, key=lambda name: -abs(model[name]))

    @pytest.mark.parametrize("name", ["private", "ipp", "bare", "pooled", "one-shot", "seeded"])
    def test_no_coefficient_is_said_to_be_certain(self, name):
        """Two runs of the same settings differ in signs on which all agents of each agree."""
        page = source(name)
        words = Page(page.split('id="model"')[1].split("</section>")[0]).text
        assert load_run(folder_of(name)).result["rounds"] < LEAST_ROUNDS
        assert "no band" in words
        assert "shaded band" not in words
        assert ("with other noise they come out otherwise" in words) == (name != "bare")
        assert ("they share the noise" in words) == (name in ("private", "ipp", "seeded"))
        for claim in ("settled", "Range over agents", "range over", "spans zero", " to +", " to −"):
            assert claim not in words

    def test_messages_are_releases_times_neighbours(self):
        run = load_run(folder_of("ipp"))
        degrees = [sum(i in edge for edge in run.result["graph"]["edges"]) for i in range(4)]
        sent = sum(r * d for r, d in zip(run.result["releases"], degrees, strict=True))
        assert sent < 12 * sum(degrees)
        text = Page(source("ipp")).text
        assert f"sent {sent:,} messages ; speaking in every round would have taken" in text

    def test_the_raster_shows_who_spoke(self):
        spoke = load_run(folder_of("ipp")).spoke
        text = Page(source("ipp")).text
        for i, count in enumerate(spoke.sum(axis=0)):
            assert f"agent {i}: {count} of 12 rounds" in text

    def test_an_agent_that_only_listens(self):
        assert "Agent 3: only listens, 0 records" in Page(source("ipp")).text

    def test_many_classes_get_a_column_each(self, tmp_path):
        folder = copy_of("private", tmp_path / "run")
        model = json.loads((folder / "model.json").read_text())
        classes = ["low", "mid", "top"]
        coefficients = {
            name: dict(zip(classes, (v, -v, 0.0), strict=True))
            for name, v in model["coefficients"].items()
        }
        schema = {**model["schema"], "label": {"name": "grade", "classes": classes}}
        changes = {"coefficients": coefficients, "schema": schema, "per_agent": [[1.0, 2.0]]}
        change(folder, "model.json", classes=classes, **changes)
        page = render(load_run(folder))
        table = page.split('id="coefficients-table"')[1].split("</table>")[0]
        assert [f">{name}</th>" in table for name in classes] == [True] * 3
        assert "largest sum" in page


class TestHostileNames:
    def test_no_name_becomes_markup(self):
        page = source("hostile")
        assert EVIL not in page
        assert "<img" not in page
        assert "<b>ill" not in page
        assert "9754610360615761" not in page
        assert page.count("<script") == 2
        text = Page(page).text
        assert EVIL in text
        assert "{{ 98765431 * 98765431 }}" in text
        assert "A classifier of “<b>ill</b>”" in text
        assert "a<b>&'.csv" in text

    def test_the_json_block_ends_where_it_should(self):
        embedded = json.loads(Page(source("hostile")).raw["script"][0])
        assert EVIL in embedded["model"]["coefficients"]


LOCAL = {
    "test_records": 4172,
    "test_error": 0.3172653,
    "test_error_per_agent": [0.3172654, 0.3172655, 0.3172656, 0.3172657],
    "test_auc": 0.6172651,
    "test_log_loss": 0.7172652,
    "test_log_loss_per_agent": [0.7172653, 0.7172654, 0.7172655, 0.7172656],
    "test_majority": 0.5172651,
    "train_loss": 0.8172653,
    "sites": [
        {
            "name": "a",
            "records": 9,
            "test_records": 4173,
            "together": 0.3172658,
            "alone": 0.3172659,
            "commonest": 0.5172652,
        },
    ],
    "passes": 9172699172.0,
    "seconds": 8172.65,
    "history": {
        "rounds": [1, 6],
        "test_error": [0.4172651, 0.3172653],
        "test_log_loss": [0.9172651, 0.7172652],
    },
    "something_new": 0.2172651,
}


class TestPublic:
    def test_local_figures_do_not_reach_a_single_byte(self, tmp_path):
        folder = copy_of("private", tmp_path / "run")
        change(folder, "result.json", **LOCAL)
        change(folder, "model.json", something_new=0.2172651)
        changed = load_run(folder)
        assert render(changed) != source("private")
        assert render(changed, public=True) == source("private", public=True)

    def test_the_test_above_names_every_local_figure(self):
        assert set(finished("private").to_dict()) - set(COVERED) == set(LOCAL) - {"something_new"}

    def test_the_numbers_are_absent(self, tmp_path):
        folder = copy_of("private", tmp_path / "run")
        change(folder, "result.json", **LOCAL)
        full = write_report(folder).read_bytes()
        public = write_report(folder, public=True).read_bytes()
        shares = (b"68.3\xc2\xa0%", b"51.7\xc2\xa0%")
        for digits in (b"172651", b"172653", b"9172699172", b"8172.65", *shares):
            assert digits in full
            assert digits not in public
        for words in (b"local diagnostic, not covered", b"plot-accuracy", b"plot-test-error"):
            assert words in full
            assert words not in public

    def test_what_is_covered_stays(self):
        page = Page(source("private", public=True))
        for words in ("public edition", "Private: ε = 3", "6 releases per agent"):
            assert words in page.text
        assert {"plot-distance", "plot-network", "plot-curve"} <= {
            a.get("id") for a in page.all("svg")
        }

    def test_folders_are_left_out(self):
        run = load_run(folder_of("hostile"))
        outside = str(folder_of("hostile").parent)
        assert outside in render(run)
        assert outside not in render(run, public=True)

    @pytest.mark.parametrize("name", ["seeded", "paper", "bare"])
    def test_a_run_that_is_not_private_is_refused(self, name):
        with pytest.raises(InputError, match=r"is not private .* leave out --public"):
            source(name, public=True)
