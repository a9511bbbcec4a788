"""A sum of curves as a classifier: knots, missing values, and that it bends where data do."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ppadmm import PrivateAdditiveClassifier, PrivateLogisticRegression
from ppadmm.accounting import Budget
from ppadmm.data import Categorical, Label, Numeric, Schema
from ppadmm.data.coded import Coded
from ppadmm.data.knots import knots_for
from ppadmm.errors import BudgetError, InputError
from ppadmm.ledger.owner import OwnerLedger
from tests.estimator.fits import PUBLIC, SMALL, records


def bent(n=6000, seed=0):
    """Records whose classes lie within and outside an interval: no line tells them apart."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, (rng.random(n) < np.where(np.abs(X[:, 0]) < 0.5, 0.95, 0.05)).astype(int)


class TestWhatItLearns:
    def test_a_curve_where_a_line_learns_nothing(self):
        X, y = bent()
        curve = PrivateAdditiveClassifier(**PUBLIC).fit(X, y)
        line = PrivateLogisticRegression(**PUBLIC, accept_composition=True).fit(X, y)
        assert curve.private_
        assert curve.privacy_statement_.epsilon <= 1.0
        assert curve.score(X, y) > 0.85
        assert line.score(X, y) < 0.6

    def test_without_noise_it_is_logistic_regression_on_the_hats(self):
        X, y = bent(1500)
        model = PrivateAdditiveClassifier(
            algorithm="non-private", regularisation=0.01, knots=5, **PUBLIC
        ).fit(X, y)
        rows = model.schema_.encode_features(
            {f"x{j}": X[:, j] for j in range(3)}, sparse=False
        )  # the dense way, which the estimator does not go
        plain = LogisticRegression(C=1 / (0.01 * len(X)), fit_intercept=False, tol=1e-10)
        theta = plain.fit(rows, y).coef_[0]
        found = np.append(model.coef_[0], model.intercept_)
        assert np.linalg.norm(found - theta) < 0.01 * np.linalg.norm(theta)

    def test_sites_may_share_the_work(self):
        X, y = bent()
        sites = np.repeat(["north", "south", "west"], 2000)
        model = PrivateAdditiveClassifier(**{**PUBLIC, "epsilon": 4.0}).fit(X, y, groups=sites)
        assert [agent.name for agent in model.agents_] == ["north", "south", "west"]
        assert model.private_
        assert model.score(X, y) > 0.8

    def test_three_classes(self):
        X, y = records(4000, classes=3)
        model = PrivateAdditiveClassifier(**{**PUBLIC, "classes": [0, 1, 2], "epsilon": 20.0})
        assert model.fit(X, y).score(X, y) > 0.6
        assert model.coef_.shape == (3, 4 * (knots_for(4000, 4, 20.0) + 1))
        assert model.predict_proba(X).sum(axis=1) == pytest.approx(1)

    def test_records_are_never_written_out(self, monkeypatch):
        X, y = bent(600)
        monkeypatch.setattr(Coded, "toarray", None)
        model = PrivateAdditiveClassifier(knots=200, random_state=0, **PUBLIC).fit(X, y)
        assert isinstance(model._encoder_.encode(X), Coded)


class TestKnots:
    def places(self, knots, X=None, **more):
        X, y = (bent(60)[0] if X is None else X), bent(60)[1]
        model = PrivateAdditiveClassifier(knots=knots, random_state=0, **{**PUBLIC, **more})
        return [column.places for column in model.fit(X, y).schema_.columns]

    def test_by_rule_from_public_sizes(self):
        assert {len(p) for p in self.places(None)} == {knots_for(60, 3, 1.0)}

    def test_so_many_for_every_column(self):
        assert self.places(3) == [(-1, 0, 1)] * 3

    def test_one_entry_for_each_column(self):
        usual = knots_for(60, 3, 1.0)
        found = self.places([3, [-0.5, 0.1, 0.5], None])
        assert found[:2] == [(-1, 0, 1), (-0.5, 0.1, 0.5)]
        assert len(found[2]) == usual
        assert self.places([np.int64(3), np.array([-0.5, 0.5]), 2])[:2] == [(-1, 0, 1), (-0.5, 0.5)]

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_by_name(self, frame):
        X = frame(dict(zip("abc", bent(60)[0].T, strict=True)))
        found = self.places({"b": [-1, 1], "c": 3}, X, bounds=dict.fromkeys("abc", (-1, 1)))
        assert found[1:] == [(-1, 1), (-1, 0, 1)]
        assert len(found[0]) == knots_for(60, 3, 1.0)

    @pytest.mark.parametrize(
        ("knots", "words"),
        [
            (1, "expected 2 to 1,000 knots, got 1"),
            (True, "knots to be a number or a list"),
            ([3, 3], "Expected knots for 3 features, a number or a list for each, got 2"),
            ({"z": 3}, "The knots name 'z', which is no feature"),
            ([[-1, 1], [0, 5], 3], "between low and high"),
            ("many", "Expected knots for 3 features"),
        ],
    )
    def test_others_are_refused_with_the_way_out(self, knots, words):
        with pytest.raises(InputError, match=words):
            self.places(knots)

    def test_bounds_that_are_one_leave_one_knot(self):
        assert self.places(None, bounds=([-1, 0, -1], [1, 0, 1]))[1] == (0,)


class TestWhatItTakes:
    def test_a_missing_value_has_an_effect_of_its_own(self):
        X, y = bent(8000)
        gone = np.random.default_rng(5).random(8000) < 0.3
        X[gone, 1], y = np.nan, np.where(gone, 1, y)
        model = PrivateAdditiveClassifier(**PUBLIC).fit(X, y)
        assert model.private_
        absent = model.explain_global().effects[1]
        assert absent.missing > absent.values.max() + 1
        assert model.predict([[0.9, np.nan, 0.0]]) == [1]
        assert model.predict([[0.9, 0.0, 0.0]]) == [0]

    def test_infinity_is_refused(self):
        X, y = bent(60)
        X[3, 1] = np.inf
        with pytest.raises(ValueError, match="contains infinity"):
            PrivateAdditiveClassifier(**PUBLIC).fit(X, y)

    def test_csr_is_refused(self):
        X, y = bent(60)
        with pytest.raises(TypeError, match="Sparse data was passed"):
            PrivateAdditiveClassifier(**PUBLIC).fit(csr_matrix(X), y)

    @pytest.mark.filterwarnings("ignore::ppadmm.PrivacyWarning")
    def test_bounds_that_are_read_off_records_pass_over_what_is_missing(self):
        X, y = bent(60)
        X[:10, 0], X[:, 2] = np.nan, np.nan
        model = PrivateAdditiveClassifier(knots=2).fit(X, y)
        seen = X[10:, 0]
        assert model.schema_.columns[0].places == (seen.min(), seen.max())
        assert model.schema_.columns[2].places == (0,)
        assert not model.private_

    SCHEMA = Schema(
        (
            Numeric("age", 0, 100, shape="line"),
            Categorical("sex", ("f", "m")),
            Numeric("dose", 0, 5, "log", "curve", 4),
        ),
        Label("ill", ("yes",), ("no",)),
    )

    def test_a_schema_has_shapes_of_its_own(self):
        rng = np.random.default_rng(0)
        X = pd.DataFrame(
            {"age": rng.integers(0, 100, 300), "sex": ["f", "m", None] * 100, "dose": [1.5] * 300}
        )
        y = np.where(X["age"] > 50, "yes", "no")
        model = PrivateAdditiveClassifier(schema=self.SCHEMA, delta=1e-3).fit(X, y)
        assert [effect.kind for effect in model.explain_global().effects] == [
            "line", "category", "curve",
        ]  # fmt: skip
        assert list(model.get_feature_names_out()) == [
            "age", *(f"dose@{knot:.6g}" for knot in self.SCHEMA.columns[2].places),
            "dose=missing", "sex=f", "sex=m",
        ]  # fmt: skip
        for more, words in (
            ({"knots": [3]}, "is one number"),
            ({"bounds": (0, 1)}, "bounds of"),
        ):
            with pytest.raises(InputError, match=words):
                PrivateAdditiveClassifier(schema=self.SCHEMA, **more).fit(X, y)

    def test_in_a_pipeline(self, xy):
        frozen = FrozenEstimator(StandardScaler().fit(records(seed=9)[0]))
        model = make_pipeline(frozen, PrivateAdditiveClassifier(**PUBLIC, knots=2)).fit(*xy)
        assert model[-1].private_
        names = [name for j in range(4) for name in (f"x{j}@-1", f"x{j}@1", f"x{j}=missing")]
        assert list(model.get_feature_names_out()) == names

    def test_it_is_cloned_and_pickled(self, xy):
        model = PrivateAdditiveClassifier(**SMALL, knots=[2, 3, None, [-1, 1]]).fit(*xy)
        assert clone(model).get_params() == model.get_params()
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.predict_proba(xy[0]), model.predict_proba(xy[0]))
        effects = [m.explain_global().effects[3].values for m in (again, model)]
        assert np.array_equal(*effects)


class TestTheSameRecordsAgain:
    def test_as_curves_they_are_those_that_were_lines(self, xy):
        PrivateLogisticRegression(**SMALL).fit(*xy)
        with pytest.raises(BudgetError, match="600 of these 600 records were trained on before"):
            PrivateAdditiveClassifier(**SMALL).fit(*xy)

    def test_with_a_missing_value_too(self, xy):
        X, y = xy
        X[0, 0] = np.nan
        PrivateAdditiveClassifier(**SMALL).fit(X, y)
        X[0, 0] = -np.nan
        with pytest.raises(BudgetError, match="600 of these 600"):
            PrivateAdditiveClassifier(**SMALL, knots=3).fit(X, y)

    def test_another_shape_or_bound_in_a_schema_makes_no_other_records(self):
        X, y = pd.DataFrame({"age": [*range(90)] * 2, "sex": ["f", "m", None] * 60}), [0, 1] * 90
        sex, label = Categorical("sex", ("f", "m")), Label("ill", ("1",), ("0",))
        wide = Categorical("sex", ("x", "m", "f"), other=True)
        columns = (Numeric("age", 0, 100, shape="line"), sex), (
            Numeric("age", 0, 90, shape="curve"), wide,
        )  # fmt: skip
        first, second = (Schema(own, label) for own in columns)
        PrivateLogisticRegression(schema=first, delta=1e-3).fit(X, y)
        with pytest.raises(BudgetError, match="180 of these 180"):
            PrivateAdditiveClassifier(schema=second, delta=1e-3).fit(X, y)
        others = X.assign(age=X["age"] + 0.5)
        assert PrivateAdditiveClassifier(schema=second, delta=1e-3).fit(others, y).private_

    def test_in_a_ledger(self, xy, tmp_path):
        file = tmp_path / "owner.ledger"
        with OwnerLedger.create(file, "owner") as ledger:
            for name in ("patients", "others"):
                ledger.grant(name, Budget(20.0, 1e-3), "me", "")
        PrivateLogisticRegression(ledger=file, dataset="patients", **SMALL).fit(*xy)
        with pytest.raises(BudgetError, match="registered as 'patients', not 'others'"):
            PrivateAdditiveClassifier(ledger=file, dataset="others", **SMALL).fit(*xy)
