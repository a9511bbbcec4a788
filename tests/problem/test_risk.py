import mpmath
import numpy as np
import pytest

from ppadmm.data import Shard, normalise_rows
from ppadmm.errors import DataError, SolverError
from ppadmm.problem import (
    HuberHinge,
    Logistic,
    MarginRisk,
    Multinomial,
    OneVsRest,
    Subproblem,
    risk_of,
)
from ppadmm.solvers import LBFGS, Warm, solver_named
from tests.small_problems import random_shard

LOSSES = [
    Logistic(), HuberHinge(0.5), Multinomial(3), OneVsRest(Logistic(), 4),
    OneVsRest(HuberHinge(0.5), 3),
]  # fmt: skip


def problem(loss, sparse=False, R=3, d=5):
    rng = np.random.default_rng(1)
    risk = risk_of(random_shard(d=d, sparse=sparse, classes=max(2, loss.outputs)), loss)
    return Subproblem(risk, rng.uniform(0.1, 1, R), rng.standard_normal((R, risk.d)))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_gradient_and_hessian_are_derivatives(loss, sparse):
    sub = problem(loss, sparse)
    d = sub.risk.d
    theta = np.random.default_rng(2).standard_normal((3, d))
    h = 1e-6
    for j in range(d):
        e = np.zeros(d)
        e[j] = h
        slope = (sub.value(theta + e) - sub.value(theta - e)) / (2 * h)
        np.testing.assert_allclose(slope, sub.gradient(theta)[:, j], atol=1e-8)
        bend = (sub.gradient(theta + e) - sub.gradient(theta - e)) / (2 * h)
        for r in range(3):
            np.testing.assert_allclose(bend[r], sub.hessian(theta[r], r)[j], atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_sparse_equals_dense(loss):
    sparse = random_shard(sparse=True, classes=max(2, loss.outputs))
    dense = Shard(sparse.X.toarray(), sparse.y, sparse.classes)
    a, b = risk_of(sparse, loss), risk_of(dense, loss)
    theta = np.random.default_rng(3).standard_normal((4, a.d))
    np.testing.assert_allclose(a.value(theta), b.value(theta), rtol=1e-14)
    np.testing.assert_allclose(a.gradient(theta), b.gradient(theta), atol=1e-15)
    np.testing.assert_allclose(a.hessian(theta[0]), b.hessian(theta[0]), atol=1e-15)
    np.testing.assert_allclose(a.gram, b.gram, atol=1e-15)


def test_the_subproblem_is_the_augmented_lagrangian():
    """F differs from fᵢ + (λ̂/N)½‖θ‖² + 2λᵀθ + ηΣ‖½(θᵢ+θⱼ)−θ‖² by a constant only."""
    rng = np.random.default_rng(4)
    risk = MarginRisk(random_shard(), Logistic())
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
        risk = MarginRisk(shard, Logistic())
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


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_single_precision_is_close_and_blocks_change_nothing(loss, monkeypatch):
    shard = random_shard(n=200, classes=max(2, loss.outputs))
    whole = risk_of(shard, loss)
    monkeypatch.setattr("ppadmm.problem.risk.CACHE_BYTES", 1000)
    cut = risk_of(shard, loss)
    assert len(cut._blocks) > 5
    theta = np.random.default_rng(9).standard_normal((3, whole.d))
    np.testing.assert_allclose(cut.gradient(theta), whole.gradient(theta), atol=1e-15)
    np.testing.assert_allclose(cut.value(theta), whole.value(theta), rtol=1e-14)
    np.testing.assert_allclose(cut.hessian(theta[0]), whole.hessian(theta[0]), atol=1e-15)
    np.testing.assert_allclose(cut.gradient(theta, single=True), whole.gradient(theta), atol=1e-6)


@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3)], ids=str)
def test_a_flag_raised_by_a_product_stops_nothing_and_no_nan_is_certified(loss):
    """OpenBLAS may raise the flag for nothing; ∞ − ∞ raises it for sure."""
    sub = problem(loss)
    nowhere = np.tile([np.inf, -np.inf], 3 * sub.risk.d)[: 3 * sub.risk.d].reshape(3, -1)
    assert np.isnan(sub.risk.gradient(nowhere, single=True)).any()
    sub.risk.hessian(nowhere[0], single=True)
    with np.errstate(invalid="ignore"), pytest.raises(SolverError, match="Nothing was released"):
        LBFGS().solve(sub, Warm(nowhere, nowhere), 1e-6)
    found = solver_named("newton", sub.risk.d).solve(sub, Warm(nowhere, nowhere), 1e-6)
    assert (np.linalg.norm(sub.gradient(found.point), axis=1) <= 1e-6).all()


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_gram_matrix_bounds_every_hessian(loss):
    risk = risk_of(random_shard(classes=max(2, loss.outputs)), loss)
    for scale in (0.0, 1.0, 30.0):
        theta = scale * np.random.default_rng(8).standard_normal(risk.d)
        gap = loss.smoothness * risk.gram - risk.hessian(theta)
        assert np.linalg.eigvalsh(gap).min() > -1e-12


def test_the_rounding_bound_of_scores_holds_against_fifty_digits():
    rng = np.random.default_rng(6)
    for scale in (1.0, 1e3, 1e6):
        X = normalise_rows(rng.standard_normal((30, 4)))
        shard = Shard(X, rng.integers(0, 5, 30).astype(float), 5)
        risk = risk_of(shard, Multinomial(5))
        theta = rng.standard_normal(20) * scale
        error = np.array(_exact_score_gradient(shard, theta), dtype=object)
        error = np.linalg.norm((error - risk.gradient(theta[None])[0]).astype(float))
        fixed, growing = risk.rounding_terms
        bound = fixed + growing * np.linalg.norm(theta)
        assert error <= bound < 1e-13 * max(scale, 1.0)


def _exact_score_gradient(shard, theta):
    with mpmath.workdps(50):
        rows = [[mpmath.mpf(float(t)) for t in row] for row in theta.reshape(-1, shard.d)]
        total = [mpmath.mpf(0)] * theta.size
        for x, code in zip(shard.X, shard.codes(), strict=True):
            x = [mpmath.mpf(float(v)) for v in x]
            scores = [mpmath.fsum(a * b for a, b in zip(row, x, strict=True)) for row in rows]
            top = max(scores)
            weights = [mpmath.exp(s - top) for s in scores]
            for k, w in enumerate(weights):
                slope = w / mpmath.fsum(weights) - (1 if k == code else 0)
                for j, v in enumerate(x):
                    total[k * shard.d + j] += slope * v
        return [mpmath.mpf(t / shard.n) for t in total]


def test_the_loss_must_fit_the_classes():
    with pytest.raises(DataError, match="for two classes, got 3"):
        risk_of(random_shard(classes=3), Logistic())
    with pytest.raises(DataError, match="for 4 classes, got 3"):
        risk_of(random_shard(classes=3), Multinomial(4))


def test_passes_are_counted():
    risk = MarginRisk(random_shard(), Logistic())
    risk.gradient(np.zeros((4, 5)))
    risk.value(np.zeros((1, 5)))
    risk.hessian(np.zeros(5))
    assert risk.passes == 6
