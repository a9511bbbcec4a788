"""Runs chosen because of what earlier ones released: the filter holds, the joint sum does not."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.accounting import (
    Approximate,
    Budget,
    Gaussian,
    NonPrivate,
    ObjectivePerturbation,
    Pure,
    Tally,
    accountant,
)
from ppadmm.accounting.filters import (
    Rule,
    best_order,
    filtered,
    fixed_part,
    odometer,
    rule_for,
    rule_of,
)
from ppadmm.accounting.gaussian import gdp_delta, gdp_ratio

grants = st.builds(Budget, st.floats(0.01, 30.0), st.sampled_from([1e-9, 1e-6, 1e-4, 1e-2]))


def room(grant):
    """The divergence that the filter of a grant lets through, and its order."""
    order = best_order(grant)
    return grant.epsilon - float(fixed_part(np.array(order), grant.delta)), order


def rdp(event, order):
    return float(accountant.rdp(event, np.array([order]))[0])


@given(grant=grants)
def test_gaussian_mechanisms_with_any_adaptive_scales(grant):
    """Whatever follows from whatever, Σ(Δ/σ)² ≤ m² is exactly m-Gaussian at the worst."""
    divergence, order = room(grant)
    m = math.sqrt(2.0 * divergence / order)
    assert gdp_delta(grant.epsilon, m) <= grant.delta


@pytest.mark.parametrize(
    ("delta", "least"), [(1e-9, 0.93), (1e-6, 0.90), (1e-4, 0.84), (1e-2, 0.7)]
)
def test_how_tight_the_filter_is(delta, least):
    """The share of the exact Δ/σ that one order lets through: the less, the larger δ is against ε.

    So no one share holds for all grants: at ε = 0.01 it was 0.939, 0.904, 0.845 and 0.702.
    """
    shares = []
    for epsilon in np.geomspace(0.01, 30.0, 40):
        divergence, order = room(Budget(float(epsilon), delta))
        shares.append(math.sqrt(2.0 * divergence / order) / gdp_ratio(float(epsilon), delta))
    assert least < min(shares) < least + 0.02
    assert shares[0] == min(shares)


@pytest.mark.parametrize("grant", [Budget(1.0, 1e-6), Budget(0.3, 1e-4), Budget(8.0, 1e-6)])
def test_the_order_is_the_one_that_lets_most_gaussian_noise_through(grant):
    divergence, order = room(grant)
    orders = 1.0 + np.geomspace(1e-3, 1e4, 20_000)
    others = (grant.epsilon - fixed_part(orders, grant.delta)) / orders
    assert divergence / order == pytest.approx(others.max(), rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "let_through", "exact"),
    [(0.1, 0.0253, 0.0275), (1.0, 0.221, 0.237), (3.0, 0.608, 0.648), (10.0, 1.75, 1.85)],
)
def test_what_the_filter_costs(epsilon, let_through, exact):
    """The figures of docs/privacy.md, section 14, at δ = 10⁻⁶."""
    divergence, order = room(Budget(epsilon, 1e-6))
    assert math.sqrt(2.0 * divergence / order) == pytest.approx(let_through, rel=3e-3)
    assert gdp_ratio(epsilon, 1e-6) == pytest.approx(exact, rel=3e-3)


STEPS = (1, 2, 4)
"""Strengths that are asked for, in twentieths of ε."""


@pytest.mark.parametrize("grant", [Budget(1.0, 1e-3), Budget(0.4, 1e-4), Budget(2.0, 1e-2)])
def test_the_best_adversary_against_randomised_response(grant):
    """Every adaptive choice among three strengths, by dynamic programming: δ(ε) is exact."""
    divergence, order = room(grant)
    unit = grant.epsilon / 20.0
    price = [rdp(Pure(unit * step), order) for step in STEPS]

    @cache
    def worst(counts, loss):
        best = max(0.0, -math.expm1(min(grant.epsilon - unit * loss, 0.0)))
        for k, step in enumerate(STEPS):
            more = tuple(n + (i == k) for i, n in enumerate(counts))
            if sum(n * each for n, each in zip(more, price, strict=True)) <= divergence:
                p = 1.0 / (1.0 + math.exp(-unit * step))
                either = worst(more, loss + step), worst(more, loss - step)
                best = max(best, p * either[0] + (1.0 - p) * either[1])
        return best

    assert 0.0 < worst((0, 0, 0), 0) <= grant.delta
    assert worst.cache_info().currsize > 100


E0, ANSWERS = 0.05, 20
P = math.exp(E0) / (1.0 + math.exp(E0))


def adversary(grant, scale, answers=ANSWERS):
    """δ(ε), exactly, of asking ε₀-randomised responses while they go one way.

    At the first that goes the other way, as the j-th, one Gaussian mechanism of Δ/σ = `scale(j)`
    is asked, and no more. The loss is ε₀·(answers this way − that way) plus the Gaussian's.
    """
    total = P**answers * -math.expm1(min(grant.epsilon - answers * E0, 0.0))
    for j in range(1, answers + 1):
        if (m := scale(j)) > 0.0:
            total += P ** (j - 1) * (1.0 - P) * gdp_delta(grant.epsilon - (j - 2) * E0, m)
    return total


class TestAConcreteSequence:
    """The joint sum, at its best order or theorem, lets it through; its δ is not what it says."""

    epsilon = ANSWERS * E0 - 0.05
    grant = Budget(epsilon, P**ANSWERS * -math.expm1(epsilon - ANSWERS * E0))

    def scale(self, j):
        left = self.epsilon - j * E0
        return gdp_ratio(left, self.grant.delta) if left > 0.0 else 0.0

    def test_every_ending_is_within_the_joint_sum(self):
        ends = [((Pure(E0), ANSWERS),)]
        ends += [
            ((Pure(E0), j), (Gaussian(self.scale(j)), 1))
            for j in range(1, ANSWERS + 1)
            if self.scale(j)
        ]
        for counts in ends:
            spent = accountant.epsilon(Tally(counts), self.grant.delta).epsilon
            assert spent <= self.epsilon * (1.0 + 1e-9)

    def test_and_yet_it_costs_more(self):
        assert adversary(self.grant, self.scale) > 1.05 * self.grant.delta

    def test_the_filter_stops_it_in_time(self):
        divergence, order = room(self.grant)
        each = rdp(Pure(E0), order)
        answers = int(divergence / each)
        assert 1 < answers < ANSWERS

        def scale(j):
            return math.sqrt(2.0 * (divergence - j * each) / order)

        assert 0.0 < adversary(self.grant, scale, answers) <= self.grant.delta


class TestSums:
    grant = Budget(1.0, 1e-6)

    def test_the_worst_agent_of_every_run(self):
        first = [Tally(((Gaussian(0.1), 2),)), Tally(((Pure(0.01), 3),))]
        second = [Tally(((ObjectivePerturbation(0.1, 1e-4), 5),)), Tally()]
        order = best_order(self.grant)
        parts = [2 * rdp(Gaussian(0.1), order), 5 * rdp(ObjectivePerturbation(0.1, 1e-4), order)]
        fixed = float(fixed_part(np.array(order), 1e-6))
        found = filtered([first, second], self.grant, order)
        assert found == pytest.approx(fixed + sum(parts), rel=1e-12)

    def test_it_never_says_less_than_the_joint_sum(self):
        tally = Tally(((ObjectivePerturbation(0.03, 1e-4), 20), (Gaussian(0.01), 20)))
        alone = accountant.epsilon(tally, 1e-6).epsilon
        assert filtered([[tally]], self.grant, best_order(self.grant)) > alone

    def test_what_has_no_bound(self):
        order = best_order(self.grant)
        assert filtered([[Tally(((NonPrivate(), 1),))]], self.grant, order) == math.inf
        coarse = Tally(((Gaussian(0.1), 1), (Approximate(1e-9 / 2.0), 1)))
        assert filtered([[coarse]], self.grant, order) == math.inf


class TestOdometer:
    """What may be said of runs whose number and kind follow from what was seen."""

    runs = ([Tally(((Gaussian(0.237), 1),)), Tally(((Pure(0.01), 1),))],) * 4
    order = best_order(Budget(2.0, 1e-6))

    def test_it_adds_up_at_one_order(self):
        expected = 4 * rdp(Gaussian(0.237), self.order) - math.log(0.999e-6) / (self.order - 1.0)
        assert odometer(self.runs, 1e-6, self.order) == pytest.approx(expected, rel=1e-12)

    def test_it_is_more_than_a_plan_or_a_grant_would_need(self):
        planned = accountant.epsilon(Tally(((Gaussian(0.237), 4),)), 1e-6).epsilon
        granted = filtered(self.runs, Budget(3.0, 1e-6), self.order)
        assert planned < granted < odometer(self.runs, 1e-6, self.order)

    def test_what_has_no_bound(self):
        assert odometer([[Tally(((NonPrivate(), 1),))]], 1e-6, self.order) == math.inf
        coarse = [[Tally(((Gaussian(0.1), 1), (Approximate(2e-9), 1)))]]
        assert odometer(coarse, 1e-6, self.order) == math.inf

    @pytest.mark.parametrize("order", [3.0, 9.0, 30.0])
    def test_no_adversary_who_stops_when_he_likes_beats_it(self, order):
        """Randomised responses of three strengths, asked and stopped at will, to a depth of 14.

        By dynamic programming the largest probability that the loss is ever above the odometer.
        """
        delta, unit, depth = 0.02, 0.2, 14
        price = [rdp(Pure(unit * step), order) for step in STEPS]
        fixed = -math.log(delta * 0.999) / (order - 1.0)

        @cache
        def worst(counts, loss):
            spent = sum(n * each for n, each in zip(counts, price, strict=True))
            if unit * loss > spent + fixed:
                return 1.0
            if sum(counts) == depth:
                return 0.0
            best = 0.0
            for k, step in enumerate(STEPS):
                more = tuple(n + (i == k) for i, n in enumerate(counts))
                p = 1.0 / (1.0 + math.exp(-unit * step))
                best = max(
                    best, p * worst(more, loss + step) + (1.0 - p) * worst(more, loss - step)
                )
            return best

        assert 0.7 * delta < worst((0, 0, 0), 0) <= delta


class TestRules:
    def test_a_rule_is_read_as_it_was_written(self):
        for name in ("planned", "adaptive"):
            rule = rule_for(name, Budget(1.0, 1e-6))
            assert rule_of({"rule": rule.to_plain()}) == rule

    @pytest.mark.parametrize(
        "rule", [("none", None), ("adaptive", None), ("planned", 2.0), ("adaptive", 1.0),
                 ("adaptive", math.inf)],
    )  # fmt: skip
    def test_nonsense_is_refused(self, rule):
        with pytest.raises(ValueError, match=r"rule|order"):
            Rule(*rule)
