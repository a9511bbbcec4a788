"""Audits: games against the real code, each with the claim that it must stay below."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from ppadmm import checks
from ppadmm.accounting import Budget, Charge, Tally, accountant
from ppadmm.agent import Agent
from ppadmm.algorithms import Settings, build
from ppadmm.auditing.attacks import ScoredRun, Scorer
from ppadmm.auditing.game import (
    FINISHED,
    GAVE_UP,
    SIDES,
    NeighbouringData,
    Opponent,
    Transcript,
    make_agent,
    play,
)
from ppadmm.auditing.opponents import Steer, WorstSolver
from ppadmm.auditing.statistics import CONFIDENCE, Claim, Finding, Scores, judge
from ppadmm.noise import BatchNoise, NoiseSource, SecureNoise, SeededNoise
from ppadmm.sampling.choice import in_words
from ppadmm.solvers import Solver

EPSILON, DELTA = 4.0, 1e-5
RUNS, SECURE_RUNS = 20_000, 1_000
ALONE = 1_000
"""Runs on each side where every run has an agent of its own."""
MakeOpponent: TypeAlias = Callable[[NeighbouringData, Any], Opponent]
"""Gives the opponent of an agent in a world, from the agent's rule."""


@dataclass(frozen=True)
class GameScores:
    """The scores of both sides, what is claimed for them, and how many runs gave up."""

    scores: Scores
    claim: Tally
    gave_up: int = 0


@dataclass(frozen=True, kw_only=True)
class Game:
    """One way to play against the algorithm that `name` begins with.

    `about` says what the opponent looks at. `gaussian`: the privacy loss is close to that of a
    Gaussian mechanism. `always_secure`: the secure sampler is in the loop in any case.
    """

    name: str
    about: str
    gaussian: bool = True
    always_secure: bool = False

    @property
    def algorithm(self) -> str:
        """What it is played against."""
        return self.name.partition(",")[0]

    def scored(self, epsilon: float, delta: float, runs: int, seed: int | None) -> GameScores:
        """Play both sides, with secure noise if there is no seed."""
        raise NotImplementedError


def whole_claim(agent: Agent) -> Tally:
    """All that the run reserved."""
    return agent.ledgers[0].reserved


@dataclass(frozen=True, kw_only=True)
class AgentGame(Game):
    """An algorithm in a world against an opponent, and how transcripts are scored.

    `budget` turns the audited (ε, δ) into that of the run; `claim` says which part of what the run
    reserved covers the transcript; `solver` may take the solver's place on each side, within what
    the proof allows. A game whose events are rare is played `times` as often as the others, but for
    secure noise, and one that is slow `most` times. Runs that are `alone` have an agent each, as in
    real life; as columns of one they are far quicker, but if one gives up all do. Where that
    happens they are played again, alone. With `later` the transcript is that of two runs on the
    same records, the second one against that opponent.
    """

    world: NeighbouringData
    rounds: int
    scores: Scorer
    opponent: MakeOpponent = Steer
    settings: Mapping[str, Any] = field(default_factory=dict)
    budget: Callable[[float, float], Budget] = Budget
    claim: Callable[[Agent], Tally] = whole_claim
    solver: Callable[[Solver, int], Solver] | None = None
    times: int = 1
    most: int = 10**9
    alone: bool = False
    later: MakeOpponent | None = None

    def scored(self, epsilon: float, delta: float, runs: int, seed: int | None) -> GameScores:
        """Play both sides and score what was seen."""
        budget = self.budget(epsilon, delta)
        runs = min(runs if seed is None else self.times * runs, self.most)
        sides = [self._play(side, budget, runs, seed, self.alone) for side in SIDES]
        if not self.alone and any((end != FINISHED).any() for run, _ in sides for end in run.ends):
            runs = min(runs, ALONE)
            sides = [self._play(side, budget, runs, seed, alone=True) for side in SIDES]
        ours, theirs = (self.scores(run) for run, _ in sides)
        scores = {name: (ours[name], theirs[name]) for name in ours}
        ends = np.concatenate([end for run, _ in sides for end in run.ends])
        return GameScores(scores, sides[0][1], int((ends == GAVE_UP).sum()))

    def _play(
        self, side: int, budget: Budget, runs: int, seed: int | None, alone: bool
    ) -> tuple[ScoredRun, Tally]:
        """Run one side `runs` times."""
        rule = self._rule(side, budget, 1 if alone else runs)
        if alone:
            many = [self._lived(rule, side, budget, 1, _own(seed, side, k)) for k in range(runs)]
            return ScoredRun.stacked([run for run, _ in many]), many[0][1]
        source = SecureNoise() if seed is None else BatchNoise(2 * seed + side, runs)
        return self._lived(rule, side, budget, runs, source)

    def _lived(
        self, rule: Any, side: int, budget: Budget, runs: int, noise: NoiseSource
    ) -> tuple[ScoredRun, Tally]:
        """Return what was seen of an agent's run, or its two runs, and what is claimed for it."""
        seen, claim = [], Tally()
        for make in (self.opponent, self.later):
            if make is None:
                continue
            swapped = {} if self.solver is None else {"solver": self.solver(rule.solver, side)}
            agent = make_agent(replace(rule, **swapped), budget, runs, noise)
            seen.append(_with_minimisers(play(agent, make(self.world, rule)), agent.algorithm))
            for event, times in self.claim(agent).counts:
                claim = claim.plus(Charge((event,)), times)
        return ScoredRun(self.world, rule, *seen), claim

    def _rule(self, side: int, budget: Budget, runs: int) -> Any:
        given = {"eta": self.world.eta, "regularisation": 0.0, **self.settings}
        settings = Settings(
            rounds=self.rounds,
            eta=(given.pop("eta"),) * runs,
            regularisation=(given.pop("regularisation"),) * runs,
            budgets=(budget,) * runs,
            **given,
        )
        return build(self.algorithm, self.world.site(side), settings)


def _own(seed: int | None, side: int, k: int) -> NoiseSource:
    """Return the noise of one run."""
    return SecureNoise() if seed is None else SeededNoise(((2 * seed + side) * 10**6 + k,))


def _with_minimisers(seen: Transcript, rule: Any) -> Transcript:
    """Add the minimisers that were revealed, (T, R, d); zero where a run was over."""
    if not isinstance(getattr(rule, "solver", None), WorstSolver):
        return seen
    solved = np.zeros_like(seen.after)
    for t, points in enumerate(rule.solver.revealed):
        solved[t] = points
    return replace(seen, solved=solved)


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
    gave_up: int
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether the runs are consistent with the claim, and none of them gave up.

        A release that is paid for is made (docs/privacy.md, section 5): where none comes something
        is wrong, even if the opponent learns nothing from it.
        """
        return not (self.finding.exceeded or self.gave_up)

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
    secure = secure or game.always_secure
    scored = game.scored(epsilon, delta, runs, None if secure else seed)
    return Audit(
        game=game.name,
        algorithm=game.algorithm,
        about=game.about,
        noise=in_words() if secure else f"seeded NumPy ({seed})",
        claimed=accountant.epsilon(scored.claim, delta).epsilon,
        gaussian=game.gaussian,
        finding=judge(scored.scores, Claim.of(scored.claim), delta, confidence),
        gave_up=scored.gave_up,
        seconds=time.perf_counter() - started,
    )


def audits(
    games: Sequence[Game],
    algorithms: Sequence[str],
    on_game: Callable[[str], None] | None = None,
    **options: Any,
) -> list[Audit]:
    """Play those of the games that are against the named algorithms."""
    names = {game.algorithm for game in games}
    for algorithm in algorithms:
        checks.one_of("algorithm", algorithm, sorted(names))
    found = []
    for game in games:
        if game.algorithm in algorithms:
            if on_game is not None:
                on_game(game.name)
            found.append(audit(game, **options))
    return found
