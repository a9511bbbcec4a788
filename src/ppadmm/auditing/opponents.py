"""Opponents: neighbours who choose what they say, and solvers that are as bad as a proof allows."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ppadmm.algorithms import SharedState
from ppadmm.arrays import Array
from ppadmm.auditing.game import NeighbouringData
from ppadmm.problem import Subproblem
from ppadmm.solvers import Guarded
from ppadmm.solvers.base import Solution, Solver, Warm

BACK = 1e-7
"""How near to 0, in units of the radius, whoever was pushed out is brought back."""
OUT = 0.999
"""How far out, in units of the radius, an agent is pushed."""
EXPECTED_ANSWERS = 1.5
"""How many "yes" a whole run of the sparse-vector game gives, roughly, if its noise is fresh."""
FAR_OFF = 4.005
"""How many σ below the threshold the lower statistic is where tests are far from it."""


@dataclass(frozen=True)
class Steer:
    """Keep the unperturbed minimiser at `start`, by c = −μ·start in every round.

    c = η(|B|Sᵢ − ΣSⱼ) − η(t)(|B|θᵢ + Σθⱼ): with θⱼ = −θᵢ the second term vanishes whatever η(t) is.
    Of the agent's `rule` an opponent reads what is public: radius, rounds, threshold, scales.
    """

    world: NeighbouringData
    rule: Any

    @property
    def start(self) -> Array:
        """The world's `start`, (d,)."""
        return np.array(self.world.start)

    @property
    def radius(self) -> float:
        """How far messages may go."""
        return float(self.rule.radius[0])

    @property
    def threshold(self) -> float:
        """What the agent's test compares with."""
        return float(self.rule.test.threshold[0])

    def linear(self, round_: int, heard: SharedState) -> Array:
        """Return −μ·start."""
        return self._held_at(1.0, heard)

    def _held_at(self, size: float, heard: SharedState) -> Array:
        """Return the c that has its minimiser at size·start."""
        return np.broadcast_to(-self.world.mu * size * self.start, heard.value.shape)

    def answer(self, round_: int, heard: SharedState, linear: Array) -> SharedState:
        """Say θⱼ = −θᵢ and Sⱼ = Sᵢ − c/(η|B|)."""
        return SharedState(-heard.value, heard.total - 2.0 * linear / self.world.mu)


@dataclass(frozen=True)
class Mirror(Steer):
    """Keep the unperturbed minimiser at −`start`."""

    def linear(self, round_: int, heard: SharedState) -> Array:
        """Return μ·start."""
        return -super().linear(round_, heard)


@dataclass(frozen=True)
class Tempt(Steer):
    """Steer far out, then keep the gradient at θᵢ of the size that the test compares with.

    With c = g − μθᵢ the statistic ‖∇F(θᵢ)‖ is ‖∇f(θᵢ) + g‖, and the minimiser stays near θᵢ.
    """

    def linear(self, round_: int, heard: SharedState) -> Array:
        """Return g − μθᵢ where θᵢ is far out already, g along the axis in which records differ."""
        g = np.zeros(self.world.d)
        g[-1] = self.threshold
        far = heard.value[:, :1] > self.start[0] / 2.0
        return np.where(far, g - self.world.mu * heard.value, self._held_at(1.0, heard))


@dataclass(frozen=True)
class Press(Steer):
    """Keep the gradient at θᵢ = 0 of one size, so that every test of the run is the same.

    The lower statistic, g − 1/n, is so far below the threshold that "yes" is rare.
    """

    @property
    def low(self) -> float:
        """The lower statistic."""
        scale = float(self.rule.test.query_scale[0])
        tail = scale * math.log(self.rule.rounds / (2.0 * EXPECTED_ANSWERS))
        return max(self.threshold - tail, 1.0 / self.world.n)

    def linear(self, round_: int, heard: SharedState) -> Array:
        """Return g."""
        return np.full_like(heard.value, self.low + 1.0 / self.world.n)


@dataclass(frozen=True)
class PressFarOff(Press):
    """Keep the lower statistic just more than four σ below the threshold."""

    @property
    def low(self) -> float:
        """The lower statistic."""
        return self.threshold - FAR_OFF * float(self.rule.test.noise[0])


@dataclass(frozen=True)
class Echo(Steer):
    """Say what the agent said: its average with the neighbour is its own value."""

    def answer(self, round_: int, heard: SharedState, linear: Array) -> SharedState:
        """Return the same."""
        return heard


@dataclass(frozen=True)
class Push(Steer):
    """Push out along `start` as far as messages may go, bring back near 0, and push out again.

    Far out a gradient is a small difference of large numbers: who computes it carelessly stalls
    where a record lies across the push, and only there. The last message lies outside the radius.
    """

    def linear(self, round_: int, heard: SharedState) -> Array:
        """Return −μ·centre."""
        return self._held_at(OUT * self.radius * (1.0 if round_ % 2 else BACK), heard)

    def answer(self, round_: int, heard: SharedState, linear: Array) -> SharedState:
        """Say θⱼ = centre and Sⱼ = Sᵢ − θᵢ + centre, which keeps to the radius."""
        centre = -linear / self.world.mu
        if round_ == self.rule.rounds:
            centre = np.full_like(centre, 2.0 * self.radius)
        return SharedState(centre, heard.total - heard.value + centre)


@dataclass(frozen=True)
class Lean(Push):
    """Hold the unperturbed minimiser on the very sphere of radius R: half of all b point out."""

    def linear(self, round_: int, heard: SharedState) -> Array:
        """Return −μR·start."""
        return self._held_at(self.radius, heard)


@dataclass(frozen=True)
class TemptOutside(Push):
    """Push out, then keep the gradient there of the size that the test compares with, across."""

    def linear(self, round_: int, heard: SharedState) -> Array:
        """Return g − μθᵢ where θᵢ is far out already, g across `start`."""
        far = (heard.value @ self.start > 0.5 * self.radius)[:, None]
        g = self.threshold * np.array([self.start[1], -self.start[0]])
        out = self._held_at(OUT * self.radius, heard)
        return np.where(far, g - self.world.mu * heard.value, out)


@dataclass(frozen=True)
class WorstSolver:
    """The real solver's certificate, used to the full by an opponent who may choose the solver.

    The proof allows any point that the solver certifies. This one finds the exact minimiser
    (`revealed`, as in the proof), moves it along the first axis, one way on D and the other way on
    D', and asks the real solver whether it accepts the moved point: first far beyond β, where it
    must not, then just within.
    """

    inner: Solver
    side: int
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
        point = exact.copy()
        point[:, 0] += (1 - 2 * self.side) * residual / steepest
        return Warm(point, sub.risk.gradient(point))


@dataclass(frozen=True)
class FailingSolver:
    """A quick solver that fails on D and never on D': any may, as long as nobody notices."""

    inner: Solver
    fails: bool
    name: str = "failing"

    def solve(self, sub: Subproblem, start: Warm, tolerance: float) -> Solution:
        """Solve, or divide by zero."""
        if self.fails:
            raise ZeroDivisionError("The quick solver failed.")
        return self.inner.solve(sub, start, tolerance)

    @classmethod
    def guarded(cls, solver: Solver, side: int) -> Guarded:
        """Return the agent's solver with its quick part exchanged, on a side."""
        if not isinstance(solver, Guarded):
            raise TypeError("An agent's solver is guarded.")
        return Guarded(cls(solver.quick, fails=side == 0), solver.verify)
