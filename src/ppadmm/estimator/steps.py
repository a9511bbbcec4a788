"""Which steps of a pipeline leave every record to itself.

The ε of a fit is for rows that depend on one record each. A step before the classifier may break
that in two ways: it learns from the records, or it looks at all of them at once when it transforms
(`FunctionTransformer(scale)` learns nothing and does just that). scikit-learn's tags tell neither
for sure, so a step is trusted if its class is on a list here, and no other. A class is known by
identity: a subclass may do anything.
"""

from collections.abc import Iterator
from typing import Any

from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

BY_ITSELF: dict[type, str] = {
    Normalizer: "divides a row by its own norm",
    Binarizer: "compares an entry with a number that was given",
    PolynomialFeatures: "multiplies entries of a row; fit counts the columns",
}
"""Row i of what these return follows from row i, whatever their parameters and the other rows."""

FITTED: dict[type, str] = {
    **BY_ITSELF,
    StandardScaler: "shifts and divides an entry by what fit found for its column",
    MinMaxScaler: "shifts, divides and clips an entry by what fit found for its column",
    MaxAbsScaler: "divides an entry by what fit found for its column",
    RobustScaler: "shifts and divides an entry by what fit found for its column",
    KBinsDiscretizer: "looks an entry up among the edges that fit found",
    OneHotEncoder: "looks an entry up among the categories that fit found",
    OrdinalEncoder: "looks an entry up among the categories that fit found",
    SimpleImputer: "replaces an entry that is missing by what fit found for its column",
    PCA: "multiplies a row by the matrix that fit found",
}
"""So does row i of what these return once they are fitted, on other records, and frozen.

Not here: `FunctionTransformer`, `HashingVectorizer` (they call what they are given), NMF (it
iterates on all rows together), `AdditiveChi2Sampler` (which entries are 0 in other rows decides
where in a vector one is computed), `ColumnTransformer`, `FeatureUnion` (they hold any of these).
"""

LEARNT = (
    "the pipeline's step {name!r} learnt from the records without noise (give bounds or a schema "
    "instead, or freeze a step that was fitted on public records)"
)
UNKNOWN = (
    "the pipeline's step {name!r} is a {kind}, which may look at all records to transform one "
    "(docs/scikit-learn.md lists the steps that do not)"
)
OWN = "the {kind} around the fit is no pipeline of scikit-learn's own, and may do anything"


def reasons_of(pipeline: Pipeline) -> Iterator[str]:
    """Yield why the rows that reach the last step may depend on several records each."""
    if type(pipeline) is not Pipeline:
        yield OWN.format(kind=type(pipeline).__name__)
    for name, step in pipeline.steps[:-1]:
        if not _is_trusted(step):
            kind = step.estimator if type(step) is FrozenEstimator else step
            text = LEARNT if type(step) in FITTED else UNKNOWN
            yield text.format(name=name, kind=type(kind).__name__)


def _is_trusted(step: Any) -> bool:
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return True
    if type(step) is FrozenEstimator:
        return _is_fixed(step.estimator)
    return type(step) in BY_ITSELF


def _is_fixed(step: Any) -> bool:
    """Whether a step that is not fitted again leaves every record to itself."""
    if type(step) is Pipeline:
        return all(_is_trusted(inner) or _is_fixed(inner) for _, inner in step.steps)
    return type(step) in FITTED or (type(step) is FrozenEstimator and _is_fixed(step.estimator))
