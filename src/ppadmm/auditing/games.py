"""All games of the audit (docs/audit.md says what each is for)."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ppadmm import checks
from ppadmm.accounting import Budget, Tally
from ppadmm.accounting.gaussian import gdp_epsilon, gdp_ratio
from ppadmm.agent import Agent
from ppadmm.algorithms.settings import Speaking
from ppadmm.arrays import Array
from ppadmm.auditing import attacks
from ppadmm.auditing.audit import ALONE, AgentGame, Game, Played
from ppadmm.auditing.game import (
    EDGE,
    FAR,
    NEAR,
    REST,
    RIM,
    SIDES,
    STAR,
    STIFF,
    THREE,
    NeighbouringData,
    Opponent,
)
from ppadmm.auditing.opponents import (
    Echo,
    FailingSolver,
    Lean,
    Mirror,
    Press,
    Push,
    Tempt,
    TemptOutside,
    WorstSolver,
)
from ppadmm.data import Shard
from ppadmm.datasets import load
from ppadmm.runs.run import Prepared, prepare, run
from ppadmm.runs.scoring import SearchLedger, agent_score, score_charge
from ppadmm.runs.specification import RunSpec

TEST_SHARE = 0.99
SILENT_ROUNDS = 120
EXPECTED_ANSWERS = 1.5
"""How many "yes" a whole run of the sparse-vector game gives, roughly, if its noise is fresh."""
FAR_OFF = 4.005
"""How many σ below the threshold the lower statistic is where tests are far from it."""
FEW = 200
"""Records that models are scored on."""
SECURE = 400
"""Runs on each side that always have secure noise."""


def _worst_solver(rule: Any, world: NeighbouringData, side: int) -> Any:
    """Push θ̂ one way on D and the other way on D'."""
    away = np.zeros(world.d)
    away[0] = 1.0 if side == 0 else -1.0
    return replace(rule, solver=WorstSolver(rule.solver, away))


def _failing_solver(rule: Any, world: NeighbouringData, side: int) -> Any:
    """Let the quick solver fail on D."""
    return replace(rule, solver=FailingSolver.guarded(rule.solver, fails=side == 0))


def _tests_only(agent: Agent) -> Tally:
    """Return what the tests reserved: until it speaks the agent releases nothing else."""
    rule: Any = agent.algorithm
    return Tally().plus(*rule.test.reserved[0])


def _budget_of_tests(epsilon: float, delta: float) -> Budget:
    """Return the budget whose tests cost ε: they get m·√share of it."""
    m = epsilon / math.sqrt(TEST_SHARE)
    return Budget(gdp_epsilon(delta, m), delta)


def _half_the_budget(epsilon: float, delta: float) -> Budget:
    """Return the budget of each of two runs."""
    return Budget(gdp_epsilon(delta, gdp_ratio(epsilon, delta) / math.sqrt(2.0)), delta)


def _little_budget(epsilon: float, delta: float) -> Budget:
    """Return an eighth: the less is claimed, the more an event says that should not happen."""
    return Budget(epsilon / 8.0, delta)


def _mirror(rule: Any, world: NeighbouringData) -> Opponent:
    return Mirror(world)


def _tempt(rule: Any, world: NeighbouringData) -> Opponent:
    return Tempt(world, float(rule.test.threshold[0]))


def _press(rule: Any, world: NeighbouringData) -> Opponent:
    """Keep the lower statistic, g − 1/n, so far below the threshold that "yes" is rare."""
    test = rule.test
    tail = float(test.query_scale[0]) * math.log(SILENT_ROUNDS / (2.0 * EXPECTED_ANSWERS))
    low = float(test.threshold[0]) - tail
    return Press(world, max(low, 1.0 / world.n) + 1.0 / world.n)


def _press_far_off(rule: Any, world: NeighbouringData) -> Opponent:
    """Keep the lower statistic just more than four σ below the threshold."""
    low = float(rule.test.threshold[0] - FAR_OFF * rule.test.noise[0])
    return Press(world, low + 1.0 / world.n)


def _echo(rule: Any, world: NeighbouringData) -> Opponent:
    return Echo(world)


def _push(rule: Any, world: NeighbouringData) -> Opponent:
    return Push(world, float(rule.radius[0]), rule.rounds)


def _lean(rule: Any, world: NeighbouringData) -> Opponent:
    return Lean(world, float(rule.radius[0]), rule.rounds)


def _tempt_outside(rule: Any, world: NeighbouringData) -> Opponent:
    threshold = float(rule.test.threshold[0])
    return TemptOutside(world, float(rule.radius[0]), rule.rounds, size=threshold)


@dataclass(frozen=True)
class ScoreGame:
    """The noisy score of a model on an agent's records, which `tune` chooses by.

    Five agents; on D' one record of the first has another label. The model was released before, so
    the score is all that is claimed for here.
    """

    name: str = "tune, score"
    algorithm: str = "tune"
    about: str = "an agent's noisy accuracy, one record right or wrong"
    gaussian: bool = True
    always_secure: bool = True
    most: int = 2 * ALONE

    def scored(self, epsilon: float, delta: float, runs: int, seed: int | None) -> Played:
        """Score one model again and again on both sides."""
        data = load("synthetic")
        few = replace(data, X=data.X[:FEW], y=data.y[:FEW], table=None, train_records=FEW // 2)
        prepared = prepare(RunSpec(agents=5, rounds=1, epsilon=epsilon, delta=delta), data=few)
        model, till = run(prepared).model, SearchLedger(gdp_ratio(epsilon, delta))
        most = min(runs, self.most)
        ours, theirs = (self._scores(prepared, model, till, side, most) for side in SIDES)
        return Played({"score": (ours, theirs)}, Tally.of([score_charge(till.ratio)]))

    def _scores(
        self, prepared: Prepared, model: Array, till: SearchLedger, side: int, runs: int
    ) -> Any:
        part = prepared.scene.parts[0]
        if not isinstance(part, Shard):
            raise TypeError("Scores are audited on records in memory.")
        y = part.y.copy()
        y[0] = y[0] if side == 0 else -y[0]
        own = Shard(part.X, y, part.classes)
        return np.array([agent_score(prepared, model, own, till, (0, k)) for k in range(runs)])


FAR_OUT = 1e-6
"""A β whose radius is so large that gradients in single precision say nothing there."""
GAMES: tuple[Game, ...] = (
    AgentGame(
        name="pp",
        algorithm="pp",
        about="all releases of a run, records near-antipodal, far start",
        world=FAR,
        rounds=5,
        scores=attacks.whole_run,
        gaussian=True,
    ),
    AgentGame(
        name="pp, second noise",
        algorithm="pp",
        about="a leaf of a star; minimisers revealed, solver at the edge of its certificate",
        world=STAR,
        rounds=8,
        scores=attacks.second_noise,
        settings={"share": 0.9, "beta": 1e-6},
        prepare=_worst_solver,
        gaussian=True,
    ),
    AgentGame(
        name="pp, three classes",
        algorithm="pp",
        about="all releases of a run, multinomial loss, far start",
        world=THREE,
        rounds=5,
        scores=attacks.whole_run,
        gaussian=True,
    ),
    AgentGame(
        name="pp, one-vs-rest",
        algorithm="pp",
        about="all releases of a run, three hinges at once",
        world=REST,
        rounds=5,
        scores=attacks.whole_run,
        gaussian=True,
    ),
    AgentGame(
        name="pp, pushed across",
        algorithm="pp",
        about="the neighbour pushes to the radius, across the record; does the run go on?",
        world=RIM,
        rounds=6,
        scores=attacks.at_the_radius,
        opponent=_push,
        alone=True,
        most=ALONE,
        gaussian=True,
        settings={"beta": FAR_OUT},
    ),
    AgentGame(
        name="pp, pushed along",
        algorithm="pp",
        about="five neighbours hold the minimiser on the radius; is noise cut off?",
        world=EDGE,
        rounds=2,
        scores=attacks.at_the_radius,
        opponent=_lean,
        alone=True,
        most=4 * ALONE,
        gaussian=True,
    ),
    AgentGame(
        name="pp, failing solver",
        algorithm="pp",
        about="the quick solver fails on D; does the run go on?",
        world=NEAR,
        rounds=3,
        scores=attacks.whole_run,
        prepare=_failing_solver,
        most=ALONE,
        gaussian=True,
    ),
    AgentGame(
        name="pp, secure noise",
        algorithm="pp",
        about="two runs on the same records, always with secure noise",
        world=FAR,
        rounds=2,
        scores=attacks.two_runs,
        budget=_half_the_budget,
        most=SECURE,
        later=_mirror,
        always_secure=True,
        gaussian=True,
    ),
    AgentGame(
        name="ipp, Gaussian tests",
        algorithm="ipp",
        about="all answers and releases of a run",
        world=FAR,
        rounds=10,
        scores=attacks.tests_and_releases,
        opponent=_tempt,
        gaussian=True,
        settings={"speaking": Speaking(test="gaussian", releases=5, share=0.5, level=3.0)},
    ),
    AgentGame(
        name="ipp, pushed across",
        algorithm="ipp",
        about="pushed to the radius, across the record, and there to the threshold",
        world=RIM,
        rounds=6,
        scores=attacks.tests_and_releases,
        opponent=_tempt_outside,
        alone=True,
        most=ALONE,
        gaussian=True,
        settings={
            "speaking": Speaking(test="gaussian", releases=4, share=0.5, level=3.0),
            "beta": FAR_OUT,
        },
    ),
    AgentGame(
        name="ipp, sparse vector",
        algorithm="ipp",
        about="how long the agent stays silent; the claim is that of the tests",
        world=NEAR,
        rounds=SILENT_ROUNDS,
        scores=attacks.silence,
        opponent=_press,
        settings={"speaking": Speaking(test="svt", releases=1, share=TEST_SHARE, level=60.0)},
        budget=_budget_of_tests,
        claim=_tests_only,
        times=4,
    ),
    AgentGame(
        name="ipp, far off",
        algorithm="ipp",
        about="Gaussian tests four σ from the threshold, at an eighth of ε",
        world=STIFF,
        rounds=SILENT_ROUNDS,
        scores=attacks.silence,
        opponent=_press_far_off,
        settings={"speaking": Speaking(test="gaussian", releases=1, share=TEST_SHARE, level=60.0)},
        budget=_little_budget,
        claim=_tests_only,
        times=2,
    ),
    AgentGame(
        name="one-shot, second noise",
        algorithm="one-shot",
        about="minimiser revealed, solver at the edge of its certificate",
        world=NEAR,
        rounds=1,
        scores=attacks.second_noise,
        settings={"share": 0.9, "beta": 1e-6, "regularisation": 2.0 * NEAR.mu},
        prepare=_worst_solver,
        gaussian=True,
    ),
    *(
        AgentGame(
            name=name,
            algorithm=name,
            about="all releases of a run",
            world=NEAR,
            rounds=rounds,
            scores=attacks.gamma,
        )
        for name, rounds in (("dvp", 4), ("m-admm", 4), ("r-admm", 8))
    ),
    AgentGame(
        name="gradient",
        algorithm="gradient",
        about="all releases of a run",
        world=NEAR,
        rounds=5,
        scores=attacks.gradients,
        gaussian=True,
        opponent=_echo,
        settings={"eta": 0.05},
    ),
    ScoreGame(),
)


def game_named(name: str) -> Game:
    """Return the game called `name`."""
    by_name = {game.name: game for game in GAMES}
    return by_name[checks.one_of("game", name, by_name)]
