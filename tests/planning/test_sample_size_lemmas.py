"""Every step of docs/sample-size.md, by enumeration or against an implementation of its own.

Nothing here uses the calculator but the last two tests, which hold its bound against real runs.
"""

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from ppadmm.accounting import Budget
from ppadmm.agent import Agent
from ppadmm.algorithms import Settings, Site, build
from ppadmm.data import Shard
from ppadmm.engines import local
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import SeededNoise
from ppadmm.planning import sample_bound, sample_sizes
from ppadmm.planning.sample_bound import BoundSetting, Choice, connectivity
from ppadmm.problem import Graph, HuberHinge, Logistic, MarginRisk, make_graph

SIGNS = {M: np.array(list(product((-1.0, 1.0), repeat=M))) for M in (6, 12)}


def unit_ball(rng, n, d):
    X = rng.standard_normal((n, d))
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))


# Lemma 1: contraction


@pytest.mark.parametrize("seed", range(40))
def test_contraction_with_a_penalty_under_the_exponential(seed):
    rng = np.random.default_rng(seed)
    T = rng.standard_normal((7, 6)) * rng.uniform(0.1, 2.0)
    penalty = rng.standard_normal(7)
    kinks = rng.standard_normal(6)
    psi = np.abs(T - kinks) - np.abs(kinks)  # 1-Lipschitz, 0 at 0

    def mean(values):
        return np.exp((SIGNS[6] @ values.T + penalty).max(axis=1)).mean()

    assert mean(psi) <= mean(T) * (1 + 1e-12)


def test_contraction_needs_the_lipschitz_constant():
    T = np.array([[1.0] * 6, [-1.0] * 6])
    doubled, plain = (np.exp((SIGNS[6] @ (k * T).T).max(axis=1)).mean() for k in (2.0, 1.0))
    assert doubled > plain


# Lemma 2: E exp(c‖Σεv‖²) ≤ (1 − 2cM)^(−1/2)


@pytest.mark.parametrize("seed", range(30))
def test_the_squared_norm_of_a_random_sum_is_no_heavier_than_chi_square(seed):
    rng = np.random.default_rng(seed)
    V = unit_ball(rng, 12, rng.integers(1, 8))
    for level in (0.05, 0.3, 0.45):
        c = level / 12
        exact = np.exp(c * ((SIGNS[12] @ V) ** 2).sum(axis=1)).mean()
        assert exact <= (1 - 2 * c * 12) ** -0.5


def test_it_is_nearly_an_equality_for_equal_vectors():
    exact = np.exp(0.1 / 12 * (SIGNS[12].sum(axis=1)) ** 2).mean()
    assert 0.99 < exact / (1 - 0.2) ** -0.5 <= 1.0


@pytest.mark.parametrize("zeta", [0.3, 0.05, 1e-4, 1e-12])
def test_the_tail_is_the_root_on_the_safe_side(zeta):
    x = sample_bound.chi_square_tail(zeta)
    assert zeta * (1 - 1e-6) < math.sqrt(x) * math.exp(-(x - 1) / 2) <= zeta


# Lemma 3: the uniform deviation


@pytest.mark.parametrize("slope", ["linear", "logistic"])
def test_the_penalised_supremum_stays_below_its_quantile_and_not_far(slope):
    """d = 1, v = ±1 with P(v = 1) = ½: the supremum over u by a fine grid."""
    rng = np.random.default_rng(0)
    M, q, zeta = 50, 0.05, 0.05
    mean = 2.0 * rng.binomial(M, 0.5, 20_000) / M - 1.0
    u = np.linspace(-3, 3, 1201)
    if slope == "linear":
        up, down = -u, u
    else:
        up, down = (np.logaddexp(0.0, -s * u) - math.log(2.0) for s in (1.0, -1.0))
    # (P − P_M)ℓ_u = ½(up + down) − ½(1+mean)·up − ½(1−mean)·down
    gap = 0.5 * np.outer(-mean, up - down)
    Z = (gap - q * u * u).max(axis=1)
    bound = sample_bound.chi_square_tail(zeta) / (M * q)
    assert (bound < Z).mean() <= zeta
    assert np.quantile(Z, 1 - zeta) > bound / (12 if slope == "linear" else 48)


# Lemma 4: how far noise moves a minimiser


@pytest.mark.parametrize("seed", range(20))
def test_noise_moves_the_minimiser_by_its_norm_over_mu(seed):
    rng = np.random.default_rng(seed)
    V, d = unit_ball(rng, 30, 4), 4
    mu, loss = 10 ** rng.uniform(-2, 1), Logistic()
    b, r = rng.standard_normal(d) * 10 ** rng.uniform(-2, 0.5), rng.standard_normal(d) * 1e-3

    def value(theta):
        return loss.value(V @ theta).mean() + mu / 2 * theta @ theta

    plain, moved = newton(V, loss, mu, np.zeros(d)), newton(V, loss, mu, b + r)
    assert np.linalg.norm(moved - plain) <= (np.linalg.norm(b) + np.linalg.norm(r)) / mu
    exact = newton(V, loss, mu, b)
    assert -b @ (exact - plain) <= b @ b / mu
    assert 0 <= value(exact) - value(plain) <= b @ b / (2 * mu) + 1e-12


def test_without_data_the_move_is_exactly_that():
    b = np.array([1.0, 2.0])
    moved = newton(np.zeros((1, 2)), Logistic(), 0.5, b)
    assert -b @ moved == pytest.approx(b @ b / 0.5)


# Theorem 2, the deterministic part: noisy ADMM with any disturbance


def newton(V, loss, mu, linear):
    """argmin mean ℓ(Vθ) + μ/2‖θ‖² + linear·θ, by damped Newton steps of our own."""
    theta = np.zeros(V.shape[1])

    def slope(at):
        return V.T @ loss.gradient(V @ at) / len(V) + mu * at + linear

    for _ in range(200):
        gradient = slope(theta)
        H = (V.T * loss.curvature(V @ theta)) @ V / len(V) + mu * np.eye(len(theta))
        step, t = np.linalg.solve(H, gradient), 1.0
        while t > 1e-9 and np.linalg.norm(slope(theta - t * step)) > np.linalg.norm(gradient):
            t /= 2
        theta = theta - t * step
        if np.linalg.norm(gradient) < 1e-13:
            break
    return theta


def noisy_admm(parts, loss, graph, weight, eta, rounds, first, second):
    """The algorithm as docs/sample-size.md writes it, with given b (T, N, d) and ξ (T, N, d)."""
    N, d = graph.size, parts[0].shape[1]
    theta, dual, out = np.zeros((N, d)), np.zeros((N, d)), []
    for t in range(rounds):
        new = np.empty_like(theta)
        for i in range(N):
            B = graph.neighbours(i)
            pull = sum((theta[i] + theta[j] for j in B), np.zeros(d))
            linear = 2 * dual[i] - eta * pull + first[t, i]
            new[i] = newton(parts[i], loss, weight + 2 * eta * len(B), linear) + second[t, i]
        theta = new
        for i in range(N):
            dual[i] += eta / 2 * sum(theta[i] - theta[j] for j in graph.neighbours(i))
        out.append(theta)
    return np.stack(out)


GRAPHS = (
    make_graph("complete", 3),
    make_graph("ring", 4),
    make_graph("star", 4),
    Graph(4, ((0, 1), (1, 2), (2, 3))),
)


def ergodic_sides(seed, loss):
    """Return the two sides of inequality (3) for a random network, problem and disturbance."""
    rng = np.random.default_rng(seed)
    graph = GRAPHS[seed % len(GRAPHS)]
    N, d, T = graph.size, 3, int(rng.integers(1, 12))
    parts = [unit_ball(rng, 15, d) for _ in range(N)]
    weight, eta = 10 ** rng.uniform(-3, 0), 10 ** rng.uniform(-2, 0.5)
    b = rng.standard_normal((T, N, d)) * 10 ** rng.uniform(-3, 0)
    xi = rng.standard_normal((T, N, d)) * 10 ** rng.uniform(-4, -0.5)
    theta = noisy_admm(parts, loss, graph, weight, eta, T, b, xi)
    ref = rng.standard_normal(d) * 10 ** rng.uniform(-1, 0.7)
    mu = weight + 2 * eta * np.array(graph.degrees)
    model = theta.mean(axis=(0, 1))
    pooled = np.mean([loss.value(part @ model).mean() for part in parts])
    at_ref = np.mean([loss.value(part @ ref).mean() for part in parts])
    left = pooled + weight / 2 * (model @ model + ((theta - ref) ** 2).sum(axis=2).mean())
    dual = loss.lipschitz**2 / (2 * eta * connectivity(graph) * T)
    start = eta * np.mean(graph.degrees) * ref @ ref / T
    disturbed = -((b - mu[:, None] * xi) * (theta - ref)).sum(axis=2).mean()
    curved = loss.smoothness / 2 * (xi**2).sum(axis=2).mean()
    right = at_ref + weight / 2 * ref @ ref + dual + start + disturbed + curved
    return left, right


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge()])
@pytest.mark.parametrize("seed", range(24))
def test_the_ergodic_inequality_holds_for_every_disturbance(seed, loss):
    left, right = ergodic_sides(seed, loss)
    assert left <= right + 1e-9


def test_the_ergodic_inequality_is_not_idle():
    slack = [right - left for left, right in (ergodic_sides(k, Logistic()) for k in range(24))]
    assert min(slack) < 0.1


def test_noise_costs_no_more_than_its_part():
    """The disturbance of Theorem 2 against its bound, in 60 runs of our own ADMM."""
    graph, d, T, weight, eta = GRAPHS[1], 3, 8, 0.05, 0.2
    rng = np.random.default_rng(5)
    parts = [unit_ball(rng, 40, d) for _ in range(graph.size)]
    ref, sigma1, sigma2, phi = np.array([2.0, -1.0, 0.5]), 0.1, 0.02, 0.5
    setting = BoundSetting(d, graph, rounds=T, budget=Budget(1.0, 1e-5))
    choice, mu = Choice(weight, eta, phi), weight + 4 * eta
    zetas = np.array([0.1, 0.05, 0.05])
    part = sample_bound.noise_part(setting, choice, {2: (sigma1, sigma2)}, zetas)
    costs = []
    for _ in range(60):
        b = sigma1 * rng.standard_normal((T, graph.size, d))
        xi = sigma2 * rng.standard_normal((T, graph.size, d))
        gap = noisy_admm(parts, Logistic(), graph, weight, eta, T, b, xi) - ref
        cost = -((b - mu * xi) * gap).sum(axis=2).mean() + (xi**2).sum(axis=2).mean() / 8
        costs.append(cost - phi / 2 * weight / 2 * (gap**2).sum(axis=2).mean())
    assert np.mean(np.array(costs) > part) <= 0.2
    assert max(costs) < part
    assert max(costs) > part / 5


# The whole statement


def corner_population(d, tilt):
    """x uniform on the d unit vectors, y = 1 with probability ½ + tilt: the exact risk."""

    def risk(theta):
        up, down = np.logaddexp(0.0, -theta), np.logaddexp(0.0, theta)
        return ((0.5 + tilt) * up + (0.5 - tilt) * down).mean(axis=-1)

    def draw(rng, n):
        V = np.zeros((n, d))
        V[np.arange(n), rng.integers(d, size=n)] = np.where(rng.random(n) < 0.5 + tilt, 1.0, -1.0)
        return V

    return risk, draw


def test_theorem_1_on_a_hard_population():
    """As many features as records: the estimation part is then no idle one."""
    d, N, n, R = 150, 3, 50, 10.0
    graph = make_graph("complete", N)
    risk, draw = corner_population(d, 0.25)
    bound = sample_sizes.error_bound(n, BoundSetting(d, graph, norm=R, confidence=0.8))
    ref = np.full(d, R / math.sqrt(d))
    excess = []
    for seed in range(60):
        V = draw(np.random.default_rng(seed), N * n)
        theta = ridge(V, bound.regularisation / N)
        excess.append(risk(theta) - risk(ref))
    assert np.mean(np.array(excess) > bound.total) <= 0.2
    assert np.quantile(excess, 0.8) > bound.total / 60


def ridge(V, weight):
    loss = Logistic()

    def both(theta):
        margins = V @ theta
        slope = V.T @ loss.gradient(margins) / len(V) + weight * theta
        return loss.value(margins).mean() + weight / 2 * theta @ theta, slope

    return minimize(both, np.zeros(V.shape[1]), jac=True, method="L-BFGS-B").x


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_theorem_2_on_the_real_engine(epsilon):
    """PP-ADMM itself with the calculator's η and λ̂, averaged over all rounds, 20 noise seeds."""
    d, N, n, T, R = 5, 4, 300, 40, 3.0
    graph = make_graph("star", N)
    risk, draw = corner_population(d, 0.3)
    setting = BoundSetting(d, graph, norm=R, rounds=T, budget=Budget(epsilon, 1e-5), confidence=0.9)
    bound = sample_sizes.error_bound(n, setting)
    seeds = range(20)
    run = Settings(
        rounds=T,
        eta=(bound.eta,) * len(seeds),
        regularisation=(bound.regularisation,) * len(seeds),
        budgets=(Budget(epsilon, 1e-5),) * len(seeds),
    )
    agents = []
    for i in range(N):
        V = draw(np.random.default_rng(100 + i), n)
        at = MarginRisk(Shard(np.abs(V), V.sum(axis=1)), Logistic())
        rule = build("pp", Site(i, N, graph.neighbours(i), at), run)
        noise = SeededNoise(tuple(seeds))
        agents.append(Agent(rule, i, graph.neighbours(i), [MemoryLedger() for _ in seeds], noise))
    assert max(agent.algorithm.scales["sigma1"][0] for agent in agents) == bound.sigma1
    models = local.run(agents).releases.mean(axis=(0, 1))
    excess = risk(models) - risk(np.full(d, R / math.sqrt(d)))
    assert excess.max() <= bound.total
    assert excess.max() - excess.min() > 1e-6 * bound.parts.noise
