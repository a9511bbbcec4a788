import math

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ppadmm.accounting import Budget
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.algorithms import ALGORITHMS, Site, recipe_named
from ppadmm.algorithms.defaults import ROUNDS, Sizes, default_eta, default_rounds
from ppadmm.algorithms.method import MethodSpec, choose, settings_of
from ppadmm.problem import HuberHinge, Logistic, NoRecords, loss_for

LOSSES = [("logistic", 2), ("huber-hinge", 2), ("logistic", 3), ("logistic", 100)]
LOSSES += [("huber-hinge", K) for K in (3, 10, 100)]
epsilons, deltas = st.floats(0.01, 1000), st.sampled_from([1e-8, 1e-6, 1e-4])


class Sized(NoRecords):
    """All that calibration may know of n records."""

    def __init__(self, n, d, loss):
        super().__init__(d, loss)
        self.many = n

    @property
    def n(self):
        return self.many


def built(algorithm, loss, n, features, degrees, budget, rounds=None):
    """Build every kind of agent with what the defaults choose."""
    records, budgets = (n,) * len(degrees), (budget,) * len(degrees)
    method = MethodSpec(algorithm=algorithm, rounds=rounds)
    pooled = method.recipe.pooled
    chosen = settings_of([choose(method, (records, features, degrees), budgets, loss)], [budget])
    agents, held = (1, sum(records)) if pooled else (len(degrees), n)
    risk = Sized(held, features * loss.outputs, loss)
    return [
        recipe_named(algorithm).build(
            Site(0, agents, tuple(range(degree)), risk, (1,) * degree), chosen
        )
        for degree in ({0} if pooled else set(degrees))
    ]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=60, deadline=None)
@given(
    loss=st.sampled_from(LOSSES),
    n=st.integers(1, 10**6),
    d=st.integers(1, 10**4),
    degrees=st.lists(st.integers(1, 10), min_size=2, max_size=30),
    budget=st.builds(Budget, epsilons, deltas),
    rounds=st.one_of(st.none(), st.sampled_from([1, 2, 10, 1000])),
)
@example(("huber-hinge", 3), 200, 5, [1, 2, 2, 2, 3], Budget(50.0, 1e-6), None)
@example(("huber-hinge", 10), 2000, 20, [2] * 5, Budget(20.0, 1e-6), None)
@example(("huber-hinge", 100), 1000, 2, [2] * 5, Budget(0.5, 1e-6), None)
@example(("logistic", 2), 1000, 41, [1] * 2, Budget(100.0, 1e-6), None)
@example(("logistic", 2), 1000, 41, [2] * 5, Budget(1000.0, 1e-6), 1)
def test_the_defaults_can_always_be_calibrated(algorithm, loss, n, d, degrees, budget, rounds):
    for agent in built(algorithm, loss_for(*loss), n, d, tuple(degrees), budget, rounds):
        assert all(math.isfinite(scale.item()) for scale in agent.scales.values())


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss[0]}-{loss[1]}")
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("n", [10, 1000, 100_000])
def test_curvature_leaves_most_of_the_budget_to_the_noise(loss, epsilon, n):
    loss, budget = loss_for(*loss), Budget(epsilon, 1e-6)
    for agent in built("pp", loss, n, 20, (1, 2, 2, 2, 3), budget):
        assert ROUNDS[0] <= agent.rounds <= ROUNDS[1]
        ratio = 2.0 * loss.lipschitz / n / agent.scales["sigma1"].item()
        assert agent.rounds * ratio**2 > 0.55 * gdp_ratio(epsilon, 1e-6) ** 2


@given(
    n=st.integers(100, 10**5),
    epsilon=st.floats(0.05, 20),
    delta=deltas,
    loss=st.sampled_from([Logistic(), HuberHinge(0.5)]),
)
def test_more_records_or_budget_never_ask_for_more_penalty(n, epsilon, delta, loss):
    def eta(records, budget):
        sizes = Sizes((records,) * 4, 20, (2,) * 4, (1.0,) * 4)
        return default_eta(sizes, (budget,) * 4, loss, 50)

    assume(n >= 100)
    here = eta(n, Budget(epsilon, delta))
    assert eta(2 * n, Budget(epsilon, delta)) <= here
    assert eta(n, Budget(2 * epsilon, delta)) <= here


def test_more_budget_than_the_sampler_can_state_changes_nothing():
    sizes = Sizes((7000,) * 5, 41, (2,) * 5, (1.0,) * 5)

    def plan(epsilon):
        budgets = (Budget(epsilon, 1e-6),) * 5
        T = default_rounds(sizes, budgets, Logistic())
        return T, default_eta(sizes, budgets, Logistic(), T)

    assert plan(50.0) == plan(1000.0) != plan(20.0)
