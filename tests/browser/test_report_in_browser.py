"""The report in a real browser: what it loads, shows, sorts and prints."""

import re

import pytest

from ppadmm.runs.report.page import write_report
from tests.browser.pages import CONTRAST, overflow
from tests.small_runs import folder_of


def column(page, table, index):
    return page.locator(f"#{table} tbody tr > :nth-child({index})").all_inner_texts()


PLOTS = {
    "private": ["guess", "accuracy", "test-error", "test-log-loss", "distance", "network", "curve"],
    "ipp": ["accuracy", "test-error", "raster", "network", "curve"],
    "seeded": ["accuracy", "test-error", "network", "curve"],
    "thirty": ["accuracy", "network"],
    "pooled": ["guess", "curve"],
    "hostile": ["accuracy", "network", "curve"],
}


@pytest.mark.parametrize("name", PLOTS)
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_the_plots_are_there(show, name, scripts):
    page = show(name, java_script_enabled=scripts)
    for plot in PLOTS[name]:
        box = page.locator(f"#plot-{plot}").bounding_box()
        assert box["width"] > 200
        assert box["height"] > 60
    assert page.locator("#verdict").is_visible()
    assert page.locator("#theme").is_visible() == scripts


def test_no_name_in_the_data_runs_as_a_script(show):
    page = show("hostile")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator("h1").inner_text().startswith("A classifier of “<b>ill</b>”")


def test_the_policy_stops_what_is_put_in_later(browser):
    page = browser.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(f"file://{folder_of('private') / 'report.html'}")
    page.evaluate(
        """() => { const s = document.createElement("script"), i = document.createElement("img");
        s.textContent = "window.hacked = 1"; i.src = "data:image/gif;base64,R0lGODlhAQABAAAAACw=";
        document.body.append(s, i); }"""
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.hacked") is None
    assert len([text for text in said if "Content Security Policy" in text]) == 2
    page.close()


class TestSorting:
    def test_by_click(self, show):
        page = show("ipp")
        head = page.locator("#agents-table th", has_text="Records")
        assert head.get_attribute("aria-sort") == "none"
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert column(page, "agents-table", 2) == ["9,000", "7,000", "3,000", "0"]
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        assert column(page, "agents-table", 2) == ["0", "3,000", "7,000", "9,000"]
        assert page.locator("#agents-table th[aria-sort=ascending]").count() == 1

    def test_by_keyboard(self, show):
        page = show("ipp")
        page.locator("#agents-table th button").first.focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert column(page, "agents-table", 1) == ["1", "2", "0", "3"]
        page.keyboard.press("Space")
        assert column(page, "agents-table", 1) == ["3", "0", "2", "1"]

    def test_what_is_missing_comes_last_both_ways(self, show):
        page = show("ipp")
        head = page.locator("#agents-table th", has_text="σ of a test")
        index = page.locator("#agents-table thead th").all_inner_texts().index(head.inner_text())
        for _ in range(2):
            head.locator("button").click()
            assert column(page, "agents-table", index + 1)[-1] == "–"

    def test_coefficients_by_name_and_by_value(self, show):
        page = show("private")
        page.locator("#coefficients-table th button", has_text="Feature").click()
        names = column(page, "coefficients-table", 1)
        columns = [re.split("[@=]", name)[0].casefold() for name in names]
        assert columns == sorted(columns)
        assert names.index("age@0") < names.index("age@50") < names.index("capital-gain@0")
        page.locator("#coefficients-table th button", has_text="Coefficient").click()
        values = [float(text.replace("−", "-")) for text in column(page, "coefficients-table", 2)]
        assert values == sorted(values, reverse=True)
        assert values[-1] < 0


class TestColours:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("name", ["private", "paper"])
    def test_every_text_stands_out(self, show, name, scheme):
        found = show(name, color_scheme=scheme).evaluate(CONTRAST)
        assert len(found) > 200
        assert [pair for pair in found if pair[0] < 4.5] == []

    def background(self, page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    def test_the_system_chooses_and_the_toggle_overrules_it(self, show):
        light, dark = (show("private", color_scheme=s) for s in ("light", "dark"))
        bright, dim = self.background(light), self.background(dark)
        assert bright != dim
        for page, other in ((light, dim), (dark, bright)):
            page.locator("#theme").click()
            assert self.background(page) == other
        light.locator("#theme").click()
        assert self.background(light) == bright

    @pytest.mark.parametrize("toggled", [False, True])
    def test_print_is_light(self, show, toggled):
        page = show("private", color_scheme="light" if toggled else "dark")
        if toggled:
            page.locator("#theme").click()
        page.emulate_media(media="print")
        ink = page.evaluate("getComputedStyle(document.body).color")
        assert max(map(int, re.findall(r"\d+", ink))) < 60


class TestSizes:
    @pytest.mark.parametrize("name", [*PLOTS, "paper"])
    def test_a_phone_needs_no_sideways_scrolling(self, show, name):
        assert overflow(show(name, width=360)) == 0

    @pytest.mark.parametrize("name", PLOTS)
    def test_a_printed_page_cuts_nothing_off(self, show, name):
        page = show(name)
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 688, "height": 1000})  # A4 less its margins
        assert overflow(page) == 0
        cut = page.evaluate(
            """() => [...document.querySelectorAll(".scroll")].filter(
            e => e.scrollHeight > e.clientHeight + 1 && getComputedStyle(e).overflowY !== "visible"
            ).length"""
        )
        assert cut == 0

    def test_the_pdf_has_every_section(self, show, tmp_path):
        page = show("thirty")
        lengths = {}
        for media in ("print", "screen"):
            page.emulate_media(media=media)
            lengths[media] = page.locator("#coefficients-table").bounding_box()["height"]
        shown = page.locator("#coefficients-table").locator("..").bounding_box()["height"]
        assert shown < lengths["screen"]  # on the screen the table scrolls in a box
        page.emulate_media(media="print")
        whole = page.locator("#coefficients-table").locator("..").bounding_box()["height"]
        assert whole >= lengths["print"]
        pdf = page.pdf(prefer_css_page_size=True)
        assert pdf.startswith(b"%PDF")
        assert 5 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 20


def test_values_can_be_read_off_without_scripts(show):
    page = show("private", java_script_enabled=False)
    tip = page.locator("#plot-test-error .hover").nth(3)
    assert not tip.locator(".tip").is_visible()
    tip.locator(".area").hover()
    assert tip.locator(".tip").is_visible()
    assert tip.locator(".tip").text_content().startswith("round 4: ")


def test_the_figures_can_be_saved(show):
    page = show("private", accept_downloads=True)
    with page.expect_download() as download:
        page.locator("#save").click()
    assert download.value.suggested_filename == "figures.json"
    assert '"format": 3' in download.value.path().read_text()


def test_the_public_page_works_as_well(show, tmp_path):
    path = write_report(folder_of("private"), tmp_path / "public.html", public=True)
    page = show("private", path=path, width=360)
    assert overflow(page) == 0
    assert page.locator("#plot-network").is_visible()
    assert page.locator("#accuracy").count() == 0
