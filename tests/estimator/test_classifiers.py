import ast
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import joblib
import numpy as np
import pytest
from dp_accounting import NonPrivateDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import ppadmm
from ppadmm import PrivacyWarning, PrivateLinearSVC, PrivateLogisticRegression
from ppadmm.accounting import Budget
from ppadmm.accounting.composition import together
from ppadmm.accounting.filters import best_order, filtered, odometer
from ppadmm.accounting.protection import Protection
from ppadmm.algorithms import ALGORITHMS
from ppadmm.errors import BudgetError, DataError, InputError
from ppadmm.estimator import reuse_guard, training
from ppadmm.ledger.owner import OwnerLedger
from tests.estimator.fits import PUBLIC, SMALL, records


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
        model = PrivateLogisticRegression(random_state=0, weights="equal", **SMALL)
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
            algorithm="non-private", n_agents=5, rounds=400, eta=0.02, regularisation=0.05, **PUBLIC
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

    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_one_agent_trains_at_one_place(self, xy, algorithm):
        alone = {**SMALL, "n_agents": 1, "accept_composition": True}
        model = PrivateLogisticRegression(algorithm=algorithm, **alone).fit(*xy)
        assert model.private_ == (algorithm != "non-private")
        if model.private_:
            often = SMALL["rounds"] if ALGORITHMS[algorithm].everyone else 1
            assert model.privacy_statement_.releases == (often,)
            assert "One site has nobody to exchange with" in str(model.privacy_statement_)

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
        both, true, ends = threading.Barrier(2), training.execute, []

        def execute(*args, **options):
            both.wait(30)
            return true(*args, **options)

        def fit():
            try:
                ends.append(PrivateLogisticRegression(**SMALL).fit(*xy).private_)
            except BudgetError as error:
                ends.append("trained on before" in str(error))
                refused.append(error)

        refused = []
        monkeypatch.setattr(training, "execute", execute)
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
        hospital = rng.choice(["north", "south", "west"], 5000)
        model = PrivateLogisticRegression(epsilon=1.0, bounds=(0, 100), classes=["ill", "well"])
        runs = [model.fit(X, y, groups=hospital)._tallies] * 4
        grant = Budget(3.0, 1e-6)
        assert together(runs, 1e-6).epsilon == pytest.approx(2.104, abs=0.001)
        assert filtered(runs, grant, best_order(grant)) == pytest.approx(2.210, abs=0.001)
        stated = odometer(runs, 1e-6, best_order(Budget(2.0, 1e-6)))
        assert stated == pytest.approx(2.413, abs=0.001)

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
        assert len(training.REGISTER.fits) == 1
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
