"""scikit-learn's own checks on the installed version; scripts/check-sklearn runs the oldest, too.

No check is exempted. Two things stand in for an exemption, each with its reason of privacy:

- `poor_score` for noisy fits: no ε of interest leaves much of the checks' 20 to 300 records, so
  the checks of accuracy are skipped. They run, and pass, on the same code without noise.
- PrivacyWarning is not an error here: the checks give neither bounds nor classes.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ppadmm import PrivateAdditiveClassifier, PrivateLinearSVC, PrivateLogisticRegression

FEW = {"rounds": 5, "n_agents": 2, "graph": "complete"}
ESTIMATORS = [
    PrivateLogisticRegression(),
    PrivateLinearSVC(),
    PrivateAdditiveClassifier(),
    PrivateLogisticRegression(n_agents=5),
    PrivateLogisticRegression(algorithm="ipp", **FEW),
    PrivateLogisticRegression(algorithm="non-private", n_agents=2, rounds=100, eta=0.01),
    PrivateLinearSVC(algorithm="non-private", n_agents=2, rounds=100, eta=0.01),
    PrivateAdditiveClassifier(algorithm="non-private", n_agents=2, rounds=100, eta=0.01),
    PrivateAdditiveClassifier(algorithm="non-private", knots=3),
]


@pytest.mark.filterwarnings("ignore::ppadmm.PrivacyWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
