"""From a target (ε, δ) to noise scales: root finding that always returns the private side."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from ppadmm import checks
from ppadmm.accounting import accountant
from ppadmm.accounting.events import Approximate, Charge, Gaussian, ObjectivePerturbation, Tally
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.accounting.roots import root
from ppadmm.errors import InfeasibleError

TOLERANCE = 1e-10
NOTHING = Tally()


@dataclass(frozen=True)
class Budget:
    """The (ε, δ) that one agent may spend on a run."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon)
        checks.probability("delta", self.delta)


@dataclass(frozen=True)
class StepConstants:
    """The public constants of one perturbed step (see docs/privacy.md, section 1).

    `sensitivity` s of the gradient; `kappa` = c₁/(nμ), `records`, `span`, `trace` and `square` as
    in `ObjectivePerturbation`; `spread` Δ₂ (how far apart two approximate minimisers may lie for
    the same noise); `distance` (total variation between the sampler in use and the proof's).
    """

    sensitivity: float
    kappa: float
    records: int
    spread: float
    distance: float = 0.0
    span: int = 1
    trace: float = 1.0
    square: float = 1.0

    def perturbation(self, ratio: float) -> ObjectivePerturbation:
        """Return the event of releasing the exact minimiser at s/σ₁ = `ratio`."""
        return ObjectivePerturbation(
            ratio, self.kappa, self.records, self.span, self.trace, self.square
        )


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the two noises, and what one release with them costs."""

    sigma1: float
    sigma2: float
    charge: Charge


def with_noise(step: StepConstants, sigma1: float, sigma2: float) -> Noise:
    """Return the cost of one release at given noise scales."""
    second = 0.0 if step.spread == 0.0 else step.spread / sigma2
    events = (
        step.perturbation(step.sensitivity / sigma1),
        Gaussian(second),
    )
    return Noise(sigma1, sigma2, Charge(events + _approximate(step)))


@lru_cache(maxsize=4096)
def calibrate(
    budget: Budget,
    step: StepConstants,
    releases: int,
    share: float = 1e-3,
    besides: Tally = NOTHING,
) -> Noise:
    """Return the least noise for which `releases` releases and `besides` cost at most `budget`.

    `share` of the Gaussian budget m² = T[(s/σ₁)² + (Δ₂/σ₂)²] goes to the second noise.
    Raises `InfeasibleError` if no amount of noise is enough, which happens when κ is too large.
    """
    checks.count("releases", releases)
    checks.probability("share", share)

    def noise(ratio: float) -> Noise:
        first, second = ratio * math.sqrt(1.0 - share), ratio * math.sqrt(share)
        return with_noise(step, step.sensitivity / first, step.spread / second)

    def spent(ratio: float) -> float:
        tally = besides.plus(noise(ratio).charge, releases)
        return accountant.epsilon(tally, budget.delta).epsilon

    ideal = gdp_ratio(budget.epsilon, budget.delta) / math.sqrt(releases)
    return noise(largest_private(spent, budget.epsilon, ideal))


def largest_private(spent: Callable[[float], float], target: float, guess: float = 1.0) -> float:
    """Return the largest x (to a relative 1e-9) with spent(x) ≤ target; `spent` increases."""
    near = _by_secants(lambda x: _excess(spent(x), target), guess)
    return near if near is not None else _by_bracket(spent, target, guess)


def _by_secants(excess: Callable[[float], float], guess: float) -> float | None:
    """Follow secants in log–log to just below the root; None if they do not lead there.

    Most functions here are almost straight lines of slope 1: a handful of steps will do.
    """
    x, slope, last = math.log(guess), 1.0, (0.0, 0.0)
    for step in range(8):
        y = excess(math.exp(x))
        if -10.0 * TOLERANCE <= y <= 0.0:
            return math.exp(x)
        if step and x != last[0]:
            slope = (y - last[1]) / (x - last[0])
        if not 0.2 < slope < 5.0:
            return None
        x, last = x - (y + 5.0 * TOLERANCE) / slope, (x, y)
    return None


def _by_bracket(spent: Callable[[float], float], target: float, guess: float) -> float:
    low, high = guess / 2.0, guess
    while spent(low) > target:
        low, high = low / 8.0, low
        if low < 1e-9 * guess:
            raise InfeasibleError(
                f"No amount of noise reaches ε = {target:g} at this κ and δ; choose a larger η, "
                "fewer rounds or a larger budget."
            )
    while spent(high) <= target:
        low, high = high, high * 2.0
    found = root(
        lambda x: _excess(spent(math.exp(x)), target), math.log(low), math.log(high), xtol=TOLERANCE
    )
    x = math.exp(found)
    while spent(x) > target:
        x *= 1.0 - TOLERANCE
    return x


def _excess(spent: float, target: float) -> float:
    """Return a bounded, increasing function of what is spent, zero at the target."""
    return math.log(max(min(spent, 1e6 * target), 1e-6 * target) / target)


def spendable(budget: Budget, distance: float) -> Budget:
    """Return what of the budget can be spent with samplers `distance` from the proof's in all.

    Above that ε (about 35 at the usual settings) more budget buys no less noise.
    """
    most = accountant.ceiling(distance, budget.delta)
    return Budget(min(budget.epsilon, most), budget.delta) if most > 0.0 else budget


def is_feasible(
    budget: Budget, step: StepConstants, releases: int, besides: Tally = NOTHING
) -> bool:
    """Say whether some amount of noise reaches the budget at this κ."""
    quiet = Charge((step.perturbation(1e-9), *_approximate(step)))
    tally = besides.plus(quiet, releases)
    return accountant.epsilon(tally, budget.delta).epsilon <= budget.epsilon


def largest_kappa(
    budget: Budget, step: StepConstants, releases: int, besides: Tally = NOTHING
) -> float:
    """Return the largest κ (to a relative 1e-3, at most 1e9) at which the budget can be reached."""

    def feasible(kappa: float) -> bool:
        return is_feasible(budget, replace(step, kappa=kappa), releases, besides)

    low, high = 0.0, 1.0
    while high < 1e9 and feasible(high):
        low, high = high, 2.0 * high
    while high > low * (1.0 + 1e-3) and high > 1e-15:
        middle = (low + high) / 2.0 if low == 0.0 else math.sqrt(low * high)
        low, high = (middle, high) if feasible(middle) else (low, middle)
    return low


def _approximate(step: StepConstants) -> tuple[Approximate, ...]:
    return (Approximate(step.distance),) if step.distance else ()
