"""One suite for every solver, on every loss and network."""

import numpy as np
import pytest
from scipy.optimize import minimize

from ppadmm.errors import SolverError
from ppadmm.problem import (
    KINDS,
    HuberHinge,
    Logistic,
    Multinomial,
    OneVsRest,
    Subproblem,
    make_graph,
    risk_of,
)
from ppadmm.solvers import SOLVERS, Guarded, Newton, Solution, Warm, cold_start, solver_named
from tests.small_problems import make_agents, make_settings, random_shard, run_small

LOSSES = [Logistic(), HuberHinge(0.5), Multinomial(3), OneVsRest(HuberHinge(0.5), 3)]
combinations = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
solvers = pytest.mark.parametrize("name", SOLVERS)


def problem(loss, mu=0.05, R=4, sparse=False, scale=1.0, n=80, d=6):
    rng = np.random.default_rng(7)
    risk = risk_of(random_shard(n=n, d=d, sparse=sparse, classes=max(2, loss.outputs)), loss)
    linear = scale * rng.standard_normal((R, risk.d))
    return Subproblem(risk, np.full(R, mu) * rng.uniform(1, 3, R), linear)


@combinations
@solvers
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("mu", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("tolerance", [1e-4, 1e-10])
def test_the_certificate_is_true(name, loss, sparse, mu, tolerance):
    sub = problem(loss, mu, sparse=sparse, scale=0.1)
    solution = solver_named(name, 6).solve(sub, cold_start(sub), tolerance)
    gradient = sub.gradient(solution.point)
    assert np.all(np.linalg.norm(gradient, axis=1) <= solution.residual)
    assert np.all(solution.residual <= tolerance)
    recycled = sub.risk.gradient(solution.point)
    np.testing.assert_allclose(solution.warm.risk_gradient, recycled, atol=1e-15)


@combinations
@solvers
def test_it_finds_the_minimiser(name, loss):
    sub = problem(loss, mu=0.02, scale=0.05)
    solution = solver_named(name, 6).solve(sub, cold_start(sub), 1e-11)
    for r in range(sub.replicates):
        part = sub.restricted(np.array([r]))
        best = minimize(
            lambda t, part=part: part.value(t[None])[0],
            np.zeros(sub.risk.d),
            jac=lambda t, part=part: part.gradient(t[None])[0],
            method="BFGS",
            options={"gtol": 1e-9},
        )
        np.testing.assert_allclose(solution.point[r], best.x, atol=1e-6)


@combinations
@solvers
def test_far_starts_and_steep_problems(name, loss):
    sub = problem(loss, mu=1e-3, scale=2.0)
    start = np.full((4, sub.risk.d), 500.0)
    warm = Warm(start, sub.risk.gradient(start))
    solution = solver_named(name, 6).solve(sub, warm, 1e-8)
    assert np.all(solution.residual <= 1e-8)


@combinations
@solvers
def test_replicates_do_not_disturb_one_another(name, loss):
    sub = problem(loss, scale=0.2)
    together = solver_named(name, 6).solve(sub, cold_start(sub), 1e-10).point
    for r in range(sub.replicates):
        part = sub.restricted(np.array([r]))
        alone = solver_named(name, 6).solve(part, cold_start(part), 1e-10).point
        np.testing.assert_allclose(together[r], alone[0], atol=1e-8)


@combinations
@solvers
def test_a_warm_start_reads_the_records_less(name, loss):
    sub = problem(loss, scale=0.2)
    first = solver_named(name, 6).solve(sub, cold_start(sub), 1e-8)
    again = solver_named(name, 6).solve(sub, first.warm, 1e-8)
    assert again.passes == 0
    np.testing.assert_array_equal(again.point, first.point)


@combinations
@solvers
def test_what_cannot_be_certified_ends_all_the_same(name, loss, monkeypatch):
    """Rounding is above 1e-17: no answer would be an answer, so there is one, and it says so."""
    monkeypatch.setattr("ppadmm.solvers.base.MAX_ITERATIONS", 20)
    sub = problem(loss, mu=5.0, R=1, n=20, d=3)
    solution = solver_named(name, 3).solve(sub, cold_start(sub), 1e-17)
    assert (solution.residual > 1e-17).all()
    assert (np.linalg.norm(sub.gradient(solution.point), axis=1) < 1e-12).all()
    with pytest.raises(SolverError, match="could not certify"):
        SOLVERS[name]().solve(sub, cold_start(sub), 1e-17)


@combinations
@solvers
def test_where_the_quick_way_gives_up_the_slow_one_ends(name, loss, monkeypatch):
    monkeypatch.setattr("ppadmm.solvers.base.MAX_ITERATIONS", 1)
    sub = problem(loss, mu=0.1, scale=0.1)
    with pytest.raises(SolverError, match="could not certify"):
        SOLVERS[name]().solve(sub, cold_start(sub), 1e-10)
    solution = solver_named(name, 6).solve(sub, cold_start(sub), 1e-10)
    assert (solution.residual <= 1e-10).all()
    assert (np.linalg.norm(sub.gradient(solution.point), axis=1) <= 1e-10).all()


class Fails:
    """A solver that cannot be relied on."""

    name = "fails"

    def __init__(self, how):
        self.how = how

    def solve(self, sub, start, tolerance):
        if self.how == "raises":
            raise ZeroDivisionError("as it happens")
        if self.how == "singular":
            np.linalg.inv(np.zeros((2, 2)))
        point = np.full_like(start.point, np.nan if self.how == "nan" else 3.0)
        return Solution(Warm(point, point), np.zeros(len(point)), 0)


@combinations
@pytest.mark.parametrize("how", ["raises", "singular", "nan", "lies"])
def test_whatever_a_solver_does_there_is_a_certified_point(how, loss):
    sub = problem(loss, scale=0.1)
    solution = Guarded(Fails(how), verify=True).solve(sub, cold_start(sub), 1e-9)
    assert (solution.residual <= 1e-9).all()
    assert (np.linalg.norm(sub.gradient(solution.point), axis=1) <= 1e-9).all()
    again = Guarded(Newton()).solve(sub, solution.warm, 1e-9)
    assert again.passes == 0


@combinations
@solvers
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", ["pp", "non-private"])
def test_a_run_gives_the_same_model_with_every_solver(name, loss, kind, algorithm):
    graph = make_graph(kind, 5, seed=3)
    settings = make_settings(solver=name, eta=(0.2,))
    model = run_small(graph, algorithm, settings, loss=loss).model()
    reference = run_small(
        graph, algorithm, make_settings(solver="newton", eta=(0.2,)), loss=loss
    ).model()
    np.testing.assert_allclose(model, reference, atol=1e-6)


def test_auto_picks_by_shape():
    assert solver_named("auto", 40).name == "fixed-metric"
    assert solver_named("auto", 5000).name == "lbfgs"


def test_a_beta_out_of_reach_is_refused_before_anything_is_paid():
    with pytest.raises(SolverError, match=r"β = 1e-17 is too small .* choose β ≥"):
        make_agents(make_graph("ring", 3), make_settings(beta=1e-17))
