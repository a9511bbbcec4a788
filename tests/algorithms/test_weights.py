"""Site weights: what they are, and that noise, residual and radius follow from them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.accounting import Budget
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.algorithms import build
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.gradient import STEP
from ppadmm.algorithms.method import MethodSpec, choose, weigh
from ppadmm.algorithms.settings import Speaking
from ppadmm.algorithms.weights import WEIGHTS as KINDS
from ppadmm.algorithms.weights import site_weights
from ppadmm.engines.local import averaged
from ppadmm.errors import InputError
from ppadmm.mechanisms.limits import RADIUS_SHARE, rounding_per_unit
from ppadmm.problem import Logistic, NoRecords, make_graph, risk_of
from ppadmm.solvers.accelerated import GROWTH
from tests.small_problems import make_agents, make_settings, random_shard

SIZES = (60, 0, 2500, 300, 7)
WEIGHTS = site_weights("records", SIZES)


def rules(algorithm="pp", kind="star", sizes=SIZES, weights="records", **changes):
    """Every agent's rule, listeners' among them."""
    graph, shares = make_graph(kind, len(sizes)), site_weights(weights, sizes)
    settings = make_settings(**{"eta": (0.5,), "beta": 1e-7, **changes})
    risks = [
        risk_of(random_shard(n=n, seed=i), Logistic()) if n else NoRecords(5, Logistic())
        for i, n in enumerate(sizes)
    ]
    return [
        build(algorithm, site_in(graph, i, risk, shares), settings) for i, risk in enumerate(risks)
    ]


def test_by_records_they_add_up_to_the_number_of_holders():
    assert pytest.approx([4 * n / 2867 for n in SIZES]) == WEIGHTS
    assert math.fsum(WEIGHTS) == pytest.approx(4.0)
    assert site_weights("equal", SIZES) == (1.0,) * 5
    assert site_weights("records", (9, 9, 9)) == (1.0, 1.0, 1.0)
    with pytest.raises(InputError, match="none has any"):
        site_weights("records", (0, 0))
    with pytest.raises(InputError, match="Unknown weights 'size'"):
        site_weights("size", SIZES)


def test_the_papers_calibration_knows_no_weights():
    assert MethodSpec(calibration="paper").weighting == "equal"
    with pytest.raises(InputError, match="all sites count alike"):
        MethodSpec(calibration="paper", weights="records")


@pytest.mark.parametrize("algorithm", ["pp", "ipp"])
def test_noise_is_for_the_subproblem_that_is_solved(algorithm):
    """μ, κ, Δ₂ and the residual, written down anew from wᵢ, nᵢ and the terms."""
    for rule in rules(algorithm, speaking=Speaking(releases=3)):
        site, n = rule.site, rule.site.risk.n
        if not n:
            continue
        w, steep = WEIGHTS[site.agent], 0.05 / 5 + 2.0 * 0.5 * site.degree
        assert rule.subproblem(rule.init()).mu == pytest.approx(steep / w, rel=1e-14)
        assert rule.mechanism.reach.mu == pytest.approx(steep / w, rel=1e-14)
        assert rule.mechanism.beta == pytest.approx(1e-7 / w, rel=1e-14)
        event, second = rule.mechanism.charges[0].events[:2]
        noise = rule.mechanism.noises[0]
        assert event.kappa == pytest.approx(0.25 * w / (n * steep), rel=1e-12)
        assert event.ratio == pytest.approx(2.0 / (n * noise.sigma1), rel=1e-12)
        assert second.ratio * noise.sigma2 == pytest.approx(2e-7 / steep, rel=3e-3)
        assert second.ratio * noise.sigma2 > 2e-7 / steep


def test_whatever_a_neighbour_says_the_subproblem_is_the_common_one_divided_by_the_weight():
    """F/w has F's minimiser: c/w and μ/w for the linear term and the modulus of F."""
    weighed, alike = rules(), rules(weights="equal")
    rng = np.random.default_rng(0)
    for mine, theirs in zip(weighed, alike, strict=True):
        state = mine.init()
        told = {j: type(state.own)(*rng.standard_normal((2, 1, 5))) for j in mine.site.neighbours}
        state = mine.absorb(state, told)
        ours, plain = mine.subproblem(state), theirs.subproblem(state)
        w = mine.site.weight
        assert ours.mu * w == pytest.approx(plain.mu, rel=1e-14)
        np.testing.assert_allclose(ours.linear * w, plain.linear, rtol=1e-13)


@pytest.mark.parametrize("algorithm", ["pp", "ipp", "gradient"])
@pytest.mark.parametrize("kind", ["star", "ring", "complete"])
def test_all_agents_find_one_radius_at_which_each_has_room_for_rounding(algorithm, kind):
    """Rounding at ‖θ‖ = R takes RADIUS_SHARE of β/wᵢ at most, at the heaviest agent nearly all."""
    found = rules(algorithm, kind)
    assert len({float(rule.radius[0]) for rule in found}) == 1
    if algorithm == "gradient":
        return
    shares = []
    for rule in found:
        if rule.site.risk.n:
            reach = rule.mechanism.reach
            spent = GROWTH * rounding_per_unit(reach.loss, reach.parameters, reach.mu)
            shares.append(float((spent * reach.radius / reach.beta)[0]))
    assert max(shares) <= RADIUS_SHARE * (1.0 + 1e-12)
    assert kind != "complete" or max(shares) == pytest.approx(RADIUS_SHARE)


def test_one_shot_agents_find_one_radius():
    sizes = (60, 2500, 300)
    found = {float(r.radius[0]) for r in rules("one-shot", "ring", sizes, regularisation=(30.0,))}
    assert len(found) == 1


def test_who_only_listens_minimises_the_same_whatever_its_weight():
    graph = make_graph("star", 5)
    settings = make_settings()
    values = []
    for shares in (WEIGHTS, (1.0,) * 5):
        rule = build("pp", site_in(graph, 1, NoRecords(5, Logistic()), shares), settings)
        state = rule.absorb(rule.init(), {0: type(rule.init().own)(*np.ones((2, 1, 5)))})
        values.append(rule.propose(state, None)[1].value)
    np.testing.assert_array_equal(*values)


@pytest.mark.parametrize("sizes", [(7, 9000), (50, 50, 20000, 1), (1000,) * 5])
def test_the_default_beta_is_enough_for_every_agent(sizes):
    budgets, graph = [Budget(1.0, 1e-6)] * len(sizes), make_graph("complete", len(sizes))
    found = choose(MethodSpec(), (sizes, 5, graph), budgets, Logistic())
    terms = {"rounds": found.rounds, "eta": (found.eta,), "beta": found.beta}
    rules("pp", "complete", sizes, budgets=(budgets[0],), regularisation=(0.0,), **terms)


def test_steps_of_gradient_descent_are_those_of_the_heaviest_site():
    """With much budget it goes on for long, and the longest step that is allowed is taken."""
    method = MethodSpec(algorithm="gradient")

    def step(*records):
        budgets = [Budget(20.0, 1e-6)] * len(records)
        network = make_graph("complete", len(records))
        return choose(method, (records, 5, network), budgets, Logistic()).eta

    assert step(10_000, 10_000) == STEP
    assert step(10_000, 30_000) == pytest.approx(STEP / 1.5)
    assert step(10, 10) < STEP


def test_an_average_by_weight_leaves_out_who_has_no_records():
    models = np.arange(10.0).reshape(5, 2)
    np.testing.assert_allclose(
        averaged(models, WEIGHTS), np.average(models, axis=0, weights=SIZES), rtol=1e-14
    )


def test_equal_sizes_count_alike_to_the_last_bit():
    """By records or alike: the same rules, so the same releases from the same noise."""
    graph = make_graph("ring", 4)
    first, second = (
        [agent.next().release.value for agent in make_agents(graph, make_settings(), weights=kind)]
        for kind in ("records", "equal")
    )
    np.testing.assert_array_equal(first, second)


holdings = st.lists(st.integers(0, 10**6), min_size=1, max_size=20).filter(any)


@pytest.mark.parametrize("kind", KINDS)
@given(records=holdings, epsilon=st.floats(0.05, 20), parameters=st.integers(1, 10**4))
def test_weights_of_sites_with_records_add_up_to_their_number(kind, records, epsilon, parameters):
    weights = site_weights(kind, records, [Budget(epsilon, 1e-6)] * len(records), parameters)
    held = [w for w, n in zip(weights, records, strict=True) if n]
    assert sum(held) == pytest.approx(len(held))
    assert kind == "equal" or not any(w for w, n in zip(weights, records, strict=True) if not n)


def test_weights_by_noise_give_the_mean_gradient_the_least_variance():
    records, epsilons, p = (4000, 1000, 1000, 250), (0.3, 0.1, 2.0, 8.0), 41
    budgets = [Budget(epsilon, 1e-6) for epsilon in epsilons]
    n, m = np.array(records), np.array([gdp_ratio(e, 1e-6) for e in epsilons])
    each = 1.0 / (4.0 * n) + 4.0 * p / (n * m) ** 2

    def variance(weights):
        return (np.array(weights) ** 2 * each).sum() / sum(weights) ** 2

    best = site_weights("noise", records, budgets, p)
    rng = np.random.default_rng(0)
    others = [np.array(best) * np.exp(0.1 * rng.standard_normal(4)) for _ in range(100)]
    assert variance(best) < min(map(variance, others))
    assert variance(best) < 0.2 * variance(site_weights("records", records))
    assert best[2] > best[1]  # as many records, a larger budget


def test_without_noise_weights_by_noise_are_those_by_records():
    records, budgets = (5, 0, 70), [Budget(1.0, 1e-6)] * 3
    assert site_weights("noise", records) == site_weights("records", records)
    free = MethodSpec(algorithm="non-private", weights="noise")
    assert weigh(free, records, budgets, 9) == site_weights("records", records)
    assert weigh(MethodSpec(algorithm="centralised"), records, budgets, 9) == (1.0,)
