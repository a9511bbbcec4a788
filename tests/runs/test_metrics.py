"""Test figures against scikit-learn's."""

import numpy as np
import pytest

from ppadmm.runs.evaluation import judge
from ppadmm.runs.metrics import evaluate


def scenario(n=300, seed=0):
    """Scores with many ties."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, (n, 3)) / 4.0
    return X, np.where(rng.random(n) < 0.4, 1.0, -1.0), rng.integers(-2, 3, (4, 3)).astype(float)


def test_error_area_and_log_loss():
    metrics = pytest.importorskip("sklearn.metrics")
    X, y, theta = scenario()
    found = evaluate(X, y, theta)
    for k, model in enumerate(theta):
        scores = X @ model
        assert found.error[k] == np.mean(y * scores <= 0)
        assert found.auc[k] == pytest.approx(metrics.roc_auc_score(y, scores), abs=1e-12)
        p = 1 / (1 + np.exp(-scores))
        assert found.log_loss[k] == pytest.approx(metrics.log_loss(y, p), abs=1e-12)


def test_models_are_judged_a_few_at_a_time(monkeypatch):
    X, y, theta = scenario()
    whole = judge((X, y), theta)
    monkeypatch.setattr("ppadmm.runs.evaluation.SCORES", 2 * len(y))
    parts = judge((X, y), theta)
    for name in ("error", "auc", "log_loss"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_an_area_needs_both_classes():
    X, _, theta = scenario()
    assert np.isnan(evaluate(X, np.ones(len(X)), theta).auc).all()
