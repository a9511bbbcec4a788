"""A neighbour who may send anything: no message makes an agent end, or end otherwise, for a record.

The attacks here told D from D' with certainty in version 0.1 (docs/privacy.md, section 5).
"""

import os
from dataclasses import replace

import numpy as np
import pytest

from ppadmm import RunSpec
from ppadmm.accounting import Budget
from ppadmm.accounting.sensitivity import TAIL, sampler_distance
from ppadmm.agent import Agent, Done, Message
from ppadmm.algorithms import Settings, SharedState, Site, recipe_named
from ppadmm.algorithms.defaults import Sizes, gaussian_plan
from ppadmm.data import Shard
from ppadmm.data.coded import Coded
from ppadmm.errors import OutOfBoundsError
from ppadmm.ledger import MemoryLedger
from ppadmm.mechanisms.limits import STRAY, noise_quantile, within
from ppadmm.noise import FINENESS, SecureNoise, SeededNoise, total_variation
from ppadmm.problem import HuberHinge, Logistic, kernels, make_graph, risk_of
from ppadmm.runs.run import prepare, run
from ppadmm.solvers import guarded
from tests.contracts.hostile_neighbour import attack
from tests.small_problems import make_agents, make_settings

FULL = bool(os.environ.get("PPADMM_FULL"))
BUDGET, LOGISTIC = Budget(1.0, 1e-6), Logistic()
Q = np.sqrt(0.5) * (1.0 - 1e-12)
SIDES = (np.array([Q, Q]), np.array([Q, -Q]))


def settings_for(n, loss, **changes):
    plan = gaussian_plan(Sizes((n, n), 2, (1, 1), (1.0, 1.0)), [BUDGET] * 2, loss, None, None)
    given = {"rounds": plan.rounds, "eta": (plan.eta,), **changes}
    return Settings(regularisation=(0.0,), budgets=(BUDGET,), **given)


def agent_with(record, n, loss=LOGISTIC, algorithm="pp", coded=False, seed=None, **changes):
    """The target: n − 1 records that saturate along the push, and one that differs."""
    X = np.vstack([np.tile([[Q, -Q]], (n - 1, 1)), [record]])
    rows = Coded.of(X, np.zeros((n, 0), dtype=np.uint8), 3, 1.0 - 1e-12) if coded else X
    risk = risk_of(Shard(rows, np.ones(n)), loss)
    site, settings = Site(0, 2, (1,), risk, (1,)), settings_for(n, loss, **changes)
    rule = recipe_named(algorithm).build(site, settings)
    noise = SecureNoise() if seed is None else SeededNoise((seed,))
    return Agent(rule, 0, (1,), [MemoryLedger(BUDGET)], noise)


def pushed(heard, centre):
    """The message that brings the minimiser near `centre`: θⱼ and Sⱼ of an only neighbour."""
    return SharedState(centre, heard.total - heard.value - centre + 2.0 * centre)


def play(agent, centres):
    """Push to each centre in turn; return how many rounds the agent made."""
    for t, centre in enumerate(centres):
        action = agent.next()
        if isinstance(action, Done):
            break
        heard = action.message.heard
        message = pushed(heard, centre)
        limit = (t + 1) * agent.algorithm.radius
        agent.receive(Message(1, t, SharedState(message.value, within(message.total, limit))))
    return agent.round


@pytest.mark.parametrize("algorithm", ["pp", "ipp"])
@pytest.mark.parametrize("kernel", ["numpy", "numba"])
@pytest.mark.parametrize("loss", [LOGISTIC, HuberHinge(0.5)], ids=lambda loss: loss.name)
def test_pushing_out_to_the_radius_ends_nothing(algorithm, kernel, loss, monkeypatch):
    """Far out gradients in single precision say nothing: 0.1 gave up there on D, never on D'."""
    monkeypatch.setenv(kernels.VARIABLE, kernel)
    for record in SIDES:
        agent = agent_with(record, 500, loss, algorithm, coded=kernel == "numba", beta=1e-8)
        away = np.array([[Q, -Q, 0.0]])[:, : agent.algorithm.site.risk.d]
        out = 0.999 * agent.algorithm.radius[0] * away
        centres = [out, 1e-7 * out] * 6
        assert play(agent, centres) == len(centres) - 1


def test_the_noise_is_cut_off_nowhere():
    """The unperturbed minimiser on the sphere of radius R: half of all noise points outwards.

    0.1 gave up for noise beyond a sphere, so that a release proved that b had been within. Now what
    lies outside is brought back to the sphere, on D as on D'.
    """
    for record in SIDES:
        outside = 0
        for seed in range(300):
            agent = agent_with(record, 500, seed=seed, rounds=2)
            agent.next()
            edge = agent.algorithm.radius[0] * np.array([[Q, -Q]])
            agent.receive(Message(1, 0, SharedState(edge, edge)))
            size = np.linalg.norm(agent.next().message.heard.value)
            assert size <= agent.algorithm.radius[0] * (1.0 + 1e-12)
            outside += size >= agent.algorithm.radius[0] * (1.0 - 1e-12)
        assert 100 < outside < 200


def test_what_is_beyond_the_radius_is_refused_and_changes_nothing():
    agent = agent_with(SIDES[0], 500)
    heard, radius = agent.next().message.heard, agent.algorithm.radius[0]
    far = np.array([[1.001 * radius, 0.0]])
    for bad in (
        SharedState(far, heard.total),
        SharedState(heard.value, far),
        SharedState(far * np.nan, far * 0.0),
    ):
        with pytest.raises(OutOfBoundsError):
            agent.receive(Message(1, 0, bad))
    assert agent.missing == (1,)
    agent.receive(Message(1, 0, SharedState(far / 1.001, far / 1.001)))
    assert agent.missing == ()


class Recorder:
    """A solver, or a statistic, that keeps how long c is, in units of μR."""

    def __init__(self, inner, radius):
        self.inner, self.radius, self.lengths = inner, radius, []
        self.name = inner.name

    def _keep(self, sub):
        self.lengths.extend(np.linalg.norm(sub.linear, axis=1) / (sub.mu * self.radius))

    def solve(self, sub, *rest):
        self._keep(sub)
        return self.inner.solve(sub, *rest)

    def measure(self, sub, *rest):
        self._keep(sub)
        return self.inner.measure(sub, *rest)


@pytest.mark.parametrize("algorithm", ["pp", "ipp"])
def test_no_subproblem_has_a_linear_term_beyond_the_radius(algorithm):
    """Sums may grow with the rounds, so that c would, too: what is solved and tested has ‖c‖ ≤ μR.

    Beyond that, nothing says that a solve ends or how far rounding moves a statistic.
    """
    agent = agent_with(SIDES[0], 500, algorithm=algorithm, rounds=12)
    rule = agent.algorithm
    seen = {"solver": Recorder(rule.solver, rule.radius[0])}
    if algorithm == "ipp":
        seen["statistic"] = Recorder(rule.statistic, rule.radius[0])
    agent.algorithm = replace(rule, **seen)
    edge = rule.radius[0] * np.array([[Q, -Q]])
    for t in range(rule.rounds):
        agent.next()
        agent.receive(Message(1, t, SharedState(edge, (t + 1) * edge)))
    b = noise_quantile(rule.mechanism.scales["sigma1"], 2) / (rule.mechanism.reach.mu * rule.radius)
    for name, recorder in seen.items():
        room = float(b[0]) if name == "solver" else 0.0
        assert 0.999 < max(recorder.lengths) <= 1.0 + room + 1e-12


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"epsilon": 0.02},
        {"epsilon": 50.0},
        {"graph": "star"},
        {"algorithm": "ipp"},
        {"algorithm": "one-shot"},
        {"algorithm": "gradient"},
        {"loss": "huber-hinge"},
        {"records": (3000, 900, 300, 50, 20), "epsilon": 3.0},
        {"partition": "dirichlet:0.2"},
    ],
    ids=str,
)
def test_honest_runs_stay_far_within_the_radius(changes):
    prepared = prepare(RunSpec(**{"epsilon": 1.0, "seed": 0, **changes}))
    result, algorithm = run(prepared), prepared.spec.algorithm
    site = prepared.federation.sites(prepared.method, prepared.spec.budgets)[0]
    radius = recipe_named(algorithm).build(site, prepared.settings).radius[0]
    assert np.linalg.norm(result.trace.releases, axis=-1).max() < 0.1 * radius


def test_all_agents_of_a_network_find_the_same_radius():
    agents = make_agents(make_graph("star", 6), make_settings())
    radii = {float(agent.algorithm.radius[0]) for agent in agents}
    assert len(radii) == 1


def test_the_tail_beyond_the_quantile_is_what_is_charged():
    """P(‖b‖ > σ(√d + x)) against the exact χ distribution."""
    from scipy.stats import chi

    for d in (1, 2, 40, 1000, 10**5):
        assert chi(d).logsf(np.sqrt(d) + STRAY) <= np.log(TAIL)
        assert sampler_distance(d) >= 2.0 * total_variation(d, 1.0, FINENESS) + TAIL
        sizes = np.linalg.norm(np.random.default_rng(d).standard_normal((20, min(d, 1000))), axis=1)
        assert (sizes < noise_quantile(np.ones(1), min(d, 1000))).all()


def test_noise_beyond_the_quantile_makes_a_release_all_the_same(monkeypatch):
    agent = agent_with(SIDES[0], 500)
    huge = np.full((1, 2), 1e9)
    rule = agent.algorithm
    monkeypatch.setattr(type(rule.mechanism), "_draw_linear", lambda *_: huge)
    value = agent.next().message.heard.value
    assert np.isfinite(value).all()
    assert np.linalg.norm(value) <= rule.radius[0] * (1.0 + 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_no_admissible_subproblem_defeats_the_solvers(seed, monkeypatch):
    """All losses, classes, solvers, kernels and ways to store records, at the edge of their terms.

    PPADMM_FULL=1 makes a million solves in all.
    """
    monkeypatch.setenv(kernels.VARIABLE, "auto")  # restored after the attack's own choices
    monkeypatch.setattr(guarded, "finish", guarded.finish)
    seen = attack(250_000 if FULL else 200, seed)
    assert seen["solves"] >= 200
    assert (seen["uncertified"], seen["not finite"], seen["false"]) == (0, 0, 0)
