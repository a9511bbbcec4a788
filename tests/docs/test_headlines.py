"""Published speed is that of private runs: the figures of README come from secure noise."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = json.loads((ROOT / "benchmarks" / "results" / "train.json").read_text("utf-8"))["rows"]


def test_the_rows_are_of_private_runs():
    assert {row["data"] for row in ROWS} == {"adult", "brazil"}
    for row in ROWS:
        assert row["private"] is True
        assert row["spec"]["seed"] is None
        assert len(row["seeded_seconds"]) == len(row["ppadmm_seconds"])


@pytest.mark.parametrize("page", ["README.md", "docs/performance.md"])
def test_a_page_tells_their_ratios(page):
    text = (ROOT / page).read_text("utf-8")
    for row in ROWS:
        assert re.search(rf"\b{row['ratio']:.2f}\b", text), (page, row["data"], row["ratio"])


def test_readme_has_no_other_ratio_to_a_fit():
    """A headline that no private run gave would be found here."""
    cost = (ROOT / "README.md").read_text("utf-8").split("## Cost")[1].split("## ")[0]
    said = re.findall(r"(\d\.\d+)(?:\s+times)?\s+on ", cost)
    assert said == [f"{row['ratio']:.2f}" for row in ROWS]
