"""What one record moves in noisy Newton, what the releases cost, and whose budget counts."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ppadmm.accounting import Budget, Tally, accountant, recompute
from ppadmm.accounting.event_data import to_plain
from ppadmm.accounting.gaussian import gdp_epsilon
from ppadmm.algorithms import build
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.newton import MOMENTS, SLOPES, Sensitivities, folded, moments, unfolded
from ppadmm.data import Shard
from ppadmm.datasets import load
from ppadmm.noise import SeededNoise
from ppadmm.problem import HuberHinge, Logistic, Multinomial, OneVsRest, make_graph, risk_of
from ppadmm.problem.scores import ScoreRisk
from ppadmm.runs.run import prepare
from ppadmm.runs.specification import RunSpec
from ppadmm.summing.trust import Trust
from tests.contracts.test_representations import coded, labels
from tests.summing.small_sums import make_rules, make_settings

LOSSES = (Logistic(), HuberHinge(), Multinomial(3), OneVsRest(HuberHinge(), 3))
ADJACENCIES = ("replace-one", "zero-out")


def unit(rng, d):
    x = rng.standard_normal(d)
    return x / np.linalg.norm(x) * (1 - 1e-12)


def shard_of(X, loss, rng):
    if loss.outputs > 1:
        return Shard(X, rng.integers(0, loss.outputs, len(X)).astype(float), loss.outputs)
    return Shard(X, np.where(rng.random(len(X)) < 0.5, 1.0, -1.0))


def test_a_matrix_and_its_vector_have_one_norm():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 5))
    A = A + A.T
    assert np.linalg.norm(folded(A)) == pytest.approx(np.linalg.norm(A))
    np.testing.assert_allclose(unfolded(folded(A), 5), A)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_second_moments_move_as_far_as_is_said_and_no_farther(adjacency):
    """Two records at a right angle reach √2/n; one that is left out 1/n."""
    n, rng, loss = 12, np.random.default_rng(1), Logistic()
    claimed = Sensitivities.of(loss, 4, n, adjacency).moments
    most = 0.0
    for trial in range(300):
        X = np.stack([unit(rng, 4) for _ in range(n)])
        other = X.copy()
        other[0] = 0.0 if adjacency == "zero-out" else unit(rng, 4)
        if trial == 0 and adjacency == "replace-one":
            other[0] -= X[0] * (X[0] @ other[0]) / (X[0] @ X[0])
            other[0] /= np.linalg.norm(other[0]) * (1 + 1e-12)
        ours, theirs = (moments(risk_of(shard_of(Z, loss, rng), loss)) for Z in (X, other))
        most = max(most, np.linalg.norm(ours - theirs))
    exact = (math.sqrt(2.0) if adjacency == "replace-one" else 1.0) / n
    assert 0.999 * exact < most <= claimed
    assert claimed < 1.01 * exact


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}-{loss.outputs}")
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_slopes_move_no_farther_than_is_said(loss, adjacency):
    n, d, rng = 8, 3, np.random.default_rng(2)
    claimed = Sensitivities.of(loss, d * loss.outputs, n, adjacency).slopes
    for _ in range(200):
        X = np.stack([unit(rng, d) for _ in range(n)])
        shard = shard_of(X, loss, rng)
        theta = 50.0 * rng.standard_normal((1, d * loss.outputs))
        gone, other = X.copy(), X.copy()
        gone[0], other[0] = 0.0, unit(rng, d)
        full = risk_of(shard, loss).gradient(theta)
        changed = shard_of(other, loss, rng)
        y = shard.y.copy()
        y[0] = changed.y[0]
        # A record that is 0 has no slope: that is one whose loss is left out.
        there = gone if adjacency == "zero-out" else other
        moved = risk_of(Shard(there, y, shard.classes), loss).gradient(theta)
        assert np.linalg.norm(full - moved) <= claimed


def test_opposite_records_move_the_slope_by_all_of_it():
    n, loss = 8, HuberHinge()
    X = np.zeros((n, 2))
    X[0] = (1.0, 0.0)
    ours, theirs = (risk_of(Shard(Z, np.ones(n)), loss).gradient(np.zeros((1, 2))) for Z in (X, -X))
    assert np.linalg.norm(ours - theirs) == pytest.approx(2.0 / n)


def test_second_moments_are_the_same_however_records_are_stored():
    """In double precision each: what differs is far below the room for rounding."""
    X, y, loss = coded(150), labels(150), Logistic()
    dense = X.toarray()
    exact = folded(dense.T @ dense / len(y))
    room = Sensitivities.of(loss, X.d, len(y), "replace-one").moments - math.sqrt(2.0) / len(y)
    for stored in (X, dense, csr_array(dense)):
        found = moments(risk_of(Shard(stored, y), loss))
        assert np.linalg.norm(found - exact) < 1e-3 * room
    three = Shard(X, np.arange(150) % 3.0, 3)
    assert isinstance(risk_of(three, Multinomial(3)), ScoreRisk)
    assert np.linalg.norm(moments(risk_of(three, Multinomial(3))) - exact) < 1e-3 * room


# Costs


@pytest.mark.parametrize("trust", [Trust(), Trust("sum", 1), Trust("sum", 2, 3)])
@pytest.mark.parametrize("budget", [Budget(0.5, 1e-6), Budget(4.0, 1e-5)])
def test_a_run_costs_its_budget_by_both_accountants(trust, budget):
    """All that is reserved, repeats included; and as one Gaussian mechanism to a thousandth."""
    rule = make_rules(4, make_settings(trust, rounds=6, budgets=(budget,)))[0]
    tally = Tally()
    for charge, times in rule.reserved[0]:
        tally = tally.plus(charge, times)
    found = accountant.epsilon(tally, budget.delta).epsilon
    again = recompute.epsilon(to_plain(tally), budget.delta)
    assert found == pytest.approx(again, rel=1e-6)
    assert 0.999 * budget.epsilon < found <= budget.epsilon
    ratios = {stage: rule.price(stage, 0)[0] for stage in (MOMENTS, SLOPES)}
    times = {MOMENTS: 1 + trust.repeats, SLOPES: 5 + trust.repeats}
    m = math.sqrt(sum(times[s] * ratios[s] ** 2 for s in ratios))
    assert gdp_epsilon(budget.delta, m) == pytest.approx(found, rel=2e-3)


@given(st.floats(0.05, 8.0), st.integers(2, 40), st.integers(0, 5))
def test_both_accountants_agree_on_any_run(epsilon, rounds, repeats):
    trust = Trust("sum", 1, repeats)
    rule = make_rules(2, make_settings(trust, rounds, budgets=(Budget(epsilon, 1e-6),)))[0]
    tally = Tally()
    for charge, times in rule.reserved[0]:
        tally = tally.plus(charge, times)
    found = accountant.epsilon(tally, 1e-6).epsilon
    assert recompute.epsilon(to_plain(tally), 1e-6) == pytest.approx(found, rel=1e-6)


def test_the_noise_of_a_local_release_is_what_its_charge_says():
    rule = make_rules(3, make_settings(Trust()))[1]
    for stage in (MOMENTS, SLOPES):
        ratio, _ = rule.price(stage, 0)
        own = Sensitivities.of(Logistic(), 3, rule.site.risk.n, "replace-one")
        moved = own.moments if stage == MOMENTS else own.slopes
        assert moved / rule.sigma(stage)[0] == pytest.approx(ratio, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-4, 1.0])
def test_the_grid_of_a_local_release_leaves_room_in_the_sensitivity(epsilon):
    seen = []

    class Watching(SeededNoise):
        def gaussian(self, values, scale, grid, key):
            seen.append((key.purpose, values.shape[1], float(grid[0])))
            return super().gaussian(values, scale, grid, key)

    from ppadmm.engines import local
    from tests.summing.small_sums import make_sum_agents

    rules = make_rules(2, make_settings(Trust(), budgets=(Budget(epsilon, 1e-6),)))
    local.run(make_sum_agents(rules, Watching((0,))))
    for stage, size, grid in seen:
        assert math.sqrt(size) * grid <= 2.0**-12 * rules[1].sensitivity(stage) * (1 + 1e-9)


# Whose budget


def prepared(**changes):
    spec = RunSpec(algorithm="newton", agents=3, rounds=3, trust="sum", seed=0, **changes)
    return prepare(spec, data=load("synthetic"))


def test_all_sites_of_a_sum_have_the_strictest_budget():
    """A site with a looser one adds as much noise as the others: they rely on it."""
    mixed, strict = prepared(epsilons=(4.0, 0.5, 2.0)), prepared(epsilon=0.5)
    assert {budget.epsilon for budget in mixed.budgets} == {0.5}
    assert mixed.budgets == strict.budgets


def test_the_noise_of_an_agreement_is_that_of_the_strictest_party():
    from tests.peers.test_agreement import AGREED, party

    parties = (party(0, epsilon=4.0), party(1, epsilon=0.5), party(2, epsilon=2.0))
    terms = replace(AGREED, parties=parties, algorithm="newton", trust="sum", weights="records")
    found = {terms.settings(i).budgets[0].epsilon for i in range(3)}
    assert found == {0.5}


def test_a_site_that_counts_more_than_its_records_is_refused():
    graph, rng = make_graph("complete", 2), np.random.default_rng(0)
    risk = risk_of(
        shard_of(np.stack([unit(rng, 3) for _ in range(10)]), Logistic(), rng), Logistic()
    )
    good = site_in(graph, 0, risk, (10, 30), 40)
    build("newton", good, make_settings())
    with pytest.raises(Exception, match="weigh sites by their records"):
        build("newton", site_in(graph, 0, risk, (20, 20), 40), make_settings())
