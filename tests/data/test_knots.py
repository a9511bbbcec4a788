"""Knots that nobody named: by a rule from public sizes, as asked for, or none."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ppadmm import RunSpec, train
from ppadmm.data import Categorical, Label, Numeric, Schema
from ppadmm.data.knots import FEWEST, MOST, knots_for, settle_knots
from ppadmm.datasets import load
from ppadmm.errors import DataError, InputError
from ppadmm.runs.opening import open_data

LABEL = Label("ill", ("yes",), ("no",))
SCHEMA = Schema(
    (
        Numeric("age", 0, 100, whole=True),
        Numeric("visits", 0, 7, whole=True),
        Numeric("sex", 1, 2, whole=True),
        Numeric("share", 0, 1),
        Numeric("own", 0, 10, knots=(1, 2, 5)),
        Numeric("straight", 0, 10, shape="line"),
        Numeric("jumps", 0, 10, shape="steps"),
        Categorical("group", ("a", "b")),
    ),
    LABEL,
)


def shapes(schema):
    return [(c.shape, c.knots) for c in schema.columns if isinstance(c, Numeric)]


def test_more_records_and_more_epsilon_never_mean_fewer_knots():
    sizes = [10, 1_000, 35_000, 10**6, 10**9]
    found = [[knots_for(n, 10, e) for n in sizes] for e in (0.01, 0.5, 1.0, 4.0)]
    assert (np.diff(found, axis=0) >= 0).all()
    assert (np.diff(found, axis=1) >= 0).all()
    assert (found[0][0], found[-1][-1]) == (FEWEST, MOST)
    assert knots_for(35_000, 10, 1.0) == 7
    assert knots_for(35_000, 52, 1.0) < knots_for(35_000, 10, 1.0) < knots_for(35_000, 2, 1.0)
    assert knots_for(35_000, 10, 4.0) == knots_for(35_000, 10, 400.0)


def test_only_curves_that_name_no_knots_are_settled():
    given = [("curve", (1.0, 2.0, 5.0)), ("line", None), ("steps", None)]
    assert shapes(SCHEMA.with_knots(6)) == [
        ("curve", 6), ("curve", 4), ("line", None), ("curve", 6), *given,
    ]  # fmt: skip
    assert shapes(SCHEMA.with_knots(0)) == [("line", None)] * 4 + given
    assert settle_knots(SCHEMA, 35_000, 1.0) == SCHEMA.with_knots(knots_for(35_000, 8, 1.0))
    assert settle_knots(SCHEMA, 35_000, 1.0, 9) == SCHEMA.with_knots(9)


@pytest.mark.parametrize("knots", [0, 2, 7])
def test_what_is_settled_stays(knots, tmp_path):
    settled = SCHEMA.with_knots(knots)
    assert settled.with_knots(5) == settled
    assert settled.digest() != SCHEMA.digest()
    (tmp_path / "s.toml").write_text(settled.to_toml(), "utf-8")
    assert Schema.from_toml(tmp_path / "s.toml") == settled


def test_whole_numbers_say_so_with_true_or_false():
    with pytest.raises(DataError, match="expected whole to be true or false, got 1"):
        Numeric("a", 0, 1, whole=1)


def test_a_run_reads_no_record_to_choose_knots():
    """Other records of the same number get the same schema."""
    data = load("synthetic")
    other = replace(data, table=data.table.slice(0, 0), X=data.X, y=-data.y)
    spec = RunSpec(seed=1)
    assert open_data(spec, data).schema == settle_knots(data.schema, 35_000, 1.0)
    assert open_data(spec, replace(other, table=data.table)).schema == open_data(spec, data).schema


def test_the_strict_budget_of_many_counts_on_average():
    data, spec = load("synthetic"), RunSpec(agents=2, epsilons=(0.001, 8.0))
    wanted = settle_knots(data.schema, 35_000, 4.0005)
    assert open_data(spec, data).schema == wanted


@pytest.mark.parametrize(
    ("knots", "words"),
    [(1, "2 knots or more, or 0 for straight lines, got 1"), (-1, "≥ 0"), (10**6, "knots ≤ 1000")],
)
def test_knots_that_cannot_be_are_named(knots, words):
    with pytest.raises(InputError, match=words):
        RunSpec(knots=knots)


def test_the_papers_preset_has_lines():
    assert train(RunSpec.of("paper", seed=0, rounds=2)).setup.features == 41
    assert train(RunSpec(seed=0, rounds=2, knots=0)).setup.features == 41
    assert train(RunSpec(seed=0, rounds=2)).setup.features > 41


def test_a_saved_model_names_its_knots(tmp_path):
    from ppadmm.runs.folder import write_run

    folder = write_run(train(RunSpec(seed=0, rounds=2, knots=4)), tmp_path / "run")
    columns = json.loads(Path(folder / "model.json").read_text("utf-8"))["schema"]["columns"]
    age = next(c for c in columns if c["name"] == "age")
    assert (age["knots"], age.get("shape", "curve")) == (4, "curve")
