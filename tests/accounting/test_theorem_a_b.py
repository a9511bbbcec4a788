"""Theorems A and B against exact Rényi divergences of releasing the exact minimiser."""

from dataclasses import replace

import numpy as np
import pytest

from ppadmm.accounting.accountant import rdp, theorem_a, theorem_b
from ppadmm.accounting.events import ObjectivePerturbation
from ppadmm.problem.losses import HuberHinge, Logistic
from tests.accounting.exact import PAIRS, Lines, centred, orders_for, random_lines, random_plane

LOSSES = (Logistic(), HuberHinge(0.5), HuberHinge(0.05))
PER_CASE = 80


def ratios(bound, event: ObjectivePerturbation, orders: np.ndarray, exact: np.ndarray):
    """Check exact ≤ bound·(1+1e-6) + 1e-9 in both directions and return exact/bound."""
    known = ~np.isnan(orders)
    limit = np.asarray(bound(event, orders[known]))
    excess = exact[:, known] - (limit * (1.0 + 1e-6) + 1e-9)
    assert not (excess > 0.0).any(), (event, orders[known], exact[:, known], limit)
    return exact[:, known] / limit


def check_lines(lines: Lines) -> dict[str, float]:
    """Check every instance and return the largest exact/bound of each theorem."""
    orders = orders_for(lines)
    exact = lines.renyi(orders)
    worst = {"A": 0.0, "B": 0.0, "rdp": 0.0}
    for i, event in enumerate(lines.events()):
        for name, bound in (("A", theorem_a), ("B", theorem_b), ("rdp", rdp)):
            found = ratios(bound, event, orders[i], exact[:, i]).max()
            worst[name] = max(worst[name], float(found))
    return worst


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}-{loss.smoothness:g}")
def test_no_instance_on_the_line_exceeds_a_or_b(loss, pair):
    rng = np.random.default_rng([1, LOSSES.index(loss), PAIRS.index(pair)])
    worst = check_lines(random_lines(loss, pair, PER_CASE, rng))
    assert 0.0 < worst["rdp"] <= 1.0 + 1e-6


def test_theorem_a_is_reached():
    """Far from every bend the step is a Gaussian mechanism: exact/bound was 0.981."""
    rng = np.random.default_rng(2)
    lines = random_lines(Logistic(), "zero-out", 60, rng, kappa=(1e-4, 1e-3), ratio=(0.1, 2.0))
    lines = centred(lines, -60.0 * np.sign(lines.old))
    assert check_lines(lines)["A"] > 0.9


def test_theorem_a_is_reached_when_a_record_is_replaced():
    """Opposite records before the hinge bends move the gradient by 2G/n: 0.99999998 measured."""
    rng = np.random.default_rng(3)
    lines = random_lines(
        HuberHinge(0.1), "antipodal", 60, rng, kappa=(1e-4, 1e-3), ratio=(0.1, 2.0)
    )
    narrow = replace(lines, old=np.ones(60), new=-np.ones(60))
    assert check_lines(centred(narrow, np.zeros(60)))["A"] > 0.9


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)], ids=lambda loss: loss.name)
def test_no_instance_in_the_plane_exceeds_a_or_b(loss, pair):
    rng = np.random.default_rng([4, PAIRS.index(pair)])
    worst = 0.0
    for _ in range(4 if isinstance(loss, HuberHinge) else 9):
        plane = random_plane(loss, pair, rng)
        orders = plane_orders(plane.event)
        exact = plane.renyi(orders)
        worst = max(worst, ratios(theorem_a, plane.event, orders, exact).max())
        ratios(theorem_b, plane.event, orders, exact)
        ratios(rdp, plane.event, orders, exact)
    assert worst > (0.9 if pair == "antipodal" else 0.0)


def plane_orders(event: ObjectivePerturbation) -> np.ndarray:
    orders = np.array([1.1, 1.5, 2.0, 4.0, 8.0, 32.0])
    return orders[orders * event.ratio <= 6.0 + 1.1 * event.ratio]


def test_a_sensitivity_too_small_by_the_root_of_two_is_caught():
    rng = np.random.default_rng(6)
    lines = random_lines(HuberHinge(0.1), "antipodal", 60, rng, kappa=(1e-4, 1e-2))
    lines = replace(lines, old=np.ones(60), new=-np.ones(60))
    assert violated(centred(lines, np.zeros(60)), broken_sensitivity) > 30


def test_a_missing_curvature_term_is_caught():
    assert violated(at_the_bend(), gaussian_only) > 30


def test_half_the_curvature_is_caught_in_theorem_b():
    assert violated(at_the_bend(), broken_kappa) > 30


def at_the_bend() -> Lines:
    """Little s/σ and much κ, with θ̃ where the changed record's loss bends."""
    rng = np.random.default_rng(7)
    lines = random_lines(HuberHinge(0.5), "zero-out", 60, rng, kappa=(0.1, 2.0), ratio=(1e-3, 1e-2))
    return centred(lines, 1.0 / lines.old)


def violated(lines: Lines, bound) -> int:
    """Count the instances that exceed a bound at some order."""
    orders = orders_for(lines)
    exact = lines.renyi(orders).max(axis=0)
    limits = np.array([bound(e, o) for e, o in zip(lines.events(), orders, strict=True)])
    return int((exact > limits * (1.0 + 1e-6) + 1e-9).any(axis=1).sum())


def broken_sensitivity(event: ObjectivePerturbation, orders: np.ndarray) -> np.ndarray:
    return rdp(replace(event, ratio=event.ratio / np.sqrt(2.0)), orders)


def broken_kappa(event: ObjectivePerturbation, orders: np.ndarray) -> np.ndarray:
    return theorem_b(replace(event, kappa=event.kappa / 2.0), orders)


def gaussian_only(event: ObjectivePerturbation, orders: np.ndarray) -> np.ndarray:
    return orders * event.ratio**2 / 2.0


def test_the_quadrature_has_converged():
    rng = np.random.default_rng(8)
    for loss in LOSSES:
        for pair in PAIRS:
            lines = random_lines(loss, pair, 20, rng)
            orders = orders_for(lines)
            coarse, fine = lines.renyi(orders, nodes=20), lines.renyi(orders, nodes=32)
            np.testing.assert_allclose(coarse, fine, rtol=1e-7, atol=1e-8)


def test_theorem_a_speaks_only_where_it_applies():
    orders = np.array([1.5, 2.9, 3.1, 10.0])
    event = ObjectivePerturbation(0.5, 0.5)
    assert np.isfinite(theorem_a(event, orders)).tolist() == [True, True, False, False]
    assert np.isinf(theorem_a(ObjectivePerturbation(0.5, 1.0), orders)).all()
    assert np.isfinite(rdp(event, orders)).all()
