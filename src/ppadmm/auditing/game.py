"""The distinguishing game, played against a real agent.

The agent holds one of two data sets that differ in one record. All its neighbours are the opponent:
it reads every message before it answers, says whatever it likes, and knows all other records and
every public constant. That is the threat the guarantee speaks of. The agent, its algorithm, its
mechanism, its ledger and its solver are those of any other run. Replicates are columns of one run,
or runs of their own.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ppadmm.accounting import Budget, Charge
from ppadmm.agent import Agent, Done, Message, Send
from ppadmm.algorithms import SharedState, Site
from ppadmm.arrays import Array
from ppadmm.data import Shard
from ppadmm.errors import OutOfBoundsError
from ppadmm.ledger import Ledger, MemoryLedger
from ppadmm.noise import NoiseSource
from ppadmm.problem import (
    HuberHinge,
    Logistic,
    MarginLoss,
    Multinomial,
    OneVsRest,
    ScoreLoss,
    risk_of,
)

SIDES = (0, 1)
ANGLE = 0.085
RECORDS, ETA = 20, 10.0
FINISHED, REFUSED, GAVE_UP = range(3)
"""How a run ends: all rounds were made, a message of the opponent was refused, anything else."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where the agent sits: `degree` neighbours, each of which has `theirs` neighbours itself.

    `weight` is its own in the objective; the other agents share the rest.
    """

    agents: int = 2
    degree: int = 1
    theirs: int = 1
    weight: float = 1.0

    @property
    def heaviest(self) -> float:
        """The largest weight of all agents."""
        return max(self.weight, (self.agents - self.weight) / max(self.agents - 1, 1))


PAIR = Position()
LEAF = Position(agents=6, theirs=5, weight=4.0)
HUB = Position(agents=6, degree=5)
"""The two places in a star of six agents; the leaf has most of all records."""


@dataclass(frozen=True, kw_only=True)
class NeighbouringData:
    """Two neighbouring data sets of n records, and the opponent's choice of everything else.

    `records` is the one that differs, on each side; `start` is where the opponent steers the
    unperturbed minimiser.
    """

    loss: Any
    records: tuple[tuple[float, ...], tuple[float, ...]]
    start: tuple[float, ...]
    n: int = RECORDS
    eta: float = ETA
    place: Position = PAIR

    @property
    def d(self) -> int:
        """The number of parameters."""
        return len(self.start)

    @property
    def mu(self) -> float:
        """2η|B|/w."""
        return 2.0 * self.eta * self.place.degree / self.place.weight

    def shard(self, side: int) -> Shard:
        """Return the records of a side."""
        raise NotImplementedError

    def site(self, side: int) -> Site:
        """Return the agent's place in the network, with the records of a side."""
        place, risk = self.place, risk_of(self.shard(side), self.loss)
        others = tuple(range(1, 1 + place.degree))
        degrees, weights = (place.theirs,) * place.degree, (place.weight, place.heaviest)
        return Site(0, place.agents, others, risk, degrees, *weights)

    def slope(self, theta: Array, side: int) -> Array:
        """∇f(θ) of a side, written down anew; (R, d) → (R, d)."""
        raise NotImplementedError

    def bend(self, theta: Array, side: int) -> Array:
        """∇²f(θ) of a side, written down anew; (R, d) → (R, d, d)."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class MarginRecords(NeighbouringData):
    """Two classes: v = y·x of the record that differs, and of the n − 1 `others`, all alike."""

    loss: MarginLoss
    others: tuple[float, ...] | None = None

    def shard(self, side: int) -> Shard:
        """Return n records of class +1."""
        X = np.tile(self.others or np.zeros(self.d), (self.n, 1))
        X[0] = self.records[side]
        return Shard(X, np.ones(self.n))

    def slope(self, theta: Array, side: int) -> Array:
        """(ℓ'(θᵀv)·v + (n−1)·ℓ'(θᵀw)·w)/n."""
        gradient = self.loss.gradient
        return self._mean(side, lambda v: np.multiply.outer(gradient(theta @ v), v))

    def bend(self, theta: Array, side: int) -> Array:
        """(ℓ''(θᵀv)·vvᵀ + (n−1)·ℓ''(θᵀw)·wwᵀ)/n."""
        curvature = self.loss.curvature
        return self._mean(side, lambda v: np.multiply.outer(curvature(theta @ v), np.outer(v, v)))

    def _mean(self, side: int, term: Callable[[Array], Array]) -> Array:
        v, w = np.array(self.records[side]), np.array(self.others or np.zeros(self.d))
        return np.asarray((term(v) + (self.n - 1.0) * term(w)) / self.n)


@dataclass(frozen=True, kw_only=True)
class ClassRecords(NeighbouringData):
    """K classes: x of the record that differs, always of class 0, and n − 1 records that are 0."""

    loss: ScoreLoss

    def shard(self, side: int) -> Shard:
        """Return n records of class 0."""
        X = np.zeros((self.n, len(self.records[side])))
        X[0] = self.records[side]
        return Shard(X, np.zeros(self.n), self.loss.outputs)

    def slope(self, theta: Array, side: int) -> Array:
        """∇g(Θx) ⊗ x/n."""
        x, scores = self._scores(theta, side)
        slopes = self.loss.gradient(scores, np.zeros(len(theta), dtype=np.intp))
        return np.asarray(np.multiply.outer(slopes, x).reshape(theta.shape) / self.n)

    def bend(self, theta: Array, side: int) -> Array:
        """∇²g(Θx) ⊗ xxᵀ/n."""
        x, scores = self._scores(theta, side)
        bends = self.loss.curvature(scores, np.zeros(len(theta), dtype=np.intp))
        whole = np.einsum("rkl,i,j->rkilj", bends, x, x)
        return np.asarray(whole.reshape(len(theta), self.d, self.d) / self.n)

    def _scores(self, theta: Array, side: int) -> tuple[Array, Array]:
        x = np.array(self.records[side])
        return x, theta.reshape(len(theta), self.loss.outputs, len(x)) @ x


APART = ((-math.sin(ANGLE), math.cos(ANGLE)), (-math.sin(ANGLE), -math.cos(ANGLE)))
"""Two records that are nearly opposite."""
FAR = MarginRecords(loss=Logistic(), records=APART, start=(60.0, 0.0))
"""Near-antipodal records, far out: both slopes are close to 1, so ∇f moves by almost 2G/n.

(Flipping a label near 0 moves it by G/n only, and would miss a lost factor 2.)
"""
NEAR = MarginRecords(loss=HuberHinge(), records=((1.0,), (-1.0,)), start=(0.0,))
"""Opposite records on the line, where the hinge is straight: ∇f moves by 2G/n exactly."""
STIFF = replace(NEAR, eta=1e3)
"""The same with a μ that lets a small budget be spent."""
STAR = replace(NEAR, place=LEAF)
"""The same at a heavy leaf of a star, whose neighbour has more than five times its μ."""
BENT = MarginRecords(
    loss=Logistic(),
    records=((1.0,), (0.0,)),
    start=(0.0,),
    eta=0.003,
    place=Position(agents=40, weight=20.0),
)
"""A record where its loss bends most, and none: κ = 42, of which 19/20 come from the weight."""
THREE = ClassRecords(loss=Multinomial(3), records=APART, start=(0.0, 0.0, -60.0, 0.0, 0.0, 0.0))
"""As `FAR`: both records are taken for class 1, so ∇f moves by almost 2√2/n."""
REST = ClassRecords(loss=OneVsRest(HuberHinge(), 3), records=((1.0,), (-1.0,)), start=(0.0,) * 3)
"""As `NEAR`, in all three scores at once: ∇f moves by 2√3/n exactly."""
_Q = math.sqrt(0.5) * (1.0 - 1e-12)
RIM = MarginRecords(
    loss=Logistic(),
    records=((_Q, _Q), (_Q, -_Q)),
    others=(_Q, -_Q),
    start=(_Q, -_Q),
    n=500,
    eta=0.02,
)
"""Whoever is pushed along `start` has one record across it on D, and none on D'."""
EDGE = MarginRecords(
    loss=Logistic(), records=((_Q, -_Q), (-_Q, _Q)), start=(-_Q, _Q), eta=0.02, place=HUB
)
"""Whoever is pushed along `start` goes against the record on D and with it on D'; a star's hub."""


@dataclass(frozen=True)
class Transcript:
    """All that the opponent saw: values before and after a round (T, R, d), who spoke (T, R).

    `total` (T, R, d) is what the agent called the sum of its releases; `made` (T, R) says which
    rounds it made at all and `end` (R,) how each run ended. `linear` (T, R, d) is the public linear
    term of each subproblem, which the opponent chose; `solved` holds exact minimisers where the
    game reveals them.
    """

    before: Array
    after: Array
    total: Array
    linear: Array
    spoke: NDArray[np.bool_]
    made: NDArray[np.bool_]
    end: NDArray[np.int64]
    solved: Array | None = None

    @property
    def rounds(self) -> int:
        """T."""
        return len(self.after)

    @property
    def runs(self) -> int:
        """R."""
        return len(self.end)

    @classmethod
    def empty(cls, rounds: int, shape: tuple[int, int]) -> "Transcript":
        """Return a transcript to be filled."""
        before, after, total, linear = np.zeros((4, rounds, *shape))
        spoke, made = np.zeros((2, rounds, shape[0]), dtype=bool)
        return cls(before, after, total, linear, spoke, made, np.full(shape[0], FINISHED))

    @classmethod
    def stacked(cls, parts: Sequence["Transcript"]) -> "Transcript":
        """Return all runs in one."""
        given = {f.name: [getattr(part, f.name) for part in parts] for f in fields(cls)}
        if parts[0].solved is None:
            del given["solved"]
        return cls(**{k: np.concatenate(v, axis=0 if k == "end" else 1) for k, v in given.items()})


class Opponent(Protocol):
    """The neighbours, who are all of one mind."""

    def linear(self, round_: int, heard: SharedState) -> Array:
        """Choose the linear term c (R, d) of the agent's subproblem in `round_`."""

    def answer(self, round_: int, heard: SharedState, linear: Array) -> SharedState:
        """Return the message after the round before, from each of them, that brings c about."""


class _Unlimited(MemoryLedger):
    """Books nothing: replicates are copies of the first, whose ledger is real."""

    def reserve(self, run: Iterable[tuple[Charge, int]]) -> None:
        """Accept."""

    def charge(self, charge: Charge) -> None:
        """Accept."""


def make_agent(rule: Any, budget: Budget, runs: int, noise: NoiseSource) -> Agent:
    """Return the agent; its first replicate's ledger refuses what the budget does not cover."""
    return Agent(rule, 0, rule.site.neighbours, [MemoryLedger(budget), *unlimited(runs)], noise)


def unlimited(runs: int) -> list[Ledger]:
    """Return the ledgers of all replicates but the first."""
    return [_Unlimited()] * (runs - 1)


def play(agent: Agent, opponent: Opponent) -> Transcript:
    """Drive the agent to its end, whatever that is, among neighbours who are the opponent.

    How it ends is part of the transcript: whoever watches sees that no message comes any more.
    """
    heard = agent.algorithm.heard(agent.algorithm.init())
    linear = np.zeros_like(heard.value)
    seen = Transcript.empty(agent.algorithm.rounds, (len(linear), linear.shape[1]))
    try:
        while isinstance(action := agent.next(), Send):
            t, before, heard = agent.round, heard.value, action.message.heard
            seen.made[t], seen.spoke[t] = True, action.release.spoke
            seen.before[t], seen.linear[t] = before, linear
            seen.after[t], seen.total[t] = action.release.value, heard.total
            linear = opponent.linear(t + 1, heard)
            answer = opponent.answer(t + 1, heard, linear)
            for neighbour in agent.neighbours:
                agent.receive(Message(neighbour, t, answer))
        seen.end[:] = FINISHED if isinstance(action, Done) else GAVE_UP
    except OutOfBoundsError:
        seen.end[:] = REFUSED
    except Exception:  # no matter why: an agent that falls silent is seen to do so
        seen.end[:] = GAVE_UP
    return seen
