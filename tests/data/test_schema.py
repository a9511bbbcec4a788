import math

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.data import Categorical, Label, Numeric, Schema, Shard
from ppadmm.errors import DataError

SCHEMA = Schema(
    (
        Categorical("colour", ("red", "green", "blue")),
        Numeric("age", 0, 100, shape="line"),
        Numeric("gain", 0, 1000, "log", "line"),
    ),
    Label("class", ("yes",), ("no", "never")),
)

records = st.fixed_dictionaries(
    {
        "colour": st.sampled_from(["red", "green", "blue", "?", "", " red ", None]),
        "age": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
        "gain": st.one_of(st.none(), st.integers(-(2**60), 2**60)),
        "class": st.sampled_from(["yes", "no", "never"]),
    }
)


def table(rows):
    types = {"colour": pa.string(), "age": pa.float64(), "gain": pa.int64(), "class": pa.string()}
    return pa.Table.from_pylist(rows, pa.schema(list(types.items())))


def one(**cells):
    return {"colour": "red", "age": 50.0, "gain": 0, "class": "yes"} | cells


def features(row):
    """Undo the scaling: divide by the intercept."""
    return row[:-1] / row[-1]


def test_layout_is_numeric_then_groups_then_intercept():
    names = ("age", "gain", "colour=red", "colour=green", "colour=blue", "intercept")
    assert SCHEMA.feature_names == names
    assert SCHEMA.dimension == 6


def test_values():
    X, y = SCHEMA.encode(table([one(gain=9), one(colour="blue", age=None, **{"class": "no"})]))
    assert np.allclose(features(X[0]), [0.5, math.log(10) / math.log(1001), 1, 0, 0])
    assert np.allclose(features(X[1]), [0, 0, 0, 0, 1])
    assert y.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("low", "high", "x", "z"),
    [
        (-2, 4, [-3, -2, 0, 1, 9], [-0.5, -0.5, 0, 0.25, 1]),
        (35, 42, [0, 35, 38.5, 50], [0, 0, 0.5, 1]),
        (-42, -35, [0, -35, -38.5, -50], [0, 0, -0.5, -1]),
        (0, 8, [0, 4], [0, 0.5]),
        (3, 3, [0, 3, 7], [0, 0, 0]),
    ],
)
def test_signed_keeps_zero_and_stays_within_one(low, high, x, z):
    schema = Schema((Numeric("x", low, high, "signed", "line"),), SCHEMA.label)
    rows = schema.encode_features({"x": [float(v) for v in x]})
    coded = schema.encode_coded({"x": [float(v) for v in x]}).toarray()
    np.testing.assert_allclose(rows[:, 0] / rows[:, 1], z)
    np.testing.assert_allclose(coded, rows)


@given(st.lists(records, min_size=1, max_size=8))
def test_every_encoding_is_a_shard_within_the_unit_box(rows):
    X, y = SCHEMA.encode(table(rows))
    Shard(X, y)
    assert (X >= 0).all()
    assert np.allclose(np.linalg.norm(X, axis=1), 1)
    assert (X[:, :2] <= X[:, -1:]).all()


@given(st.lists(records, min_size=1, max_size=8), st.data())
def test_a_row_depends_on_its_record_alone(rows, data):
    some = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    X, y = SCHEMA.encode(table(rows))
    Xs, ys = SCHEMA.encode(table(rows).take(some))
    assert np.array_equal(X[some], Xs)
    assert np.array_equal(y[some], ys)


@given(st.lists(records, min_size=1, max_size=8))
def test_sparse_equals_dense(rows):
    dense, _ = SCHEMA.encode(table(rows), sparse=False)
    sparse, _ = SCHEMA.encode(table(rows), sparse=True)
    assert isinstance(sparse, sp.csr_array)
    assert np.allclose(sparse.toarray(), dense, atol=1e-15)


@pytest.mark.parametrize(("age", "same"), [(-5.0, 0.0), (250.0, 100.0), (-1e308, 0.0)])
def test_numbers_are_clipped_to_the_public_bounds(age, same):
    assert np.array_equal(
        SCHEMA.encode(table([one(age=age)]))[0], SCHEMA.encode(table([one(age=same)]))[0]
    )


@pytest.mark.parametrize("scale", ["linear", "log", "signed"])
def test_a_constant_column_is_zero(scale):
    schema = Schema((Numeric("age", 7, 7, scale, "line"),), SCHEMA.label)
    X, _ = schema.encode({"age": [7, 8], "class": ["yes", "no"]})
    assert np.array_equal(features(X[0]), [0])


def test_missing_markers_in_any_spelling():
    schema = Schema((Numeric("age", -10, 10),), SCHEMA.label, missing=("", "?", "-9"))
    X, _ = schema.encode({"age": ["?", "", " -9", None, "-9.0"], "class": ["yes"] * 5})
    again, _ = schema.encode({"age": [-9.0, -9, None, -9, -9], "class": ["yes"] * 5})
    assert not X[:, 0].any()
    assert np.array_equal(X, again)


def test_sparse_auto_is_decided_by_the_schema():
    wide = Schema((Categorical("c", tuple(map(str, range(300)))),), SCHEMA.label)
    X, _ = wide.encode({"c": [5, 299], "class": ["yes", "no"]})
    assert isinstance(X, sp.csr_array)
    assert X.shape == (2, 301)
    assert X.nnz == 4
    assert isinstance(SCHEMA.encode(table([one()]))[0], np.ndarray)


def test_categories_of_any_arrow_type_match_by_text():
    schema = Schema((Categorical("c", ("1", "2")),), SCHEMA.label)
    for cells in ([1, 2], [1.0, 2.0], ["1", "2"], pa.array(["1", "2"]).dictionary_encode()):
        X = schema.encode_features({"c": cells})
        assert np.allclose([features(row) for row in X], np.eye(2))


def test_categories_are_trimmed_as_cells_are():
    assert Categorical("c", (" a", "b ")).categories == ("a", "b")
    with pytest.raises(DataError, match="'a' is listed twice"):
        Categorical("c", ("a", " a"))


def test_an_empty_table_encodes_to_no_rows():
    for sparse in (True, False):
        X, y = SCHEMA.encode(table([]), sparse=sparse)
        assert X.shape == (0, 6)
        assert y.shape == (0,)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"colour": ["red", "pink"]}, "'colour', row 2 is not among the categories; correct"),
        ({"age": ["1", "abc"]}, "'age', row 2: expected a finite number; correct"),
        ({"age": [1.0, float("nan")]}, "'age', row 2: expected a finite number; correct"),
        ({"age": ["1", "inf"]}, "'age', row 2: expected a finite number; correct"),
        ({"age": [-math.inf, 1.0]}, "'age', row 1: expected a finite number; correct"),
        ({"age": [[1], [2]]}, "'age' holds list.*neither numbers nor text"),
        ({"colour": [b"red", b"red"]}, "'colour' holds binary"),
        ({"class": ["yes", "maybe"]}, "'class', row 2 is not one of the classes"),
        ({"class": ["yes", None]}, "'class', row 2 is missing"),
        ({"class": ["yes", "?"]}, "'class', row 2 is missing"),
    ],
)
def test_bad_cells_are_named(cells, message):
    good = {"colour": ["red", "red"], "age": [1, 2], "gain": [0, 0], "class": ["yes", "no"]}
    with pytest.raises(DataError, match=message):
        SCHEMA.encode(good | cells)


def test_a_date_is_not_a_number():
    schema = Schema((Numeric("when", 0, 1),), SCHEMA.label)
    with pytest.raises(DataError, match="'when' holds date32"):
        schema.encode({"when": pa.array([0], pa.date32()), "class": ["yes"]})


def test_an_absent_column_is_named_among_those_there_are():
    with pytest.raises(DataError, match="no column 'age'; it has: colour, class"):
        SCHEMA.encode({"colour": ["red"], "class": ["yes"]})


def test_a_repeated_column_is_refused():
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["age", "age"])
    with pytest.raises(DataError, match="2 columns named 'age'"):
        Schema((Numeric("age", 0, 1),), SCHEMA.label).encode(twice)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Numeric("", 0, 1), "column name, got ''; name the column, or remove it"),
        (lambda: Numeric("a", 2, 1), "expected low ≤ high, got 2.0 and 1.0"),
        (lambda: Numeric("a", -1e308, 1e308), "are too far apart"),
        (lambda: Numeric("a", 0, math.inf), "expected high to be finite, got inf"),
        (lambda: Numeric("a", "0", 1), "expected low to be a number, got '0'"),
        (lambda: Numeric("a", True, 1), "expected low to be a number, got True"),
        (lambda: Numeric("a", 0, 1, "cubic"), "unknown scale 'cubic'"),
        (lambda: Categorical("a", ()), "at least 1 value"),
        (lambda: Categorical("a", ("x", "x")), "'x' is listed twice"),
        (lambda: Categorical("a", "xyz"), "list of texts"),
        (lambda: Label("a", ("x",), ("x",)), "'x' is both"),
        (lambda: Label("a", (), ("x",)), "positive: expected at least 1"),
        (lambda: Schema((), SCHEMA.label), "at least one column"),
        (lambda: Schema((Numeric("class", 0, 1),), SCHEMA.label), "'class' is listed twice"),
        (lambda: Schema(SCHEMA.columns, SCHEMA.label, confirmed="no"), "true or false"),
    ],
)
def test_malformed_schemas_are_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_round_trip_through_dict_and_toml(tmp_path):
    odd = Schema(
        (Categorical("c", ('qu"ote\\', "ta\tb", "é😀", "del\x7f")), Numeric("x", -1e-30, 1e16)),
        Label("y", ("1",), ("0",)),
        missing=(),
        confirmed=False,
    )
    for schema in (SCHEMA, odd):
        file = tmp_path / "schema.toml"
        file.write_text(schema.to_toml(), encoding="utf-8")
        assert Schema.from_toml(file) == Schema.from_dict(schema.to_dict()) == schema


def test_digest_follows_the_content():
    assert SCHEMA.digest() == Schema.from_dict(SCHEMA.to_dict()).digest()
    other = Schema(SCHEMA.columns, SCHEMA.label, confirmed=False)
    assert len({SCHEMA.digest(), other.digest()}) == 2
    assert len(SCHEMA.digest()) == 64


GOOD = """format = 1
[label]
name = "y"
positive = ["1"]
negative = ["0"]
[[columns]]
name = "age"
low = 0
high = 100
"""


def test_a_file_that_does_not_say_so_is_not_confirmed(tmp_path):
    (tmp_path / "s.toml").write_text(GOOD)
    schema = Schema.from_toml(tmp_path / "s.toml")
    assert not schema.confirmed
    (tmp_path / "s.toml").write_text("confirmed = true\n" + GOOD)
    assert Schema.from_toml(tmp_path / "s.toml").confirmed
    assert schema.columns == (Numeric("age", 0, 100),)
    assert schema.missing == ("", "?")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[label]", "[label", "Cannot read the schema file"),
        ("[label]", "[lable]", "In the schema, label is missing"),
        ("[label]", "extra = 1\n[label]", "'extra' is unknown"),
        ('positive = ["1"]', "", "In the label 'y', positive is missing"),
        ('positive = ["1"]', "positive = [1]", "positive: expected a list of texts"),
        ("low = 0", "", "In a numeric column 'age', low is missing"),
        ("low = 0", "low = nan", "expected low to be finite"),
        ("low = 0", 'low = "a"', "expected low to be a number"),
        ("low = 0", 'low = 0\nunit = "years"', "'age', 'unit' is unknown"),
        ("low = 0", 'low = 0\ncategories = ["a"]', "a categorical column 'age'"),
        ("[[columns]]", "[columns]", "list of tables"),
        ('name = "age"', "name = 3", "column name, got 3"),
    ],
)
def test_malformed_schema_files_are_explained(tmp_path, old, new, message):
    (tmp_path / "s.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(DataError, match=message):
        Schema.from_toml(tmp_path / "s.toml")


def test_what_is_wrong_in_a_schema_file_is_said_with_its_name(tmp_path):
    (tmp_path / "empty.toml").write_text("format = 1")
    with pytest.raises(DataError, match=r"empty\.toml': In the schema, columns, label is missing"):
        Schema.from_toml(tmp_path / "empty.toml")


def test_an_absent_or_binary_schema_file_is_explained(tmp_path):
    with pytest.raises(DataError, match="no schema file"):
        Schema.from_toml(tmp_path / "none.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="Cannot read the schema file"):
        Schema.from_toml(tmp_path / "b.toml")


@pytest.mark.parametrize(
    "content", [[], {"columns": [3], "label": {}}, {"columns": [], "label": 3}]
)
def test_from_dict_refuses_what_is_not_a_schema(content):
    with pytest.raises(DataError):
        Schema.from_dict(content)


AGENTS = Schema(SCHEMA.columns, SCHEMA.label, agents=(Categorical("hospital", ("north", "south")),))


def test_agents_are_no_features_and_travel_with_the_schema(tmp_path):
    assert AGENTS.feature_names == SCHEMA.feature_names
    assert AGENTS.digest() != SCHEMA.digest()
    assert "agents" not in SCHEMA.to_dict()
    (tmp_path / "s.toml").write_text(AGENTS.to_toml())
    assert Schema.from_toml(tmp_path / "s.toml") == AGENTS


def test_public_values_come_from_agents_and_categorical_columns():
    assert AGENTS.public_values("hospital") == ("north", "south")
    assert SCHEMA.public_values("hospital") is None
    for c in SCHEMA.columns:
        expected = c.categories if isinstance(c, Categorical) else None
        assert SCHEMA.public_values(c.name) == expected


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('[[agents]]\nname = "age"\ncategories = ["1"]', "'age' is listed twice"),
        ('[[agents]]\nname = "site"', "an agents column 'site', categories is missing"),
        ('[agents]\nname = "site"', r"agents to be a list of tables \(\[\[agents\]\]\)"),
        ('[[agents]]\nname = "site"\ncategories = []', "at least 1 value"),
    ],
)
def test_malformed_agents_are_explained(tmp_path, more, message):
    (tmp_path / "s.toml").write_text(GOOD + more)
    with pytest.raises(DataError, match=message):
        Schema.from_toml(tmp_path / "s.toml")
