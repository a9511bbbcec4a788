"""Interactions of a schema: products of two columns, and what they are in a row."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppadmm import PrivateLogisticRegression, RunSpec, train
from ppadmm.data import (
    Categorical,
    Interaction,
    Label,
    Numeric,
    Partition,
    Schema,
    Shard,
    open_stream,
)
from ppadmm.data.effects import column_effects, length_range, reference_length, score_parts
from ppadmm.data.interactions import places_of
from ppadmm.datasets import load
from ppadmm.errors import DataError
from ppadmm.problem import Logistic, kernels, risk_of

LABEL = Label("ill", ("yes",), ("no",))
COLUMNS = (
    Categorical("sex", ("f", "m"), other=True, missing=("-9",)),
    Numeric("age", 0, 100, shape="curve", knots=6),
    Numeric("dose", 0, 10, "log", "curve", knots=5),
    Numeric("bmi", 10, 60, shape="steps", knots=(20, 30)),
    Numeric("change", -5, 10, "signed", shape="line"),
    Numeric("weight", 0, 200, shape="line"),
    Numeric("flat", 3, 3, shape="curve"),
    Categorical("one", ("z",)),
)
NAMES = tuple(c.name for c in COLUMNS)
ALL = tuple(Interaction(pair) for pair in combinations(NAMES, 2))
SCHEMA = Schema(COLUMNS, LABEL, interactions=ALL)
"""Every kind of column with every other, and with one of its own kind."""


def schema_of(*interactions, columns=COLUMNS):
    return Schema(columns, LABEL, interactions=interactions)


def people(n=300, seed=0):
    """Records of SCHEMA, beyond bounds and with cells missing."""
    rng = np.random.default_rng(seed)

    def numbers(low, high):
        values = rng.uniform(low - 1, high + 1, n)
        return [None if rng.random() < 0.1 else float(v) for v in values]

    table = {c.name: numbers(c.low, c.high) for c in COLUMNS if isinstance(c, Numeric)}
    table["sex"] = rng.choice(["f", "m", "x", "", "-9"], n).tolist()
    table["one"] = rng.choice(["z", "?"], n).tolist()
    return table | {"ill": rng.choice(["yes", "no"], n).tolist()}


def features(schema, table):
    """Features before rows are divided by their length, by name."""
    X = schema.encode_features(table, sparse=False)
    return dict(zip(schema.feature_names, (X / X[:, -1:]).T, strict=True))


def present(schema, **cells):
    """What is not 0 in the products of one record."""
    found = features(schema, {name: [cell] for name, cell in cells.items()})
    return {name: float(value[0]) for name, value in found.items() if "×" in name and value[0]}


def test_every_product_is_that_of_the_features_of_its_columns():
    table = people()
    found = features(SCHEMA, table)
    assert len(found) == SCHEMA.dimension
    for made in SCHEMA.products:
        one, two = (features(Schema((c,), LABEL), table) for c in (made.first, made.second))
        pairs = [(a, b) for a in places_of(made.first) for b in places_of(made.second)]
        assert sorted(made.features) == sorted(f"{a}×{b}" for a, b in pairs)
        for a, b in pairs:
            np.testing.assert_allclose(found[f"{a}×{b}"], one[a] * two[b], atol=1e-14)


def test_rows_are_the_same_however_they_are_stored():
    table = people()
    dense = SCHEMA.encode_features(table, sparse=False)
    coded = SCHEMA.encode_coded(table)
    np.testing.assert_allclose(coded.toarray(), dense, rtol=0, atol=1e-15)
    np.testing.assert_allclose(coded.tocsr().toarray(), dense, rtol=0, atol=1e-15)
    csr = SCHEMA.encode_features(table, sparse=True)
    np.testing.assert_allclose(csr.toarray(), dense, rtol=0, atol=1e-15)
    assert np.linalg.norm(dense, axis=1) == pytest.approx(1.0)
    assert coded.norms().max() <= 1.0
    assert (dense != 0).sum(axis=1).max() <= SCHEMA.entries + 1
    Shard(coded, SCHEMA.encode_label(table))  # meets no feature twice


@pytest.mark.parametrize("kernel", ["numba", "numpy"])
def test_every_kernel_has_the_gradient_of_the_dense_rows(kernel, monkeypatch):
    if kernel == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv(kernels.VARIABLE, kernel)
    table = people(1100)
    X, y = SCHEMA.encode_coded(table), SCHEMA.encode_label(table)
    risk, plain = (risk_of(Shard(rows, y), Logistic()) for rows in (X, X.toarray()))
    assert (risk.packed is not None) == (kernel == "numba")
    theta = 3.0 * np.random.default_rng(1).standard_normal((1, X.d))
    np.testing.assert_allclose(risk.gradient(theta), plain.gradient(theta), atol=1e-14)
    np.testing.assert_allclose(risk.hessian(theta[0]), plain.hessian(theta[0]), atol=1e-14)
    np.testing.assert_allclose(risk.gram, plain.gram, atol=1e-14)


def test_a_stream_has_the_same_rows(tmp_path):
    table = people(400)
    pq.write_table(pa.table(table), tmp_path / "a.parquet", row_group_size=60)
    streams = open_stream(str(tmp_path / "a.parquet"), SCHEMA).deal(Partition(), 2, 0)
    parts = (*streams.parts, streams.test)
    found = np.concatenate([np.array(block.X) for part in parts for block in part.blocks()])
    found *= np.sign(found[:, -1:])  # blocks to train on hold y·x, and the intercept is positive
    expected = SCHEMA.encode_features(table, sparse=False)
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, expected.tolist()))
    streams.test.close()


CELLS = st.fixed_dictionaries(
    {c.name: st.sampled_from([None, "?", -7, 0, 0.5, 3, 9.9, 42, 1e6, "-9", "5"]) for c in COLUMNS
     if isinstance(c, Numeric)}
    | {"sex": st.sampled_from(["f", "m", "q", "-9", None]), "one": st.sampled_from(["z", None])}
)  # fmt: skip


def rows_of(records):
    return SCHEMA.encode_coded({name: [str(r[name] or "") for r in records] for name in NAMES})


@given(st.lists(CELLS, min_size=2, max_size=5), CELLS, st.integers(0, 4))
@settings(max_examples=100)
def test_replacing_a_record_changes_one_row_and_no_row_is_longer_than_one(records, other, k):
    k %= len(records)
    before, after = rows_of(records), rows_of([*records[:k], other, *records[k + 1 :]])
    kept = np.arange(len(records)) != k
    assert np.array_equal(before.toarray()[kept], after.toarray()[kept])
    assert np.linalg.norm(after.toarray(), axis=1).max() <= 1.0
    assert np.array_equal(before.toarray()[k], rows_of([records[k]]).toarray()[0])


class TestWhatARowIs:
    def test_two_categories_are_one_feature(self):
        both = (Categorical("sex", ("f", "m")), Categorical("ward", ("a", "b")))
        schema = schema_of(Interaction(("sex", "ward")), columns=both)
        assert present(schema, sex="m", ward="a") == {"sex=m×ward=a": 1}

    def test_a_curve_and_a_category_are_two(self):
        schema = schema_of(Interaction(("age", "sex"), 6), columns=COLUMNS[:2])
        expected = {"age@20×sex=f": 0.5, "age@40×sex=f": 0.5}
        assert present(schema, age=30, sex="f") == pytest.approx(expected)
        assert present(schema, age=30, sex="strange") == pytest.approx(
            {name.replace("=f", "=other"): share for name, share in expected.items()}
        )

    def test_two_curves_are_four(self):
        schema = schema_of(Interaction(("age", "dose")), columns=COLUMNS[1:3])
        middle = schema.products[0].second.places[1]
        assert present(schema, age=75, dose=middle) == pytest.approx(
            {f"age@50×dose@{middle:.6g}": 0.5, f"age@100×dose@{middle:.6g}": 0.5}
        )
        shares = present(schema, age=60, dose=1.0)
        assert len(shares) == 4
        assert sum(shares.values()) == pytest.approx(1)

    def test_a_line_multiplies(self):
        schema = schema_of(
            Interaction(("weight", "sex")), Interaction(("change", "weight")), columns=COLUMNS
        )
        cells = dict.fromkeys(NAMES) | {"weight": 50, "sex": "f", "change": -5}
        assert present(schema, **cells) == pytest.approx(
            {"weight×sex=f": 0.25, "change×weight": -0.125}
        )

    @pytest.mark.parametrize("lacking", ["age", "sex", "dose", "bmi", "weight", "change"])
    def test_where_a_cell_is_missing_the_product_is_nothing(self, lacking):
        cells = {"sex": "f", "age": 30, "dose": 2, "bmi": 25, "change": 1, "weight": 70}
        found = present(SCHEMA, **cells | {"flat": 3, "one": "z", lacking: None})
        own = SCHEMA.products
        involved = {name for made in own if lacking in made.reads for name in made.features}
        assert not involved & set(found)
        assert found

    def test_three_knots_each_or_as_many_as_asked_for_or_those_of_ones_own(self):
        (few,), (asked,), (both,), (own,) = (
            schema_of(one).products
            for one in (
                Interaction(("age", "dose")),
                Interaction(("age", "dose"), (4, 5)),
                Interaction(("age", "sex"), 4),
                Interaction(("bmi", "sex")),
            )
        )
        assert few.first.places == (0, 50, 100)
        assert few.width == 9
        assert (len(asked.first.places), asked.second) == (4, COLUMNS[2])
        assert both.width == 4 * 3
        assert own.first == COLUMNS[3]


class TestFiles:
    schema = schema_of(Interaction(("age", "sex")), Interaction(("age", "dose"), (4, 3)))

    def test_a_schema_file_says_it_and_is_read_back(self, tmp_path):
        text = self.schema.to_toml()
        assert '[[interactions]]\ncolumns = ["age", "sex"]\n' in text
        assert 'columns = ["age", "dose"]\nknots = [4, 3]\n' in text
        (tmp_path / "s.toml").write_text(text, "utf-8")
        again = Schema.from_toml(tmp_path / "s.toml")
        assert again == self.schema == Schema.from_dict(self.schema.to_dict())
        assert again.digest() == self.schema.digest()

    def test_without_interactions_nothing_is_said_and_the_digest_stays(self):
        plain = schema_of()
        assert "interactions" not in plain.to_dict()
        assert "interactions" not in plain.to_toml()
        assert plain.digest() != self.schema.digest()
        digests = {schema_of(one).digest() for one in ALL[:5]}
        assert len(digests) == 5

    @pytest.mark.parametrize(
        ("entry", "words"),
        [
            ({"columns": ["age"]}, r"two columns, got \['age'\]"),
            ({"columns": "age"}, "two columns, got 'age'"),
            ({"columns": ["age", "sex", "dose"]}, "two columns"),
            ({"columns": ["age", 3]}, "Expected a column name, got 3"),
            ({"columns": ["age", "age"]}, "got 'age' twice"),
            ({"columns": ["age", "size"]}, "'age×size': 'size' is no feature column"),
            ({"columns": ["age", "ward"]}, "'ward' is no feature column of the schema; list it"),
            ({"columns": ["age", "ill"]}, "'ill' is no feature column"),
            ({"columns": ["sex", "age"]}, "'sex×age' is listed twice; remove one"),
            ({"columns": ["age", "dose"], "knots": 1}, "'age×dose': Column 'age': expected 2 to"),
            ({"columns": ["age", "dose"], "knots": [3, 2000]}, "2 to 1,000 knots, got 2000"),
            ({"columns": ["age", "dose"], "knots": [3]}, r"or a list of two, got \[3\]"),
            ({"columns": ["age", "dose"], "knots": [3, 3, 3]}, "a list of two"),
            ({"columns": ["age", "dose"], "knots": "many"}, "a whole number or a list of two"),
            ({"columns": ["age", "dose"], "knots": True}, "a whole number"),
            ({"columns": ["age", "dose"], "knots": 2.5}, "a whole number"),
            ({"columns": ["age", "dose"], "knots": [2.5, "x"]}, "a whole number"),
            ({"columns": ["sex", "one"], "knots": 3}, "'sex×one': categories have no knots"),
            ({"columns": ["age", "dose"], "knots": 21}, "at most 400 features, got 441; give it"),
            ({"column": ["age", "dose"]}, "In an interaction, columns is missing"),
            (
                {"columns": ["age", "dose"], "shape": "line"},
                "In an interaction, 'shape' is unknown",
            ),
            (["age", "dose"], "Expected an interaction to be a table with columns"),
        ],
    )
    def test_what_cannot_be_is_refused_in_one_sentence(self, entry, words):
        said = Schema(COLUMNS, LABEL, agents=(Categorical("ward", ("a",)),)).to_dict()
        said["interactions"] = [{"columns": ["age", "sex"]}, entry]
        with pytest.raises(DataError, match=words) as refused:
            Schema.from_dict(said)
        assert "\n" not in str(refused.value)
        assert str(refused.value).endswith(".")

    def test_names_alone_are_no_interaction(self):
        with pytest.raises(DataError, match=r"Expected an Interaction of two columns, got \('age'"):
            schema_of(("age", "sex"))

    def test_a_file_is_named_with_what_is_wrong_in_it(self, tmp_path):
        text = self.schema.to_toml().replace('["age", "dose"]', '["age", "size"]')
        (tmp_path / "s.toml").write_text(text, "utf-8")
        with pytest.raises(DataError, match=r"s\.toml': Interaction 'age×size': 'size' is no"):
            Schema.from_toml(tmp_path / "s.toml")

    def test_no_list_of_tables_is_refused(self):
        for wrong in ("age×sex", 3):
            with pytest.raises(DataError, match=r"interactions to be a list of tables \(\[\["):
                Schema.from_dict(schema_of().to_dict() | {"interactions": wrong})

    @pytest.mark.parametrize("third", [Numeric("a×b", 0, 1), Categorical("a×b", ("x",))])
    def test_two_parts_of_one_name_are_refused(self, third):
        """A model is saved by the names of its features, and explained by those of its parts."""
        columns = (*(Numeric(name, 0, 1, shape="line") for name in ("a", "b")), third)
        with pytest.raises(DataError, match="Two parts of a row would be called 'a×b'; rename a"):
            schema_of(Interaction(("a", "b")), columns=columns)
        columns = tuple(Categorical(name, ("x",)) for name in ("a", "a=x×b"))
        twice = (*columns, Categorical("b", ("x",)))
        with pytest.raises(DataError, match="Two parts of a row would be called 'a=x×b=x'"):
            schema_of(Interaction(("a", "b")), columns=twice)

    def test_all_together_have_a_cap(self):
        columns = tuple(Numeric(f"x{k}", 0, 1, shape="curve", knots=6) for k in range(4))
        pairs = [Interaction(pair, 20) for pair in combinations([c.name for c in columns], 2)]
        assert schema_of(*pairs[:5], columns=columns).dimension == 4 * 7 + 5 * 400 + 1
        with pytest.raises(DataError, match="at most 2,000 features of interactions in all, got"):
            schema_of(*pairs, columns=columns)


class TestEffects:
    """What a model says of a pair, see `ppadmm.data.effects`."""

    theta = np.random.default_rng(3).standard_normal(SCHEMA.dimension)

    def cell(self, column, place):
        """A cell at this place: steps are texts, other places are values."""
        return float(place[1:].split(",")[0]) if column.shape == "steps" else place

    def test_parts_add_up_to_the_score_of_every_record(self):
        X = SCHEMA.encode_coded(people())
        parts = score_parts(SCHEMA, self.theta)
        assert parts.shape == (SCHEMA.dimension, len(COLUMNS) + len(ALL) + 1)
        np.testing.assert_allclose((X @ parts).sum(axis=1), X @ self.theta, atol=1e-12)

    def test_a_table_has_what_every_pair_adds(self):
        effects = column_effects(SCHEMA, self.theta)
        length = reference_length(SCHEMA)
        assert [e.name for e in effects] == [*NAMES, *(one.name for one in ALL)]
        for made, effect in zip(SCHEMA.products, effects[len(COLUMNS) :], strict=True):
            assert effect.kind == "interaction"
            assert np.prod(effect.shape) == len(effect.places) == effect.values.size
            assert effect.values.mean() == pytest.approx(0.0, abs=1e-12)
            own = dict.fromkeys(NAMES)
            columns = (made.first, made.second)
            found = []
            for pair in effect.places:
                cells = own | {
                    c.name: self.cell(c, place) if isinstance(c, Numeric) else place
                    for c, place in zip(columns, pair, strict=True)
                }
                row = features(SCHEMA, {name: [cell] for name, cell in cells.items()})
                at = [SCHEMA.feature_names.index(name) for name in made.features]
                values = [row[name][0] for name in made.features]
                found.append(self.theta[at] @ values / length)
            expected = np.array(found) - np.mean(found)
            np.testing.assert_allclose(effect.values, expected, atol=1e-12)
            assert effect.missing == pytest.approx(-np.mean(found))

    def test_lengths_of_records_lie_within_their_range(self):
        X = SCHEMA.encode_features(people(2000), sparse=False)
        lengths = 1.0 / X[:, -1]
        least, most = length_range(SCHEMA)
        assert least <= lengths.min()
        assert lengths.max() <= most
        pair = schema_of(Interaction(("age", "weight")), columns=(COLUMNS[1], COLUMNS[5]))
        assert reference_length(pair) ** 2 == pytest.approx(1 + 2 / 3 + 1 / 3 + 2 / 9)
        rng = np.random.default_rng(0)
        even = {"age": rng.uniform(0, 100, 20_000), "weight": rng.uniform(0, 200, 20_000)}
        squares = pair.encode_features(even, sparse=False)[:, -1] ** -2.0
        assert reference_length(pair) ** 2 == pytest.approx(squares.mean(), rel=0.02)

    def test_an_estimator_explains_them(self):
        table = people(500)
        schema = schema_of(Interaction(("age", "sex")), Interaction(("age", "dose")))
        labels = table.pop("ill")
        model = PrivateLogisticRegression(epsilon=5.0, schema=schema, rounds=5, random_state=0)
        model.fit(pd.DataFrame(table), labels)
        frame = pd.DataFrame({name: cells[:9] for name, cells in table.items()})
        local, everywhere = model.explain_local(frame), model.explain_global()
        score = local.intercept + local.scores.sum(axis=1)
        np.testing.assert_allclose(score, model.decision_function(frame), atol=1e-12)
        assert local.names == everywhere.names == (*NAMES, "age×sex", "age×dose")
        told = everywhere.data("age×sex")
        assert told["type"] == "interaction"
        assert (told["left_names"], told["right_names"]) == ([0, 50, 100], ["f", "m", "other"])
        assert np.shape(told["scores"]) == (3, 3)
        json.dumps(told)


# What they are for.


def crossed(n=4000, seed=0):
    """Ill if exactly one of two things is so: no sum of two curves knows."""
    rng = np.random.default_rng(seed)
    x, z = rng.random(n), rng.random(n)
    ill = ((x > 0.5) != (z > 0.5)) ^ (rng.random(n) < 0.05)
    group = np.where(z > 0.5, "b", "a")
    return {"x": x, "z": z, "group": group, "ill": np.where(ill, "yes", "no")}


CROSSED = (
    Numeric("x", 0, 1, shape="curve", knots=6),
    Numeric("z", 0, 1, shape="curve", knots=6),
    Categorical("group", ("a", "b")),
)


@pytest.mark.parametrize("pair", [("x", "z"), ("x", "group")])
@pytest.mark.parametrize("algorithm", ["non-private", "pp"])
def test_an_interaction_learns_what_curves_alone_cannot(pair, algorithm):
    spec = RunSpec(epsilon=2.0, agents=3, algorithm=algorithm, seed=1)

    def error(*interactions):
        columns = tuple(c for c in CROSSED if c.name in pair)
        data = load(crossed(), schema=schema_of(*interactions, columns=columns))
        return train(spec, data=data).metrics.error[0]

    assert error() > 0.4
    assert error(Interaction(pair)) < (0.15 if algorithm == "non-private" else 0.2)
