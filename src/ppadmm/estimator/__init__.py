"""scikit-learn classifiers on the local engine: `pip install 'ppadmm[sklearn]'`.

    from ppadmm import PrivateLogisticRegression
    model = PrivateLogisticRegression(epsilon=1.0, bounds=(0, 100), classes=["no", "yes"])
    model.fit(X, y).predict(X)
    print(model.privacy_statement_)

docs/scikit-learn.md says what is public, what is not covered, and why a search is refused.
"""

from ppadmm.estimator.classifiers import AgentModel, PrivateLinearSVC, PrivateLogisticRegression

__all__ = ["AgentModel", "PrivateLinearSVC", "PrivateLogisticRegression"]
