"""Noisy Newton: what it releases, how far a record moves it, what it costs, where it goes."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from ppadmm import RunSpec, train
from ppadmm.accounting import Budget, Tally, recompute
from ppadmm.accounting.event_data import to_plain
from ppadmm.accounting.interop import to_dp_event, without_sampler
from ppadmm.algorithms import newton
from ppadmm.algorithms.base import Site, site_in
from ppadmm.algorithms.defaults import Sizes
from ppadmm.algorithms.newton import Preconditioner, Sensitivities, folded, moments, unfolded
from ppadmm.algorithms.weights import site_weights
from ppadmm.data import Shard
from ppadmm.engines import local
from ppadmm.errors import InputError
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import SeededNoise
from ppadmm.problem import (
    HuberHinge,
    Logistic,
    Multinomial,
    NoRecords,
    make_graph,
    risk_of,
    risk_over,
)
from ppadmm.sum_agent import SumAgent
from ppadmm.summing.trust import LOCAL_TRUST, Trust
from tests.problem.test_streamed import D, streamed, without_last
from tests.small_problems import make_settings, random_shard

BY_SUM = Trust("sum", 1)
TRUSTS = pytest.mark.parametrize("trust", [LOCAL_TRUST, BY_SUM], ids=lambda trust: trust.kind)
BUDGET = Budget(1.0, 1e-5)
PRECISE = 3e6
"""Δ/σ of releases that are as good as exact."""


def sites_of(risks, weights="records", budgets=None):
    sizes = [risk.n for risk in risks]
    shares = site_weights(weights, sizes, budgets, risks[0].d)
    graph = make_graph("complete", len(risks)) if len(risks) > 1 else None
    if graph is None:
        return [Site(0, 1, (), risks[0], records=sizes[0])]
    return [site_in(graph, i, risk, shares, sum(sizes)) for i, risk in enumerate(risks)]


def rules_of(risks, trust=LOCAL_TRUST, weights="records", **changes):
    settings = make_settings(**{"eta": (0.01,), "trust": trust, "budgets": (BUDGET,), **changes})
    return [newton.build_newton(site, settings) for site in sites_of(risks, weights)]


def without_noise(rule):
    """Return the same rule with noise that is as fine as sums of integers allow, and no finer."""
    exact = tuple(newton.Costs((PRECISE, c.moments[1]), (PRECISE, c.slopes[1])) for c in rule.costs)
    return replace(rule, costs=exact)


def model_of(rules, seed=0):
    noise = SeededNoise((seed,) * rules[0].replicates)
    agents = [
        SumAgent(rule, rule.site.agent, rule.site.neighbours, [MemoryLedger()], noise)
        for rule in rules
    ]
    models = local.run(agents).agent_models()
    for other in models[1:]:
        np.testing.assert_array_equal(other, models[0])
    return models[0][0]


def minimiser(shards, weights, ridge, classes=2):
    """Return what scikit-learn finds for Σ φᵢ·(mean loss of site i) + ridge/2·‖θ‖²."""
    X = np.concatenate([shard.X for shard in shards])
    y = np.concatenate([shard.y for shard in shards])
    each = np.concatenate([np.full(s.n, w / s.n) for s, w in zip(shards, weights, strict=True)])
    found = LogisticRegression(C=1.0 / ridge, fit_intercept=False, tol=1e-12, max_iter=10_000)
    found.fit(X, y, sample_weight=each)
    return found.coef_.ravel() if classes == 2 else found.coef_.reshape(-1)


# Second moments


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_a_folded_matrix_keeps_its_length_and_comes_back(d, seed):
    square = np.random.default_rng(seed).standard_normal((d, d))
    matrix = square + square.T
    vector = folded(matrix)
    assert len(vector) == newton.moment_length(d)
    assert np.linalg.norm(vector) == pytest.approx(np.linalg.norm(matrix), rel=1e-12)
    np.testing.assert_allclose(unfolded(vector, d), matrix, rtol=1e-15, atol=0)


@pytest.mark.parametrize("widest", [1000, 2], ids=["matrix", "diagonal"])
@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3)], ids=lambda loss: loss.name)
def test_moments_are_means_of_products(monkeypatch, widest, loss):
    monkeypatch.setattr(newton, "WIDEST", widest)
    shard = random_shard(n=50, d=4, classes=max(2, loss.outputs))
    exact = shard.X.T @ shard.X / 50
    expected = folded(exact) if widest > 4 else np.diag(exact)
    np.testing.assert_allclose(moments(risk_of(shard, loss)), expected, rtol=1e-12)


# How far one record moves a release


def extreme_records(d, rng):
    """Records that a search should not miss: axes, their opposites, nothing, and random ones.

    Some lean a little to the first axis: where θ is long, that is enough for a loss to be steep,
    and they still point in opposite directions.
    """
    axes = np.eye(d)
    leaning = np.array([a * 0.12 * axes[0] + b * axes[1] for a in (-1, 1) for b in (-1, 1)])
    some = np.concatenate([leaning, rng.standard_normal((12, d))])
    some /= np.linalg.norm(some, axis=1, keepdims=True)
    return np.concatenate([axes, -axes, some, 0.5 * some, np.zeros((1, d))])


def moved(loss, d, theta, adjacency):
    """Return the furthest that one of n = 3 records moves moments and slope, over all pairs."""
    rng, n = np.random.default_rng(0), 3
    others, codes = rng.standard_normal((n - 1, d)) * 0.3, range(max(2, loss.outputs))
    labels = [2.0 * c - 1.0 if loss.outputs == 1 else float(c) for c in codes]
    released = []
    for x, y in itertools.product(extreme_records(d, rng), labels):
        own = Shard(np.vstack([x, others]), np.array([y, labels[0], labels[1]]), len(labels))
        risk = risk_of(own, loss)
        released.append((moments(risk), risk.gradient(theta)[0]))
    if adjacency == "replace-one":
        pairs = list(itertools.combinations(released, 2))
    else:
        rest = Shard(others, np.array(labels[:2]), len(labels))
        gone = (moments(risk_of(rest, loss)), risk_of(rest, loss).gradient(theta)[0])
        pairs = [(one, tuple(part * (n - 1) / n for part in gone)) for one in released]
    far = [[np.linalg.norm(a - b) for a, b in zip(*pair, strict=True)] for pair in pairs]
    return np.max(far, axis=0), Sensitivities.of(loss, d * loss.outputs, n, adjacency)


@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out"])
@pytest.mark.parametrize("widest", [1000, 2], ids=["matrix", "diagonal"])
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), Multinomial(3)], ids=lambda v: v.name)
def test_no_pair_of_records_moves_a_release_further_than_its_sensitivity(
    monkeypatch, loss, widest, adjacency
):
    monkeypatch.setattr(newton, "WIDEST", widest)
    d, rng = 3, np.random.default_rng(1)
    steep = np.array([[60.0, 0, 0] if loss.outputs == 1 else [60.0, 0, 0, -60, 0, 0, 0, 0, 0]])
    found = []
    for theta in [0 * steep, steep, 5 * rng.standard_normal(steep.shape)]:
        far, allowed = moved(loss, d, theta, adjacency)
        assert far[0] <= allowed.moments
        assert far[1] <= allowed.slopes
        found.append(far[1] / allowed.slopes)
        assert far[0] > 0.99 * allowed.moments  # the search finds the worst pair
    assert max(found) > 0.99


@TRUSTS
def test_noise_is_the_sensitivity_over_the_ratio_that_is_paid_for(trust):
    sizes = (60, 240)
    rules = rules_of([risk_of(random_shard(n=n), Logistic()) for n in sizes], trust)
    cost = rules[0].costs[0]
    for rule, n in zip(rules, sizes, strict=True):
        n = n if trust is LOCAL_TRUST else 300
        part = rule.scales
        assert part["sigma1"][0] >= 2.0 / n / cost.slopes[0]
        assert part["sigma1"][0] == pytest.approx(2.0 / n / cost.slopes[0], rel=1e-2)
        assert part["sigma_moments"][0] >= math.sqrt(2.0) / n / cost.moments[0]


def test_with_more_who_collude_every_site_adds_more():
    risks = [risk_of(random_shard(n=50, seed=i), Logistic()) for i in range(5)]
    scales = [rules_of(risks, Trust("sum", c))[0].scales["sigma1"][0] for c in (0, 1, 4)]
    assert scales[1] / scales[0] == pytest.approx(math.sqrt(5 / 4), rel=1e-6)
    assert scales[2] / scales[0] == pytest.approx(math.sqrt(5), rel=1e-6)


def test_a_sum_refuses_a_site_that_counts_for_more_than_its_records():
    risks = [risk_of(random_shard(n=n), Logistic()) for n in (20, 200)]
    with pytest.raises(InputError, match="weigh sites by their records"):
        rules_of(risks, BY_SUM, weights="equal")


# What it costs


@TRUSTS
@pytest.mark.parametrize(("epsilon", "repeats"), [(0.1, 0), (1.0, 3), (8.0, 0)])
def test_what_is_reserved_costs_no_more_than_the_budget_and_hardly_less(trust, epsilon, repeats):
    from dp_accounting.pld import PLDAccountant

    trust = replace(trust, repeats=repeats)
    risks = [risk_of(random_shard(n=40, seed=i), Logistic()) for i in range(3)]
    budget = Budget(epsilon, 1e-5)
    for rule in rules_of(risks, trust, budgets=(budget,), rounds=newton.ROUNDS):
        tally = Tally()
        for charge, times in rule.reserved[0]:
            tally = tally.plus(charge, times)
        assert sum(k for e, k in tally.counts if type(e).__name__ == "Gaussian") == (
            newton.ROUNDS + 2 * repeats
        )
        spent = recompute.epsilon(to_plain(tally), 1e-5)
        assert 0.99 * epsilon < spent <= epsilon
        theirs = PLDAccountant(value_discretization_interval=1e-4 * max(1.0, epsilon))
        theirs.compose(to_dp_event(without_sampler(tally)))
        assert theirs.get_epsilon(1e-5) <= epsilon * 1.01


@TRUSTS
def test_a_run_spends_what_it_reserved(trust):
    spec = RunSpec(records=(300, 200, 100), agents=3, algorithm="newton", trust=trust.kind, seed=0)
    result = train(replace(spec, epsilon=1.0, rounds=4))
    assert len(result.spent) == 3
    assert [dict(t.counts) for t in result.spent] == [dict(t.counts) for t in result.reserved]


# Where it goes


@TRUSTS
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sizes", [(200, 200, 200), (400, 30, 120)], ids=["equal", "unequal"])
def test_without_noise_it_ends_where_scikit_learn_does(trust, classes, sizes):
    loss = Logistic() if classes == 2 else Multinomial(classes)
    shards = [random_shard(n=n, seed=i, classes=classes) for i, n in enumerate(sizes)]
    risks = [risk_of(shard, loss) for shard in shards]
    rules = rules_of(risks, trust, rounds=400, regularisation=(0.003,), eta=(1e-6,))
    found = model_of([without_noise(rule) for rule in rules])
    shares = np.array(sizes) / sum(sizes)
    expected = minimiser(shards, shares, 0.003 / 3, classes)
    np.testing.assert_allclose(found, expected, atol=1e-5 * max(1.0, np.abs(expected).max()))


@TRUSTS
def test_without_noise_and_regularisation_as_well(trust):
    shards = [random_shard(n=300, seed=i) for i in range(2)]
    rules = rules_of(
        [risk_of(s, Logistic()) for s in shards], trust, rounds=400, regularisation=(0.0,),
        eta=(1e-6,),
    )  # fmt: skip
    found = model_of([without_noise(rule) for rule in rules])
    np.testing.assert_allclose(found, minimiser(shards, (0.5, 0.5), 1e-9), rtol=1e-5, atol=1e-5)


def test_weights_of_sites_are_those_of_the_objective():
    shards = [random_shard(n=n, seed=n) for n in (40, 400)]
    risks = [risk_of(s, Logistic()) for s in shards]
    rules = rules_of(risks, weights="equal", rounds=400, regularisation=(0.1,), eta=(1e-6,))
    found = model_of([without_noise(rule) for rule in rules])
    np.testing.assert_allclose(found, minimiser(shards, (0.5, 0.5), 0.05), atol=1e-5)
    assert np.abs(found - minimiser(shards, (40 / 440, 400 / 440), 0.05)).max() > 1e-2


def test_local_and_sum_are_the_same_steps_without_noise():
    risks = [risk_of(random_shard(n=n, seed=n), Logistic()) for n in (50, 500, 90)]
    both = [
        model_of([without_noise(rule) for rule in rules_of(risks, trust, rounds=6)])
        for trust in (LOCAL_TRUST, BY_SUM)
    ]
    np.testing.assert_allclose(both[0], both[1], rtol=1e-5, atol=1e-6)


def test_who_has_no_records_changes_nothing():
    risks = [risk_of(random_shard(n=n, seed=n), Logistic()) for n in (50, 90)]
    two = model_of([without_noise(rule) for rule in rules_of(risks, regularisation=(0.0,))])
    risks.append(NoRecords(5, Logistic()))
    rules = rules_of(risks, regularisation=(0.0,))
    assert [times for _, times in rules[2].reserved[0]] == [0, 0]
    three = model_of([without_noise(rule) for rule in rules])
    np.testing.assert_allclose(two, three, rtol=1e-12)


def test_one_site_alone():
    shard = random_shard(n=500)
    rules = rules_of([risk_of(shard, Logistic())], rounds=400, regularisation=(0.01,), eta=(1e-6,))
    found = model_of([without_noise(rule) for rule in rules])
    np.testing.assert_allclose(found, minimiser([shard], (1.0,), 0.01), atol=1e-5)
    with pytest.raises(InputError, match="nobody's noise is left"):
        rules_of([risk_of(shard, Logistic())], BY_SUM)


@TRUSTS
def test_streamed_records_give_the_same_model(trust):
    shards = [random_shard(n=n, d=D, seed=n) for n in (120, 240)]
    whole = [risk_of(without_last(shard), Logistic()) for shard in shards]
    parts = [risk_over(streamed(shard, 700), Logistic()) for shard in shards]
    found = [model_of(rules_of(risks, trust)) for risks in (whole, parts)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-12)


def test_the_model_counts_step_t_as_often_as_its_square():
    rule = without_noise(rules_of([risk_of(random_shard(n=200), Logistic())], rounds=4)[0])
    agent = SumAgent(rule, 0, (), [MemoryLedger()], SeededNoise((0,)))
    trace, seen = local.run([agent]), []
    seen = [*trace.releases[2:, 0, 0], agent._state.held.theta[0]]
    expected = (seen[0] + 4 * seen[1] + 9 * seen[2]) / 14
    np.testing.assert_allclose(trace.agent_models()[0, 0], expected, rtol=1e-12)


# Many features


def one_hot(n, groups, size, seed=0):
    """Return sparse records: one of `size` answers to each of many questions, and a constant."""
    from scipy.sparse import csr_array

    rng, d = np.random.default_rng(seed), groups * size + 1
    answers = np.floor(size * rng.random((n, groups)) ** 2).astype(int)
    columns = np.c_[answers + size * np.arange(groups), np.full(n, d - 1)].ravel()
    rows = np.repeat(np.arange(n), groups + 1)
    X = csr_array((np.full(len(rows), (groups + 1) ** -0.5), (rows, columns)), (n, d))
    score = X @ (4.0 * rng.standard_normal(d))
    y = np.where(score - score.mean() + 0.5 * rng.logistic(size=n) > 0, 1.0, -1.0)
    return Shard(X, y)


@TRUSTS
def test_beyond_the_widest_the_diagonal_helps_and_does_not_overshoot(trust):
    shards = [one_hot(1500, 30, 67, seed=0), one_hot(1500, 30, 67, seed=1)]
    risks = [risk_of(shard, Logistic()) for shard in shards]
    rules = rules_of(risks, trust, rounds=19, eta=(1e-4,), regularisation=(0.0,))
    assert rules[0].features == 2011
    assert rules[0].size(newton.MOMENTS) == 2011
    found = model_of([without_noise(rule) for rule in rules])
    plain = np.zeros((1, 2011))
    for _ in range(19):
        plain -= 4.0 * np.mean([risk.gradient(plain) for risk in risks], axis=0)
    value = [float(np.mean([r.value(m) for r in risks])) for m in (found[None], plain)]
    assert value[0] < 0.9 * value[1] < 0.9 * math.log(2.0)


def test_a_diagonal_that_is_all_noise_leaves_the_damping():
    released = -np.ones(newton.WIDEST + 1)
    metric = Preconditioner.of(released, len(released), 0.25, 0.5, 0.0)
    np.testing.assert_array_equal(
        metric.apply(np.ones(len(released))), 2.0 * np.ones(len(released))
    )


def test_the_metric_floors_eigenvalues_at_the_damping():
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    released = folded(basis @ np.diag([4.0, 0.4, 0.04, -1.0]) @ basis.T)
    metric = Preconditioner.of(released, 4, 0.25, 0.1, 0.01)
    expected = basis @ np.diag(1.0 / (np.array([1.0, 0.1, 0.1, 0.1]) + 0.01)) @ basis.T
    gradient = np.arange(8.0)
    both = np.concatenate([expected @ gradient[:4], expected @ gradient[4:]])
    np.testing.assert_allclose(metric.apply(gradient), both, rtol=1e-9)


# The rule


def sizes_of(n=35_000, d=80, sites=5, trust=LOCAL_TRUST):
    return Sizes((n // sites,) * sites, d, (sites - 1,) * sites, (1.0,) * sites, trust=trust)


def test_a_sum_of_many_sites_is_as_good_as_one_site():
    budgets = [BUDGET] * 50
    alone = newton.mean_noise(sizes_of(sites=1), budgets[:1], 1.0)
    many = newton.mean_noise(sizes_of(sites=50, trust=BY_SUM), budgets, 1.0)
    assert many == pytest.approx(alone * math.sqrt(50 / 49), rel=1e-12)
    apart = newton.mean_noise(sizes_of(sites=50), budgets, 1.0)
    assert apart == pytest.approx(alone * math.sqrt(50), rel=1e-12)


def test_more_noise_means_more_damping_and_less_for_the_second_moments():
    found = [
        newton.default_damping(sizes_of(), [Budget(epsilon, 1e-5)] * 5, Logistic())
        for epsilon in (0.1, 0.5, 2.0, 8.0)
    ]
    shares = [newton.share_of(eta, Logistic()) for eta in found]
    assert found == sorted(found, reverse=True)
    assert shares == sorted(shares)
    assert newton.SHARES[0] <= shares[0] < shares[-1] <= newton.SHARES[1]


@given(st.integers(1, 10**6), st.integers(1, 5000), st.floats(0.01, 50), st.integers(1, 300))
def test_the_rule_knows_an_answer_for_every_federation(n, d, epsilon, sites):
    eta = newton.default_damping(
        Sizes((n,) * sites, d, (1,) * sites, (1.0,) * sites), [Budget(epsilon, 1e-6)] * sites,
        Logistic(),
    )  # fmt: skip
    assert eta > 0.0
    assert newton.SHARES[0] <= newton.share_of(eta, Logistic()) <= newton.SHARES[1]


def test_one_round_is_too_few():
    with pytest.raises(InputError, match="2 rounds or more, got 1"):
        rules_of([risk_of(random_shard(), Logistic())], rounds=1)
