"""What `fit` takes: frames, schemas, groups; and what it refuses."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

from ppadmm import PrivacyWarning, PrivateLogisticRegression
from ppadmm.accounting import Budget
from ppadmm.data import Categorical, Label, Numeric, Schema
from ppadmm.errors import BudgetError, DataError, InputError
from ppadmm.ledger.owner import OwnerLedger
from tests.estimator.fits import SMALL, records


class TestWhatItTakes:
    def frames(self, X):
        names = ["a", "b", "c", "d"]
        return {
            "array": X,
            "float32": X.astype(np.float32),
            "csr": csr_matrix(X),
            "pandas": pd.DataFrame(X, columns=names),
            "polars": pl.DataFrame(X, schema=names),
        }

    @pytest.mark.parametrize("kind", ["array", "float32", "csr", "pandas", "polars"])
    def test_every_kind_of_table_gives_the_same(self, kind, xy):
        X, y = np.round(xy[0], 1).astype(np.float32).astype(float), xy[1]
        X[np.abs(X) < 0.5] = 0.0
        bounds = ([-1, 0.05, -1, -0.5], [1, 1, -0.05, 0.8])
        model = PrivateLogisticRegression(**{**SMALL, "bounds": bounds}, random_state=0)
        expected = clone(model).fit(X, y).coef_
        given = self.frames(X)[kind]
        found = model.fit(given, y)
        np.testing.assert_allclose(found.coef_, expected, rtol=1e-6, atol=1e-9)
        assert found.predict(given).shape == (600,)

    @pytest.mark.parametrize("kind", ["pandas", "polars"])
    def test_feature_names_are_kept_and_name_bounds(self, kind, xy):
        X, y = self.frames(xy[0])[kind], xy[1]
        bounds = dict.fromkeys("dcba", (-1, 1))
        model = PrivateLogisticRegression(**{**SMALL, "bounds": bounds}).fit(X, y)
        assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
        assert model.schema_.feature_names == ("a", "b", "c", "d", "intercept")
        with pytest.raises(ValueError, match="feature names"):
            model.predict(
                X.rename({"a": "z"}) if kind == "polars" else X.rename(columns={"a": "z"})
            )
        with pytest.raises(DataError, match="name no feature 'a'"):
            PrivateLogisticRegression(**{**SMALL, "bounds": {"b": (0, 1)}}).fit(X, y)

    SCHEMA = Schema(
        (Numeric("age", 0, 100), Categorical("sex", ("f", "m"))), Label("ill", ("yes",), ("no",))
    )

    def patients(self, n=400):
        rng = np.random.default_rng(0)
        age, sex = rng.integers(0, 100, n), rng.choice(["f", "m"], n)
        return {"age": age, "sex": sex}, np.where(age > 50, "yes", "no")

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_a_schema_takes_frames_with_categories(self, frame, tmp_path):
        columns, y = self.patients()
        file = tmp_path / "schema.toml"
        file.write_text(self.SCHEMA.to_toml())
        X = frame(columns)
        model = PrivateLogisticRegression(schema=file, delta=1e-3, epsilon=20, rounds=20).fit(X, y)
        assert model.private_
        assert list(model.classes_) == ["no", "yes"]
        assert model.coef_.shape == (1, 3)
        assert model.n_features_in_ == 2
        assert model.score(X, y) > 0.8
        array = np.array([list(row) for row in zip(*columns.values(), strict=True)], dtype=object)
        plain = PrivateLogisticRegression(schema=self.SCHEMA, random_state=0).fit(array, y)
        assert plain.predict(array).shape == (400,)

    def test_another_schema_is_no_way_to_a_second_budget(self, tmp_path):
        """The ledger knows the frame, not what a schema makes of it."""
        columns, y = self.patients()
        file, wide = tmp_path / "owner.ledger", Numeric("age", 0, 200)
        other = Schema((wide, *self.SCHEMA.columns[1:]), self.SCHEMA.label)
        with OwnerLedger.create(file, "owner") as ledger:
            for name in ("patients", "others"):
                ledger.grant(name, Budget(20.0, 1e-3), "me", "")
        common = {"ledger": file, "delta": 1e-3, "epsilon": 5, "rounds": 2}
        X = pd.DataFrame(columns)
        PrivateLogisticRegression(schema=self.SCHEMA, dataset="patients", **common).fit(X, y)
        with pytest.raises(BudgetError, match="registered as 'patients', not 'others'"):
            PrivateLogisticRegression(schema=other, dataset="others", **common).fit(X, y)

    def test_a_schema_that_nobody_confirmed(self):
        columns, y = self.patients()
        draft = Schema(self.SCHEMA.columns, self.SCHEMA.label, confirmed=False)
        with pytest.warns(PrivacyWarning, match="schema is not confirmed"):
            model = PrivateLogisticRegression(schema=draft, rounds=5).fit(pd.DataFrame(columns), y)
        assert not model.private_

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"classes": [0, 2]}, "label of record .* not among the classes"),
            ({"classes": [1]}, "got 1 class"),
            ({"bounds": (1, 2, 3)}, "Expected bounds"),
            ({"bounds": ([0, 0], 1)}, "Expected bounds"),
            ({"bounds": (1, 0)}, "low ≤ high"),
            ({"bounds": (0, np.nan)}, "finite"),
            ({"n_agents": 601}, "n_samples = 600"),
            ({"epsilon": -1}, "epsilon"),
            ({"algorithm": "magic"}, "magic"),
        ],
    )
    def test_bad_input_is_named(self, change, message, xy):
        with pytest.raises(InputError, match=message):
            PrivateLogisticRegression(**{**SMALL, **change}).fit(*xy)

    def test_a_class_that_nobody_has_yet(self, xy):
        model = PrivateLogisticRegression(**{**SMALL, "classes": [0, 1, 2]}).fit(*xy)
        assert model.predict_proba(xy[0]).shape == (600, 3)
        assert model.private_


class TestWhatIsMissing:
    @pytest.mark.parametrize("missing", [None, pd.NA])
    def test_labels_and_groups_are_named_by_record(self, missing):
        X, y = records(60)
        holes = y.astype(object)
        holes[7] = missing
        model = PrivateLogisticRegression(random_state=0, **SMALL)
        with pytest.raises(DataError, match="The label of record 7 is missing; give it or drop"):
            model.fit(X, holes)
        with pytest.raises(DataError, match="The group of record 7 is missing; give it or drop"):
            model.fit(X, y, groups=np.array(["a"] * 7 + [missing] + ["b"] * 52, dtype=object))


MISSING = {
    "numbers": lambda: np.where(np.arange(200) == 3, np.nan, 1.0),
    "objects": lambda: np.array([*"bab", np.nan, *"a" * 196], dtype=object),
    "texts of pandas": lambda: pd.Series([*"bab", np.nan, *"a" * 196]),
    "whole numbers of pandas": lambda: pd.Series([1, 0, 1, None, *[0] * 196], dtype="Int64"),
    "days": lambda: np.array(["2020-01-01"] * 3 + ["NaT"] + ["2020-01-02"] * 196, "M8[D]"),
}


@pytest.mark.parametrize("make", MISSING.values(), ids=MISSING)
def test_a_missing_label_or_group_is_one_sentence(make):
    X, y = np.random.default_rng(0).uniform(size=(200, 2)), np.arange(200) % 2
    model = PrivateLogisticRegression(bounds=(0, 1), classes=[0, 1], n_agents=2, random_state=0)
    with pytest.raises(DataError, match=r"The group of record 3 is missing; give it or drop"):
        model.fit(X, y, groups=make())
    with pytest.raises(DataError, match=r"The label of record 3 is missing; give it or drop"):
        model.fit(X, make())
