"""What a cell of each kind of column becomes: lines, curves, steps and categories."""

import numpy as np
import pytest

from ppadmm.data import Categorical, Label, Numeric, Schema, as_table
from ppadmm.errors import DataError

LABEL = Label("ill", ("yes",), ("no",))


def row(column, cell, label="yes"):
    """The features of one cell, before rows are scaled."""
    schema = Schema((column,), LABEL)
    X = schema.encode_features({column.name: [cell], "ill": [label]}, sparse=False)
    return dict(zip(schema.feature_names[:-1], X[0, :-1] / X[0, -1], strict=True))


def present(column, cell):
    return {name: value for name, value in row(column, cell).items() if value}


class TestCurves:
    age = Numeric("age", 0, 100, shape="curve")

    def test_six_knots_at_equal_distances_by_default(self):
        assert self.age.places == (0, 20, 40, 60, 80, 100)
        assert self.age.features[:2] == ("age@0", "age@20")
        assert self.age.features[-1] == "age=missing"

    @pytest.mark.parametrize(
        ("cell", "expected"),
        [
            (0, {"age@0": 1}),
            (5, {"age@0": 0.75, "age@20": 0.25}),
            (20, {"age@20": 1}),
            (99, {"age@80": 0.05, "age@100": 0.95}),
            (100, {"age@100": 1}),
            (1e9, {"age@100": 1}),
            (-3, {"age@0": 1}),
            (None, {"age=missing": 1}),
            ("?", {"age=missing": 1}),
        ],
    )
    def test_two_neighbours_share_a_value(self, cell, expected):
        assert present(self.age, cell) == pytest.approx(expected)

    def test_a_curve_through_its_knots_is_any_piecewise_linear_function(self):
        """What θ says at the knots is what it says there, and straight in between."""
        theta, x = np.array([3.0, -1.0, 2.0, 0.0, 5.0, 4.0]), np.linspace(0, 100, 333)
        entries = self.age.entries(as_table({"age": x.tolist()}), ())
        found = (np.append(theta, 99.0)[entries.places] * entries.values).sum(axis=1)
        np.testing.assert_allclose(found, np.interp(x, self.age.places, theta), atol=1e-12)

    def test_knots_on_a_logarithmic_scale(self):
        gain = Numeric("gain", 0, 99_999, "log", "curve", knots=6)
        assert gain.places == pytest.approx((0, 9, 99, 999, 9_999, 99_999))
        assert row(gain, 999)["gain@999"] == pytest.approx(1)
        half = 10**2.5 - 1
        assert present(gain, half) == pytest.approx({"gain@99": 0.5, "gain@999": 0.5})

    def test_knots_of_ones_own(self):
        age = Numeric("age", 0, 100, shape="curve", knots=[18, 65, 67])
        assert present(age, 66) == pytest.approx({"age@65": 0.5, "age@67": 0.5})
        assert present(age, 3) == {"age@18": 1}
        assert present(age, 99) == {"age@67": 1}

    def test_a_signed_scale_has_its_knots_between_the_bounds(self):
        change = Numeric("change", -10, 30, "signed", "curve", knots=5)
        assert change.places == pytest.approx((-10, 0, 10, 20, 30))
        assert present(change, 0) == pytest.approx({"change@0": 1})

    def test_bounds_that_are_one_leave_one_knot(self):
        flat = Numeric("x", 2, 2, shape="curve")
        assert flat.features == ("x@2", "x=missing")
        assert present(flat, 7) == {"x@2": 1}
        assert present(flat, None) == {"x=missing": 1}


class TestSteps:
    def test_so_many_intervals_of_equal_length(self):
        age = Numeric("age", 0, 100, shape="steps", knots=4)
        assert age.features == (
            "age[0,25)", "age[25,50)", "age[50,75)", "age[75,100)", "age=missing",
        )  # fmt: skip
        for cell, name in ((0, "age[0,25)"), (25, "age[25,50)"), (100, "age[75,100)")):
            assert present(age, cell) == {name: 1}
        assert present(age, None) == {"age=missing": 1}

    def test_ends_of_ones_own(self):
        age = Numeric("age", 0, 100, shape="steps", knots=[18])
        assert present(age, 17.9) == {"age[0,18)": 1}
        assert present(age, 18) == {"age[18,100)": 1}


class TestCategories:
    sex = Categorical(
        "sex", ("female", "male"), {"female": ["F", "f"], "male": ["m"]}, other=True,
        missing=("-9",),
    )  # fmt: skip

    @pytest.mark.parametrize(
        ("cell", "expected"),
        [
            ("female", "sex=female"),
            ("F", "sex=female"),
            ("f", "sex=female"),
            ("m", "sex=male"),
            ("diverse", "sex=other"),
        ],
    )
    def test_other_spellings_and_others(self, cell, expected):
        assert present(self.sex, cell) == {expected: 1}

    def test_markers_of_the_column_alone(self):
        assert present(self.sex, "-9") == {}
        age = Numeric("age", -20, 100, shape="curve", missing=("999",))
        assert present(age, "999") == {"age=missing": 1}
        assert present(age, "-9") != {"age=missing": 1}

    def test_without_other_a_strange_value_is_refused(self):
        with pytest.raises(DataError, match="row 1 is not among the categories"):
            row(Categorical("sex", ("f", "m")), "x")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Numeric("a", 0, 1, shape="spline"), "unknown shape 'spline'"),
        (lambda: Numeric("a", 0, 1, shape="line", knots=4), "a line has no knots"),
        (lambda: Numeric("a", 0, 1, shape="curve", knots=1), "expected 2 to 1,000 knots, got 1"),
        (lambda: Numeric("a", 0, 1, shape="curve", knots=True), "a number or a list"),
        (lambda: Numeric("a", 0, 1, shape="curve", knots=[0.5]), "a list of 2 or more"),
        (lambda: Numeric("a", 0, 1, shape="curve", knots=[0.5, 0.5]), "knots that grow"),
        (lambda: Numeric("a", 0, 1, shape="curve", knots=[0.5, 2]), "between low and high"),
        (lambda: Numeric("a", 0, 1, shape="curve", knots=["x", 1]), "a knot to be a number"),
        (lambda: Categorical("a", ("x",), {"y": ["z"]}), "'y' is none of the categories"),
        (lambda: Categorical("a", ("x", "y"), {"y": ["x"]}), "'x' is spelt for two"),
        (lambda: Categorical("a", ("other",), other=True), "rename"),
        (lambda: Categorical("a", ("x",), other="yes"), "other to be true or false"),
        (lambda: Numeric("a", 0, 1, missing="x"), "expected a list of texts"),
    ],
)
def test_what_cannot_be_is_named(make, words):
    with pytest.raises(DataError, match=words):
        make()


def test_a_schema_file_says_it_and_is_read_back(tmp_path):
    schema = Schema(
        (
            Numeric("age", 0, 100, shape="curve", knots=(18, 65)),
            Numeric("dose", 0, 9, "log", "curve", 4, ("-9",)),
            Numeric("bmi", 10, 60, shape="steps"),
            TestCategories.sex,
        ),
        LABEL,
    )
    (tmp_path / "s.toml").write_text(schema.to_toml(), "utf-8")
    again = Schema.from_toml(tmp_path / "s.toml")
    assert again == schema
    assert again.digest() == schema.digest()
    plain = Schema((Numeric("age", 0, 100), Categorical("sex", ("f",))), LABEL)
    assert "shape" not in plain.to_toml()
    assert "synonyms" not in plain.to_toml()
