"""scikit-learn classifiers on the local engine (docs/scikit-learn.md): `ppadmm[sklearn]`."""

from ppadmm.estimator.classifiers import (
    AgentModel,
    PrivateAdditiveClassifier,
    PrivateLinearSVC,
    PrivateLogisticRegression,
)
from ppadmm.estimator.explanations import GlobalExplanation, LocalExplanation

__all__ = [
    "AgentModel",
    "GlobalExplanation",
    "LocalExplanation",
    "PrivateAdditiveClassifier",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
]
