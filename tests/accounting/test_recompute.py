"""The second accountant agrees with the first and shares nothing with it."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtri

from ppadmm.accounting import (
    Approximate,
    Budget,
    Gaussian,
    NonPrivate,
    ObjectivePerturbation,
    Pure,
    RepeatAndSelect,
    Tally,
    accountant,
    recompute,
)
from ppadmm.accounting.event_data import to_plain
from ppadmm.accounting.filters import best_order, filtered

small = st.floats(1e-4, 3.0)
events = st.one_of(
    st.builds(Gaussian, small),
    st.builds(
        ObjectivePerturbation, small, st.floats(0.0, 0.3), st.sampled_from([1, 2]),
        st.integers(1, 6), st.floats(0.5, 4.0), st.floats(0.5, 4.0),
    ),
    st.builds(Pure, st.floats(1e-3, 1.0)),
    st.builds(Approximate, st.floats(0.0, 1e-25)),
)  # fmt: skip
tallies = st.dictionaries(events, st.integers(1, 60), min_size=1, max_size=4).map(
    lambda counts: Tally(tuple(counts.items()))
)
searches = st.builds(
    RepeatAndSelect,
    st.lists(tallies, min_size=1, max_size=3).map(tuple),
    st.one_of(st.just(1.0), st.floats(1.001, 100.0)),
    st.sampled_from([0.0, 0.4, 1.0, 2.5]),
)


def test_it_imports_nothing_of_ours():
    tree = ast.parse(Path(recompute.__file__).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith(("ppadmm", "scipy"))
            assert node.level == 0
        if isinstance(node, ast.Import):
            assert not any(a.name.startswith(("ppadmm", "scipy")) for a in node.names)


@settings(max_examples=120)
@given(tally=tallies, delta=st.sampled_from([1e-3, 1e-6, 1e-9]))
def test_both_give_the_same_epsilon(tally, delta):
    ours = accountant.epsilon(tally, delta).epsilon
    again = recompute.epsilon(to_plain(tally), delta)
    assert again == pytest.approx(ours, rel=1e-7, abs=1e-12)


@settings(max_examples=60)
@given(
    search=searches,
    times=st.integers(1, 3),
    besides=tallies,
    delta=st.sampled_from([1e-3, 1e-6, 1e-9]),
)
def test_both_give_the_same_epsilon_of_a_search(search, times, besides, delta):
    tally = Tally(((search, times), *besides.counts))
    ours = accountant.epsilon(tally, delta).epsilon
    assert recompute.epsilon(to_plain(tally), delta) == pytest.approx(ours, rel=1e-7, abs=1e-12)
    order = 4.5
    divergence = float(accountant.total_rdp(tally, np.array([order]))[0])
    assert recompute.renyi(to_plain(tally), order) == pytest.approx(divergence, rel=1e-9)
    assert recompute.distance(to_plain(tally)) == pytest.approx(accountant.distance(tally))


@given(
    runs=st.lists(st.lists(tallies, min_size=1, max_size=3), min_size=1, max_size=4),
    grant=st.builds(Budget, st.floats(0.05, 20.0), st.sampled_from([1e-3, 1e-6, 1e-9])),
)
def test_both_give_the_same_sum_of_runs_chosen_one_after_the_other(runs, grant):
    order = best_order(grant)
    plain = [[to_plain(tally) for tally in agents] for agents in runs]
    again = recompute.filtered(
        [max(recompute.renyi(agent, order) for agent in agents) for agents in plain],
        [max(recompute.distance(agent) for agent in agents) for agents in plain],
        grant.epsilon, grant.delta, order,
    )  # fmt: skip
    assert again == pytest.approx(filtered(runs, grant, order), rel=1e-9)


@pytest.mark.parametrize(
    "counts",
    [
        ((ObjectivePerturbation(0.05, 1e-5), 30), (Gaussian(0.002), 30)),
        ((ObjectivePerturbation(0.3, 0.02), 30), (Gaussian(0.01), 30), (Approximate(1e-26), 30)),
        ((ObjectivePerturbation(0.3, 1.5), 3),),
        ((Pure(0.05), 40),),
        ((Pure(0.05), 1), (Gaussian(0.2), 10)),
        ((Gaussian(0.3), 400),),
        ((ObjectivePerturbation(0.01, 1e-7, 2, 1), 100_000),),
    ],
)
def test_typical_runs_agree_closely(counts):
    tally = Tally(counts)
    ours = accountant.epsilon(tally, 1e-6).epsilon
    assert recompute.epsilon(to_plain(tally), 1e-6) == pytest.approx(ours, rel=1e-8)


@pytest.mark.parametrize("degrees", [1, 2, 3, 7, 60, 61, 2000])
@pytest.mark.parametrize("tail", [1e-3, 1e-8, 1e-14])
def test_the_quantile_of_chi_square(degrees, tail):
    assert recompute._chi_square_quantile(degrees, tail) == pytest.approx(
        chdtri(degrees, tail), rel=1e-9
    )


def test_what_has_no_epsilon():
    assert recompute.epsilon(to_plain(Tally(((NonPrivate(), 1),))), 1e-6) == math.inf
    coarse = Tally(((Gaussian(0.1), 1), (Approximate(1e-8), 1)))
    assert recompute.epsilon(to_plain(coarse), 1e-6) == math.inf
    assert recompute.epsilon([], 1e-6) == 0.0


@pytest.mark.parametrize(
    "event",
    [
        {"event": "Gaussian", "ratio": 0.1},
        {"event": "Gaussian", "ratio": -0.1, "times": 1},
        {"event": "Gaussian", "ratio": "0.1", "times": 1},
        {"event": "Gaussian", "ratio": 0.1, "times": -1},
        {"event": "Gaussian", "ratio": 0.1, "times": 1.5},
        {"event": "Gaussian", "ratio": 0.1, "times": True},
        {"event": "Gaussian", "ratio": 0.1, "times": 1, "free": 1},
        {"event": "Magic", "times": 1},
        {"event": "RepeatAndSelect", "runs": [], "mean": 2.0, "shape": 1.0, "times": 1},
        {"event": "RepeatAndSelect", "runs": [[{}]], "mean": 2.0, "shape": 1.0, "times": 1},
        {"event": "RepeatAndSelect", "runs": [[]], "mean": 0.5, "shape": 1.0, "times": 1},
        {"event": "RepeatAndSelect", "runs": [[7]], "mean": 2.0, "shape": 1.0, "times": 1},
        {},
    ],
)
def test_events_that_make_no_sense_are_refused(event):
    with pytest.raises(ValueError, match="event"):
        recompute.epsilon([event], 1e-6)
