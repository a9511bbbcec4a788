"""Audits: games against the real code, each with the claim that it must stay below."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ppadmm import checks
from ppadmm.accounting import Budget, Tally, accountant
from ppadmm.agent import Agent
from ppadmm.algorithms import Settings, build
from ppadmm.arrays import Array
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
from ppadmm.noise import CrowdNoise, NoiseSource, SecureNoise, SeededNoise

EPSILON, DELTA = 4.0, 1e-5
RUNS, SECURE_RUNS = 20_000, 1_000
ALONE = 1_000
"""Runs on each side where every run has an agent of its own."""


@dataclass(frozen=True)
class Played:
    """The scores of both sides, what is claimed for them, and how many runs gave up."""

    scores: Scores
    claim: Tally
    gave_up: int = 0


class Game(Protocol):
    """One way to play."""

    @property
    def name(self) -> str:
        """What the table calls it."""

    @property
    def algorithm(self) -> str:
        """What it is played against."""

    @property
    def about(self) -> str:
        """What the opponent looks at, in a few words."""

    @property
    def gaussian(self) -> bool:
        """Whether the privacy loss is close to that of a Gaussian mechanism."""

    @property
    def always_secure(self) -> bool:
        """Whether it is played with the secure sampler in any case."""

    def scored(self, epsilon: float, delta: float, runs: int, seed: int | None) -> Played:
        """Play both sides, with secure noise if there is no seed."""


def whole_budget(epsilon: float, delta: float) -> Budget:
    """Return the audited budget itself."""
    return Budget(epsilon, delta)


def whole_claim(agent: Agent) -> Tally:
    """All that the run reserved."""
    return agent.ledgers[0].reserved


def as_it_is(rule: Any, world: NeighbouringData, side: int) -> Any:
    """Change nothing."""
    return rule


def steer(rule: Any, world: NeighbouringData) -> Opponent:
    """Keep the minimiser where the world says."""
    return Steer(world)


@dataclass(frozen=True)
class AgentGame:
    """An algorithm in a world against an opponent, and how transcripts are scored.

    `budget` turns the audited (ε, δ) into that of the run; `claim` says which part of what the run
    reserved covers the transcript; `prepare` may change the algorithm within what the proof allows.
    A game whose events are rare is played `times` as often as the others, but for secure noise, and
    one that is slow `most` times. Runs that are `alone` have an agent each, as in real life; as
    columns of one they are far quicker, but if one gives up all do. Where that happens they are
    played again, alone. With `later` the transcript is that of two runs on the same records, the
    second one against that opponent.
    """

    name: str
    algorithm: str
    about: str
    world: NeighbouringData
    rounds: int
    scores: Scorer
    opponent: Callable[[Any, NeighbouringData], Opponent] = steer
    settings: Mapping[str, Any] = field(default_factory=dict)
    budget: Callable[[float, float], Budget] = whole_budget
    claim: Callable[[Agent], Tally] = whole_claim
    prepare: Callable[[Any, NeighbouringData, int], Any] = as_it_is
    gaussian: bool = False
    times: int = 1
    most: int | None = None
    alone: bool = False
    later: Callable[[Any, NeighbouringData], Opponent] | None = None
    always_secure: bool = False

    def scored(self, epsilon: float, delta: float, runs: int, seed: int | None) -> Played:
        """Play both sides and score what was seen."""
        budget = self.budget(epsilon, delta)
        runs = min(runs if seed is None else self.times * runs, self.most or 10**9)
        alone = self.alone
        sides = [self._played(side, budget, runs, seed, alone) for side in SIDES]
        if not alone and any((end != FINISHED).any() for bout, _ in sides for end in bout.ends):
            runs = min(runs, ALONE)
            sides = [self._played(side, budget, runs, seed, alone=True) for side in SIDES]
        ours, theirs = (self.scores(bout) for bout, _ in sides)
        scores = {name: (ours[name], theirs[name]) for name in ours}
        ends = np.concatenate([end for bout, _ in sides for end in bout.ends])
        return Played(scores, sides[0][1], int((ends == GAVE_UP).sum()))

    def _played(
        self, side: int, budget: Budget, runs: int, seed: int | None, alone: bool
    ) -> tuple[ScoredRun, Tally]:
        """Run one side `runs` times."""
        rule = self._rule(side, budget, 1 if alone else runs)
        opponent, life = self.opponent(rule, self.world), _Life(self, budget, rule, side)
        if alone:
            many = [life.lived(opponent, _own(seed, side, k), 1) for k in range(runs)]
            return ScoredRun.stacked([bout for bout, _ in many]), many[0][1]
        source = SecureNoise() if seed is None else CrowdNoise(2 * seed + side, runs)
        return life.lived(opponent, source, runs)

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


@dataclass(frozen=True)
class _Life:
    """An agent's run, or its two runs, on one side."""

    game: AgentGame
    budget: Budget
    rule: Any
    side: int

    def lived(self, opponent: Opponent, noise: NoiseSource, runs: int) -> tuple[ScoredRun, Tally]:
        """Return what was seen and what is claimed for it."""
        game = self.game
        seen, agent = self._once(opponent, noise, runs)
        bout, claim = ScoredRun(game.world, agent.algorithm, seen), game.claim(agent)
        if game.later is not None:
            again, agent = self._once(game.later(self.rule, game.world), noise, runs)
            bout, claim = replace(bout, again=again), _sum(claim, game.claim(agent))
        return bout, claim

    def _once(self, opponent: Opponent, noise: NoiseSource, runs: int) -> tuple[Transcript, Agent]:
        rule = self.game.prepare(self.rule, self.game.world, self.side)
        agent = make_agent(rule, self.budget, runs, noise)
        seen = play(agent, opponent)
        if isinstance(getattr(rule, "solver", None), WorstSolver):
            seen = replace(seen, solved=_padded(rule.solver.revealed, seen))
        return seen, agent


def _padded(revealed: Sequence[Array], seen: Transcript) -> Array:
    """Return what was revealed, (T, R, d); zero where a run was over."""
    solved = np.zeros_like(seen.after)
    for t, points in enumerate(revealed):
        solved[t] = points
    return solved


def _sum(one: Tally, other: Tally) -> Tally:
    counts = dict(one.counts)
    for event, times in other.counts:
        counts[event] = counts.get(event, 0) + times
    return Tally(tuple(counts.items()))


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
    played = game.scored(epsilon, delta, runs, None if secure else seed)
    return Audit(
        game=game.name,
        algorithm=game.algorithm,
        about=game.about,
        noise="OpenDP, secure" if secure else f"seeded NumPy ({seed})",
        claimed=accountant.epsilon(played.claim, delta).epsilon,
        gaussian=game.gaussian,
        finding=judge(played.scores, Claim.of(played.claim), delta, confidence),
        gave_up=played.gave_up,
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
