"""The page of `ppadmm plan` in a real browser."""

import pytest

from ppadmm.planning.page import write_plan
from ppadmm.planning.plan import PlanSpec, plan
from tests.browser.pages import CONTRAST, overflow

OVERLAPS = """() => {
  const line = document.querySelector("#plot-plan .line"), box = line.ownerSVGElement;
  const words = [...box.querySelectorAll("text.note.end")].map(t => t.getBoundingClientRect());
  const matrix = line.getScreenCTM(), hits = [];
  for (let k = 0; k <= 200; k++) {
    const p = line.getPointAtLength(line.getTotalLength() * k / 200).matrixTransform(matrix);
    for (const w of words)
      if (p.x > w.left && p.x < w.right && p.y > w.top && p.y < w.bottom) hits.push([p.x, p.y]);
  }
  return [words.length, hits]; }"""


@pytest.fixture(scope="module")
def found():
    return plan(
        PlanSpec(
            records=(2000, 900, 200), features=8, agents=3, graph="ring", epsilon=1.0,
            epsilons=(0.25, 1.0, 4.0), seeds=4, changes=True,
        )
    )  # fmt: skip


@pytest.fixture(scope="module")
def page_of(found, tmp_path_factory):
    return write_plan(found, tmp_path_factory.mktemp("plans") / "plan")


def test_the_curve_and_both_tables_are_there(show, page_of, found):
    page = show(None, path=page_of)
    box = page.locator("#plot-plan").bounding_box()
    assert box["width"] > 300
    assert box["height"] > 150
    assert page.locator("h1").inner_text() == "What to expect at ε = 1"
    rows = page.locator("section:has(#curve-h) tbody tr")
    assert rows.count() == len(found.curve)
    assert rows.and_(page.locator(".chosen")).locator("td").first.inner_text() == "1"
    assert page.locator("section:has(#help-h) tbody tr").count() == len(found.changes) > 0
    assert "No private data were read" in page.locator(".banner").first.inner_text()


def test_every_site_has_three_bars_and_a_sentence(show, page_of, found):
    page = show(None, path=page_of)
    picture = page.locator("#plot-joining")
    assert picture.locator("rect").count() == 9
    widths = [picture.locator("rect.f1").nth(k).bounding_box()["width"] for k in range(3)]
    assert widths == sorted(widths)  # the fewer records, the larger the error alone
    assert page.locator("#joining-h + .charts li").all_inner_texts() == found.joining.sentences()
    right = picture.bounding_box()["x"] + picture.bounding_box()["width"]
    for words in picture.locator("text").all():
        box = words.bounding_box()
        assert box["x"] + box["width"] <= right + 1.0


def test_no_line_runs_through_the_words_of_the_chart(show, page_of):
    words, hits = show(None, path=page_of).evaluate(OVERLAPS)
    assert words > 0
    assert hits == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out(show, page_of, scheme):
    pairs = show(None, path=page_of, color_scheme=scheme).evaluate(CONTRAST)
    assert len(pairs) > 50
    assert [pair for pair in pairs if pair[0] < 4.5] == []


@pytest.mark.parametrize("width", [320, 768, 1600])
def test_nothing_sticks_out(show, page_of, width):
    assert overflow(show(None, path=page_of, width=width)) <= 0


def test_it_works_without_scripts(show, page_of):
    page = show(None, path=page_of, java_script_enabled=False)
    assert page.locator("#plot-plan").is_visible()
