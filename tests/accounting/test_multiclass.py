"""Theorems A, B and C for losses of K scores, against exact densities by quadrature."""

import math
from dataclasses import dataclass, replace

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp

from ppadmm.accounting import Budget, Charge, Tally, calibrate, perturbed_step
from ppadmm.accounting.accountant import (
    _by_theorem_c,
    epsilon,
    log_chi_moment,
    log_determinant,
    rdp,
    theorem_a,
    theorem_b,
)
from ppadmm.accounting.events import ObjectivePerturbation
from ppadmm.problem import Logistic, Multinomial, OneVsRest, ScoreLoss
from tests.accounting.exact import hockey_stick

LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Problem:
    """F(Θ) = Σ wᵢ g(Θxᵢ, yᵢ) + (μ/2)‖Θ‖² + cᵀΘ in the space that gradients span.

    Θ = U·W with U (K, q) an orthonormal basis; W (q·d,) are the coordinates. The last record is
    `old` in D; in D' it is `new`, or its loss is left out.
    """

    loss: ScoreLoss
    n: int
    mu: float
    c: np.ndarray
    sigma: float
    X: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    old: tuple[np.ndarray, int]
    new: tuple[np.ndarray, int] | None

    @property
    def basis(self) -> np.ndarray:
        K = self.loss.outputs
        if self.loss.span == K:
            return np.eye(K)
        return np.linalg.svd(np.ones((1, K)))[2][1:].T

    @property
    def event(self) -> ObjectivePerturbation:
        records = 1 if self.new is None else 2
        ratio = records * self.loss.lipschitz / (self.n * self.sigma)
        kappa = self.loss.smoothness / (self.n * self.mu)
        return ObjectivePerturbation(
            ratio, kappa, records, self.loss.span, self.loss.trace, self.loss.square
        )

    def records(self, primed):
        pairs = list(zip(self.X, self.codes, self.weights, strict=True))
        last = self.new if primed else self.old
        return pairs if last is None else [*pairs, (*last, 1.0 / self.n)]

    def gradient(self, W, primed=False):
        U, total = self.basis, self.mu * W + self.c
        for x, code, w in self.records(primed):
            scores = W.reshape(len(W), -1, len(x)) @ x @ U.T
            slope = self.loss.gradient(scores, np.full(len(W), code))
            total = total + w * ((slope @ U)[:, :, None] * x).reshape(len(W), -1)
        return total

    def hessian(self, W, primed=False):
        U, D = self.basis, W.shape[1]
        total = np.tile(self.mu * np.eye(D), (len(W), 1, 1))
        for x, code, w in self.records(primed):
            scores = W.reshape(len(W), -1, len(x)) @ x @ U.T
            bend = U.T @ self.loss.curvature(scores, np.full(len(W), code)) @ U
            total += w * np.einsum("nkl,i,j->nkilj", bend, x, x).reshape(len(W), D, D)
        return total

    def points(self, b):
        W = -(b + self.c) / self.mu
        for _ in range(100):
            residual = self.gradient(W) + b
            norms = np.linalg.norm(residual, axis=1)
            if norms.max() < 1e-11 * (1.0 + np.abs(b).max() + np.abs(self.c).max()):
                return W
            step = np.linalg.solve(self.hessian(W), residual[:, :, None])[:, :, 0]
            t = np.ones((len(W), 1))
            for _ in range(12):
                rest = np.linalg.norm(self.gradient(W - t * step) + b, axis=1)
                bad = ~(rest < (1.0 - 0.1 * t[:, 0]) * norms) & (norms > 1e-11)
                if not bad.any():
                    break
                t[bad] /= 2.0
            W = W - t * step
        raise AssertionError("The minimiser was not found.")

    def losses(self, reach, step):
        """On a grid of b/σ: log weights under D, and log p_D/p_D' at the release."""
        half = math.ceil(reach / step)
        axis = np.arange(-half, half + 1) * step
        D = len(self.c)
        z = np.stack(np.meshgrid(*[axis] * D), axis=-1).reshape(-1, D)
        z = z[(z**2).sum(axis=1) <= reach**2]
        W = self.points(self.sigma * z)
        other = self.gradient(W, True) / self.sigma
        ratio = 0.5 * ((other**2).sum(axis=1) - (z**2).sum(axis=1))
        ratio += np.linalg.slogdet(self.hessian(W))[1] - np.linalg.slogdet(self.hessian(W, True))[1]
        log_w = -0.5 * (z**2).sum(axis=1) - D / 2 * LOG_2PI + D * math.log(step)
        return log_w, ratio


def random_problem(loss, d, pair, rng, kappa=(1e-3, 2.0), ratio=(0.05, 3.0)):
    K, q = loss.outputs, loss.span
    n = round(math.exp(rng.uniform(0.0, math.log(30.0))))
    mu = loss.smoothness / (n * math.exp(rng.uniform(*np.log(kappa))))
    x = rng.standard_normal(d)
    x /= np.linalg.norm(x)
    other = -x if pair == "antipodal" else rng.uniform(-1, 1) * x[::-1]
    new = None if pair == "zero-out" else (other, int(rng.integers(K)))
    s = (1.0 if new is None else 2.0) * loss.lipschitz / n
    X = rng.standard_normal((3, d))
    X *= rng.uniform(0, 1, (3, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    problem = Problem(
        loss=loss,
        n=n,
        mu=mu,
        c=np.zeros(q * d),
        sigma=min(s / math.exp(rng.uniform(*np.log(ratio))), 3.0 * mu),
        X=X,
        codes=rng.integers(0, K, 3),
        weights=rng.dirichlet(np.ones(3)) * (n - 1) / n,
        old=(x, int(rng.integers(K))),
        new=new,
    )
    start = rng.standard_normal(q * d) * rng.choice([0.3, 3.0, 30.0])
    return replace(problem, c=-problem.gradient(start[None])[0])


PAIRS = ("antipodal", "random", "zero-out")
SMALL = [Multinomial(3), OneVsRest(Logistic(), 2)]


def check(problem, reach, step, orders):
    """Check A, B, C and the claim; return the largest exact/bound of A."""
    event = problem.event
    orders = orders[orders * event.ratio <= 5.0]
    log_w, ratio = problem.losses(reach + (orders.max() + 1.0) * event.ratio, step)
    for lam in (0.0, -1.0):
        assert abs(logsumexp(log_w + lam * ratio)) < 1e-6
    there = np.array([logsumexp(log_w + (a - 1) * ratio) / (a - 1) for a in orders])
    back = np.array([logsumexp(log_w - a * ratio) / (a - 1) for a in orders])
    exact = np.maximum(there, back)
    for bound in (theorem_a, theorem_b, rdp):
        assert (exact <= bound(event, orders) * (1 + 1e-5) + 1e-7).all(), (event, bound)
    p, q = np.exp(log_w), np.exp(log_w - ratio)
    tally = Tally.of([Charge((event,))])
    for delta in (1e-4, 1e-2):
        for e in (_by_theorem_c(tally, delta).epsilon, epsilon(tally, delta).epsilon):
            assert max(hockey_stick(p, q, e), hockey_stick(q, p, e)) <= delta * (1 + 1e-3)
    return float((exact / theorem_a(event, orders)).max())


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("loss", SMALL, ids=lambda loss: loss.name)
def test_no_instance_in_two_dimensions_exceeds_a_bound(loss, pair):
    """One feature, three classes (or two margins): the noise has two dimensions that matter."""
    rng = np.random.default_rng([21, PAIRS.index(pair), loss.span])
    worst = 0.0
    for _ in range(12):
        problem = random_problem(loss, 1, pair, rng)
        worst = max(worst, check(problem, 7.5, 0.15, np.array([1.1, 1.5, 2.0, 4.0, 8.0, 32.0])))
    assert worst > 0.2


@pytest.mark.parametrize("pair", PAIRS)
def test_no_instance_in_four_dimensions_exceeds_a_bound(pair):
    """Two features and three classes: both records' gradients span two dimensions each."""
    rng = np.random.default_rng([22, PAIRS.index(pair)])
    problem = random_problem(Multinomial(3), 2, pair, rng, kappa=(0.05, 0.5), ratio=(0.3, 0.8))
    check(problem, 5.5, 0.5, np.array([1.5, 2.0]))


def saturated(classes=3, n=10, kappa=1e-3, ratio=1.0):
    """Zero-out with p far from the label: the gradient moves by all of G/n = √2/n."""
    loss = Multinomial(classes)
    rng = np.random.default_rng(0)
    problem = random_problem(loss, 1, "zero-out", rng)
    problem = replace(
        problem, n=n, mu=loss.smoothness / (n * kappa), sigma=loss.lipschitz / n / ratio,
        weights=np.zeros(3), old=(np.ones(1), 0), c=np.zeros(2),
    )  # fmt: skip
    start = 60.0 * (problem.basis.T @ np.array([0.0, 1.0, 0.0]))
    return replace(problem, c=-problem.gradient(start[None])[0])


def test_the_bounds_are_reached_and_a_sensitivity_of_one_is_caught():
    problem, orders = saturated(), np.array([1.5, 2.0, 4.0])
    log_w, ratio = problem.losses(14.0, 0.15)
    exact = np.array([logsumexp(log_w + (a - 1) * ratio) / (a - 1) for a in orders])
    assert (exact > 0.99 * theorem_a(problem.event, orders)).all()
    broken = replace(problem.event, ratio=problem.event.ratio / math.sqrt(2.0))
    assert (exact > 1.5 * theorem_a(broken, orders)).all()


def test_a_missing_curvature_term_is_caught():
    """Much κ and little s/σ around Θ = 0, where the loss bends: a Gaussian bound alone fails."""
    problem = replace(saturated(kappa=0.3, ratio=0.05), c=np.zeros(2))
    flat = replace(problem, c=-problem.gradient(np.zeros((1, 2)))[0])
    log_w, ratio = flat.losses(9.0, 0.1)
    orders = np.array([1.5, 2.0, 8.0, 32.0])
    exact = np.array([logsumexp(log_w - a * ratio) / (a - 1) for a in orders])
    assert (exact > 1.2 * orders * flat.event.ratio**2 / 2.0).all()
    assert (exact <= rdp(flat.event, orders)).all()


@pytest.mark.parametrize("q", [1, 2, 3, 5, 9, 40])
def test_the_chi_moment_is_exact(q):
    t = np.array([0.0, 1e-3, 0.3, 1.0, 4.0, 30.0])
    with mpmath.workdps(30):
        scale = mpmath.mpf(2) ** (1 - mpmath.mpf(q) / 2) / mpmath.gamma(mpmath.mpf(q) / 2)
        for value, at in zip(log_chi_moment(q, t), t, strict=True):
            peak = (float(at) + math.sqrt(at * at + 4 * (q - 1))) / 2
            area = mpmath.quad(
                lambda r, at=at: r ** (q - 1) * mpmath.exp(-((r - at) ** 2) / 2),
                [0, max(peak - 4, 0.01), peak + 0.02, peak + 5, peak + 30],
            )
            assert value == pytest.approx(float(mpmath.log(scale * area)), abs=1e-11)


def test_the_chi_moment_of_one_margin_is_the_folded_normal():
    t = np.geomspace(1e-8, 1e4, 50)
    np.testing.assert_allclose(log_chi_moment(1, t), math.log(2.0) + log_ndtr(t), atol=1e-14)


def test_the_determinant_bound_is_reached_by_equal_probabilities():
    """log det(I + (diag p − pp')/(nμ)) for p = 1/K is q·log(1 + ρκ/q) exactly."""
    for K in (2, 3, 10):
        p = np.full(K, 1.0 / K)
        hessian = np.diag(p) - np.outer(p, p)
        exact = np.linalg.slogdet(np.eye(K) + 0.7 * hessian)[1]
        loss = Multinomial(K)
        bound = log_determinant(0.7 * loss.smoothness, loss.span, loss.trace)
        assert exact == pytest.approx(bound, rel=1e-12)


def test_two_classes_cost_what_one_margin_costs():
    """A multinomial model of two classes is a logistic one with √2 of the feature's size."""
    orders = np.geomspace(1.01, 1e3, 60)
    two = Multinomial(2)
    event = ObjectivePerturbation(0.1, 0.01, 2, two.span, two.trace, two.square)
    one = ObjectivePerturbation(0.1, 0.01, 2)
    np.testing.assert_allclose(theorem_a(event, orders), theorem_a(one, orders), rtol=1e-14)
    np.testing.assert_allclose(theorem_b(event, orders), theorem_b(one, orders), rtol=1e-14)


@pytest.mark.parametrize("loss", [Multinomial(10), OneVsRest(Logistic(), 10)], ids=lambda x: x.name)
def test_calibration_spends_the_budget_and_no_more(loss):
    step = perturbed_step(
        lipschitz=loss.lipschitz, smoothness=loss.smoothness, n=2000, d=650, mu=0.05, beta=1e-8,
        span=loss.span, trace=loss.trace, square=loss.square,
    )  # fmt: skip
    noise = calibrate(Budget(1.0, 1e-5), step, 30)
    spent = epsilon(Tally.of([noise.charge], 30), 1e-5).epsilon
    assert 0.9999 < spent <= 1.0
