"""How much sites count, by every rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.accounting import Budget
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.algorithms.method import MethodSpec, weigh
from ppadmm.algorithms.weights import WEIGHTS, site_weights
from ppadmm.errors import InputError

holdings = st.lists(st.integers(0, 10**6), min_size=1, max_size=20).filter(any)


@pytest.mark.parametrize("kind", WEIGHTS)
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


def test_an_unknown_rule_is_refused():
    with pytest.raises(InputError, match="records, equal, noise"):
        site_weights("size", (1, 2))
