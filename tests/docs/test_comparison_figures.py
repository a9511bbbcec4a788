"""The tables of docs/comparison-figures.md are those of the file that the benchmark wrote."""

import importlib.util
import json

from tests.docs.blocks import ROOT

PAGE, RESULTS = ROOT / "docs/comparison-figures.md", ROOT / "benchmarks/results/glassbox.json"


def page_module():
    spec = importlib.util.spec_from_file_location("page", ROOT / "benchmarks/glassbox_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kept_and_made(rows):
    module = page_module()
    kept = PAGE.read_text("utf-8").split(module.BEGIN)[1].split(module.END)[0]
    return kept.strip(), module.text(rows).strip()


def test_the_tables_are_those_of_the_results():
    kept, made = kept_and_made(json.loads(RESULTS.read_text("utf-8"))["rows"])
    again = "python benchmarks/glassbox.py --page docs/comparison-figures.md"
    assert kept == made, f"Write the tables again: {again}"


def test_another_figure_is_seen():
    rows = json.loads(RESULTS.read_text("utf-8"))["rows"]
    row = next(row for row in rows if (row["tool"], row["noise"]) == ("DP-EBM", "seeded"))
    row["error"] = [value + 0.001 for value in row["error"]]
    kept, made = kept_and_made(rows)
    assert kept != made


def test_all_tools_have_the_same_seeds():
    rows = json.loads(RESULTS.read_text("utf-8"))["rows"]
    assert {tuple(row["seed"]) for row in rows} == {(0, 1, 2, 3, 4)}
