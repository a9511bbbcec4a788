"""Several files, or a folder of them, as sites; and a single site: train, compare, tune, ledger."""

import json
from pathlib import Path

import pytest

from ppadmm import RunSpec, train
from ppadmm.algorithms import ALGORITHMS
from ppadmm.errors import OverlapWarning
from ppadmm.runs.report.command import command as command_of
from tests.cli.people import SCHEMA, people, refused

SIZES = {"north": 150, "south": 100, "west": 45, "tiny": 5}
QUICK = ("--rounds", 3, "--epsilon", 20, "--delta", "1e-2", "--graph", "complete")
SITES = ("north.csv", "south.csv", "west.csv")
PUBLIC = ("--schema", "schema.toml")


@pytest.fixture
def ppadmm(command, tmp_path):
    columns, start = people(), 0
    for name, n in SIZES.items():
        cells = [list(map(str, column[start : start + n])) for column in columns.values()]
        rows = [",".join(columns), *(",".join(row) for row in zip(*cells, strict=True))]
        for path in (tmp_path / f"{name}.csv", tmp_path / "sites" / f"{name}.csv"):
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(rows) + "\n")
        start += n
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return command


def test_several_files_are_several_agents(ppadmm):
    figures = ppadmm("train", *SITES, *PUBLIC, *QUICK, "--json").json
    assert figures["agent_names"] == ["north", "south", "west"]
    assert figures["records"] == [120, 80, 36]
    assert figures["test_records"] == 59
    assert (figures["partition"], figures["private"]) == ("files", True)
    assert "the file that it is in" in " ".join(figures["statement"]["caveats"])
    assert figures["spec"]["data"] == list(SITES)
    told = ppadmm("train", *SITES, *PUBLIC, *QUICK, "--no-save").out
    assert "pp on north, south, west: 3 agents (complete)" in told
    assert "north (120 records), south (80 records), west (36 records)" in told


def test_a_folder_of_files_is_as_many_agents(ppadmm):
    how = ("--partition", "files")
    figures = ppadmm("train", "sites", *PUBLIC, *QUICK, *how, "--json").json
    assert figures["agent_names"] == ["north", "south", "tiny", "west"]
    assert figures["records"] == [120, 80, 4, 36]
    assert sum(ppadmm("train", "sites", *PUBLIC, *QUICK, "--json").json["records"]) == 240
    one = ppadmm("train", *SITES, *PUBLIC, *QUICK, "--partition", "even", "--json").json
    assert one["records"] == [48, 47, 47, 47, 47]


def test_without_a_schema_it_is_not_private(ppadmm):
    figures = ppadmm("train", *SITES, "--label", "ill", *QUICK, "--json").json
    assert figures["agents"] == 3
    assert "inferred from the records" in " ".join(figures["not_private_because"])


def test_budgets_and_python(ppadmm):
    figures = ppadmm("train", *SITES, *PUBLIC, *QUICK, "--epsilons", "20,30,40", "--json").json
    assert figures["statement"]["epsilons"] == pytest.approx([20, 30, 40], rel=1e-3)
    spec = RunSpec(data=SITES, schema="schema.toml", rounds=3, epsilon=20.0, delta=1e-2, seed=1)
    result = train(spec)
    assert result.setup.names == ("north", "south", "west")
    paths = train(RunSpec(**{**vars(spec), "data": [Path(site) for site in SITES]}))
    assert (paths.model == result.model).all()
    assert spec.partition == "files"
    assert RunSpec(data=["north.csv"]).data == "north.csv"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((*SITES, "--agents", 3), 2, "With 3 files the number of agents follows from the files"),
        ((*SITES, "--records", "1,2,3"), 2, "leave records out"),
        ((*SITES, "--epsilons", "1,2"), 2, "epsilons for 3 agents, got 2"),
        ((*SITES, "--memory", "1GB"), 3, "Only Parquet files"),
        (("north.csv", "north.csv"), 3, "'north.csv' is given twice"),
        (("north.csv", "sites/north.csv"), 3, "Two agents would be called 'north'"),
        (("north.csv", "adult"), 3, "not data sets that are known by name"),
        (("synthetic", "--partition", "files"), 2, "for CSV or Parquet files"),
        (("north.csv", "empty.csv"), 3, "'empty.csv' is empty"),
        (("north.csv", "other.csv"), 3, "File 'other.csv': The table has no column 'age'"),
    ],
)
def test_one_sentence(ppadmm, arguments, code, words):
    Path("empty.csv").touch()
    Path("other.csv").write_text("weight,ill\n3,yes\n")
    schema = () if arguments[0] == "synthetic" else PUBLIC
    refused(ppadmm("train", *arguments, *schema), code, words)


def test_the_report_names_files_and_sizes(ppadmm):
    ppadmm("train", *SITES, *PUBLIC, *QUICK, "--out", "run")
    page = Path("run/report.html").read_text()
    assert "How many records each agent holds" in page
    assert "by file: each file or folder is an agent" in page
    assert "120 records, ε 20 of 20" in page
    spec = json.loads(Path("run/result.json").read_text())["spec"]
    said = command_of(spec)
    assert said.startswith("ppadmm train north.csv south.csv west.csv ")
    assert "--agents" not in said
    again = ppadmm(*said.split()[1:], "--json").json
    assert again["agent_names"] == ["north", "south", "west"]
    assert ppadmm("report", "run", "--public").code == 0
    assert "120 records, ε 20 of 20" in Path("run/report-public.html").read_text()


def test_compare_and_tune(ppadmm):
    run = ("--algorithms", "pp,non-private", "--epsilons", "20", "--delta", "1e-2", "--seeds", 2)
    told = ppadmm("compare", *SITES, *PUBLIC, *run).out
    assert "Partition files: 3 agents, training records: north (120), south (80), west" in told
    rows = ppadmm("compare", "sites", *PUBLIC, *run, "--partition", "files", "--json").json["rows"]
    assert rows[0]["agent_names"] == ["north", "south", "tiny", "west"]
    assert rows[0]["records"] == [[120, 80, 4, 36]] * 2
    skewed = ppadmm("compare", "sites", *PUBLIC, *run, "--partition", "dirichlet:0.3").out
    assert "Partition dirichlet:0.3: 5 agents, training records:" in skewed
    grid = ("--etas", "0.1,1", "--epsilon", 20, "--delta", "1e-2", "--rounds", 3, "--json")
    chosen = ppadmm("tune", *SITES, *PUBLIC, *grid).json["chosen"]
    assert chosen["agent_names"] == ["north", "south", "west"]
    assert chosen["private"]
    refused(ppadmm("tune", *SITES, *PUBLIC, *grid, "--agents", 3), 2, "leave --agents out")


def test_a_ledger_knows_the_records_of_a_file_among_others(ppadmm):
    ppadmm("ledger", "new", "l.db", "--owner", "me")
    for name in ("north", "all"):
        ppadmm(
            "ledger", "grant", "l.db", name, "--epsilon", 90, "--delta", "0.1", "--rule", "planned"
        )
    booked = (*PUBLIC, "--ledger", "l.db", "--epsilon", 5, "--delta", "1e-2", "--no-save")
    assert ppadmm("train", "north.csv", "--agents", 1, *booked).code == 0
    with pytest.warns(OverlapWarning, match="equal to records that were charged as 'north'"):
        both = ppadmm("train", *SITES, *booked, "--dataset", "all", "--rounds", 2)
    assert both.code == 0
    again = ppadmm("train", *SITES[::-1], *booked, "--rounds", 2, "--resume")
    refused(again, 8, "No run in")
    with pytest.warns(OverlapWarning, match="'north'"):
        known = ppadmm("train", *SITES[::-1], *booked, "--rounds", 2)
    assert "runs on 'all'" in " ".join(known.out.split())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_site_runs_alone(ppadmm, algorithm):
    run = ("north.csv", *PUBLIC, "--epsilon", 5, "--delta", "1e-2")
    for who in (("--agents", 1), ("--partition", "files")):
        figures = ppadmm("train", *run, *who, "--algorithm", algorithm, "--json").json
        wanted = algorithm if algorithm in ("non-private", "newton") else "centralised"
        assert (figures["algorithm"], figures["records"]) == (wanted, [120])
        assert figures["private"] == (wanted != "non-private")
        caveat = figures["statement"]["caveats"][0]
        assert caveat.startswith("One site has nobody to exchange") or wanted == "newton"
    assert figures["agent_names"] == ["north"]


def test_one_site_everywhere(ppadmm):
    run = ("north.csv", *PUBLIC, "--agents", 1)
    told = ppadmm("compare", *run, "--algorithms", "pp,gradient", "--epsilons", 5, "--seeds", 1).out
    assert "Partition even: 1 agent, training records: 120." in told
    assert "nobody to exchange with: centralised ran in place of pp, gradient." in told
    grid = ("--epsilon", 5, "--delta", "1e-2", "--json")
    refused(ppadmm("tune", *run, *grid, "--etas", "1,2"), 2, "η has no effect")
    weights = ("--regularisations", "0.1,1")
    for how in ("split", "repeat"):
        chosen = ppadmm("tune", *run, *grid, *weights, "--how", how).json["chosen"]
        assert (chosen["algorithm"], chosen["private"]) == ("centralised", True)
    ppadmm("train", *run, "--epsilon", 5, "--delta", "1e-2", "--out", "one")
    page = Path("one/report.html").read_text()
    assert "trained at one site" in page
    assert "it has nobody to exchange with" in page
    assert "1 agents" not in page
    plan = ("plan", "--records", 200, "--features", 4, "--agents", 1, "--seeds", 3, "--no-changes")
    assert "Centralised objective perturbation" in ppadmm(*plan).out
