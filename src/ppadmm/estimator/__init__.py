"""scikit-learn classifiers on the local engine (docs/scikit-learn.md): `ppadmm[sklearn]`."""

from ppadmm.estimator.classifiers import AgentModel, PrivateLinearSVC, PrivateLogisticRegression

__all__ = ["AgentModel", "PrivateLinearSVC", "PrivateLogisticRegression"]
