"""Published speed of peers is that of private runs: secure noise, TLS and a ledger on disk."""

import copy
import json
import re

from tests.docs.blocks import ROOT

ROWS = json.loads((ROOT / "benchmarks" / "results" / "peer.json").read_text("utf-8"))["rows"]
HEADLINE = "TLS and ledger"


def page(name):
    return (ROOT / name).read_text("utf-8").replace("**", "")


def spelt(value):
    """Return a figure as the tables have it."""
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"


def doubts(rows):
    """Yield headline rows that were not private, and others that claim to be."""
    for row in rows:
        if row["way"] == HEADLINE and not (row["secure"] and row["ledger"] and row["private"]):
            yield row["d"], "is not private"
        if row["way"] == HEADLINE and row["links"] != "tls":
            yield row["d"], "has no TLS"
        if row["private"] and row["way"] != HEADLINE:
            yield row["d"], row["way"], "is called private"
        if row["secure"] == ("seeded" in row["way"]):
            yield row["d"], row["way"], "has other noise than it says"


def test_figures_are_of_private_runs():
    assert list(doubts(ROWS)) == []
    private = [row for row in ROWS if row["private"]]
    assert [row["d"] for row in private] == [58, 100_000]
    assert all(len(row["each_ms"]) >= 3 for row in private)


def test_a_simulation_is_refused():
    for k, row in enumerate(ROWS):
        for what in ("secure", "ledger", "private") if row["private"] else ("secure", "private"):
            changed = copy.deepcopy(ROWS)
            changed[k][what] = not row[what]
            assert list(doubts(changed)), (row["way"], what)


def test_the_page_on_peers_has_all_rows():
    for row in ROWS:
        noise = "secure" if row["secure"] else "seeded, not private"
        way, times = row["way"].partition(",")[0], (row["ms"], row["rounds_per_second"])
        said = [f"{row['d']:,}", way, noise, *map(spelt, times), spelt(row["processor_ms"])]
        assert f"| {' | '.join(said)} |" in page("docs/peers.md"), row


def test_the_page_on_performance_has_the_private_ones_alone():
    table = page("docs/performance.md").split("### A round of peers")[1].split("\n#")[0]
    lines = [line for line in table.splitlines() if re.match(r"\| [\d,]+ \|", line)]
    names = ("ms", "rounds_per_second", "processor_ms")
    rows = [[f"{row['d']:,}", *(spelt(row[n]) for n in names)] for row in ROWS if row["private"]]
    assert [line.strip("| ").split(" | ") for line in lines] == rows
