"""Decentralised ADMM without noise finds what a solver on the pooled records finds."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, Ridge

from ppadmm.engines import local
from ppadmm.problem import KINDS, HuberHinge, Logistic, make_graph
from tests.small_problems import make_agents, make_settings

N, n, d, weight = 6, 40, 4, 0.5


def last_models(kind, loss):
    graph = make_graph(kind, N, seed=1)
    settings = make_settings(
        rounds=500, eta=(0.04,), regularisation=(weight,), beta=1e-11, solver="newton"
    )
    agents = make_agents(graph, settings, "non-private", loss=loss, n=n, d=d)
    parts = [agent.algorithm.site.risk.shard for agent in agents]
    X = np.vstack([part.X for part in parts])
    y = np.concatenate([part.y for part in parts])
    return local.run(agents).releases[-1, :, 0], X, y


@pytest.mark.parametrize("kind", KINDS)
def test_logistic_agrees_with_scikit_learn(kind):
    models, X, y = last_models(kind, Logistic())
    # Σᵢ fᵢ = (1/n) Σ ℓ + (λ̂/2)‖θ‖², so C = 1/(nλ̂).
    fit = LogisticRegression(C=1 / (n * weight), fit_intercept=False, tol=1e-12, max_iter=10_000)
    coefficients = fit.fit(X, y).coef_
    np.testing.assert_allclose(models, np.repeat(coefficients, N, axis=0), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_wide_huber_hinge_agrees_with_scikit_learn(kind):
    """With a wide band every margin is inside it and ℓ = (1+h−m)²/(4h) is least squares."""
    h = 5.0
    models, X, y = last_models(kind, HuberHinge(h))
    ridge = Ridge(alpha=2 * h * n * weight, fit_intercept=False, tol=1e-12)
    ridge.fit(X, (1 + h) * y)
    assert np.abs(1 - y * (X @ ridge.coef_)).max() < h
    np.testing.assert_allclose(models, np.tile(ridge.coef_, (N, 1)), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)], ids=lambda loss: loss.name)
def test_every_loss_agrees_with_scipy(kind, loss):
    models, X, y = last_models(kind, loss)
    V = y[:, None] * X

    def value(theta):
        return loss.value(V @ theta).sum() / n + weight / 2 * theta @ theta

    def slope(theta):
        return V.T @ loss.gradient(V @ theta) / n + weight * theta

    best = minimize(value, np.zeros(d), jac=slope, method="BFGS", options={"gtol": 1e-10})
    assert np.linalg.norm(slope(best.x)) < 1e-7
    np.testing.assert_allclose(models, np.tile(best.x, (N, 1)), atol=1e-6)
