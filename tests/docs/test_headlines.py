"""Published speed is that of private runs: figures of the pages come from secure noise."""

import copy
import json
import math
import re

import pytest

from tests.docs.blocks import ROOT

RESULTS = ROOT / "benchmarks" / "results"
NAMES = ("train", "train-curves", "sweep", "scale", "peers")
SERIES = ("n", "d", "agents", "curves", "file")
PROVEN = ("pp", "ipp")
"""The algorithms of the sweep whose runs can be private."""


def results_of(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def page(name):
    return (ROOT / name).read_text("utf-8")


ROWS = results_of("train")["rows"]


# -- were the runs private? -------------------------------------------------------------------


def train_doubts(found):
    for row in found["rows"]:
        if row["private"] is not True or row["spec"]["seed"] is not None:
            yield row["data"]
        if len(row["seeded_seconds"]) != len(row["ppadmm_seconds"]):
            yield f"{row['data']} has no seeded times beside"


def curves_doubts(found):
    for row in found["rows"]:
        if not row["seconds"].get("secure"):
            yield row["data"]
        if not row["seconds"].get("seeded"):
            yield f"{row['data']} has no seeded times beside"


def sweep_doubts(found):
    """Yield algorithms that could be private and were not, and simulations that claim to be."""
    for row in found["rows"]:
        if row["algorithm"] in PROVEN and row["secure"]["private"] is not True:
            yield row["algorithm"]
        if row["seeded"]["private"]:
            yield f"{row['algorithm']} with seeds is called private"


def scale_doubts(found):
    for name in SERIES:
        for row in found[name]["rows"]:
            if row.get("noise") != "secure" or row.get("private") is not True:
                yield name
            if "seeded_seconds" not in row:
                yield f"{name} has no seeded times beside"


def peers_doubts(found):
    for data, rows in found.items():
        ours, simulated = rows["ppadmm"], rows["ppadmm, seeded"]
        if ours.get("private") is not True or ours["noise"] != "secure":
            yield data
        if simulated["private"] or simulated["noise"] != "seeded":
            yield f"{data} with seeds is called private"


DOUBTS = {
    "train": train_doubts,
    "train-curves": curves_doubts,
    "sweep": sweep_doubts,
    "scale": scale_doubts,
    "peers": peers_doubts,
}


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_of_private_runs(name):
    assert list(DOUBTS[name](results_of(name))) == []


def without_secure(found, name):
    """Yield the results with one private run turned into a simulation, each in turn."""
    if name == "train":
        places = [("rows", k, "private") for k in range(len(found["rows"]))]
    elif name == "train-curves":
        places = [("rows", k, "seconds", "secure") for k in range(len(found["rows"]))]
    elif name == "sweep":
        rows = enumerate(found["rows"])
        places = [("rows", k, "secure", "private") for k, r in rows if r["algorithm"] in PROVEN]
    elif name == "scale":
        places = [(s, "rows", k, "private") for s in SERIES for k in range(len(found[s]["rows"]))]
    else:
        places = [(data, "ppadmm", "private") for data in found]
    for *way, last in places:
        changed = copy.deepcopy(found)
        inner = changed
        for step in way:
            inner = inner[step]
        inner[last] = False
        yield changed


@pytest.mark.parametrize("name", NAMES)
def test_a_simulation_is_refused(name):
    changed = list(without_secure(results_of(name), name))
    assert changed
    assert all(list(DOUBTS[name](each)) for each in changed)


# -- are they what the pages say? -------------------------------------------------------------


def short(value):
    """Return a figure as the pages write it: three digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table_lines(name, heading):
    """Return the cells of every line of the tables in one section."""
    section = re.split(r"\n##+ ", page(name).split(f"# {heading}\n")[1])[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]


def test_the_data_are_those_of_the_page():
    assert [row["data"] for row in ROWS] == ["adult", "brazil"]


@pytest.mark.parametrize("name", ["README.md", "docs/performance.md"])
def test_a_page_tells_their_ratios(name):
    for row in ROWS:
        assert re.search(rf"\b{row['ratio']:.2f}\b", page(name)), (name, row["data"], row["ratio"])


def test_readme_has_no_other_ratio_to_a_fit():
    """A headline that no private run gave would be found here."""
    cost = page("README.md").split("## Cost")[1].split("## ")[0]
    said = re.findall(r"(\d\.\d+)(?:\s+times)?\s+on ", cost)
    assert said == [f"{row['ratio']:.2f}" for row in ROWS]


def test_the_sweep_is_that_of_secure_noise():
    """And the runs one at a time are, which it is compared with."""
    cells = {line[0]: line[1:] for line in table_lines("docs/performance.md", "A sweep")}
    for row in results_of("sweep")["rows"]:
        secure, seeded = row["secure"], row["seeded"]
        times = [secure[f"{what}_seconds"] for what in ("sweep", "alone", "command")]
        private = "yes" if secure["private"] else "no"
        assert cells[row["algorithm"]] == [
            str(row["runs"]),
            "in part" if row["algorithm"] == "all" else private,
            f"{times[0]:.2f}",
            f"{times[1]:.1f}",
            f"{times[1] / times[0]:.1f}",
            f"{times[2]:,.0f}",
            f"{times[2] / times[0]:.0f}",
            f"{seeded['sweep_seconds']:.2f}",
        ]


def test_other_libraries_stand_beside_a_private_training():
    lines = table_lines("docs/performance.md", "Other libraries")[1:]
    rows = [(data, n, r) for data, own in results_of("peers").items() for n, r in own.items()]
    assert len(lines) == len(rows)
    for line, (data, _, row) in zip(lines, rows, strict=True):
        ours = sorted(results_of("peers")[data]["ppadmm"]["seconds"])
        times, middle = sorted(row["seconds"]), len(row["seconds"]) // 2
        assert line[2:4] == [row["noise"], f"{times[middle]:.3f}"]
        expected = f"{ours[len(ours) // 2] / times[middle]:.2f} ×"
        assert line[4] == ("" if row.get("private") else expected)


@pytest.mark.parametrize(
    ("series", "heading", "first"),
    [
        ("n", "Records, streamed with a cap of 512 MB", ["records"]),
        ("file", "Records, streamed with a cap of 512 MB", ["records"]),
        ("d", "Features", ["features"]),
        ("agents", "Agents", ["features", "agents"]),
        ("curves", "Agents", ["features", "agents"]),
    ],
)
def test_growth_is_that_of_private_trainings(series, heading, first):
    lines = table_lines("docs/performance-scale.md", heading)
    for row in results_of("scale")[series]["rows"]:
        start = [f"{row[name]:,}" for name in first]
        start += [] if series != "d" else ["in memory" if row["memory"] is None else "64"]
        mine = [line for line in lines if line[: len(start)] == start]
        assert len(mine) == 1, start
        times = [short(row["train_seconds"]), short(row["seeded_seconds"])]
        place = mine[0].index(times[0])
        assert mine[0][place : place + 2] == times


def test_the_headlines_of_growth():
    intro = page("docs/performance-scale.md").split("\n## ")[0]
    found = results_of("scale")
    few, *_, many = (row["train_seconds"] for row in found["agents"]["rows"])
    assert re.search(rf"1,000 agents\s+cost {many / few:.1f} times", intro)
    ends = found["n"]["rows"][0], found["n"]["rows"][-1]
    grown = [math.log(ends[1][what] / ends[0][what]) for what in ("train_seconds", "records")]
    assert f"(slope {grown[0] / grown[1]:.2f} from 10⁴ to 10⁷)" in intro
