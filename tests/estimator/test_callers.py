"""Who calls `fit`: searches and ensembles are refused, pipelines hand on the groups."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from ppadmm import PrivacyWarning, PrivateLinearSVC, PrivateLogisticRegression
from ppadmm.errors import BudgetError, DataError
from tests.estimator.fits import PUBLIC, SMALL, records

SEARCH = {"eta": [0.1, 1.0]}


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


SITES = np.tile(["north", "south", "north"], 200)


def sites(model):
    return {agent.name: agent.records for agent in model.agents_}


class TestGroupsAreRouted:
    """scikit-learn hands `groups` on to the step that asks for it, and to no other."""

    @pytest.fixture(autouse=True)
    def _routing(self):
        with config_context(enable_metadata_routing=True):
            yield

    def classifier(self, **options):
        return PrivateLogisticRegression(**{**PUBLIC, "rounds": 5, "n_agents": 4, **options})

    def test_through_the_steps_of_a_pipeline_that_keep_a_fit_private(self, xy):
        frozen = FrozenEstimator(StandardScaler().fit(records(seed=9)[0]))
        inner = make_pipeline(frozen, self.classifier().set_fit_request(groups=True))
        model = make_pipeline("passthrough", Normalizer(), inner).fit(*xy, groups=SITES)
        fitted = model[-1][-1]
        assert sites(fitted) == {"north": 400, "south": 200}
        assert fitted.private_
        assert "groups" in fitted.privacy_statement_.caveats[0]

    def test_what_nobody_asked_for_is_refused(self, xy):
        """Records that go to other agents than those who hold them would be a false statement."""
        model = make_pipeline(Normalizer(), self.classifier())
        with pytest.raises(UnsetMetadataPassedError, match="groups"):
            model.fit(*xy, groups=SITES)

    def test_what_is_declined_is_not_handed_on(self, xy):
        model = make_pipeline(Normalizer(), self.classifier().set_fit_request(groups=False))
        with pytest.raises(TypeError, match="groups"):
            model.fit(*xy, groups=SITES)
        assert list(sites(model.fit(*xy)[-1]).values()) == [150] * 4

    def test_under_another_name(self, xy):
        model = make_pipeline(Normalizer(), self.classifier().set_fit_request(groups="site"))
        assert sites(model.fit(*xy, site=SITES)[-1]) == {"north": 400, "south": 200}

    def test_a_group_that_is_missing_is_named_by_its_record(self, xy):
        holes = SITES.astype(object)
        holes[7] = None
        model = make_pipeline(Normalizer(), self.classifier().set_fit_request(groups=True))
        with pytest.raises(DataError, match="The group of record 7 is missing"):
            model.fit(*xy, groups=holes)

    def test_a_search_cuts_them_as_it_cuts_the_records(self, xy):
        """Whole groups are held out, so that a fold has two of the three sites."""
        three = np.repeat(["a", "b", "c"], [220, 200, 180])
        inner = self.classifier(random_state=0).set_fit_request(groups=True)
        seen = []

        def held_out(model, X, y):
            seen.append(sites(model[-1]))
            return 0.0

        search = GridSearchCV(
            make_pipeline(Normalizer(), inner), {"privatelogisticregression__eta": [0.1]},
            cv=GroupKFold(3), scoring=held_out,
        ).fit(*xy, groups=three)  # fmt: skip
        sizes = {"a": 220, "b": 200, "c": 180}
        left = [{site: n for site, n in sizes.items() if site != out} for out in sizes]
        assert sorted(map(str, seen)) == sorted(map(str, left))
        assert sites(search.best_estimator_[-1]) == sizes


def test_without_routing_groups_are_given_by_the_name_of_the_step(xy):
    model = make_pipeline(Normalizer(), PrivateLogisticRegression(**PUBLIC, rounds=5))
    model.fit(*xy, privatelogisticregression__groups=SITES)
    assert sites(model[-1]) == {"north": 400, "south": 200}
    assert model[-1].private_
