import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ppadmm import RunSpec, train
from ppadmm.accounting import Budget
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.algorithms import ALGORITHMS, Site, recipe_named
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.defaults import ROUNDS, Sizes, default_eta, default_rounds
from ppadmm.algorithms.method import MethodSpec, choose, settings_of, strictest, weigh
from ppadmm.errors import InfeasibleError, InputError, SolverError
from ppadmm.problem import HuberHinge, Logistic, NoRecords, loss_for, make_graph
from ppadmm.problem.graphs import KINDS

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


def rules(method, records, features, graph, budgets, loss):
    """Build every agent with what the defaults choose, from public numbers alone."""
    chosen, d = choose(method, (records, features, graph), budgets, loss), features * loss.outputs
    if method.recipe.pooled:
        place = Site(0, 1, (), Sized(sum(records), d, loss))
        return [method.recipe.build(place, settings_of([chosen], [strictest(budgets)]))]
    weights = weigh(chosen, records, budgets, d)
    return [
        method.recipe.build(
            site_in(graph, i, Sized(n, d, loss), weights), settings_of([chosen], [budget])
        )
        for i, (n, budget) in enumerate(zip(records, budgets, strict=True))
    ]


def finite(agents):
    return all(np.isfinite(scale).all() for agent in agents for scale in agent.scales.values())


networks = st.builds(make_graph, st.sampled_from(sorted(KINDS)), st.integers(2, 12))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=60, deadline=None)
@given(
    loss=st.sampled_from(LOSSES),
    n=st.integers(1, 10**6),
    d=st.integers(1, 10**4),
    graph=networks,
    budget=st.builds(Budget, epsilons, deltas),
    rounds=st.one_of(st.none(), st.sampled_from([1, 2, 10, 1000])),
)
@example(("huber-hinge", 3), 200, 5, make_graph("grid", 5), Budget(50.0, 1e-6), None)
@example(("huber-hinge", 10), 2000, 20, make_graph("ring", 5), Budget(20.0, 1e-6), None)
@example(("huber-hinge", 100), 1000, 2, make_graph("ring", 5), Budget(0.5, 1e-6), None)
@example(("logistic", 2), 1000, 41, make_graph("star", 2), Budget(100.0, 1e-6), None)
@example(("logistic", 2), 1000, 41, make_graph("ring", 5), Budget(1000.0, 1e-6), 1)
def test_the_defaults_can_always_be_calibrated(algorithm, loss, n, d, graph, budget, rounds):
    least = 2 if algorithm == "newton" else 1  # second moments and a step
    method = MethodSpec(algorithm=algorithm, rounds=rounds and max(rounds, least))
    N = graph.size
    assert finite(rules(method, (n,) * N, d, graph, [budget] * N, loss_for(*loss)))


REFUSALS = (InfeasibleError, SolverError, InputError)


def random_federation(rng):
    """Sizes, network and budgets as they may come: 1 … 10⁶ records, 0.05 ≤ ε ≤ 20 at each site."""
    N = int(rng.choice([2, 3, 5, 8, 12, 20]))
    records = np.exp(rng.uniform(0.0, np.log(1e6), N)).astype(int)
    records[rng.random(N) < rng.choice([0.0, 0.3])] = 0
    records[rng.integers(N)] += 1
    each = np.exp(rng.uniform(np.log(0.05), np.log(20.0), N))
    each = each if rng.random() < 0.5 else np.full(N, each[0])
    delta = float(rng.choice([1e-8, 1e-6, 1e-4]))
    graph = make_graph(str(rng.choice(sorted(KINDS))), N, int(rng.integers(100)))
    return tuple(records.tolist()), graph, [Budget(float(e), delta) for e in each]


def refused(*federation):
    """Return why it cannot be calibrated, or None if it can."""
    try:
        assert finite(rules(*federation))
    except REFUSALS as refusal:
        return str(refusal)
    return None


@pytest.mark.parametrize("weights", ["records", "noise", "equal"])
@pytest.mark.parametrize("part", range(4))
def test_any_federation_is_calibrated_or_refused_in_a_sentence(weights, part):
    """1,000 federations from public numbers alone; by records or noise nothing is refused.

    Averages of one model each have no use for a site without records, and say so.
    """
    for k in range(84):
        rng = np.random.default_rng([part, k])
        records, graph, budgets = random_federation(rng)
        method = MethodSpec(algorithm=str(rng.choice(list(ALGORITHMS))), weights=weights)
        loss = loss_for(*LOSSES[rng.integers(len(LOSSES))])
        d = int(np.exp(rng.uniform(0.0, np.log(2000.0))))
        refusal = refused(method, records, d, graph, budgets, loss)
        useless = method.algorithm == "one-shot" and 0 in records
        assert refusal is None or weights == "equal" or useless, (method.algorithm, refusal)
        assert refusal is None or (refusal.endswith(".") and ". " not in refusal)


@pytest.mark.parametrize("kind", ["ring", "star", "complete", "erdos-renyi"])
@pytest.mark.parametrize("sizes", ["equal", "giant"])
def test_a_thousand_sites_are_calibrated(kind, sizes):
    graph = make_graph(kind, 1000)
    records = (36,) * 1000 if sizes == "equal" else (10**6,) + (3,) * 999
    budgets = [Budget(1.0, 1e-6)] * 1000
    chosen = choose(MethodSpec(), (records, 41, graph), budgets, Logistic())
    weights, degrees = weigh(chosen, records, budgets, 41), graph.degrees
    for i in {0, 1, degrees.index(min(degrees)), degrees.index(max(degrees))}:
        place = site_in(graph, i, Sized(records[i], 41, Logistic()), weights)
        assert finite([recipe_named("pp").build(place, settings_of([chosen], [budgets[i]]))])


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss[0]}-{loss[1]}")
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("n", [10, 1000, 100_000])
def test_curvature_leaves_most_of_the_budget_to_the_noise(loss, epsilon, n):
    """On average over the agents; one with few neighbours may pay more of it."""
    loss, budgets, graph = loss_for(*loss), [Budget(epsilon, 1e-6)] * 5, make_graph("grid", 5)
    agents = rules(MethodSpec(), (n,) * 5, 20, graph, budgets, loss)
    sigmas = np.array([agent.scales["sigma1"].item() for agent in agents])
    least = 2.0 * loss.lipschitz / n * math.sqrt(agents[0].rounds) / gdp_ratio(epsilon, 1e-6)
    assert set(graph.degrees) == {1, 2, 3}
    assert ROUNDS[0] <= agents[0].rounds <= ROUNDS[1]
    assert (sigmas**2).mean() < least**2 / 0.5
    assert (sigmas**2).max() < least**2 / 0.3


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


def test_eta_is_one_over_the_mean_degree_and_rounds_let_a_sparse_network_agree():
    def plan(kind, size):
        graph, budgets = make_graph(kind, size), [Budget(4.0, 1e-6)] * size
        return choose(MethodSpec(), ((2000,) * size, 41, graph), budgets, Logistic())

    ring, complete = plan("ring", 30), plan("complete", 30)
    assert ring.rounds > 2 * complete.rounds
    per_round = [2 * ring.eta / ring.rounds, 29 * complete.eta / complete.rounds]
    assert per_round[0] == pytest.approx(per_round[1], rel=0.05)
    assert plan("ring", 300).rounds > ROUNDS[1]  # many sites may have more


def test_more_budget_than_the_sampler_can_state_changes_nothing():
    sizes = Sizes((7000,) * 5, 41, (2,) * 5, (1.0,) * 5)

    def plan(epsilon):
        budgets = (Budget(epsilon, 1e-6),) * 5
        T = default_rounds(sizes, budgets, Logistic())
        return T, default_eta(sizes, budgets, Logistic(), T)

    assert plan(50.0) == plan(1000.0) != plan(20.0)


@pytest.mark.parametrize("name", ["one-shot", "centralised"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0, 30.0])
def test_more_epsilon_never_buys_a_loud_second_noise(name, epsilon):
    """A small λ̂ asks for a large β, and σ₂ = 2β/(μm√share) grew with ε: 0.86 at ε = 8."""
    spec = RunSpec(algorithm=name, epsilon=epsilon, delta=1e-4, agents=1 + 4 * (name[0] == "o"))
    found = train(replace(spec, seed=0))
    assert found.noise[0]["sigma2"] < 0.13
