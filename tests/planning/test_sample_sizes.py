"""The sample-size calculator: exact cases, monotony, and which side the root finding returns."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from ppadmm.accounting import Budget, calibrate, perturbed_step
from ppadmm.errors import InfeasibleError, InputError
from ppadmm.planning import sample_bound, sample_sizes
from ppadmm.planning.sample_bound import BoundSetting, Choice
from ppadmm.planning.sample_sizes import error_bound, records_needed
from ppadmm.problem import Graph, HuberHinge, make_graph

FIVE = make_graph("complete", 5)
POOLED = BoundSetting(20, FIVE, norm=2.0)
QUIET = replace(POOLED, rounds=200)
PRIVATE = replace(QUIET, budget=Budget(1.0, 1e-6))
STAR = replace(PRIVATE, graph=make_graph("star", 5))


@pytest.mark.parametrize(
    ("graph", "value"),
    [
        (make_graph("complete", 7), 7.0),
        (make_graph("ring", 4), 2.0),
        (make_graph("star", 9), 1.0),
        (Graph(2, ((0, 1),)), 2.0),
        (make_graph("ring", 10), 2 - 2 * math.cos(2 * math.pi / 10)),
    ],
)
def test_the_connectivity_of_known_networks(graph, value):
    assert sample_bound.connectivity(graph) == pytest.approx(value)


def test_the_pooled_bound_in_closed_form():
    """With the best Λ: (√x + √(ln(2/ζ)/2))·G·R/√M."""
    x = sample_bound.chi_square_tail(0.025)
    scale = math.sqrt(x) + math.sqrt(math.log(40.0) / 2.0)
    bound = error_bound(1000, POOLED)
    assert bound.total == pytest.approx(scale * 2.0 / math.sqrt(5000), rel=1e-7)
    needed = (scale * 2.0 / 0.1) ** 2 / 5
    assert records_needed(0.1, POOLED).n == pytest.approx(math.ceil(needed), abs=1)


def test_theorem_1_by_hand_for_a_given_regulariser():
    """Λ = 0.02, M = 500, R = 2: ½[0.04 + 2x/10 + 2√(2 ln 40/500)], x = 10.7543…"""
    bound = error_bound(100, replace(POOLED, regularisation=0.1))
    assert bound.regularisation == 0.1
    assert bound.parts.regularisation == pytest.approx(0.02)
    x = 10.753_9
    assert math.sqrt(x) * math.exp(-(x - 1) / 2) == pytest.approx(0.025, rel=1e-3)
    by_hand = x / 10 + math.sqrt(2 * math.log(40) / 500)
    assert bound.parts.estimation == pytest.approx(by_hand, rel=1e-3)


def test_theorem_2_by_hand_for_given_settings():
    """One degree, φ = ½: every term of the docstring with the exactly calibrated noise."""
    n, T, eta, lam, d, N = 4000, 200, 0.3, 0.05, 20, 5
    weight, mu = lam / N, lam / N + 2 * eta * 4
    step = perturbed_step(lipschitz=1.0, smoothness=0.25, n=n, d=d, mu=mu, beta=1e-8)
    noise = calibrate(Budget(1.0, 1e-6), step, T)
    from scipy.stats import chi2

    length = chi2.isf(0.05 * 0.05 / N, d * T) / T
    spent = 0.25 * weight
    first = noise.sigma1**2 * length / mu * (1 + spent / mu)
    second = noise.sigma2**2 * length * (mu + 0.125 + spent)
    tau = noise.sigma1**2 + (mu * noise.sigma2) ** 2
    martingale = 2 * tau * math.log(1 / 0.005) / (spent * N * T)
    setting = replace(PRIVATE, eta=eta, regularisation=lam)
    scales = {4: (noise.sigma1, noise.sigma2)}
    parts = sample_bound.parts_of(n, setting, Choice(weight, eta, 0.5), scales)
    assert parts.noise == pytest.approx(first + second + martingale, rel=1e-5)
    assert parts.convergence == pytest.approx((1 / (2 * eta * 5) + eta * 4 * 4) / T)
    assert parts.regularisation == pytest.approx(weight * 2 / 1.5)
    assert parts.solver == pytest.approx(1e-16 / (0.5 * weight))
    bound = error_bound(n, setting)
    assert (bound.sigma1, bound.sigma2) == (noise.sigma1, noise.sigma2)
    assert bound.total <= parts.total
    assert bound.total == pytest.approx(math.fsum(vars(bound.parts).values()))


@pytest.mark.parametrize("setting", [POOLED, QUIET, PRIVATE, STAR])
def test_more_records_never_hurt(setting):
    totals = [error_bound(n, setting).total for n in (50, 60, 200, 1000, 1001, 30_000, 10**7)]
    assert all(more < fewer for fewer, more in pairwise(totals))


@pytest.mark.parametrize("setting", [PRIVATE, STAR])
def test_the_noise_falls_with_epsilon_and_grows_with_features(setting):
    def noise(**changes):
        return error_bound(2000, replace(setting, **changes))

    by_epsilon = [noise(budget=Budget(e, 1e-6)) for e in (0.1, 0.5, 1.0, 4.0, 20.0)]
    by_features = [noise(features=d) for d in (1, 5, 42, 1000)]
    for less, more in (*pairwise(by_epsilon), *pairwise(reversed(by_features))):
        assert more.total < less.total
        assert more.parts.noise < less.parts.noise


def test_without_noise_the_number_of_features_plays_no_part():
    assert error_bound(500, QUIET) == error_bound(500, replace(QUIET, features=9))


@pytest.mark.parametrize(
    "harder", [{"norm": 3.0}, {"confidence": 0.99}, {"budget": Budget(1.0, 1e-9)}, {"rounds": 100}]
)
def test_a_harder_question_needs_more(harder):
    assert records_needed(0.2, replace(PRIVATE, **harder)).n > records_needed(0.2, PRIVATE).n


def test_zero_out_needs_fewer_than_replace_one():
    assert records_needed(0.2, replace(PRIVATE, adjacency="zero-out")).n < (
        records_needed(0.2, PRIVATE).n
    )


def test_a_large_epsilon_comes_down_to_no_noise():
    """Up to the confidence that is set aside for the noise."""
    private = error_bound(5000, replace(PRIVATE, budget=Budget(20.0, 1e-6))).total
    assert private == pytest.approx(error_bound(5000, QUIET).total, rel=0.04)
    assert error_bound(5000, POOLED).total < error_bound(5000, QUIET).total < private


@pytest.mark.parametrize("setting", [POOLED, QUIET, PRIVATE, STAR])
@pytest.mark.parametrize("error", [0.3, 0.05])
def test_the_root_is_the_side_that_is_enough(setting, error):
    found = records_needed(error, setting)
    assert found.total <= error
    assert found == error_bound(found.n, setting)
    assert error_bound(found.n - 1, setting).total > error


def test_one_record_can_be_enough():
    assert records_needed(100.0, POOLED).n == 1


@pytest.mark.parametrize("setting", [PRIVATE, STAR])
def test_nothing_near_the_chosen_settings_is_better(setting):
    best = error_bound(3000, setting)
    for factor in (0.7, 0.9, 1.1, 1.4):
        for name in ("eta", "regularisation"):
            moved = replace(setting, **{name: factor * getattr(best, name)})
            assert error_bound(3000, moved).total > best.total * (1 - 2e-3)


def test_a_given_penalty_that_no_noise_suits_is_refused_and_then_outgrown():
    setting = replace(PRIVATE, eta=0.01, regularisation=0.1)
    with pytest.raises(InfeasibleError, match="No amount of noise"):
        error_bound(20, setting)
    assert records_needed(0.3, setting).n > 20


def test_the_default_rounds_leave_a_tenth():
    rounds = sample_sizes.default_rounds(0.1, POOLED)
    assert 0.0099 < sample_bound.least_error(replace(POOLED, rounds=rounds)) <= 0.01
    assert sample_sizes.default_rounds(1e-9, POOLED) == 100_000
    assert sample_sizes.default_rounds(1e9, POOLED) == 1


def test_the_hinge_has_its_own_constants():
    logistic, hinge = (
        error_bound(100, replace(PRIVATE, loss=k)) for k in (PRIVATE.loss, HuberHinge())
    )
    assert hinge.total > logistic.total


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": 0}, "features to be a whole number ≥ 1, got 0"),
        ({"norm": -1.0}, "norm > 0, got -1.0"),
        ({"confidence": 1.0}, "0 < confidence < 1, got 1.0"),
        ({"eta": 0.0}, "eta > 0, got 0.0"),
        ({"regularisation": 0.0}, "regularisation > 0, got 0.0"),
        ({"rounds": 0}, "rounds to be a whole number ≥ 1, got 0"),
        ({"rounds": None}, "a number of rounds with a privacy budget"),
        ({"beta": math.nan}, "beta to be a finite number"),
        ({"adjacency": "none"}, "Unknown adjacency 'none'"),
    ],
)
def test_bad_settings_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        replace(PRIVATE, **changes)


def test_bad_questions_are_named():
    with pytest.raises(InputError, match="error > 0, got 0"):
        records_needed(0.0, POOLED)
    with pytest.raises(InputError, match="records per agent to be a whole number ≥ 1, got 0"):
        error_bound(0, POOLED)
    with pytest.raises(InputError, match="which 200 rounds leave with any number of records"):
        records_needed(0.001, PRIVATE)
    with pytest.raises(InfeasibleError, match="choose a larger error"):
        records_needed(0.1, replace(POOLED, regularisation=10.0))
