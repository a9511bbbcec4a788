"""All games of the audit (docs/audit.md says what each is for)."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ppadmm import checks
from ppadmm.accounting import Budget, Tally
from ppadmm.accounting.gaussian import gdp_epsilon, gdp_ratio
from ppadmm.agent import Agent
from ppadmm.algorithms.newton import MOMENTS, SLOPES
from ppadmm.algorithms.settings import Speaking
from ppadmm.arrays import Array
from ppadmm.auditing import attacks
from ppadmm.auditing.audit import ALONE, EPSILON, AgentGame, Game, GameScores
from ppadmm.auditing.game import (
    BENT,
    EDGE,
    FAR,
    NEAR,
    REST,
    RIM,
    SIDES,
    STAR,
    STIFF,
    THREE,
)
from ppadmm.auditing.opponents import (
    Echo,
    FailingSolver,
    Lean,
    Mirror,
    Press,
    PressFarOff,
    Push,
    Tempt,
    TemptOutside,
    WorstSolver,
)
from ppadmm.auditing.sum_game import CROSSED, SumGame
from ppadmm.data import Shard
from ppadmm.datasets import load
from ppadmm.runs.run import Prepared, prepare, run
from ppadmm.runs.scoring import SearchLedger, agent_score, score_charge
from ppadmm.runs.specification import RunSpec
from ppadmm.summing.trust import LOCAL_TRUST, Trust

TEST_SHARE = 0.99
SILENT_ROUNDS = 120
FEW = 200
"""Records that models are scored on."""
SECURE = 400
"""Runs on each side that always have secure noise."""


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


def _large_budget(epsilon: float, delta: float) -> Budget:
    """Return 4 at least: where κ is large no noise is enough for less."""
    return Budget(max(epsilon, EPSILON), delta)


@dataclass(frozen=True, kw_only=True)
class ScoreGame(Game):
    """The noisy score of a model on an agent's records, which `tune` chooses by.

    Five agents; on D' one record of the first has another label. The model was released before, so
    the score is all that is claimed for here.
    """

    name: str = "tune, score"
    about: str = "an agent's noisy accuracy, one record right or wrong"
    always_secure: bool = True
    most: int = 2 * ALONE

    def scored(self, epsilon: float, delta: float, runs: int, seed: int | None) -> GameScores:
        """Score one model again and again on both sides."""
        data = load("synthetic")
        few = replace(data, X=data.X[:FEW], y=data.y[:FEW], table=None, train_records=FEW // 2)
        prepared = prepare(RunSpec(agents=5, rounds=1, epsilon=epsilon, delta=delta), data=few)
        model, books = run(prepared).model, SearchLedger(gdp_ratio(epsilon, delta))
        most = min(runs, self.most)
        ours, theirs = (self._scores(prepared, model, books, side, most) for side in SIDES)
        return GameScores({"score": (ours, theirs)}, Tally.of([score_charge(books.ratio)]))

    def _scores(
        self, prepared: Prepared, model: Array, books: SearchLedger, side: int, runs: int
    ) -> Any:
        part = prepared.federation.parts[0]
        if not isinstance(part, Shard):
            raise TypeError("Scores are audited on records in memory.")
        y = part.y.copy()
        y[0] = y[0] if side == 0 else -y[0]
        own = Shard(part.X, y, part.classes)
        return np.array([agent_score(prepared, model, own, books, (0, k)) for k in range(runs)])


FAR_OUT = 1e-6
"""A β whose radius is so large that gradients in single precision say nothing there."""
GAMES: tuple[Game, ...] = (
    AgentGame(
        name="pp",
        about="all releases of a run, records near-antipodal, far start",
        world=FAR,
        rounds=5,
        scores=attacks.whole_run,
    ),
    AgentGame(
        name="pp, second noise",
        about="a heavy leaf; minimisers revealed, solver at the edge of its certificate",
        world=STAR,
        rounds=8,
        scores=attacks.second_noise,
        settings={"share": 0.9, "beta": 1e-6},
        solver=WorstSolver,
    ),
    AgentGame(
        name="pp, heavy site",
        about="one release of a site with half of all weight, where the record's loss bends",
        world=BENT,
        rounds=1,
        scores=attacks.whole_run,
        settings={"beta": 1e-6, "adjacency": "zero-out"},
        budget=_large_budget,
        gaussian=False,
        times=3,
    ),
    AgentGame(
        name="pp, three classes",
        about="all releases of a run, multinomial loss, far start",
        world=THREE,
        rounds=5,
        scores=attacks.whole_run,
    ),
    AgentGame(
        name="pp, one-vs-rest",
        about="all releases of a run, three hinges at once",
        world=REST,
        rounds=5,
        scores=attacks.whole_run,
    ),
    AgentGame(
        name="pp, pushed across",
        about="the neighbour pushes to the radius, across the record; does the run go on?",
        world=RIM,
        rounds=6,
        scores=attacks.at_the_radius,
        opponent=Push,
        alone=True,
        most=ALONE,
        settings={"beta": FAR_OUT},
    ),
    AgentGame(
        name="pp, pushed along",
        about="five neighbours hold the minimiser on the radius; is noise cut off?",
        world=EDGE,
        rounds=2,
        scores=attacks.at_the_radius,
        opponent=Lean,
        alone=True,
        most=4 * ALONE,
    ),
    AgentGame(
        name="pp, failing solver",
        about="the quick solver fails on D; does the run go on?",
        world=NEAR,
        rounds=3,
        scores=attacks.whole_run,
        solver=FailingSolver.guarded,
        most=ALONE,
    ),
    AgentGame(
        name="pp, secure noise",
        about="two runs on the same records, always with secure noise",
        world=FAR,
        rounds=2,
        scores=attacks.two_runs,
        budget=_half_the_budget,
        most=SECURE,
        later=Mirror,
        always_secure=True,
    ),
    AgentGame(
        name="ipp, Gaussian tests",
        about="all answers and releases of a run",
        world=FAR,
        rounds=10,
        scores=attacks.tests_and_releases,
        opponent=Tempt,
        settings={"speaking": Speaking(test="gaussian", releases=5, share=0.5, level=3.0)},
    ),
    AgentGame(
        name="ipp, pushed across",
        about="pushed to the radius, across the record, and there to the threshold",
        world=RIM,
        rounds=6,
        scores=attacks.tests_and_releases,
        opponent=TemptOutside,
        alone=True,
        most=ALONE,
        settings={
            "speaking": Speaking(test="gaussian", releases=4, share=0.5, level=3.0),
            "beta": FAR_OUT,
        },
    ),
    AgentGame(
        name="ipp, sparse vector",
        about="how long the agent stays silent; the claim is that of the tests",
        world=NEAR,
        rounds=SILENT_ROUNDS,
        scores=attacks.silence,
        opponent=Press,
        settings={"speaking": Speaking(test="svt", releases=1, share=TEST_SHARE, level=60.0)},
        budget=_budget_of_tests,
        gaussian=False,
        claim=_tests_only,
        times=4,
    ),
    AgentGame(
        name="ipp, far off",
        about="Gaussian tests four σ from the threshold, at an eighth of ε",
        world=STIFF,
        rounds=SILENT_ROUNDS,
        scores=attacks.silence,
        opponent=PressFarOff,
        settings={"speaking": Speaking(test="gaussian", releases=1, share=TEST_SHARE, level=60.0)},
        budget=_little_budget,
        gaussian=False,
        claim=_tests_only,
        times=2,
    ),
    AgentGame(
        name="one-shot, second noise",
        about="minimiser revealed, solver at the edge of its certificate",
        world=NEAR,
        rounds=1,
        scores=attacks.second_noise,
        settings={"share": 0.9, "beta": 1e-6, "regularisation": 2.0 * NEAR.mu},
        solver=WorstSolver,
    ),
    *(
        AgentGame(
            name=name,
            about="all releases of a run",
            world=NEAR,
            rounds=rounds,
            scores=attacks.gamma,
            gaussian=False,
        )
        for name, rounds in (("dvp", 4), ("m-admm", 4), ("r-admm", 8))
    ),
    AgentGame(
        name="gradient",
        about="all releases of a run, at a heavy leaf",
        world=STAR,
        rounds=5,
        scores=attacks.gradients,
        opponent=Echo,
        settings={"eta": 0.05},
    ),
    *(
        SumGame(
            name=f"newton{name}",
            about=about,
            world=CROSSED if stage == MOMENTS else NEAR,
            stage=stage,
            rounds=2 if stage == MOMENTS else 4,
            trust=Trust("sum", 2) if masked else LOCAL_TRUST,
            honest=2 if masked else 1,
            colluding=2 if masked else 1,
        )
        for name, stage, masked, about in (
            ("", SLOPES, False, "all slopes of a run; the claim is that of slopes"),
            (", second moments", MOMENTS, False, "records at a right angle; the claim is theirs"),
            (", sum", SLOPES, True, "two of four collude: slopes that they opened, less their own"),
            (", sum of moments", MOMENTS, True, "the same with second moments"),
        )
    ),
    ScoreGame(),
)


def game_named(name: str) -> Game:
    """Return the game called `name`."""
    by_name = {game.name: game for game in GAMES}
    return by_name[checks.one_of("game", name, by_name)]
