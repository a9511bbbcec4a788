import random
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from ppadmm.accounting import Budget
from ppadmm.agent import Done, Message, Send, Wait
from ppadmm.algorithms import SharedState
from ppadmm.algorithms.admm import ADMM
from ppadmm.algorithms.settings import Speaking
from ppadmm.engines import local
from ppadmm.errors import BudgetError, InputError, ProtocolError
from ppadmm.ledger import MemoryLedger
from ppadmm.mechanisms import ChargedNoise
from ppadmm.noise import SeededNoise
from ppadmm.problem import make_graph
from tests.small_problems import make_agents, make_settings, run_small

GRAPH = make_graph("erdos-renyi", 5, seed=2)


def test_replicates_are_independent_runs():
    budgets = (Budget(0.5, 1e-5), Budget(2.0, 1e-5), Budget(2.0, 1e-5))
    etas = (0.1, 0.2, 0.1)
    settings = make_settings(eta=etas, regularisation=(0.05,) * 3, budgets=budgets)
    together = run_small(GRAPH, settings=settings, seeds=(3, 4, 5)).releases
    for r, seed in enumerate((3, 4, 5)):
        single = make_settings(eta=(etas[r],), budgets=(budgets[r],))
        alone = run_small(GRAPH, settings=single, seeds=(seed,)).releases
        np.testing.assert_allclose(together[:, :, r], alone[:, :, 0], atol=1e-6)


def test_the_same_seed_gives_the_same_bits():
    first, again = run_small(GRAPH).releases, run_small(GRAPH).releases
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, run_small(GRAPH, seeds=(1,)).releases)


def test_any_order_of_delivery_gives_the_same_bits():
    """Late, repeated and reordered messages change nothing."""
    expected = run_small(GRAPH).releases
    rng = random.Random(0)
    agents = make_agents(GRAPH, make_settings())
    releases = {}
    mail = []
    while not all(isinstance(agent.next(), Done) for agent in agents if agent.round == 5) or any(
        agent.round < 5 for agent in agents
    ):
        for agent in rng.sample(agents, len(agents)):
            action = agent.next()
            if isinstance(action, Send):
                releases[action.message.round, agent.number] = action.release.value
                mail += [(j, action.message) for j in agent.neighbours] * 2
        rng.shuffle(mail)
        for j, message in mail[: len(mail) // 2 + 1]:
            agents[j].receive(message)
        mail = mail[len(mail) // 2 + 1 :]
    for (t, i), value in releases.items():
        np.testing.assert_array_equal(value, expected[t, i])
    assert len(releases) == 5 * GRAPH.size


def test_the_trace_averages_are_the_free_post_processing():
    trace = run_small(GRAPH)
    tail = trace.releases[2:]
    np.testing.assert_allclose(trace.agent_models(), tail.mean(axis=0))
    np.testing.assert_allclose(trace.model(), tail.mean(axis=(0, 1)))


def test_the_running_sums_carry_the_dual():
    """c = 2λ − ηΣ(θᵢ+θⱼ) with λ⁺ = λ + (η/2)Σ(θᵢ⁺−θⱼ⁺), step by step."""
    agents = make_agents(GRAPH, make_settings())
    releases = local.run(agents).releases[:, :, 0]
    eta = 0.1
    for i, agent in enumerate(agents):
        dual = np.zeros(5)
        for t in range(5):
            dual += eta / 2 * sum(releases[t, i] - releases[t, j] for j in agent.neighbours)
        last = sum(releases[-1, i] + releases[-1, j] for j in agent.neighbours)
        linear = agent.algorithm.subproblem(agent._state).linear[0]
        np.testing.assert_allclose(linear, 2 * dual - eta * last, atol=1e-12)


class Diary:
    """Writes down in which order charges and draws happen."""

    def __init__(self):
        self.lines = []


class DiaryLedger(MemoryLedger):
    def __init__(self, diary):
        super().__init__(Budget(1.0, 1e-5))
        self.diary = diary

    def charge(self, charge):
        super().charge(charge)
        self.diary.lines.append("charge")


class DiaryNoise(SeededNoise):
    def gaussian(self, values, scale, grid, key):
        DIARY.lines.append(key.purpose)
        return super().gaussian(values, scale, grid, key)


DIARY = Diary()


def test_a_charge_is_booked_before_noise_is_drawn():
    DIARY.lines.clear()
    agents = make_agents(GRAPH, make_settings(rounds=3))
    for agent in agents:
        agent.charged = ChargedNoise((DiaryLedger(DIARY),), DiaryNoise((0,)))
        agent.ledgers[0].reserve(agent.algorithm.reserved[0])
    local.run(agents)
    assert DIARY.lines == ["charge", "linear", "output"] * (3 * GRAPH.size)


def test_no_release_without_budget():
    agents = make_agents(GRAPH, make_settings(rounds=3))
    charge = agents[0].algorithm.mechanism.charges[0]
    ledger = MemoryLedger(Budget(1.0, 1e-5))
    ledger.reserve([(charge, 3)])
    with pytest.raises(BudgetError, match="only ε = 1 is granted"):
        ledger.reserve([(charge, 1)])
    agents[0].charged = ChargedNoise((MemoryLedger(),), SeededNoise((0,)))
    with pytest.raises(BudgetError, match="nothing was released"):
        agents[0].next()


class Watched(SeededNoise):
    """Seeded noise that says whether it was asked for any."""

    drawn: ClassVar[list] = []

    def _streams(self, n, key):
        self.drawn.append(key)
        return super()._streams(n, key)

    def restricted(self, rows):
        return Watched(tuple(self.seeds[k] for k in rows))


@pytest.mark.parametrize(
    ("algorithm", "speaking"),
    [
        ("pp", Speaking()),
        ("ipp", Speaking(test="gaussian")),
        ("ipp", Speaking(test="svt")),
        ("gradient", Speaking()),
        ("one-shot", Speaking()),
        ("dvp", Speaking()),
    ],
    ids=lambda value: getattr(value, "test", value),
)
def test_no_noise_is_drawn_for_a_charge_that_is_refused(algorithm, speaking):
    Watched.drawn = []
    agent = make_agents(GRAPH, make_settings(rounds=3, speaking=speaking), algorithm)[0]
    agent.charged = ChargedNoise((MemoryLedger(),), Watched((0,)))
    with pytest.raises(BudgetError, match="nothing was released"):
        agent.next()
    assert Watched.drawn == []
    ledger = MemoryLedger(Budget(1.0, 1e-5))
    ledger.reserve(agent.algorithm.reserved[0])
    agent.charged = ChargedNoise((ledger,), Watched((0,)))
    agent.next()
    assert Watched.drawn


def test_waiting_and_refusing():
    agents = make_agents(make_graph("ring", 4), make_settings(rounds=2))
    assert isinstance(agents[0].next(), Send)
    assert agents[0].next() == Wait((1, 3))
    value = np.zeros((1, 5))
    with pytest.raises(ProtocolError, match="from 2, not a neighbour"):
        agents[0].receive(Message(2, 0, SharedState(value, value)))
    with pytest.raises(ProtocolError, match="shape"):
        agents[0].receive(Message(1, 0, SharedState(np.zeros((1, 7)), np.zeros((1, 7)))))


def test_the_reported_cost_is_the_budget():
    from ppadmm.accounting import epsilon

    agents = make_agents(GRAPH, make_settings())
    local.run(agents)
    for agent in agents:
        spent = epsilon(agent.ledgers[0].spent, 1e-5).epsilon
        assert 0.999 < spent <= 1.0


@dataclass(frozen=True)
class Softening(ADMM):
    """A rule of one's own whose penalty falls: the noise of PP-ADMM is not made for that."""

    def penalty(self, round_):
        return self.eta / (1 + round_)


def test_noise_is_not_used_for_a_flatter_subproblem_than_it_was_made_for():
    """κ = c₁/(nμ) is part of the charge: with a smaller μ more would be spent than is booked."""
    agent = make_agents(make_graph("ring", 3), make_settings(rounds=3))[0]
    rule = Softening(**vars(agent.algorithm))
    state, _ = rule.propose(rule.init(), agent.charged)
    paid = agent.ledgers[0].spent
    with pytest.raises(InputError, match=r"strong convexity μ ≥ .* Nothing was released"):
        rule.propose(replace(state, round=1), agent.charged)
    assert agent.ledgers[0].spent == paid
