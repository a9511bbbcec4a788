"""The distinguishing game, played against a real agent.

The agent holds one of two data sets that differ in one record. Its only neighbour is the opponent:
it reads every message before it answers, says whatever it likes, and knows all other records and
every public constant. That is the threat the guarantee speaks of. The agent, its algorithm, its
mechanism, its ledger and its solver are those of any other run; replicates are columns of one run.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ppadmm.agent import Agent, Done, Message, Send
from ppadmm.algorithms import Heard, Site
from ppadmm.data import Shard
from ppadmm.errors import ProtocolError
from ppadmm.noise import NoiseSource
from ppadmm.privacy import Budget, Charge, Ledger, MemoryLedger
from ppadmm.problem import HuberHinge, Logistic, MarginLoss, MarginRisk, Subproblem
from ppadmm.solvers.base import Solution, Solver, Warm
from ppadmm.typing import Array

SIDES = (0, 1)
ANGLE = 0.085
RECORDS, ETA = 20, 10.0


@dataclass(frozen=True)
class World:
    """Two neighbouring data sets: `records[side]` and n − 1 records that are zero.

    `start` is where the opponent steers the unperturbed minimiser; μ = 2η.
    """

    loss: MarginLoss
    records: tuple[tuple[float, ...], tuple[float, ...]]
    start: tuple[float, ...]
    n: int = RECORDS
    eta: float = ETA

    @property
    def d(self) -> int:
        """The number of features."""
        return len(self.start)

    def record(self, side: int) -> Array:
        """Return v = y·x of the record that differs, (d,)."""
        return np.array(self.records[side])

    def site(self, side: int) -> Site:
        """Return the agent's place beside its one neighbour, with the records of a side."""
        X = np.zeros((self.n, self.d))
        X[0] = self.record(side)
        return Site(0, 2, (1,), MarginRisk(Shard(X, np.ones(self.n)), self.loss), (1,))

    def slope(self, theta: Array, side: int) -> Array:
        """∇f(θ) of a side, written down anew; (R, d) → (R, d)."""
        v = self.record(side)
        return np.asarray(np.multiply.outer(self.loss.gradient(theta @ v), v) / self.n)

    def bend(self, theta: Array, side: int) -> Array:
        """Return the one eigenvalue of ∇²f(θ) that is not 0; (R, d) → (R,)."""
        v = self.record(side)
        return np.asarray(self.loss.curvature(theta @ v) * (v @ v) / self.n)


FAR = World(
    Logistic(),
    ((-math.sin(ANGLE), math.cos(ANGLE)), (-math.sin(ANGLE), -math.cos(ANGLE))),
    (60.0, 0.0),
)
"""Near-antipodal records, far out: both slopes are close to 1, so ∇f moves by almost 2G/n.

(Flipping a label near 0 moves it by G/n only, and would miss a lost factor 2.)
"""
NEAR = World(HuberHinge(), ((1.0,), (-1.0,)), (0.0,))
"""Opposite records on the line, where the hinge is straight: ∇f moves by 2G/n exactly."""


@dataclass(frozen=True)
class Transcript:
    """All that the opponent saw: values before and after a round (T, R, d), who spoke (T, R).

    `linear` (T, R, d) is the public linear term of each subproblem, which the opponent chose;
    `solved` holds exact minimisers where the game reveals them.
    """

    before: Array
    after: Array
    spoke: NDArray[np.bool_]
    linear: Array
    solved: Array | None = None

    @property
    def rounds(self) -> int:
        """T."""
        return len(self.after)


class Opponent(Protocol):
    """The neighbour."""

    def linear(self, round_: int, heard: Heard) -> Array:
        """Choose the linear term c (R, d) of the agent's subproblem in `round_`."""

    def answer(self, heard: Heard, linear: Array) -> Heard:
        """Return the message that brings c about."""


@dataclass(frozen=True)
class Steer:
    """Keep the unperturbed minimiser at `start`, by c = −μ·start in every round.

    c = η(Sᵢ − Sⱼ) − η(t)(θᵢ + θⱼ): with θⱼ = −θᵢ the second term vanishes whatever η(t) is.
    """

    world: World

    def linear(self, round_: int, heard: Heard) -> Array:
        """Return −μ·start."""
        mu = 2.0 * self.world.eta
        return np.broadcast_to(-mu * np.array(self.world.start), heard.value.shape)

    def answer(self, heard: Heard, linear: Array) -> Heard:
        """Say θⱼ = −θᵢ and Sⱼ = Sᵢ − c/η."""
        return Heard(-heard.value, heard.total - linear / self.world.eta)


@dataclass(frozen=True)
class Tempt(Steer):
    """Steer far out, then keep the gradient at θᵢ of the size that the test compares with.

    With c = g − μθᵢ the statistic ‖∇F(θᵢ)‖ is ‖∇f(θᵢ) + g‖, and the minimiser stays near θᵢ.
    """

    size: float

    def linear(self, round_: int, heard: Heard) -> Array:
        """Return g − μθᵢ where θᵢ is far out already, g along the axis in which records differ."""
        first = super().linear(round_, heard)
        g = np.zeros(self.world.d)
        g[-1] = self.size
        far = heard.value[:, :1] > np.array(self.world.start)[0] / 2.0
        return np.where(far, g - 2.0 * self.world.eta * heard.value, first)


@dataclass(frozen=True)
class Press(Steer):
    """Keep the gradient at θᵢ = 0 of one size, so that every test of the run is the same."""

    size: float

    def linear(self, round_: int, heard: Heard) -> Array:
        """Return g."""
        return np.full_like(heard.value, self.size)


@dataclass(frozen=True)
class Echo(Steer):
    """Say what the agent said: its average with the neighbour is its own value."""

    def answer(self, heard: Heard, linear: Array) -> Heard:
        """Return the same."""
        return heard


@dataclass(frozen=True)
class WorstSolver:
    """The real solver's certificate, used to the full by an opponent who may choose the solver.

    The proof allows any point that the solver certifies. This one finds the exact minimiser
    (`revealed`, as in the proof), moves it towards `direction` and asks the real solver whether it
    accepts the moved point: first far beyond β, where it must not, then just within.
    """

    inner: Solver
    direction: Array
    revealed: list[Array] = field(default_factory=list)
    name: str = "worst"

    def solve(self, sub: Subproblem, start: Warm, tolerance: float) -> Solution:
        """Return a point as far from the minimiser as the certificate lets it be."""
        exact = self.inner.solve(sub, start, tolerance / 1000.0).point
        self.revealed.append(exact)
        for reach in (8.0, 0.99):
            there = self._moved(sub, exact, reach * tolerance)
            solution = self.inner.solve(sub, there, tolerance)
            if np.array_equal(solution.point, there.point):
                break
        return solution

    def _moved(self, sub: Subproblem, exact: Array, residual: float) -> Warm:
        steepest = sub.mu + sub.risk.loss.smoothness / sub.risk.n
        point = exact + (residual / steepest)[:, None] * self.direction
        return Warm(point, sub.risk.gradient(point))


class _Unlimited(MemoryLedger):
    """Books nothing: replicates are copies of the first, whose ledger is real."""

    def reserve(self, run: Iterable[tuple[Charge, int]]) -> None:
        """Accept."""

    def charge(self, charge: Charge) -> None:
        """Accept."""


def seat(rule: Any, budget: Budget, runs: int, noise: NoiseSource) -> Agent:
    """Return the agent; its first replicate's ledger refuses what the budget does not cover."""
    rest: list[Ledger] = [_Unlimited()] * (runs - 1)
    return Agent(rule, 0, (1,), [MemoryLedger(budget), *rest], noise)


def play(agent: Agent, opponent: Opponent) -> Transcript:
    """Drive the agent through all rounds with the opponent as its only neighbour."""
    heard = agent.algorithm.heard(agent.algorithm.init())
    linear = np.zeros_like(heard.value)
    kept: dict[str, list[Any]] = {name: [] for name in ("before", "after", "spoke", "linear")}
    while not isinstance(action := agent.next(), Done):
        if not isinstance(action, Send):
            raise ProtocolError(f"Round {agent.round}: the agent waits for nobody.")
        kept["before"].append(heard.value)
        kept["after"].append(action.release.value)
        kept["spoke"].append(action.release.spoke)
        kept["linear"].append(linear)
        heard = action.message.heard
        linear = opponent.linear(agent.round + 1, heard)
        agent.receive(Message(1, agent.round, opponent.answer(heard, linear)))
    solver = getattr(agent.algorithm, "solver", None)
    solved = np.stack(solver.revealed) if isinstance(solver, WorstSolver) else None
    return Transcript(**{name: np.stack(parts) for name, parts in kept.items()}, solved=solved)
