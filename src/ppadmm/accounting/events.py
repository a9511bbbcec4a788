"""What was released, as frozen values. Algorithms emit them; accountants consume them.

An event speaks of *one agent's* records. All constants come from public bounds; none is read
from records.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from ppadmm import checks
from ppadmm.errors import InputError


@dataclass(frozen=True)
class Gaussian:
    """A value of ℓ₂ sensitivity Δ released with N(0, σ²I): `ratio` = Δ/σ."""

    ratio: float

    def __post_init__(self) -> None:
        checks.non_negative("ratio", self.ratio)


@dataclass(frozen=True)
class ObjectivePerturbation:
    """The exact minimiser of F(θ) + bᵀθ, b ~ N(0, σ²I), F μ-strongly convex.

    `ratio` = s/σ with s the sensitivity of ∇F, `kappa` = c₁/(nμ). `records` is 2 when a record is
    replaced and 1 when its loss is zeroed out. One record's gradients span `span` dimensions; the
    eigenvalues of its Hessian add up to at most `trace`·c₁ and their squares to `square`·c₁². All
    three are 1 for a loss of one margin.
    """

    ratio: float
    kappa: float
    records: int = 2
    span: int = 1
    trace: float = 1.0
    square: float = 1.0

    def __post_init__(self) -> None:
        checks.non_negative("ratio", self.ratio)
        checks.non_negative("kappa", self.kappa)
        checks.count("records", self.records)
        checks.count("span", self.span)
        checks.positive("trace", self.trace)
        checks.positive("square", self.square)

    @property
    def rank(self) -> int:
        """The dimension that the change of the gradient lies in."""
        return self.records * self.span


@dataclass(frozen=True)
class Pure:
    """A release (or a whole interaction) that is ε-differentially private with δ = 0."""

    epsilon: float

    def __post_init__(self) -> None:
        checks.non_negative("epsilon", self.epsilon)


@dataclass(frozen=True)
class Approximate:
    """The sampler that ran is within total variation `distance` of the one in the proof."""

    distance: float

    def __post_init__(self) -> None:
        checks.non_negative("distance", self.distance)


@dataclass(frozen=True)
class NonPrivate:
    """A value released without noise."""


@dataclass(frozen=True)
class RepeatAndSelect:
    """The best of K runs by a score that each run releases; of the others nothing is released.

    Each run costs one of `runs`, its score included, and which one is chosen without looking at
    records. K ≥ 1 is secret, drawn from the truncated negative binomial distribution with this
    `mean` and `shape` (1: geometric, 0: logarithmic).
    """

    runs: tuple["Tally", ...]
    mean: float
    shape: float = 1.0

    def __post_init__(self) -> None:
        checks.positive("mean number of runs", self.mean)
        checks.non_negative("shape", self.shape)
        if not self.runs or self.mean < 1.0:
            raise InputError(f"Expected a run, and 1 of them or more on average, got {self!r}.")


Event: TypeAlias = (
    Gaussian | ObjectivePerturbation | Pure | Approximate | NonPrivate | RepeatAndSelect
)


@dataclass(frozen=True)
class Charge:
    """What one release costs: events that happen together."""

    events: tuple[Event, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Worked out once: ledgers look a charge up at every release."""
        return hash(self.events)

    @cached_property
    def counts(self) -> tuple[tuple[Event, int], ...]:
        """Its events with how often each is in it, in order of first appearance."""
        return tuple(Counter(self.events).items())


@dataclass(frozen=True)
class Tally:
    """Events with how often each happened, in order of first appearance.

    The order of adaptive composition does not matter to any bound used here.
    """

    counts: tuple[tuple[Event, int], ...] = ()

    @classmethod
    def of(cls, charges: Iterable[Charge], times: int = 1) -> "Tally":
        """Count the events of `charges`, the whole list repeated `times` times."""
        tally = cls()
        for charge in charges:
            tally = tally.plus(charge, times)
        return tally

    def plus(self, charge: Charge, times: int = 1) -> "Tally":
        """Return the tally after `times` more of a charge."""
        if not self.counts:  # most runs have one charge, which is added up in every round
            return Tally(tuple((event, k * times) for event, k in charge.counts))
        counts = dict(self.counts)
        for event, k in charge.counts:
            counts[event] = counts.get(event, 0) + k * times
        return Tally(tuple(counts.items()))
