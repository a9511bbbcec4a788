"""Agents in step release what they would release one after another."""

import numpy as np
import pytest

from ppadmm.accounting import Budget
from ppadmm.agent import Agent, Done
from ppadmm.algorithms import build
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.weights import WEIGHTS, site_weights
from ppadmm.data import Shard
from ppadmm.data.coded import Coded
from ppadmm.engines import local, vectorised
from ppadmm.errors import BudgetError, SolverError
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import Key, SecureNoise, SeededNoise
from ppadmm.problem import HuberHinge, Logistic, Subproblem, kernels, laid_out, make_graph, risk_of
from ppadmm.solvers import FixedMetric, each
from ppadmm.solvers.base import Warm
from tests.small_problems import make_settings

pytest.importorskip("numba")
SIZES = (150, 40, 1100, 333, 64, 7)


@pytest.fixture(autouse=True)
def _compiled(monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, "numba")


def records(n, seed):
    """Numbers, columns with few values and a one-hot group with missing values."""
    rng = np.random.default_rng(seed)
    numeric = np.column_stack([rng.random((n, 3)), rng.random((n, 2)) < 0.4])
    codes = 5 + rng.integers(0, 4, (n, 1))
    codes[rng.random(codes.shape) < 0.1] = 10
    X = Coded.of(numeric, codes, 10, 1 - 1e-12)
    return Shard(X, np.where(rng.random(n) < 0.5, 1.0, -1.0))


def cast(loss=None, algorithm="pp", noise=None, kind="star", weights="records", **changes):
    """Six agents of unequal size, and hence weight, on a network of unequal degrees."""
    graph, shares = make_graph(kind, len(SIZES)), site_weights(weights, SIZES)
    usual = {"eta": (0.5,), "beta": 1e-10, "rounds": 6, "budgets": (Budget(5.0, 1e-4),)}
    own = make_settings(**usual | changes)
    risks = laid_out([risk_of(records(n, i), loss or Logistic()) for i, n in enumerate(SIZES)])
    agents = []
    for i, risk in enumerate(risks):
        rule = build(algorithm, site_in(graph, i, risk, shares), own)
        ledgers = [MemoryLedger(budget) for budget in own.budgets]
        agents.append(
            Agent(rule, i, graph.neighbours(i), ledgers, noise or SeededNoise((3,) * len(ledgers)))
        )
    return agents


def one_by_one(agents, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(vectorised, "supports", lambda agents: False)
        return local.run(agents)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("kind", ["star", "ring", "complete"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_same_releases_charges_and_rounds(loss, kind, weights, monkeypatch):
    together, alone = (cast(loss, kind=kind, weights=weights) for _ in range(2))
    assert vectorised.supports(together)
    seen = []
    trace = local.run(together, seen.append)
    reference = one_by_one(alone, monkeypatch)
    np.testing.assert_array_equal(trace.releases, reference.releases)
    np.testing.assert_array_equal(trace.spoke, reference.spoke)
    assert seen == list(range(6))
    for mine, theirs in zip(together, alone, strict=True):
        assert mine.ledgers[0].spent == theirs.ledgers[0].spent == mine.ledgers[0].reserved
        assert isinstance(mine.next(), Done)
        assert mine.algorithm.site.risk.passes >= 6


def test_small_and_large_shards_are_laid_out_alike():
    agents = cast()
    for agent in agents:
        risk = agent.algorithm.site.risk
        theta = np.random.default_rng(1).standard_normal((1, risk.d))
        dense = risk_of(Shard(risk.shard.X.toarray(), risk.shard.y), risk.loss)
        np.testing.assert_allclose(risk.gradient(theta), dense.gradient(theta), atol=1e-15)
        near = risk.gradient(theta, single=True)
        np.testing.assert_allclose(near, dense.gradient(theta), atol=1e-6)
    assert len({id(a.algorithm.site.risk.packed.tables) for a in agents}) == 2


def test_every_row_is_certified_by_itself():
    risks = tuple(agent.algorithm.site.risk for agent in cast())
    rng = np.random.default_rng(2)
    d = risks[0].d
    sub = Subproblem(
        each.Everyone(risks), np.full(len(risks), 0.01), 0.1 * rng.standard_normal((len(risks), d))
    )
    zero = np.zeros((len(risks), d))
    start = Warm(zero, np.concatenate([r.gradient(zero[:1]) for r in risks]))
    found = FixedMetric().solve(sub, start, 1e-11)
    for k, risk in enumerate(risks):
        plain = risk_of(Shard(risk.shard.X.toarray(), risk.shard.y), risk.loss)
        own = Subproblem(plain, sub.mu[k : k + 1], sub.linear[k : k + 1])
        assert np.linalg.norm(own.gradient(found.point[k : k + 1])) <= found.residual[k] <= 1e-11
    with pytest.raises(SolverError, match="Nothing was released"):
        FixedMetric().solve(sub, start, 1e-17)


def test_a_row_that_needs_more_steps_gets_them(monkeypatch):
    monkeypatch.setattr(each.single, "PATIENCE", 1)
    alone = []
    of = FixedMetric._alone
    monkeypatch.setattr(FixedMetric, "_alone", lambda *a: alone.append(1) or of(*a))
    trace = local.run(cast())
    assert alone
    monkeypatch.undo()
    monkeypatch.setenv(kernels.VARIABLE, "numba")
    np.testing.assert_allclose(trace.releases, local.run(cast()).releases, atol=1e-9)


def test_everyone_pays_from_their_own_ledger(monkeypatch):
    agents = cast()
    agents[4].charged.ledgers[0]._reserved.clear()
    with pytest.raises(BudgetError, match="are spent"):
        local.run(agents)
    assert all(agent.round == 0 for agent in agents)


def test_secure_noise_differs_from_run_to_run():
    first, second = (local.run(cast(noise=SecureNoise(), rounds=2)).releases for _ in range(2))
    assert np.isfinite(first).all()
    assert not (first == second).any()
    mine = cast(noise=SecureNoise(), rounds=2)
    assert vectorised._shared_noise(mine).source.secure
    assert not vectorised._shared_noise(cast()).source.secure


def sources_of_four():
    """Noise of one kind, which is drawn at once, and of each by itself."""
    four = tuple(range(4))
    return {
        "at once": vectorised._shared_noise(cast(noise=SecureNoise())[:4]).source,
        "row by row": vectorised.RowwiseNoise((SecureNoise(),) * 4, four),
    }


@pytest.mark.parametrize("how", ["at once", "row by row"])
def test_secure_noise_differs_from_agent_to_agent(how):
    """Who knows its own noise must not know its neighbour's."""
    source = sources_of_four()[how]
    wide = np.zeros((4, 3000)), np.full(4, 2.0), np.full(4, 2.0**-40), Key(-1, 0, "linear")
    for rows in (source.gaussian(*wide), source.laplace(*wide)):
        apart = np.corrcoef(rows) - np.eye(4)
        assert np.abs(apart).max() < 6.0 / np.sqrt(3000)


def test_replicates_that_fall_silent_one_by_one(monkeypatch):
    """A solve of one of several replicates is compiled, and leaves nothing to the others."""
    many = {"eta": (0.5,) * 4, "regularisation": (0.0,) * 4, "rounds": 12, "algorithm": "ipp"}
    many["beta"] = 1e-9
    budgets = tuple(Budget(epsilon, 1e-4) for epsilon in (0.5, 1.0, 5.0, 20.0))
    trace = local.run(cast(budgets=budgets, **many))
    speakers = set(trace.spoke.sum(axis=2).ravel().tolist())
    assert {1, 2, 3} & speakers
    assert 1 in speakers
    monkeypatch.setenv(kernels.VARIABLE, "numpy")
    reference = local.run(cast(budgets=budgets, **many))
    np.testing.assert_array_equal(trace.spoke, reference.spoke)
    np.testing.assert_allclose(trace.releases, reference.releases, atol=1e-9)


def test_who_cannot_run_in_step():
    assert vectorised.supports(cast())
    assert not vectorised.supports(cast()[:1])
    assert not vectorised.supports(cast(algorithm="ipp"))
    assert not vectorised.supports(cast(algorithm="dvp"))
    assert not vectorised.supports(cast(solver="lbfgs"))
    two = {"eta": (0.5, 0.3), "regularisation": (0.0, 0.1)}
    assert not vectorised.supports(cast(budgets=(Budget(5.0, 1e-4), Budget(2.0, 1e-4)), **two))
    begun = cast()
    begun[2].next()
    assert not vectorised.supports(begun)
    mixed = cast()
    mixed[1] = cast(rounds=5)[1]
    assert not vectorised.supports(mixed)
