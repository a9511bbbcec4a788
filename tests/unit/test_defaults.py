import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ppadmm.algorithms.defaults import ROUNDS, Sizes, default_eta, default_rounds
from ppadmm.algorithms.pp import smallest_mu
from ppadmm.privacy import Budget
from ppadmm.problem import HuberHinge, Logistic

epsilons, deltas = st.floats(0.05, 20), st.sampled_from([1e-8, 1e-6, 1e-4])


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)], ids=lambda loss: loss.name)
@given(
    n=st.integers(50, 10**6),
    d=st.integers(2, 10**4),
    degrees=st.lists(st.integers(1, 10), min_size=2, max_size=30),
    epsilon=epsilons,
    delta=deltas,
)
def test_the_defaults_can_always_be_calibrated(loss, n, d, degrees, epsilon, delta):
    sizes = Sizes((n,) * len(degrees), d, tuple(degrees))
    budgets = (Budget(epsilon, delta),) * len(degrees)
    rounds = default_rounds(sizes, budgets, loss)
    assert ROUNDS[0] <= rounds <= ROUNDS[1]
    eta = default_eta(sizes, budgets, loss, rounds)
    assert math.isfinite(eta)
    assert eta > smallest_mu(budgets[0], n, loss, rounds) / (2 * min(degrees))


@given(n=st.integers(100, 10**5), epsilon=epsilons, delta=deltas)
def test_more_records_or_budget_never_ask_for_more_penalty(n, epsilon, delta):
    def eta(records, budget):
        sizes = Sizes((records,) * 4, 20, (2,) * 4)
        return default_eta(sizes, (budget,) * 4, Logistic(), 50)

    assume(n >= 100)
    here = eta(n, Budget(epsilon, delta))
    assert eta(2 * n, Budget(epsilon, delta)) <= here
    assert eta(n, Budget(2 * epsilon, delta)) <= here
