"""What `ppadmm train` refuses: one sentence that names it, an exit code, and no folder."""

from pathlib import Path

import pytest

from tests.cli.people import QUICK, RECORDS, in_folder, private, refused, write_people

ppadmm = pytest.fixture(in_folder)
BAD_SETTINGS = [
    (("--epsilon", "0"), 2, "epsilon > 0, got 0.0"),
    (("--epsilon", "-1"), 2, "epsilon > 0, got -1.0"),
    (("--epsilon", "nan"), 2, "epsilon to be a finite number, got nan"),
    (("--epsilon", "inf"), 2, "epsilon to be a finite number, got inf"),
    (("--delta", "1"), 2, "delta < 1, got 1.0"),
    (("--delta", "0"), 2, "0 < delta < 1, got 0.0"),
    (("--delta", "nan"), 2, "delta to be a finite number, got nan"),
    (("--rounds", "0"), 2, "rounds to be a whole number ≥ 1, got 0"),
    (("--rounds", "-3"), 2, "got -3"),
    (("--agents", "0"), 2, "agents to be a whole number ≥ 1, got 0"),
    (("--agents", "1000"), 2, "at most 240 agents, one record each, got 1000"),
    (("--seed", "-1"), 2, "seed to be a whole number ≥ 0, got -1"),
    (("--eta", "0"), 2, "eta > 0, got 0.0"),
    (("--eta", "nan"), 2, "eta to be a finite number, got nan"),
    (("--regularisation", "-2"), 2, "regularisation ≥ 0, got -2.0"),
    (("--beta", "0"), 2, "0 < beta < 1, got 0.0"),
    (("--beta", "1e-30"), 5, "β = 1e-30"),
    (("--graph", "mesh"), 2, "graph 'mesh'"),
    (("--graph", "none.txt"), 2, "'none.txt'"),
    (("--algorithm", "magic"), 2, "algorithm 'magic'"),
    (("--loss", "squared"), 2, "loss 'squared'"),
    (("--calibration", "none"), 2, "calibration 'none'"),
    (("--adjacency", "add-remove"), 2, "adjacency 'add-remove'"),
    (("--solver", "sgd"), 2, "solver 'sgd'"),
    (("--preset", "best"), 2, "preset 'best'"),
    (("--schema", "none.toml"), 3, "'none.toml'"),
    (("--schema", "people.csv"), 3, "'people.csv'"),
    (("--label", "age"), 2, "'age'"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "fragment"),
    BAD_SETTINGS,
    ids=["=".join(arguments) for arguments, *_ in BAD_SETTINGS],
)
def test_bad_settings_are_refused_by_name(ppadmm, arguments, code, fragment):
    refused(ppadmm(*private(*arguments, "--out", "one")), code, fragment)
    assert not Path("one").exists()


BAD_CELLS = [
    ({"dose": "nan"}, ("'dose'", "row 5", "a finite number;")),
    ({"dose": "inf"}, ("'dose'", "row 5", "a finite number;")),
    ({"dose": "-Infinity"}, ("'dose'", "row 5", "a finite number;")),
    ({"dose": "much"}, ("'dose'", "row 5", "a finite number;")),
    ({"ill": ["yes"] * RECORDS}, ("'ill'", "one class")),
    ({"ill": ""}, ("'ill'", "row 5")),
    ({"ill": [f"case {k}" for k in range(RECORDS)]}, ("'ill'", "too many for classes")),
]


@pytest.mark.parametrize(("cells", "fragments"), BAD_CELLS, ids=[str(c)[:24] for c, _ in BAD_CELLS])
def test_bad_cells_are_refused_by_name(ppadmm, cells, fragments):
    write_people("people.csv", **cells)
    arguments = ("train", "people.csv", "--label", "ill", *QUICK, "--out", "one")
    refused(ppadmm(*arguments), 3, *fragments)
    assert not Path("one").exists()


@pytest.mark.parametrize("cell", ["nan", "inf", "much"])
def test_bad_cells_are_refused_with_a_schema_too(ppadmm, cell):
    write_people("people.csv", dose=cell)
    refused(ppadmm(*private("--out", "one")), 3, "'dose'", "row 5", "a finite number;")
    assert not Path("one").exists()


BAD_FILES = [
    (("missing.csv", "--label", "ill"), 3, "'missing.csv'"),
    (("empty.csv", "--label", "ill"), 3, "'empty.csv' is empty"),
    (("header.csv", "--label", "ill"), 3, "'header.csv' holds no records"),
    (("people.csv", "--label", "sick"), 3, "'sick'"),
    (("people.csv",), 2, "'people.csv'"),
    (("broken.parquet", "--label", "ill"), 3, "'broken.parquet'"),
    (("folder.csv", "--label", "ill"), 3, "'folder.csv' holds no"),
    (("people.xlsx", "--label", "ill"), 3, "'people.xlsx'"),
    (("adult",), 3, "--data-dir"),
    (("brazil", "--data-dir", "folder.csv"), 3, "'folder.csv'"),
    (("synthetic", "--label", "ill"), 2, "'synthetic'"),
    (("x" * 300 + ".csv", "--label", "ill"), 2, "xxx"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "fragment"),
    BAD_FILES,
    ids=[" ".join(arguments)[:30] for arguments, *_ in BAD_FILES],
)
def test_bad_files_are_refused_by_name(ppadmm, arguments, code, fragment):
    Path("empty.csv").touch()
    Path("header.csv").write_text("age,ill\n")
    Path("broken.parquet").write_text("not parquet")
    Path("folder.csv").mkdir()
    refused(ppadmm("train", *arguments, "--out", "one"), code, fragment)
    assert not Path("one").exists()


@pytest.mark.parametrize(
    ("edges", "fragment"),
    [
        ("0 1\n1 2\n", "Agent 3 has no neighbour"),
        ("0 1\n2 3\n", "disconnected: agents [2, 3]"),
        ("0 1\n1 9\n", "names agent 9"),
        ("0 1\n2 2\n", "2–2"),
        ("0 one\n", "'0 one'"),
        ("", "names no edge"),
    ],
)
def test_bad_networks_are_refused_by_name(ppadmm, edges, fragment):
    Path("edges.txt").write_text(edges)
    arguments = private("--agents", 4, "--graph", "edges.txt", "--out", "one")
    refused(ppadmm(*arguments), 2, fragment)
    assert not Path("one").exists()


def test_a_penalty_too_small_for_the_budget_names_the_smallest(ppadmm):
    arguments = ("--eta", "1e-9", "--out", "one")
    outcome = ppadmm(*private(*arguments))
    refused(outcome, 4, "η = 1e-09", "choose η > ")
    assert not Path("one").exists()
    least = float(outcome.err.split("choose η > ")[1].split(",")[0])
    assert ppadmm(*private("--eta", 1.02 * least, "--json")).json["private"] is True
    refused(ppadmm(*private("--eta", 0.9 * least)), 4, "choose η > ")


def test_an_option_that_is_no_number_is_a_usage_error(ppadmm):
    outcome = ppadmm("train", "--epsilon", "much")
    assert outcome.code == 2
    assert outcome.out == ""
    assert "--epsilon" in outcome.err


def test_an_interrupt_writes_nothing(ppadmm, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ppadmm.engines.local.run", interrupt)
    refused(ppadmm(*private("--out", "one")), 130, "Interrupted; nothing was written")
    assert not Path("one").exists()


def test_an_interrupted_run_with_a_ledger_is_said_to_be_there(ppadmm, monkeypatch):
    from ppadmm.engines import local

    def interrupt(*_):
        raise KeyboardInterrupt

    assert ppadmm("ledger", "new", "a.ledger", "--owner", "me").code == 0
    grant = ("--epsilon", "5", "--delta", "1e-3")
    assert ppadmm("ledger", "grant", "a.ledger", "people", *grant).code == 0
    booked = private("--out", "one", "--ledger", "a.ledger", "--dataset", "people")
    with monkeypatch.context() as patch:
        patch.setattr(local, "_deliver", interrupt)  # after the first charges and releases
        refused(ppadmm(*booked), 130, "stays in 'a.ledger'; the same command with --resume goes on")
    assert not Path("one").exists()
    shown = ppadmm("ledger", "show", "a.ledger")
    assert "not finished" in shown.out
    outcome = ppadmm(*booked, "--resume")
    assert outcome.code == 0, outcome.err
    assert ppadmm("ledger", "verify", "a.ledger").code == 0
