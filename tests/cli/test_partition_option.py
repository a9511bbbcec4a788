"""`--partition` in train and compare, and data frames in Python."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest

from ppadmm import RunSpec, train
from ppadmm.datasets import load
from ppadmm.errors import InputError

N = 300
QUICK = ("--rounds", "3", "--epsilon", "20", "--delta", "1e-2", "--graph", "complete")
SCHEMA = """
format = 1
confirmed = true
[label]
name = "ill"
positive = ["yes"]
negative = ["no"]
[[columns]]
name = "age"
low = 0
high = 100
"""
HOSPITALS = """
[[agents]]
name = "hospital"
categories = ["south", "north", "west"]
"""


def people():
    rng = np.random.default_rng(7)
    age = rng.integers(18, 90, N)
    return {
        "age": age,
        "hospital": rng.choice(["north", "south"], N, p=[0.7, 0.3]).tolist(),
        "ill": np.where(age + 20 * rng.standard_normal(N) > 55, "yes", "no").tolist(),
    }


@pytest.fixture
def ppadmm(command):
    pa.csv.write_csv(pa.table(people()), "people.csv")
    Path("schema.toml").write_text(SCHEMA)
    Path("agents.toml").write_text(SCHEMA + HOSPITALS)
    return command


def refused(outcome, *words):
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    for word in words:
        assert word in outcome.err


def test_a_column_with_a_public_list_names_the_agents(ppadmm):
    run = ("train", "people.csv", "--schema", "agents.toml", "--partition", "column:hospital")
    figures = ppadmm(*run, *QUICK, "--json").json
    assert figures["agent_names"] == ["south", "north", "west"]
    assert figures["agents"] == figures["spec"]["agents"] == 3
    assert figures["partition"] == "column:hospital"
    assert sum(figures["records"]) == 240
    assert figures["records"][1] > figures["records"][0] > figures["records"][2] == 0
    assert figures["private"] is True
    assert "'hospital'" in " ".join(figures["statement"]["caveats"])
    assert len(figures["releases"]) == 3
    text = ppadmm(*run, *QUICK).out
    assert f"south ({figures['records'][0]:,} records), north" in text
    assert "Note: Which agent holds a record follows from its 'hospital'" in text


def test_a_column_without_a_public_list_is_not_private(ppadmm):
    run = ("train", "people.csv", "--schema", "schema.toml", "--partition", "column:hospital")
    figures = ppadmm(*run, *QUICK, "--json").json
    assert figures["agent_names"] == ["north", "south"]
    assert figures["private"] is False
    assert "read off the records" in " ".join(figures["not_private_because"])


def test_the_column_is_no_feature_unless_the_schema_lists_it(ppadmm):
    run = ("train", "people.csv", "--label", "ill", *QUICK, "--json", "--linear")
    assert ppadmm(*run).json["features"] == 4
    assert ppadmm(*run, "--partition", "column:hospital").json["features"] == 2
    listed = SCHEMA + HOSPITALS.replace("agents", "columns")
    Path("listed.toml").write_text(listed)
    run = ("train", "people.csv", "--schema", "listed.toml", *QUICK, "--json", "--linear")
    figures = ppadmm(*run, "--partition", "column:hospital").json
    assert (figures["features"], figures["agents"], figures["private"]) == (5, 3, True)


def test_budgets_follow_the_column(ppadmm):
    run = ("train", "people.csv", "--schema", "agents.toml", "--partition", "column:hospital")
    run += ("--rounds", 3, "--delta", "1e-2", "--graph", "complete", "--json")
    figures = ppadmm(*run, "--epsilons", "20,30,40").json
    epsilons = figures["statement"]["epsilons"]
    assert epsilons[0] <= 20 < epsilons[1] <= 30
    refused(ppadmm(*run, "--epsilons", "20,30"), "epsilons for 3 agents, got 2 values")


def test_skewed_labels_are_a_simulation(ppadmm):
    run = ("train", "people.csv", "--schema", "schema.toml", *QUICK, "--json", "--agents", 4)
    figures = ppadmm(*run, "--partition", "dirichlet:0.3").json
    assert figures["agent_names"] == ["agent 0", "agent 1", "agent 2", "agent 3"]
    assert sum(figures["records"]) == 240
    assert min(figures["records"]) >= 1
    assert figures["records"] != [60] * 4
    assert figures["private"] is False
    assert "by their labels (dirichlet:0.3)" in " ".join(figures["not_private_because"])
    assert figures["records"] == ppadmm(*run, "--partition", "dirichlet:0.3").json["records"]


def test_even_is_the_default(ppadmm):
    run = ("train", "people.csv", "--schema", "schema.toml", *QUICK, "--seed", 1, "--json")
    first, second = ppadmm(*run).json, ppadmm(*run, "--partition", "even").json
    assert first["test_log_loss"] == second["test_log_loss"]
    assert first["records"] == [48] * 5
    assert first["agent_names"][4] == "agent 4"
    assert "agent 4 (" not in ppadmm(*run[:-1]).out


def test_named_sets_have_public_lists(ppadmm):
    run = ("train", "synthetic", "--partition", "column:region", "--rounds", 2, "--json")
    figures = ppadmm(*run).json
    assert figures["agent_names"] == ["North", "East", "South", "West", "Centre", "Islands"]
    assert figures["private"] is True


def test_compare_deals_alike(ppadmm):
    run = ("compare", "people.csv", "--label", "ill", "--algorithms", "non-private", "--seeds", 1)
    run += ("--graph", "complete", "--rounds", 20, "--json")
    losses = {
        how: ppadmm(*run, "--partition", how).json["rows"][0]["train_loss_mean"]
        for how in ("even", "column:hospital", "dirichlet:0.1")
    }
    assert len(set(losses.values())) == 3
    rows = ppadmm(*run[:-1], "--partition", "column:hospital", "--algorithms", "pp", "--json").json
    assert 0 < rows["rows"][0]["test_error_mean"] < 1


@pytest.mark.parametrize("verb", ["train", "compare"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--partition", "oven"), ["Unknown partition 'oven'", "column:NAME"]),
        (("--partition", "dirichlet:0"), ["α > 0"]),
        (("--partition", "column:hospital", "--agents", "2"), ["leave --agents out"]),
    ],
)
def test_errors_of_both(ppadmm, verb, arguments, words):
    refused(ppadmm(verb, "people.csv", "--label", "ill", *arguments), *words)


def test_records_and_another_partition_contradict_each_other(ppadmm):
    run = ("train", "people.csv", "--label", "ill", "--agents", 2, "--records", "3,4")
    refused(ppadmm(*run, "--partition", "dirichlet:1"), "leave records out")


SPEC = RunSpec(label="ill", rounds=3, epsilon=20.0, delta=1e-2, agents=2, graph="complete", seed=1)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_frame_trains_like_its_file(ppadmm, make):
    from_frame = train(SPEC, data=make(people())).to_dict()
    run = ("train", "people.csv", "--label", "ill", "--rounds", 3, "--epsilon", 20, "--delta")
    from_file = ppadmm(*run, 1e-2, "--agents", 2, "--graph", "complete", "--seed", 1, "--json").json
    assert from_frame["test_log_loss"] == pytest.approx(from_file["test_log_loss"], rel=1e-12)
    assert from_frame["spec"]["data"] == "data frame"
    assert "inferred from the records" in " ".join(from_frame["not_private_because"])


def test_a_frame_with_a_public_schema_is_private(ppadmm):
    spec = RunSpec(schema="agents.toml", partition="column:hospital", rounds=3, epsilon=20.0)
    result = train(spec, data=pd.DataFrame(people()))
    assert result.statement.private
    assert result.to_dict()["agent_names"] == ["south", "north", "west"]


def test_a_data_set_trains_as_it_is(ppadmm):
    data = load(pd.DataFrame(people()), label="ill", drop=["hospital"])
    result = train(SPEC, data=data)
    assert len(result.model) == data.d - 1  # five knots, not the six of records on their own
    assert result.spec.data == "data frame"


def test_a_frame_without_a_label_is_refused():
    with pytest.raises(InputError, match="Which column of the data frame is the label"):
        train(RunSpec(), data=pd.DataFrame(people()))


def test_sites_whose_noise_drowns_the_others_are_named(ppadmm):
    run = ("train", "people.csv", "--schema", "schema.toml", "--agents", 3, *QUICK)
    assert ppadmm(*run, "--records", "110,110,4", "--json").json["hints"] == []
    run = (*run, "--weights", "equal")
    told = ppadmm(*run, "--records", "110,110,4", "--no-save")
    assert "Hint: The noise of agent 2 (4 records) drowns what the others learn" in told.err
    hint, *_ = ppadmm(*run, "--records", "110,110,4", "--json").json["hints"]
    assert "13 times less noise" in hint
    ppadmm(*run, "--records", "110,110,4", "--out", "drowned")
    assert f"Hint.</strong> {hint}" in Path("drowned/report.html").read_text()
    assert ppadmm(*run, "--records", "80,80,60", "--json").json["hints"] == []
    few = ("--records", "110,110,4", "--algorithm")
    assert ppadmm(*run, *few, "non-private", "--json").json["hints"] == []
    assert ppadmm(*run, *few, "centralised", "--json").json["hints"] == []


def test_a_schema_of_ones_own_has_to_be_confirmed(ppadmm):
    Path("mine.toml").write_text(SCHEMA.replace("confirmed = true", ""))
    told = ppadmm("train", "people.csv", "--schema", "mine.toml", *QUICK, "--no-save").out
    assert "nobody has confirmed that it is public" in " ".join(told.split())
