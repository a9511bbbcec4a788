"""Decentralised ADMM without noise finds what a solver on the pooled records finds.

Whatever the sizes of its sites are: weighed by their records they make up the pooled objective,
and weighed alike the sum of their means.
"""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, Ridge

from ppadmm.data import Shard
from ppadmm.engines import local
from ppadmm.problem import KINDS, HuberHinge, Logistic, Multinomial, make_graph
from tests.small_problems import make_agents, make_settings, random_shard

N, n, d, weight = 6, 40, 4, 0.5
UNEQUAL = (1, 3, 4000, 50, 800, 1)


def last_models(kind, loss, sizes=n, weights="records"):
    graph = make_graph(kind, N, seed=1)
    settings = make_settings(
        rounds=500, eta=(0.04,), regularisation=(weight,), beta=1e-11, solver="newton"
    )
    agents = make_agents(graph, settings, "non-private", loss, weights=weights, n=sizes, d=d)
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3)], ids=lambda loss: loss.name)
def test_sites_of_any_size_find_the_optimum_of_the_pooled_records(kind, loss):
    """Σᵢ wᵢfᵢ = (N/n) Σ ℓ over all n records, from 1 to 4,000 of them at a site."""
    models, X, y = last_models(kind, loss, UNEQUAL)
    scale = N / (len(X) * weight)
    fit = LogisticRegression(C=scale, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(models, np.tile(fit.coef_.ravel(), (N, 1)), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_weighed_alike_a_record_of_a_small_site_counts_more(kind):
    """Σᵢ fᵢ: scikit-learn with a weight of 1/nᵢ for each of the nᵢ records of site i."""
    models, X, y = last_models(kind, Logistic(), UNEQUAL, "equal")
    each = np.concatenate([np.full(size, 1.0 / size) for size in UNEQUAL])
    fit = LogisticRegression(C=1.0 / weight, fit_intercept=False, tol=1e-12, max_iter=10_000)
    coefficients = fit.fit(X, y, sample_weight=each).coef_
    np.testing.assert_allclose(models, np.repeat(coefficients, N, axis=0), atol=1e-6)


def test_who_holds_which_record_does_not_matter_but_for_the_scale():
    """By records Σ wᵢfᵢ is N/n times a sum over all records, so λ̂/N is what must be the same."""
    whole = random_shard(n=400, d=d, seed=1)

    def found(*sizes):
        parts = np.split(np.arange(400), np.cumsum(sizes)[:-1])
        shards = [Shard(whole.X[rows], whole.y[rows]) for rows in parts]
        settings = make_settings(
            rounds=900, eta=(0.04,), regularisation=(0.1 * len(sizes),), beta=1e-11, solver="newton"
        )
        graph = make_graph("complete", len(sizes))
        return local.run(make_agents(graph, settings, "non-private", shards=shards)).releases[-1]

    models = np.concatenate([found(100, 30, 270), found(100, 30, 200, 70), found(399, 1)])
    np.testing.assert_allclose(models, np.broadcast_to(models[:1], models.shape), atol=1e-6)
