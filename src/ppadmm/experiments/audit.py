"""Audits: games against the real code, each with the claim that it must stay below."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ppadmm import checks
from ppadmm.agent import Agent
from ppadmm.algorithms import Settings, build
from ppadmm.algorithms.settings import Speaking
from ppadmm.experiments import attacks
from ppadmm.experiments.attacks import Bout, Scorer
from ppadmm.experiments.game import (
    FAR,
    NEAR,
    SIDES,
    Echo,
    Opponent,
    Press,
    Steer,
    Tempt,
    World,
    WorstSolver,
    play,
    seat,
)
from ppadmm.noise import CrowdNoise, NoiseSource, SecureNoise
from ppadmm.privacy import Budget, Tally, accountant
from ppadmm.privacy.audit import CONFIDENCE, Claim, Finding, judge
from ppadmm.privacy.gaussian import gdp_epsilon

EPSILON, DELTA = 4.0, 1e-5
RUNS, SECURE_RUNS = 20_000, 1_000
TEST_SHARE = 0.99
SILENT_ROUNDS = 120
EXPECTED_ANSWERS = 1.5
"""How many "yes" a whole run of the sparse-vector game gives, roughly, if its noise is fresh."""


def _whole_budget(epsilon: float, delta: float) -> Budget:
    return Budget(epsilon, delta)


def _whole_claim(agent: Agent) -> Tally:
    """All that the run reserved."""
    return agent.ledgers[0].reserved


def _as_it_is(rule: Any, world: World, side: int) -> Any:
    return rule


@dataclass(frozen=True)
class Game:
    """One way to play: an algorithm in a world against an opponent, and how transcripts are scored.

    `budget` turns the audited (ε, δ) into that of the run; `claim` says which part of what the run
    reserved covers the transcript; `prepare` may change the algorithm within what the proof allows;
    `gaussian` says that the privacy loss is close to that of a Gaussian mechanism. A game whose
    events are rare is played `times` as often as the others, but for secure noise.
    """

    name: str
    algorithm: str
    about: str
    world: World
    rounds: int
    scores: Scorer
    opponent: Callable[[Any, World], Opponent] = field(default=lambda rule, world: Steer(world))
    settings: Mapping[str, Any] = field(default_factory=dict)
    budget: Callable[[float, float], Budget] = _whole_budget
    claim: Callable[[Agent], Tally] = _whole_claim
    prepare: Callable[[Any, World, int], Any] = _as_it_is
    gaussian: bool = False
    times: int = 1

    def play(self, side: int, budget: Budget, runs: int, noise: NoiseSource) -> tuple[Bout, Tally]:
        """Run one side `runs` times."""
        settings = Settings(
            rounds=self.rounds,
            eta=(self.settings.get("eta", self.world.eta),) * runs,
            regularisation=(0.0,) * runs,
            budgets=(budget,) * runs,
            **{name: value for name, value in self.settings.items() if name != "eta"},
        )
        rule = build(self.algorithm, self.world.site(side), settings)
        agent = seat(self.prepare(rule, self.world, side), budget, runs, noise)
        seen = play(agent, self.opponent(rule, self.world))
        return Bout(self.world, agent.algorithm, seen), self.claim(agent)


@dataclass(frozen=True)
class Audit:
    """A game that was played, beside its claim: ε at δ, out of a whole curve."""

    game: str
    algorithm: str
    about: str
    noise: str
    claimed: float
    gaussian: bool
    finding: Finding
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether the runs are consistent with the claim."""
        return not self.finding.exceeded

    def to_dict(self) -> dict[str, Any]:
        """Return the figures, fit for JSON."""
        own = {k: v for k, v in self.__dict__.items() if k not in ("finding", "gaussian")}
        found = dict(self.finding.__dict__)
        if not self.gaussian:
            found["gaussian_epsilon"] = None
        return {**own, **found, "passed": self.passed}


def audit(
    game: Game,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    runs: int = RUNS,
    seed: int = 0,
    secure: bool = False,
    confidence: float = CONFIDENCE,
) -> Audit:
    """Play `runs` runs a side and compare what they show with the claim."""
    started = time.perf_counter()
    budget = game.budget(epsilon, delta)
    runs = runs if secure else game.times * runs
    bouts: list[Bout] = []
    tally = Tally()
    for side in SIDES:
        noise = SecureNoise() if secure else CrowdNoise(2 * seed + side, runs)
        bout, tally = game.play(side, budget, runs, noise)
        bouts.append(bout)
    ours, theirs = (game.scores(bout) for bout in bouts)
    scores = {name: (ours[name], theirs[name]) for name in ours}
    return Audit(
        game=game.name,
        algorithm=game.algorithm,
        about=game.about,
        noise="OpenDP, secure" if secure else f"seeded NumPy ({seed})",
        claimed=accountant.epsilon(tally, delta).epsilon,
        gaussian=game.gaussian,
        finding=judge(scores, Claim.of(tally), delta, confidence),
        seconds=time.perf_counter() - started,
    )


def audits(
    algorithms: Sequence[str], on_game: Callable[[str], None] | None = None, **options: Any
) -> list[Audit]:
    """Play every game of the named algorithms."""
    names = {game.algorithm for game in GAMES}
    for algorithm in algorithms:
        checks.one_of("algorithm", algorithm, sorted(names))
    found = []
    for game in GAMES:
        if game.algorithm in algorithms:
            if on_game is not None:
                on_game(game.name)
            found.append(audit(game, **options))
    return found


def _worst_solver(rule: Any, world: World, side: int) -> Any:
    """Push θ̂ one way on D and the other way on D'."""
    away = np.zeros(world.d)
    away[0] = 1.0 if side == 0 else -1.0
    return replace(rule, solver=WorstSolver(rule.solver, away))


def _tests_only(agent: Agent) -> Tally:
    """Return what the tests reserved: until it speaks the agent releases nothing else."""
    rule: Any = agent.algorithm
    return Tally().plus(*rule.test.reserved[0])


def _budget_of_tests(epsilon: float, delta: float) -> Budget:
    """Return the budget whose tests cost ε: they get m·√share of it."""
    m = epsilon / math.sqrt(TEST_SHARE)
    return Budget(gdp_epsilon(delta, m), delta)


def _tempt(rule: Any, world: World) -> Opponent:
    return Tempt(world, float(rule.test.threshold[0]))


def _press(rule: Any, world: World) -> Opponent:
    """Keep the lower statistic, g − 1/n, so far below the threshold that "yes" is rare."""
    test = rule.test
    tail = float(test.query_scale[0]) * math.log(SILENT_ROUNDS / (2.0 * EXPECTED_ANSWERS))
    low = float(test.threshold[0]) - tail
    return Press(world, max(low, 1.0 / world.n) + 1.0 / world.n)


def _echo(rule: Any, world: World) -> Opponent:
    return Echo(world)


GAMES: tuple[Game, ...] = (
    Game(
        name="pp",
        algorithm="pp",
        about="all releases of a run, records near-antipodal, far start",
        world=FAR,
        rounds=5,
        scores=attacks.whole_run,
        gaussian=True,
    ),
    Game(
        name="pp, second noise",
        algorithm="pp",
        about="minimisers revealed, solver at the edge of its certificate",
        world=NEAR,
        rounds=8,
        scores=attacks.second_noise,
        settings={"share": 0.9, "beta": 1e-6},
        prepare=_worst_solver,
        gaussian=True,
    ),
    Game(
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
    Game(
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
    *(
        Game(
            name=name,
            algorithm=name,
            about="all releases of a run",
            world=NEAR,
            rounds=rounds,
            scores=attacks.gamma,
        )
        for name, rounds in (("dvp", 4), ("m-admm", 4), ("r-admm", 8))
    ),
    Game(
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
)


def game_named(name: str) -> Game:
    """Return the game called `name`."""
    by_name = {game.name: game for game in GAMES}
    return by_name[checks.one_of("game", name, by_name)]
