import ast
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from dp_accounting import NonPrivateDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy.sparse import csr_matrix
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

import ppadmm
from ppadmm import PrivacyWarning, PrivateLinearSVC, PrivateLogisticRegression
from ppadmm.accounting import Budget
from ppadmm.accounting.composition import together
from ppadmm.accounting.filters import best_order, filtered, odometer
from ppadmm.accounting.protection import Protection
from ppadmm.data import Categorical, Label, Numeric, Schema
from ppadmm.errors import BudgetError, DataError, InputError
from ppadmm.estimator import classifiers, reuse_guard
from ppadmm.ledger.owner import OwnerLedger

PUBLIC = {"bounds": (-1, 1), "classes": [0, 1], "delta": 1e-3}
SMALL = {**PUBLIC, "rounds": 8, "n_agents": 3, "graph": "complete"}
SEARCH = {"eta": [0.1, 1.0]}
WEIGHTS = np.array([3.0, -2.0, 1.0, 0.0])


def records(n=600, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 4))
    scores = X @ WEIGHTS + 0.3 * rng.standard_normal(n)
    return X, np.digitize(scores, np.quantile(scores, np.arange(1, classes) / classes))


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    """Give every test a process that has trained on nothing."""
    monkeypatch.setattr("ppadmm.estimator.classifiers.REGISTER", reuse_guard.Register())


@pytest.fixture
def xy():
    return records()


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


class TestAFit:
    def test_a_text_is_no_number(self, xy):
        with pytest.raises(InputError, match="Expected epsilon to be a number, got '1'"):
            PrivateLogisticRegression(epsilon="1", **SMALL).fit(*xy)

    def test_it_shows_itself_in_a_notebook_without_a_warning(self, xy):
        model = PrivateLogisticRegression(random_state=0, **SMALL).fit(*xy)
        assert "PrivateLogisticRegression" in model._repr_html_()

    def test_a_printed_statement_is_words(self, xy):
        statement = PrivateLogisticRegression(**SMALL).fit(*xy).privacy_statement_
        assert str(statement) == statement.text()
        assert str(statement).startswith("PRIVATE: ε = 1 at δ = 0.001 for one record")

    def test_a_site_that_drowns_the_others_is_named(self):
        X, y = records(600)
        site = np.where(np.arange(600) < 3, "tiny", np.where(np.arange(600) < 300, "a", "b"))
        model = PrivateLogisticRegression(random_state=0, **SMALL)
        with pytest.warns(UserWarning, match=r"The noise of tiny \(3 records\) drowns .* 47 times"):
            model.fit(X, y, groups=site)

    def test_the_defaults_reach_a_large_budget_with_three_classes(self):
        X, y = records(1000, classes=3)
        public = {"bounds": (-1, 1), "classes": [0, 1, 2]}
        model = PrivateLinearSVC(epsilon=50.0, random_state=0, **public).fit(X, y)
        assert model.score(X, y) > 0.8

    @pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
    @pytest.mark.parametrize("algorithm", ["pp", "ipp", "gradient", "one-shot", "centralised"])
    def test_it_is_private_and_says_so(self, kind, algorithm, xy):
        model = kind(epsilon=2.0, algorithm=algorithm, **SMALL).fit(*xy)
        assert model.private_
        assert model.privacy_statement_.private
        assert model.privacy_statement_.epsilon <= 2.0
        event = RdpAccountant().compose(model.dp_event_)
        assert event.get_epsilon(1e-3) >= 0.9 * model.privacy_statement_.epsilon

    def test_it_learns(self):
        X, y = records(20_000)
        model = PrivateLogisticRegression(**PUBLIC).fit(X, y)
        plain = LogisticRegression(C=100).fit(X, y)
        assert model.score(X, y) > plain.score(X, y) - 0.02
        assert model.private_

    @pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
    def test_three_classes(self, kind):
        X, y = records(2000, classes=3)
        public = {**PUBLIC, "classes": [0, 1, 2]}
        model = kind(epsilon=50.0, n_agents=2, rounds=40, eta=0.01, **public).fit(X, y)
        assert model.private_
        assert model.coef_.shape == (3, 4)
        assert model.decision_function(X).shape == (2000, 3)
        assert model.score(X, y) > 0.6

    def test_without_noise_it_is_logistic_regression_on_the_encoded_rows(self, xy):
        X, y = xy
        model = PrivateLogisticRegression(
            algorithm="non-private", rounds=400, eta=0.02, regularisation=0.05, **PUBLIC
        ).fit(X, y)
        rows = np.column_stack([X, np.ones(len(X))])
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        # ppadmm: mean loss + (λ̂/N)·½‖θ‖² per agent; scikit-learn: C·Σloss + ½‖θ‖².
        plain = LogisticRegression(C=5 / (0.05 * len(X)), fit_intercept=False, tol=1e-8)
        theta = plain.fit(rows, y).coef_[0]
        found = np.append(model.coef_[0], model.intercept_)
        assert np.linalg.norm(found - theta) < 0.02 * np.linalg.norm(theta)

    def test_coefficients_are_in_the_units_of_x(self, xy):
        X, y = xy
        scaled = X * [10.0, 1.0, 1.0, 1.0] + [0.0, 500.0, -500.0, 0.0]
        bounds = ([-10, 499, -501, -1], [10, 501, -499, 1])
        model = PrivateLogisticRegression(**{**SMALL, "bounds": bounds}).fit(scaled, y)
        linear = scaled @ model.coef_[0] + model.intercept_[0]
        scores = model.decision_function(scaled)
        assert np.array_equal(linear > 0, scores > 0)
        assert (np.abs(linear) >= np.abs(scores) - 1e-9).all()

    def test_every_agent_has_a_model(self, xy):
        model = PrivateLogisticRegression(**SMALL).fit(*xy)
        assert [agent.records for agent in model.agents_] == [200] * 3
        mean = np.mean([agent.coef for agent in model.agents_], axis=0)
        np.testing.assert_allclose(mean, model.coef_)
        assert all(0 < agent.epsilon <= 1.0 for agent in model.agents_)

    def test_one_agent_is_objective_perturbation_at_one_place(self, xy):
        model = PrivateLogisticRegression(**{**SMALL, "n_agents": 1}).fit(*xy)
        assert model.private_
        assert model.privacy_statement_.releases == (1,)
        with pytest.raises(InputError, match="'ipp' needs two agents or more"):
            PrivateLogisticRegression(algorithm="ipp", **{**SMALL, "n_agents": 1}).fit(*xy)

    def test_groups_name_the_sites(self, xy):
        X, y = xy
        sites = np.repeat(["north", "south", "west"], [300, 200, 100])
        model = PrivateLogisticRegression(**PUBLIC, rounds=5, graph="ring").fit(X, y, groups=sites)
        names = [(agent.name, agent.records) for agent in model.agents_]
        assert names == [("north", 300), ("south", 200), ("west", 100)]
        assert model.private_
        assert "groups" in model.privacy_statement_.caveats[0]
        with pytest.raises(DataError, match="site of 600 records, got 2"):
            PrivateLogisticRegression(**SMALL).fit(X, y, groups=["a", "b"])

    def test_groups_are_routed(self, xy):
        sites = np.repeat(["north", "south"], 300)
        with config_context(enable_metadata_routing=True):
            inner = PrivateLogisticRegression(**PUBLIC, rounds=5).set_fit_request(groups=True)
            model = make_pipeline("passthrough", inner).fit(*xy, groups=sites)
        assert [agent.name for agent in model[-1].agents_] == ["north", "south"]


class TestWhatMakesAFitNotPrivate:
    def test_a_random_state(self, xy):
        model = PrivateLogisticRegression(random_state=3, **SMALL).fit(*xy)
        again = PrivateLogisticRegression(random_state=3, **SMALL).fit(*xy)
        assert np.array_equal(model.coef_, again.coef_)
        assert not model.private_
        assert isinstance(model.dp_event_, NonPrivateDpEvent)

    def test_secure_noise_differs(self, xy):
        model = PrivateLogisticRegression(**SMALL, accept_composition=True)
        assert not np.array_equal(clone(model).fit(*xy).coef_, clone(model).fit(*xy).coef_)

    @pytest.mark.parametrize("absent", ["bounds", "classes"])
    def test_what_is_read_off_the_records_warns_once(self, absent, xy):
        given = {k: v for k, v in SMALL.items() if k != absent}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = PrivateLogisticRegression(**given).fit(*xy)
        assert [w.category for w in caught] == [PrivacyWarning]
        assert f"{absent} were read off the records" in str(caught[0].message)
        assert caught[0].filename == __file__
        assert not model.private_
        assert "inferred" in model.privacy_statement_.text()

    def test_a_step_of_a_pipeline_that_learns(self, xy):
        with pytest.warns(PrivacyWarning, match="step 'standardscaler' learnt from the records"):
            model = make_pipeline(StandardScaler(), PrivateLogisticRegression(**SMALL)).fit(*xy)
        assert not model[-1].private_
        assert "standardscaler" in model[-1].privacy_statement_.text()

    def test_steps_that_do_not(self, xy):
        frozen = FrozenEstimator(StandardScaler().fit(records(seed=9)[0]))
        steps = Normalizer(), frozen
        model = make_pipeline(*steps, PrivateLogisticRegression(**SMALL)).fit(*xy)
        assert model[-1].private_


@pytest.mark.parametrize("seed", [None, 0])
def test_every_agents_model_says_whether_it_is_private(xy, seed):
    model = PrivateLogisticRegression(**SMALL, random_state=seed).fit(*xy)
    assert [agent.private for agent in model.agents_] == [seed is None] * 3


class TestTheSameRecordsAgain:
    def test_of_two_fits_at_once_one_is_refused(self, xy, monkeypatch):
        """Both look before either has trained; only one may show what it learnt."""
        both, true, ends = threading.Barrier(2), classifiers.play, []

        def play(*args, **options):
            both.wait(30)
            return true(*args, **options)

        def fit():
            try:
                ends.append(PrivateLogisticRegression(**SMALL).fit(*xy).private_)
            except BudgetError as error:
                ends.append("trained on before" in str(error))
                refused.append(error)

        refused = []
        monkeypatch.setattr(classifiers, "play", play)
        threads = [threading.Thread(target=fit) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert ends == [True, True]
        assert len(refused) == 1

    def test_a_second_fit_is_refused(self, xy):
        X, y = xy
        PrivateLogisticRegression(**SMALL).fit(X, y)
        with pytest.raises(BudgetError, match="100 of these 100 records were trained on before"):
            PrivateLinearSVC(**SMALL).fit(X[:100], y[:100])
        with pytest.raises(BudgetError, match="trained on before"):
            PrivateLinearSVC(**SMALL).fit(csr_matrix(X).toarray(), y)

    def test_other_records_are_not(self, xy):
        PrivateLogisticRegression(**SMALL).fit(*xy)
        assert PrivateLogisticRegression(**SMALL).fit(*records(seed=1)).private_

    def test_a_simulation_neither_counts_nor_is_refused(self, xy):
        for _ in range(2):
            PrivateLogisticRegression(random_state=0, **SMALL).fit(*xy)
        PrivateLogisticRegression(**SMALL).fit(*xy)
        PrivateLogisticRegression(random_state=0, **SMALL).fit(*xy)

    def test_accepted_it_is_added_up(self, xy):
        model = PrivateLogisticRegression(epsilon=1.0, accept_composition=True, **SMALL)
        assert "earlier fits" not in model.fit(*xy).privacy_statement_.text()
        note = model.fit(*xy).privacy_statement_.caveats[0]
        assert "1 earlier fits" in note
        assert "ε = " in note

    def test_a_refit_may_follow_from_a_result_so_no_plan_is_priced(self, xy):
        """The order is fixed by the first fit; what a plan would cost is less and is not said."""
        model = PrivateLogisticRegression(epsilon=1.0, accept_composition=True, **SMALL)
        fits = [model.fit(*xy)._tallies for _ in range(3)]
        note = model.privacy_statement_.caveats[0]
        said = float(note.split("ε = ")[1].split(",")[0])
        proven = odometer(fits, 1e-3, best_order(Budget(2.0, 1e-3)))
        assert together(fits, 1e-3).epsilon < proven <= said < proven * 1.001
        assert "however each was chosen" in note

    def test_the_first_fit_fixes_order_and_delta(self, xy):
        accepted = {**SMALL, "accept_composition": True}
        first = PrivateLogisticRegression(epsilon=0.5, **accepted).fit(*xy)
        second = PrivateLogisticRegression(**{**accepted, "epsilon": 2.0, "delta": 1e-5}).fit(*xy)
        note = second.privacy_statement_.caveats[0]
        fits, order = [first._tallies, second._tallies], best_order(Budget(1.0, 1e-3))
        said = float(note.split("ε = ")[1].split(",")[0])
        assert said == pytest.approx(odometer(fits, 1e-3, order), rel=1e-3)
        assert "δ = 0.001" in note

    def test_the_figures_of_the_page(self):
        """docs/scikit-learn.md: four fits of ε = 1, planned, under a grant of 3, and as stated."""
        rng = np.random.default_rng(0)
        X = rng.uniform(0, 100, (5000, 3))
        y = np.where(X[:, 0] + 20 * rng.standard_normal(5000) > 50, "ill", "well")
        model = PrivateLogisticRegression(epsilon=1.0, bounds=(0, 100), classes=["ill", "well"])
        runs = [model.fit(X, y)._tallies] * 4
        grant = Budget(3.0, 1e-6)
        assert together(runs, 1e-6).epsilon == pytest.approx(2.11, abs=0.005)
        assert filtered(runs, grant, best_order(grant)) == pytest.approx(2.215, abs=0.005)
        stated = odometer(runs, 1e-6, best_order(Budget(2.0, 1e-6)))
        assert stated == pytest.approx(2.42, abs=0.005)

    def test_more_than_can_be_said(self, xy, monkeypatch):
        model = PrivateLogisticRegression(epsilon=1.0, accept_composition=True, **SMALL).fit(*xy)
        monkeypatch.setattr(reuse_guard, "odometer", lambda *_: float("inf"))
        note = model.fit(*xy).privacy_statement_.caveats[0]
        assert "no ε covers them together" in note

    @pytest.mark.parametrize("booked", [False, True])
    def test_fits_of_another_adjacency_do_not_add_up(self, xy, tmp_path, booked):
        PrivateLogisticRegression(**SMALL).fit(*xy)
        other = PrivateLogisticRegression(adjacency="zero-out", accept_composition=True, **SMALL)
        if booked:
            with OwnerLedger.create(tmp_path / "a.ledger", "owner") as ledger:
                ledger.grant("people", Budget(3.0, 1e-3), protection=Protection("zero-out"))
            other.set_params(ledger=tmp_path / "a.ledger", dataset="people")
        with pytest.raises(
            BudgetError, match="adjacency replace-one, and costs of that and of zero"
        ):
            other.fit(*xy)
        assert len(classifiers.REGISTER.fits) == 1
        if booked:
            with OwnerLedger.open(tmp_path / "a.ledger") as ledger:
                assert not ledger.books.runs

    def test_a_ledger_keeps_the_books(self, xy, tmp_path):
        file = tmp_path / "owner.ledger"
        with OwnerLedger.create(file, "owner") as ledger:
            ledger.grant("patients", Budget(1.6, 1e-3), "me", "")
        model = PrivateLogisticRegression(ledger=file, dataset="patients", **SMALL)
        assert model.fit(*xy).private_
        assert model.fit(*xy).private_
        with pytest.raises(BudgetError, match="patients"):
            model.fit(*xy)
        with pytest.raises(BudgetError, match="not private"):
            clone(model).set_params(random_state=0).fit(*xy)


class TestCallers:
    @pytest.mark.parametrize("jobs", [None, 2])
    def test_a_search_is_refused_with_the_way_out(self, jobs, xy):
        search = GridSearchCV(PrivateLogisticRegression(**SMALL), SEARCH, n_jobs=jobs, cv=2)
        with pytest.raises(ValueError, match=r"(?s)All the 4 fits failed.*ppadmm tune"):
            search.fit(*xy)
        with pytest.raises(BudgetError, match="random_state set"):
            search.set_params(error_score="raise").fit(*xy)

    def test_so_is_cross_validation_in_a_pipeline(self, xy):
        model = make_pipeline(FunctionTransformer(), PrivateLinearSVC(**SMALL))
        with pytest.raises(ValueError, match="scores on them without noise"):
            cross_val_score(model, *xy, cv=2)

    def test_even_if_composition_is_accepted(self, xy):
        model = PrivateLogisticRegression(accept_composition=True, **SMALL)
        with pytest.raises(ValueError, match="ppadmm tune"):
            cross_val_score(model, *xy, cv=2)

    def test_a_simulation_may_be_searched(self, xy):
        model = PrivateLogisticRegression(random_state=0, epsilon=50.0, **SMALL)
        search = GridSearchCV(model, SEARCH, cv=2).fit(*xy)
        assert search.best_score_ > 0.6
        assert not search.best_estimator_.private_

    @pytest.mark.parametrize("meta", [OneVsRestClassifier, CalibratedClassifierCV])
    def test_what_trains_several_times_is_refused_unless_accepted(self, meta, xy):
        with pytest.raises(BudgetError, match=r"called by sklearn\.(multiclass|calibration)"):
            meta(PrivateLogisticRegression(**SMALL)).fit(*xy)
        accepted = PrivateLogisticRegression(accept_composition=True, **SMALL)
        with pytest.warns(PrivacyWarning, match="from all records"):
            assert len(meta(accepted).fit(*xy).classes_) == 2

    def test_an_ensemble_that_gives_out_seeds_makes_simulations(self, xy):
        bag = BaggingClassifier(PrivateLogisticRegression(**SMALL), n_estimators=2).fit(*xy)
        assert not any(model.private_ for model in bag.estimators_)


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


class TestKeeping:
    def test_it_is_cloned_pickled_and_dumped(self, xy, tmp_path):
        X, y = xy
        model = PrivateLogisticRegression(**SMALL).fit(X, y)
        assert clone(model).get_params() == model.get_params()
        joblib.dump(model, tmp_path / "model.joblib")
        copies = [pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")]
        for copy in copies:
            assert np.array_equal(copy.predict_proba(X), model.predict_proba(X))
            assert copy.privacy_statement_ == model.privacy_statement_
            assert str(copy.dp_event_) == str(model.dp_event_)

    def test_no_record_is_kept(self):
        X, y = records(5000)
        model = PrivateLogisticRegression(**SMALL).fit(X, y)
        assert len(pickle.dumps(model)) < 20_000

    def test_it_fits_in_workers(self):
        parts = [records(seed=k) for k in range(4)]
        fit = joblib.delayed(PrivateLogisticRegression(**SMALL).fit)
        models = joblib.Parallel(2)(fit(X, y) for X, y in parts)
        assert all(model.private_ for model in models)


def test_no_private_module_of_scikit_learn_is_imported():
    for path in (Path(ppadmm.__file__).parent / "estimator").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            module = getattr(node, "module", None) or ""
            names = [alias.name for alias in getattr(node, "names", [])]
            if module.startswith("sklearn"):
                assert not any(part.startswith("_") for part in [*module.split("."), *names])
            assert not any(name.startswith("sklearn") for name in names)


def test_without_scikit_learn_the_name_says_how_to_get_it():
    code = (
        "import sys; sys.modules['sklearn'] = None; import ppadmm\n"
        "try: ppadmm.PrivateLinearSVC\n"
        "except ppadmm.PpadmmError as error: print(error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'ppadmm[sklearn]'" in found.stdout
