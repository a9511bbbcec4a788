"""Which steps before the classifier leave a fit private: those that take every record by itself."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import NMF, PCA
from sklearn.ensemble import StackingClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
    scale,
)

from ppadmm import PrivacyWarning, PrivateLogisticRegression
from ppadmm.errors import BudgetError
from ppadmm.estimator.steps import BY_ITSELF, FITTED

SMALL = {"bounds": (-1, 1), "classes": [0, 1], "delta": 1e-3, "rounds": 2, "n_agents": 3,
         "graph": "complete"}  # fmt: skip


def rows(seed=0, n=60):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (n, 3)) * (rng.random((n, 3)) < 0.8)
    return X, (X[:, 0] > 0.4).astype(int)


def classifier(**options):
    return PrivateLogisticRegression(**SMALL, **options)


class Scaled(Normalizer):
    """A subclass that looks at all rows."""

    def transform(self, X, copy=None):
        return scale(X)


class Thawed(FrozenEstimator):
    """A subclass that is fitted again."""


class Whitened(Pipeline):
    """A pipeline of one's own, which learns besides its steps."""

    def fit(self, X, y):
        self.steps[-1][1].fit(StandardScaler().fit_transform(X), y)
        return self


def frozen(*steps):
    """Steps that were fitted on other records."""
    fitted = steps[0] if len(steps) == 1 else make_pipeline(*steps)
    return FrozenEstimator(fitted.fit(*rows(seed=9)))


TRUSTED = {
    "normalizer": lambda: Normalizer("max"),
    "binarizer": lambda: Binarizer(threshold=0.3),
    "polynomials": lambda: PolynomialFeatures(2, include_bias=False),
    "as pandas": lambda: Normalizer().set_output(transform="pandas"),
    "passthrough": lambda: "passthrough",
    "frozen": lambda: frozen(StandardScaler()),
    "frozen twice": lambda: FrozenEstimator(frozen(MinMaxScaler())),
    "frozen pipeline": lambda: frozen(SimpleImputer(), KBinsDiscretizer(3, strategy="uniform")),
    "frozen as pandas": lambda: frozen(StandardScaler().set_output(transform="pandas")),
}
OTHERS = {
    "function": lambda: FunctionTransformer(scale),
    "identity": lambda: FunctionTransformer(),
    "frozen function": lambda: frozen(FunctionTransformer(scale)),
    "subclass": Scaled,
    "frozen subclass": lambda: frozen(Scaled()),
    "subclass of frozen": lambda: Thawed(StandardScaler().fit(rows()[0])),
    "scaler": StandardScaler,
    "bins": lambda: KBinsDiscretizer(3, encode="ordinal", strategy="uniform"),
    "inner pipeline": lambda: make_pipeline(Normalizer(), FunctionTransformer(scale)),
    "inner pipeline of trusted ones": lambda: make_pipeline(Normalizer()),
    "frozen pipeline": lambda: frozen(StandardScaler(), FunctionTransformer(scale)),
    "union": lambda: make_union(Normalizer(), FunctionTransformer(scale)),
    "frozen union": lambda: frozen(FeatureUnion([("f", FunctionTransformer(scale))])),
    "columns": lambda: ColumnTransformer([("f", FunctionTransformer(scale), [0, 1])]),
    "chosen columns": lambda: ColumnTransformer(
        [("n", Normalizer(), lambda X: [int(np.argmax(X.sum(axis=0)))])]
    ),
    "stateless by its tag": AdditiveChi2Sampler,
    "frozen factors": lambda: frozen(NMF(2, init="nndsvda", max_iter=500)),
}


@pytest.mark.parametrize("name", TRUSTED)
def test_steps_that_take_every_record_by_itself(name):
    assert make_pipeline(TRUSTED[name](), classifier()).fit(*rows())[-1].private_


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_steps_that_may_not(name):
    model = Pipeline([("the step", OTHERS[name]()), ("model", classifier())])
    with pytest.warns(PrivacyWarning, match="the pipeline's step 'the step'"):
        model.fit(*rows())
    assert not model[-1].private_
    assert "the pipeline's step 'the step'" in model[-1].privacy_statement_.text()


def test_a_pipeline_around_a_pipeline():
    with pytest.warns(PrivacyWarning, match="step 'functiontransformer' is a FunctionTransformer"):
        model = make_pipeline(FunctionTransformer(scale), make_pipeline(classifier())).fit(*rows())
    assert not model[-1][-1].private_


def test_a_pipeline_of_ones_own():
    with pytest.warns(PrivacyWarning, match="the Whitened around the fit is no pipeline of scikit"):
        model = Whitened([("model", classifier())]).fit(*rows())
    assert not model[-1].private_


def test_a_vectoriser_that_calls_what_it_is_given():
    texts = np.array(["ill and old", "well and young"] * 30)
    model = make_pipeline(HashingVectorizer(n_features=4), classifier())
    with pytest.warns(PrivacyWarning, match="is a HashingVectorizer, which may look at all"):
        model.fit(texts, [0, 1] * 30)
    assert not model[-1].private_


@pytest.mark.parametrize("meta", ["stacking", "one against one"])
def test_what_another_estimator_hands_over_is_not_private(meta):
    """A stack's last estimator is trained on predictions, of models that saw all records."""
    own = classifier(accept_composition=True)
    model = {
        "stacking": StackingClassifier([("a", LogisticRegression())], own),
        "one against one": OneVsOneClassifier(own),
    }[meta]
    with pytest.warns(PrivacyWarning, match=r"called by sklearn\..* from all records"):
        model.fit(*rows())
    last = model.final_estimator_ if meta == "stacking" else model.estimators_[0]
    assert not last.private_


def test_a_ledger_is_not_charged_for_what_has_no_price(tmp_path):
    own = classifier(accept_composition=True, ledger=tmp_path / "none.ledger")
    with (
        pytest.warns(PrivacyWarning, match="from all records"),
        pytest.raises(BudgetError, match=r"not private .*called by sklearn\.multiclass"),
    ):
        OneVsOneClassifier(own).fit(*rows())


# -- the lists -----------------------------------------------------------------------------------

SETTINGS = {
    Normalizer: [{"norm": norm} for norm in ("l1", "l2", "max")],
    Binarizer: [{"threshold": 0.0}, {"threshold": 0.4}],
    PolynomialFeatures: [{"degree": (2, 4), "order": "F"}, {"degree": 2}, {"degree": 3,
                         "interaction_only": True, "include_bias": False}],
    StandardScaler: [{}, {"with_mean": False}],
    MinMaxScaler: [{}, {"clip": True, "feature_range": (-1, 2)}],
    MaxAbsScaler: [{}],
    RobustScaler: [{}, {"unit_variance": True}],
    KBinsDiscretizer: [{"n_bins": 3, "encode": e, "strategy": "uniform"}
                       for e in ("onehot", "ordinal")],
    OneHotEncoder: [{"handle_unknown": "ignore"},
                    {"handle_unknown": "infrequent_if_exist", "max_categories": 3}],
    OrdinalEncoder: [{"handle_unknown": "use_encoded_value", "unknown_value": -1}],
    SimpleImputer: [{"missing_values": 0.0, "strategy": "median"},
                    {"missing_values": 0.0, "add_indicator": True}],
    PCA: [{}, {"n_components": 2, "whiten": True}],
}  # fmt: skip


def test_every_class_on_the_lists_is_tried():
    assert set(SETTINGS) == set(FITTED) > set(BY_ITSELF)


def test_the_page_lists_them_all():
    page = (Path(__file__).parents[2] / "docs" / "scikit-learn.md").read_text()
    lines = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    found = {name: cells[2].strip() for cells in lines for name in re.findall(r"`(\w+)`", cells[1])}
    listed = {k.__name__: "as it is" if k in BY_ITSELF else "frozen" for k in FITTED}
    assert {name: how for name, how in found.items() if how in ("as it is", "frozen")} == listed


@pytest.mark.parametrize("kind", FITTED, ids=lambda kind: kind.__name__)
def test_a_record_that_is_replaced_changes_one_row(kind):
    """To the last bit, whatever the record is put in its place; without a fit in between."""
    whole = kind in (OneHotEncoder, OrdinalEncoder)
    for options in SETTINGS[kind]:
        X, other = (np.round(rows(s)[0], 1) if whole else rows(s)[0] for s in (0, 1))
        step = kind(**options).fit(rows(seed=9)[0].round(1) if whole else rows(seed=9)[0])
        for k, record in ((0, other[0]), (30, np.zeros(3)), (59, 1e6 * np.ones(3))):
            changed = X.copy()
            changed[k] = record
            others = np.arange(len(X)) != k
            for make in makers(kind, options):
                before, after = (dense(step.transform(make(each))) for each in (X, changed))
                np.testing.assert_array_equal(after[others], before[others], strict=True)


@pytest.mark.parametrize("kind", BY_ITSELF, ids=lambda kind: kind.__name__)
def test_a_fit_teaches_these_nothing(kind):
    for options in SETTINGS[kind]:
        for make in (np.asarray, csr_array):
            X = make(rows()[0])
            fitted = kind(**options).fit(make(100 * rows(seed=5)[0])).transform(X)
            np.testing.assert_array_equal(
                dense(kind(**options).fit_transform(X)), dense(fitted), strict=True
            )


def test_a_function_shows_what_the_test_finds():
    """The test above can fail: with `scale` a replaced record changes all rows."""
    X = rows()[0]
    changed = X.copy()
    changed[0] = 5.0
    step = FunctionTransformer(scale).fit(X)
    assert not np.array_equal(step.transform(X)[1:], step.transform(changed)[1:])


def makers(kind, options):
    """Return the kinds of table that a step takes."""
    never = (KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, MinMaxScaler, PCA, SimpleImputer)
    centred = kind in (StandardScaler, RobustScaler) and options.get("with_mean", True)
    return [np.asarray] if kind in never or centred else [np.asarray, csr_array]


def dense(X):
    return X.toarray() if issparse(X) else np.asarray(X)
