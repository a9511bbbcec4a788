import mpmath
import numpy as np
import pytest
from conftest import random_shard

from ppadmm.data import Shard, normalise_rows
from ppadmm.problem import HuberHinge, Logistic, Risk, Subproblem

LOSSES = [Logistic(), HuberHinge(0.5)]


def problem(loss, sparse=False, R=3, d=5):
    rng = np.random.default_rng(1)
    risk = Risk(random_shard(d=d, sparse=sparse), loss)
    return Subproblem(risk, rng.uniform(0.1, 1, R), rng.standard_normal((R, d)))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_gradient_and_hessian_are_derivatives(loss, sparse):
    sub = problem(loss, sparse)
    theta = np.random.default_rng(2).standard_normal((3, 5))
    h = 1e-6
    for j in range(5):
        e = np.zeros(5)
        e[j] = h
        slope = (sub.value(theta + e) - sub.value(theta - e)) / (2 * h)
        np.testing.assert_allclose(slope, sub.gradient(theta)[:, j], atol=1e-8)
        bend = (sub.gradient(theta + e) - sub.gradient(theta - e)) / (2 * h)
        for r in range(3):
            np.testing.assert_allclose(bend[r], sub.hessian(theta[r], r)[j], atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_sparse_equals_dense(loss):
    sparse = random_shard(sparse=True)
    dense = Shard(sparse.X.toarray(), sparse.y)
    theta = np.random.default_rng(3).standard_normal((4, 5))
    a, b = Risk(sparse, loss), Risk(dense, loss)
    np.testing.assert_allclose(a.value(theta), b.value(theta), rtol=1e-14)
    np.testing.assert_allclose(a.gradient(theta), b.gradient(theta), atol=1e-15)
    np.testing.assert_allclose(a.hessian(theta[0]), b.hessian(theta[0]), atol=1e-15)
    np.testing.assert_allclose(a.gram, b.gram, atol=1e-15)


def test_the_subproblem_is_the_augmented_lagrangian():
    """F differs from fᵢ + (λ̂/N)½‖θ‖² + 2λᵀθ + ηΣ‖½(θᵢ+θⱼ)−θ‖² by a constant only."""
    rng = np.random.default_rng(4)
    risk = Risk(random_shard(), Logistic())
    own, dual = rng.standard_normal((2, 5))
    others = rng.standard_normal((3, 5))
    eta, weight = 0.3, 0.07
    linear = 2 * dual - eta * (own + others).sum(axis=0)
    sub = Subproblem(risk, np.array([weight + 2 * eta * 3]), linear[None])

    def lagrangian(theta):
        penalty = sum(((0.5 * (own + other) - theta) ** 2).sum() for other in others)
        return (
            risk.value(theta[None])[0]
            + weight / 2 * theta @ theta
            + 2 * dual @ theta
            + eta * penalty
        )

    differences = [
        lagrangian(theta) - sub.value(theta[None])[0] for theta in rng.standard_normal((6, 5))
    ]
    np.testing.assert_allclose(differences, differences[0], atol=1e-12)


def test_the_rounding_bound_holds_against_fifty_digits():
    rng = np.random.default_rng(5)
    mpmath.mp.dps = 50
    for scale in (1.0, 1e3, 1e6):
        X = normalise_rows(rng.standard_normal((40, 6)))
        shard = Shard(X, np.where(rng.random(40) < 0.5, 1.0, -1.0))
        risk = Risk(shard, Logistic())
        theta = rng.standard_normal(6) * scale
        exact = _exact_gradient(shard, theta)
        error = np.linalg.norm(
            [
                float(mpmath.mpf(a) - b)
                for a, b in zip(risk.gradient(theta[None])[0], exact, strict=True)
            ]
        )
        fixed, growing = risk.rounding_terms
        bound = fixed + growing * np.linalg.norm(theta)
        assert error <= bound
        assert bound < 1e-13 * max(scale, 1.0)


def _exact_gradient(shard, theta):
    total = [mpmath.mpf(0)] * shard.d
    for row, label in zip(shard.X, shard.y, strict=True):
        v = [mpmath.mpf(float(x)) * int(label) for x in row]
        margin = mpmath.fsum(mpmath.mpf(float(t)) * x for t, x in zip(theta, v, strict=True))
        slope = -1 / (1 + mpmath.exp(margin))
        total = [a + slope * x for a, x in zip(total, v, strict=True)]
    return [a / shard.n for a in total]


def test_passes_are_counted():
    risk = Risk(random_shard(), Logistic())
    risk.gradient(np.zeros((4, 5)))
    risk.value(np.zeros((1, 5)))
    risk.hessian(np.zeros(5))
    assert risk.passes == 6
