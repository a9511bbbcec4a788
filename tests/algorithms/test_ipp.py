"""IPP-ADMM: who speaks when, and what it costs."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from ppadmm.accounting import Budget, epsilon
from ppadmm.accounting.events import Gaussian, ObjectivePerturbation, Pure
from ppadmm.accounting.sensitivity import MARGIN, perturbed_step
from ppadmm.agent import Done
from ppadmm.algorithms.base import SharedState, Site
from ppadmm.algorithms.gradient import build_gradient
from ppadmm.algorithms.pp import perturbed
from ppadmm.algorithms.settings import STATISTICS, Speaking
from ppadmm.algorithms.statistics import statistic_named
from ppadmm.data import Shard
from ppadmm.engines import local
from ppadmm.errors import OutOfBoundsError
from ppadmm.ledger import MemoryLedger
from ppadmm.mechanisms import ChargedNoise, Place
from ppadmm.mechanisms.limits import Reach
from ppadmm.mechanisms.threshold_tests import GaussianTest, SparseVector
from ppadmm.noise import SeededNoise
from ppadmm.problem import HuberHinge, Logistic, MarginRisk, NoRecords, Subproblem, make_graph
from ppadmm.solvers import Solution, Warm, cold_start, solver_named
from tests.small_problems import make_agents, make_settings, run_small

GRAPH = make_graph("ring", 4)


class Recorder(SeededNoise):
    """Seeded noise that writes down what it was drawn for."""

    drawn: ClassVar[list] = []

    def gaussian(self, values, scale, grid, key):
        self.drawn.append((key.agent, key.round, key.purpose))
        return super().gaussian(values, scale, grid, key)

    def laplace(self, values, scale, grid, key):
        self.drawn.append((key.agent, key.round, key.purpose))
        return super().laplace(values, scale, grid, key)

    def restricted(self, rows):
        return Recorder(tuple(self.seeds[k] for k in rows))


def recorded_run(speaking, rounds=12):
    Recorder.drawn = []
    agents = make_agents(GRAPH, make_settings(rounds=rounds, speaking=speaking), "ipp")
    for agent in agents:
        agent.charged = ChargedNoise(agent.ledgers, Recorder((0,)))
    return local.run(agents), agents


@pytest.mark.parametrize("test", ["gaussian", "svt"])
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("level", [-1e9, 0.0, 1e9])
def test_at_most_c_releases_and_no_test_after_the_last(test, statistic, level):
    speaking = Speaking(statistic=statistic, test=test, releases=3, level=level)
    trace, agents = recorded_run(speaking)
    assert trace.messages.max() <= 3
    if level < 0:
        assert (trace.messages == 3).all()
        assert trace.spoke[:3].all()
    if level > 1:
        assert not trace.spoke.any()
    for agent in agents:
        tests = [t for i, t, purpose in Recorder.drawn if i == agent.number and purpose == "test"]
        spoken = np.flatnonzero(trace.spoke[:, agent.number, 0])
        last = spoken[2] if len(spoken) == 3 else 11
        assert tests == list(range(last + 1))


@pytest.mark.parametrize("level", [-1e9, 0.3, 1e9])
def test_a_kept_threshold_is_drawn_once_and_never_after_a_no(level):
    _, agents = recorded_run(Speaking(test="svt", releases=2, level=level))
    for agent in agents:
        draws = [x for x in Recorder.drawn if x[0] == agent.number and x[2] == "threshold"]
        assert draws == [(agent.number, 0, "threshold")]
        assert Recorder.drawn.index(draws[0]) == min(
            k for k, x in enumerate(Recorder.drawn) if x[0] == agent.number
        )


class Draws(SeededNoise):
    """Noise of a size that is told, in standard deviations or scales."""

    size: ClassVar[float] = 0.0

    def gaussian(self, values, scale, grid, key):
        return values + self.size * scale[:, None]

    laplace = gaussian

    def restricted(self, rows):
        return self


@pytest.mark.parametrize("far", [0.0, 2.0, 5.0, 20.0, 1e3, 1e6])
@pytest.mark.parametrize("test", ["gaussian", "svt"])
def test_noise_decides_however_far_a_value_is_from_the_threshold(test, far):
    """An answer that is taken without noise, because it is clear, has probability 0 or 1."""
    speaking = Speaking(test=test, releases=2)
    rule = make_agents(GRAPH, make_settings(rounds=4, speaking=speaking), "ipp")[0].algorithm
    own, kept, rows = rule.test, np.array([7.0]), np.array([0])
    scale = getattr(own, "query_scale", own.noise)
    for sign in (1.0, -1.0):
        for size, above in ((-sign * (2.0 * far + 1.0), sign < 0.0), (sign, sign > 0.0)):
            Draws.size = size
            ledger = MemoryLedger()
            ledger.reserve([own.reserved[0]])
            charged = ChargedNoise((ledger,), Draws((0,)))
            answer = own.decide(kept + sign * far * scale, kept, rows, charged, Place(0, 0))
            assert answer == [above]


def test_silence_repeats_the_last_value_and_still_moves_the_dual():
    trace, agents = recorded_run(Speaking(test="gaussian", releases=4, level=1.0))
    assert 0 < trace.spoke.sum() < trace.spoke.size
    for t in range(1, trace.rounds):
        silent = ~trace.spoke[t]
        np.testing.assert_array_equal(trace.releases[t][silent], trace.releases[t - 1][silent])
    for agent in agents:
        total = trace.releases[:, agent.number, 0].sum(axis=0)
        np.testing.assert_allclose(agent.algorithm.heard(agent._state).total[0], total, atol=1e-9)
        assert isinstance(agent.next(), Done)


@pytest.mark.parametrize("test", ["gaussian", "svt"])
def test_the_claim_is_what_was_reserved_not_what_was_spent(test):
    _, agents = recorded_run(Speaking(test=test, releases=3, level=1e9))
    for agent in agents:
        ledger = agent.ledgers[0]
        assert 0.99 < epsilon(ledger.reserved, 1e-5).epsilon <= 1.0
        assert epsilon(ledger.spent, 1e-5).epsilon < 0.5
        kinds = {type(event): times for event, times in ledger.reserved.counts}
        assert kinds[ObjectivePerturbation] == 3
        assert (kinds[Pure] == 1) if test == "svt" else (kinds[Gaussian] >= 3)


def test_replicates_speak_on_their_own():
    settings = make_settings(
        rounds=6,
        eta=(0.1,) * 3,
        regularisation=(0.05,) * 3,
        budgets=(Budget(1.0, 1e-5),) * 3,
        speaking=Speaking(releases=3, level=0.7),
    )
    together = run_small(GRAPH, "ipp", settings, seeds=(5, 6, 7))
    for r, seed in enumerate((5, 6, 7)):
        single = make_settings(rounds=6, speaking=Speaking(releases=3, level=0.7))
        alone = run_small(GRAPH, "ipp", single, seeds=(seed,))
        np.testing.assert_array_equal(together.spoke[:, :, r], alone.spoke[:, :, 0])
        np.testing.assert_allclose(together.releases[:, :, r], alone.releases[:, :, 0], atol=1e-6)


@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out"])
@pytest.mark.parametrize("name", STATISTICS)
def test_no_record_moves_a_statistic_by_more_than_its_sensitivity(name, adjacency):
    rng = np.random.default_rng(0)
    statistic, solver, worst = statistic_named(name, 2.0), solver_named("newton", 2), 0.0
    for _ in range(300):
        n, mu, beta = int(rng.integers(2, 8)), np.array([10 ** rng.uniform(-2, 1)]), 1e-9
        X = rng.standard_normal((n, 2))
        X *= 0.999999 / np.maximum(np.linalg.norm(X, axis=1), 1e-12)[:, None]
        other = X.copy()
        other[0] = -X[0] if adjacency == "replace-one" else 0.0
        own, linear = rng.standard_normal((1, 2)) * 3, rng.standard_normal((1, 2))
        values = []
        for rows in (X, other):
            risk = MarginRisk(Shard(rows, np.ones(n)), Logistic())
            sub = Subproblem(risk, mu, linear)
            value, _ = statistic.measure(sub, own, solver, cold_start(sub), beta)
            values.append(float(value[0]))
        settings = make_settings(beta=beta, adjacency=adjacency)
        step = perturbed(Site(0, 2, (1,), risk), settings, float(mu[0]))
        delta = statistic.sensitivity(step, Reach(Logistic(), 2, n, mu, beta, np.array([9.0])))[0]
        assert abs(values[0] - values[1]) <= delta
        worst = max(worst, abs(values[0] - values[1]) / delta)
    assert worst > 0.1


def test_a_neighbour_cannot_make_rounding_add_to_the_sensitivity():
    """What is sent may bring θ far out and c back: then ∇F is a small difference of large numbers.

    Its rounded norm moves by more than s when a record is replaced; Δ has room for that, R being
    as far as anyone can bring it.
    """
    rng, n, mu, far, worst = np.random.default_rng(0), 50, np.array([1.0]), 1e13, 0.0
    step = perturbed_step(lipschitz=1.0, smoothness=0.25, n=n, d=2, mu=1.0, beta=1e-8)
    reach = Reach(Logistic(), 2, n, mu, 1e-8, np.array([far * (1.0 + 1e-9)]))
    delta = statistic_named("gradient", 2.0).sensitivity(step, reach)[0]
    for _ in range(200):
        away = rng.standard_normal((1, 2))
        own, along = far * away / np.linalg.norm(away), np.array([-away[0, 1], away[0, 0]])
        along /= np.linalg.norm(along)
        linear, norms = -own + along, []
        for record in (along, -along):
            X = np.vstack([0.999999 * record - 1e-6 * away[0], np.zeros((n - 1, 2))])
            sub = Subproblem(MarginRisk(Shard(X, np.ones(n)), Logistic()), mu, linear)
            value, _ = statistic_named("gradient", 2.0).measure(
                sub, own, None, cold_start(sub), 1e-8
            )
            norms.append(value[0])
        worst = max(worst, abs(norms[0] - norms[1]))
    assert 2.0 / n * (1.0 + MARGIN) < worst <= delta


@pytest.mark.parametrize("name", STATISTICS)
def test_what_is_beyond_the_radius_is_refused_before_a_record_is_read(name):
    agents = make_agents(GRAPH, make_settings(rounds=4, speaking=Speaking(statistic=name)), "ipp")
    sends = [agent.next() for agent in agents]
    agent, first = agents[0], sends[1].message
    paid, passes = agent.ledgers[0].spent, agent.algorithm.site.risk.passes
    far = np.full_like(first.heard.value, 1e14)
    for heard in (SharedState(far, first.heard.total), SharedState(first.heard.value, far)):
        with pytest.raises(OutOfBoundsError, match=r"Agent 1 sent values of norm .*; the terms"):
            agent.receive(replace(first, heard=heard))
    assert agent.missing == agent.neighbours
    assert agent.ledgers[0].spent == paid
    assert agent.algorithm.site.risk.passes == passes


def test_sums_over_very_many_records_have_room_to_round():
    """γ_n of a sum is no longer small against 1/n from some million records on."""
    step = perturbed_step(lipschitz=1.0, smoothness=0.25, n=10**8, d=9, mu=1.0, beta=1e-8)
    for name in ("gradient", "loss"):
        reach = Reach(Logistic(), 9, 10**8, np.ones(1), 1e-8, np.ones(1))
        delta = statistic_named(name, 2.0).sensitivity(step, reach)[0]
        assert delta > step.sensitivity + 2.0 * 10**8 * 2.0**-53
    site = Site(0, 2, (1,), Counted(10**8))
    sigma = build_gradient(site, make_settings(rounds=1)).sigma[0]
    ratio = build_gradient(site, make_settings(rounds=1)).charges[0].events[0].ratio
    assert sigma * ratio > 2.0 / 10**8 + 2.0 * 10**8 * 2.0**-53


class Counted(NoRecords):
    """Very many records, as far as their number goes."""

    def __init__(self, n):
        super().__init__(9, Logistic())
        self._n = n

    @property
    def n(self):
        return self._n


def test_the_quieter_test_is_taken():
    short = make_settings(rounds=10, speaking=Speaking(releases=5))
    long = make_settings(rounds=5000, speaking=Speaking(releases=1, share=0.3))
    assert isinstance(make_agents(GRAPH, short, "ipp")[0].algorithm.test, GaussianTest)
    assert isinstance(make_agents(GRAPH, long, "ipp")[0].algorithm.test, SparseVector)


def test_the_paper_algorithm_is_booked_as_not_private():
    settings = make_settings(calibration="paper", rounds=20, speaking=Speaking(releases=5))
    agents = make_agents(GRAPH, settings, "ipp")
    trace = local.run(agents)
    assert trace.messages.max() <= 5
    assert epsilon(agents[0].ledgers[0].spent, 1e-5).epsilon == np.inf


def test_a_ledger_with_a_budget_lets_the_run_through():
    agents = make_agents(GRAPH, make_settings(rounds=8), "ipp")
    for agent in agents:
        ledger = MemoryLedger(Budget(1.0, 1e-5))
        ledger.reserve(agent.algorithm.reserved[0])
        agent.charged = ChargedNoise((ledger,), agent.charged.source)
    local.run(agents)
    for agent in agents:
        assert 0 < epsilon(agent.ledgers[0].spent, 1e-5).epsilon <= 1.0


def test_a_release_that_was_lost_in_a_crash_counts_as_made():
    rule = make_agents(GRAPH, make_settings(speaking=Speaking(releases=2)), "ipp")[0].algorithm
    state = rule.init()
    lost = rule.resumed(state, rule.heard(state), np.array([False]), np.array([True]))
    assert (state.left, lost.left) == ([2], [1])


class AtTheEdge:
    """Returns the minimiser, moved by what its certificate allows."""

    def __init__(self, sign):
        self.sign = sign

    def solve(self, sub, start, tolerance):
        found = solver_named("newton", sub.linear.shape[1]).solve(sub, start, 1e-12)
        point = found.point + self.sign * 0.999 * tolerance / sub.mu[:, None]
        return Solution(Warm(point, sub.risk.gradient(point)), found.residual, 0)


@pytest.mark.parametrize("name", ["movement", "loss"])
def test_a_candidate_may_be_anywhere_that_its_certificate_allows(name):
    """One side's solver errs one way and the other side's the other: Δ has room for 2β/μ."""
    statistic, n, mu, beta = statistic_named(name, 2.0), 50, np.array([1.0]), 0.2
    step = perturbed_step(lipschitz=1.0, smoothness=1.0, n=n, d=1, mu=1.0, beta=beta)
    values = []
    for record, sign in ((1.0, 1.0), (-1.0, -1.0)):
        X = np.vstack([[[record]], -np.ones((n - 1, 1))])
        risk = MarginRisk(Shard(X, np.ones(n)), HuberHinge(0.5))
        sub = Subproblem(risk, mu, np.array([[-1.5]]))
        start = cold_start(sub)
        value, _ = statistic.measure(sub, np.zeros((1, 1)), AtTheEdge(sign), start, beta)
        values.append(value[0])
    found = abs(values[0] - values[1])
    delta = statistic.sensitivity(step, Reach(HuberHinge(0.5), 1, n, mu, beta, np.ones(1)))[0]
    assert delta - step.spread < found <= delta
