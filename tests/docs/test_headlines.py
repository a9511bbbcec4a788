"""Published speed is that of private runs: figures of README and of peers are of secure noise."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
ROWS = json.loads((RESULTS / "train.json").read_text("utf-8"))["rows"]
PEERS = json.loads((RESULTS / "peer.json").read_text("utf-8"))["rows"]


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


class TestPeers:
    """A round of five peers (`benchmarks/peer.py`)."""

    def test_the_headline_rows_are_of_private_runs(self):
        private = [row for row in PEERS if row["way"] == "TLS and ledger"]
        assert [row["d"] for row in private] == [58, 100_000]
        for row in private:
            assert row["links"] == "tls"
            assert row["secure"] is row["ledger"] is row["private"] is True
            assert len(row["each_ms"]) >= 3

    def test_no_other_row_says_that_it_is_private(self):
        for row in PEERS:
            assert row["private"] is (row["secure"] and row["ledger"])
            assert row["secure"] is ("seeded" not in row["way"])

    def test_the_page_on_peers_has_all_rows(self):
        text = (ROOT / "docs" / "peers.md").read_text("utf-8").replace("**", "")
        for row in PEERS:
            noise = "secure" if row["secure"] else "seeded, not private"
            way = row["way"].partition(",")[0]
            assert f"| {row['d']:,} | {way} | {noise} | {spelt(row['ms'])} |" in text, row

    def test_the_page_on_performance_has_the_private_ones_alone(self):
        text = (ROOT / "docs" / "performance.md").read_text("utf-8")
        table = text.split("### A round of peers")[1].split("\n#")[0]
        said = [
            line.split("|")[2:5] for line in table.splitlines() if re.match(r"\| [\d,]+ \|", line)
        ]
        names = ("ms", "rounds_per_second", "processor_ms")
        rows = [[f" {spelt(row[name])} " for name in names] for row in PEERS if row["private"]]
        assert said == rows


def spelt(value):
    """Return a figure as the tables have it."""
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"
