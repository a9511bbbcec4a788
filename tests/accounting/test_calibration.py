"""Calibration: what it returns is private, hardly more noise than needed, or truly impossible."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ppadmm.accounting import (
    Approximate,
    Budget,
    Gaussian,
    Noise,
    ObjectivePerturbation,
    StepConstants,
    Tally,
    calibrate,
    epsilon,
    perturbed_step,
    with_noise,
)
from ppadmm.accounting.calibration import is_feasible, largest_kappa, largest_private
from ppadmm.accounting.sensitivity import MARGIN, TAIL, objective_grid, output_grid
from ppadmm.errors import BudgetError, InfeasibleError, InputError
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import FINENESS, total_variation


def log_floats(low: float, high: float):
    return st.floats(math.log(low), math.log(high)).map(math.exp)


def spent(noise: Noise, releases: int, delta: float) -> float:
    return epsilon(Tally.of([noise.charge], releases), delta).epsilon


budgets = st.builds(Budget, log_floats(1e-3, 50.0), log_floats(1e-12, 0.1))
rounds = log_floats(1.0, 500.0).map(round)
steps = st.builds(
    perturbed_step,
    lipschitz=st.just(1.0),
    smoothness=st.sampled_from([0.25, 1.0, 10.0]),
    n=log_floats(1.0, 1e8).map(round),
    d=st.sampled_from([1, 10, 108, 10_000]),
    mu=log_floats(1e-8, 1e2),
    beta=log_floats(1e-12, 1e-2),
    adjacency=st.sampled_from(["replace-one", "zero-out"]),
)


@settings(max_examples=120, deadline=None)
@given(budgets, steps, rounds, log_floats(1e-6, 0.5))
@example(
    Budget(1.0, 1e-6),
    perturbed_step(lipschitz=1.0, smoothness=0.25, n=7000, d=41, mu=2.0, beta=1e-8),
    30,
    1e-3,
)
def test_noise_is_private_and_tight_or_impossible(budget, step, releases, share):
    try:
        noise = calibrate(budget, step, releases, share)
    except InfeasibleError:
        assert not is_feasible(budget, step, releases)
        return
    assert spent(noise, releases, budget.delta) <= budget.epsilon
    less = with_noise(step, noise.sigma1 * 0.999, noise.sigma2 * 0.999)
    assert spent(less, releases, budget.delta) > budget.epsilon
    assert is_feasible(budget, step, releases)


@settings(max_examples=80, deadline=None)
@given(budgets, steps, rounds)
def test_impossible_means_that_even_endless_noise_is_not_enough(budget, step, releases):
    step = replace(step, distance=0.0)
    try:
        calibrate(budget, step, releases)
    except InfeasibleError:
        assert not is_feasible(budget, step, releases)
        endless = step.perturbation(0.0)
        least = epsilon(Tally(((endless, releases),)), budget.delta).epsilon
        assert least > budget.epsilon * (1.0 - 1e-4)
    else:
        assert is_feasible(budget, step, releases)


@settings(max_examples=60, deadline=None)
@given(budgets, steps, rounds, log_floats(1e-6, 0.5))
def test_the_share_splits_the_gaussian_budget(budget, step, releases, share):
    try:
        noise = calibrate(budget, step, releases, share)
    except InfeasibleError:
        assume(False)
    first, second = step.sensitivity / noise.sigma1, step.spread / noise.sigma2
    assert second**2 / (first**2 + second**2) == pytest.approx(share, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(budgets, st.integers(1, 2), st.integers(1, 9), rounds)
def test_largest_kappa_is_the_edge_of_what_is_feasible(budget, records, span, releases):
    step = StepConstants(
        1.0, 0.0, records=records, spread=0.0, span=span, trace=2 * span / (span + 1)
    )
    kappa = largest_kappa(budget, step, releases)
    assert kappa == 0.0 or is_feasible(budget, replace(step, kappa=kappa), releases)
    beyond = replace(step, kappa=max(kappa * 1.002, 2e-15))
    assert not is_feasible(budget, beyond, releases)


@settings(max_examples=40, deadline=None)
@given(budgets, rounds)
def test_more_rounds_or_a_smaller_budget_need_more_noise(budget, releases):
    step = perturbed_step(lipschitz=1.0, smoothness=0.25, n=10**7, d=5, mu=10.0, beta=1e-8)
    try:
        base = calibrate(budget, step, releases)
        others = [
            calibrate(budget, step, 2 * releases),
            calibrate(Budget(budget.epsilon / 2.0, budget.delta), step, releases),
            calibrate(Budget(budget.epsilon, budget.delta / 10.0), step, releases),
        ]
    except InfeasibleError:
        assume(False)
    assert all(other.sigma1 >= base.sigma1 * (1.0 - 1e-8) for other in others)


def test_with_noise_states_what_a_release_costs():
    step = StepConstants(sensitivity=0.2, kappa=0.01, records=2, spread=0.3, distance=1e-20)
    noise = with_noise(step, 2.0, 6.0)
    first, second, third = noise.charge.events
    assert first == ObjectivePerturbation(0.1, 0.01, 2)
    assert second == Gaussian(0.3 / 6.0)
    assert third == Approximate(1e-20)


def test_no_spread_needs_no_second_noise():
    step = StepConstants(sensitivity=0.2, kappa=0.01, records=2, spread=0.0)
    assert with_noise(step, 2.0, 0.0).charge.events[1] == Gaussian(0.0)
    noise = calibrate(Budget(1.0, 1e-6), step, 5)
    assert noise.sigma2 == 0.0
    assert spent(noise, 5, 1e-6) <= 1.0


def test_constants_of_a_step():
    known = {"lipschitz": 1.5, "smoothness": 0.5, "n": 10, "d": 4, "mu": 2.0, "beta": 1e-3}
    replaced, zeroed = (perturbed_step(**known, adjacency=a) for a in ("replace-one", "zero-out"))
    assert (replaced.sensitivity, zeroed.sensitivity) == (pytest.approx(0.3), pytest.approx(0.15))
    assert (replaced.records, zeroed.records) == (2, 1)
    assert replaced.kappa == zeroed.kappa == pytest.approx(0.025)
    assert replaced.spread == zeroed.spread
    assert replaced.distance == 2.0 * total_variation(4, 1.0, FINENESS) + TAIL


@given(log_floats(1e-6, 1e3), log_floats(1e-12, 1e-2), log_floats(1e-8, 1e2), st.integers(1, 10**6))
def test_the_room_for_the_grids_is_enough(sigma, beta, mu, d):
    """β' = β + √d·g₁/2 for rounding b, and Δ₂ ≥ 2β'/μ + √d·g₂ for rounding θ̂ on both sides."""
    step = perturbed_step(lipschitz=1.0, smoothness=0.25, n=10, d=d, mu=mu, beta=beta)
    g1, g2 = objective_grid(sigma, beta, d), output_grid(sigma, beta, mu, d)
    residual = beta + math.sqrt(d) * g1 / 2.0
    assert residual <= beta * (1.0 + MARGIN) * (1.0 + 1e-15)
    assert step.spread >= 2.0 * residual / mu + math.sqrt(d) * g2
    both = total_variation(d, sigma, g1) + total_variation(d, sigma, g2)
    assert step.distance >= both * (1.0 - 1e-12)


def test_adjacency_and_convexity_are_checked():
    known = {"lipschitz": 1.0, "smoothness": 0.25, "n": 10, "d": 4, "beta": 1e-3}
    with pytest.raises(InputError, match="adjacency"):
        perturbed_step(**known, mu=1.0, adjacency="add")
    with pytest.raises(InputError, match="convexity"):
        perturbed_step(**known, mu=0.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_budget_must_be_positive(bad):
    with pytest.raises(InputError, match="epsilon"):
        Budget(bad, 1e-6)


@pytest.mark.parametrize("bad", [0.0, 1.0, math.nan])
def test_a_share_and_a_delta_lie_between_zero_and_one(bad):
    with pytest.raises(InputError, match="delta"):
        Budget(1.0, bad)
    with pytest.raises(InputError, match="share"):
        calibrate(Budget(1.0, 1e-6), StepConstants(0.1, 1e-3, 2, 1e-8), 1, bad)


def test_root_finding_returns_the_private_side():
    for target in (1e-6, 0.3, 1.0, 70.0):
        found = largest_private(lambda x: x, target)
        assert found <= target
        assert found == pytest.approx(target, rel=2e-9)
    with pytest.raises(InfeasibleError):
        largest_private(lambda x: 2.0 + x, 1.0)


def test_a_calibrated_run_fits_a_ledger_and_nothing_more():
    budget = Budget(1.0, 1e-6)
    step = perturbed_step(lipschitz=1.0, smoothness=0.25, n=1000, d=3, mu=2.0, beta=1e-8)
    charge = calibrate(budget, step, 10).charge
    ledger = MemoryLedger(budget)
    ledger.reserve([(charge, 10)])
    for _ in range(10):
        ledger.charge(charge)
    assert epsilon(ledger.spent, 1e-6).epsilon <= 1.0
    with pytest.raises(BudgetError, match="10 releases"):
        ledger.charge(charge)
    with pytest.raises(BudgetError, match="nothing was released"):
        ledger.reserve([(charge, 1)])
