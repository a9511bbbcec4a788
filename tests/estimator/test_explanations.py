"""What a fitted model says of columns and records adds up to what it decides."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError

from ppadmm import PrivateAdditiveClassifier, PrivateLinearSVC, PrivateLogisticRegression
from ppadmm.data import Categorical, Classes, Label, Numeric, Schema
from ppadmm.data.effects import reference_length
from ppadmm.errors import InputError
from tests.estimator.fits import SMALL, records

KINDS = (PrivateAdditiveClassifier, PrivateLogisticRegression, PrivateLinearSVC)
COLUMNS = (
    Categorical("sex", ("f", "m")),
    Numeric("age", 0, 100, shape="curve", knots=5),
    Numeric("weight", 30, 150, "signed", "line"),
    Numeric("dose", 0, 9, "log", "steps", 3),
)


def fitted(kind, classes=2, given=np.asarray):
    X, y = records(600, classes=classes)
    options = {**SMALL, "classes": [*range(classes)], "random_state": 0}
    return kind(**options).fit(given(X), y), given(X)


def patients(n=300, classes=2):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.uniform(-5, 105, n)),
            "dose": rng.uniform(0, 9, n),
            "weight": rng.uniform(30, 150, n),
            "sex": rng.choice(["f", "m", None], n),
        }
    )
    y = np.digitize(X["weight"], np.linspace(30, 150, classes + 1)[1:-1])
    return X, np.array(["a", "b", "c"])[y]


def by_schema(kind, classes):
    X, y = patients(classes=classes)
    label = Label("ill", ("b",), ("a",)) if classes == 2 else Classes("ill", ("a", "b", "c"))
    return kind(schema=Schema(COLUMNS, label), epsilon=20.0, random_state=0).fit(X, y), X


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_contributions_and_intercept_add_up_to_the_decision(kind, classes):
    for model, X in (fitted(kind, classes), by_schema(kind, classes)):
        local, scores = model.explain_local(X), model.decision_function(X)
        assert len(local) == len(X)
        assert local.names == tuple(c.name for c in model.schema_.columns)
        np.testing.assert_allclose(
            local.intercept + local.scores.sum(axis=1), scores, rtol=0, atol=1e-13
        )


def test_sparse_records_are_explained_as_dense_ones():
    (dense, X), (sparse, Z) = (
        fitted(PrivateLogisticRegression, given=given) for given in (np.asarray, csr_matrix)
    )
    found = [dense.explain_local(X).scores, sparse.explain_local(Z).scores]
    np.testing.assert_allclose(*found, atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_record_at_a_knot_has_the_global_effect_times_its_factor(classes):
    model, _ = by_schema(PrivateAdditiveClassifier, classes)
    at = {"age": [75.0], "dose": [8.9], "weight": [150.0], "sex": ["m"]}
    local, overall = model.explain_local(pd.DataFrame(at)), model.explain_global()
    factor = reference_length(model.schema_) / np.sqrt(5)  # every column and the constant are 1
    expected = [overall.effects[k].values[..., -1] for k in (0, 2, 3)]
    expected.insert(1, overall.effects[1].values[..., 3])
    np.testing.assert_allclose(local.scores[0], np.array(expected) * factor, atol=1e-10)
    np.testing.assert_allclose(local.intercept[0], overall.intercept * factor, atol=1e-10)
    assert overall.factors[0] <= factor <= overall.factors[1]


def test_a_line_is_the_coefficient_times_the_span():
    model, _ = fitted(PrivateLogisticRegression)
    effects = model.explain_global().effects
    spans = [effect.values[1] - effect.values[0] for effect in effects]
    length = reference_length(model.schema_)
    np.testing.assert_allclose(np.array(spans) * length, 2 * model.coef_[0], atol=1e-12)


def test_as_plain_data():
    model, X = by_schema(PrivateAdditiveClassifier, 2)
    overall, local = model.explain_global(), model.explain_local(X)
    assert overall.classes == ("b",)
    assert overall.names == ("sex", "age", "weight", "dose")
    assert overall.data("age") == overall.data(1)
    age, dose, sex = (overall.data(name) for name in ("age", "dose", "sex"))
    assert age["names"] == [0, 25, 50, 75, 100]
    assert len(age["scores"]) == 5
    assert (age["feature_type"], age["shape"]) == ("continuous", "curve")
    assert len(dose["names"]) == len(dose["scores"]) + 1
    assert (sex["feature_type"], sex["names"]) == ("nominal", ["f", "m"])
    summary = overall.data()
    assert summary["names"] == ["sex", "age", "weight", "dose"]
    assert summary["scores"][1] == max(age["scores"]) - min(age["scores"])
    one = local.data(7)
    assert one["names"] == summary["names"]
    total = sum(one["scores"]) + one["extra"]["scores"][0]
    assert total == pytest.approx(model.decision_function(X)[7])
    for written in (age, dose, sex, summary, one):
        assert json.loads(json.dumps(written)) == written
    with pytest.raises(InputError, match="no column 'height'; choose one of sex, age"):
        overall.data("height")
    with pytest.raises(InputError, match=r"no column 4; .* below 4"):
        overall.data(4)


def test_of_three_classes_as_plain_data():
    model, X = by_schema(PrivateAdditiveClassifier, 3)
    overall, local = model.explain_global(), model.explain_local(X)
    assert overall.classes == ("a", "b", "c")
    assert np.shape(overall.data("age")["scores"]) == (5, 3)
    assert np.shape(local.data(0)["scores"]) == (4, 3)
    assert np.shape(overall.data()["scores"]) == (4,)


def test_a_local_explanation_shows_no_record():
    model, X = by_schema(PrivateAdditiveClassifier, 2)
    assert repr(model.explain_local(X)) == ("<LocalExplanation: scores (300, 4), intercept (300,)>")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("frame", [None, pd.DataFrame, pl.DataFrame])
def test_coefficients_have_names_in_order(kind, frame):
    X, y = records(60)
    names = [f"x{j}" for j in range(4)]
    if frame is not None:
        names = ["age", "dose", "weight", "height"]
        X = frame(dict(zip(names, X.T, strict=True)))
    model = kind(**SMALL, random_state=0).fit(X, y)
    found = model.get_feature_names_out()
    assert len(found) == model.coef_.shape[1]
    assert list(dict.fromkeys(name.split("@")[0].split("=")[0] for name in found)) == names
    assert model.n_features_in_ == 4
    assert list(model.get_feature_names_out(names)) == list(found)
    if frame is not None:
        with pytest.raises(InputError, match="input_features to be feature_names_in_"):
            model.get_feature_names_out(["a", "b", "c", "d"])


def test_before_a_fit_there_is_nothing_to_explain():
    model = PrivateAdditiveClassifier()
    for ask in (model.explain_global, model.get_feature_names_out):
        with pytest.raises(NotFittedError):
            ask()
    with pytest.raises(NotFittedError):
        model.explain_local([[0.0]])


def test_one_table_is_one_site_unless_groups_say_otherwise():
    X, y = records(600)
    public = {"bounds": (-1, 1), "classes": [0, 1], "random_state": 0}
    for kind in KINDS:
        alone = kind(**public).fit(X, y)
        assert [agent.records for agent in alone.agents_] == [600]
        assert alone.privacy_statement_.releases == (1,)
        sites = np.repeat(["a", "b"], 300)
        assert len(kind(**public).fit(X, y, groups=sites).agents_) == 2
