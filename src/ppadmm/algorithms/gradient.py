"""Noisy decentralised gradient descent: what a user of a mainstream library would build.

    θᵢ⁺ = Σⱼ Wᵢⱼ θⱼ − α(wᵢ(∇fᵢ(θᵢ) + N(0, σ²I)) + (λ̂/N)θᵢ),   W = Metropolis weights.

The mean gradient changes by at most s when a record is replaced (‖x‖ ≤ 1, so no clipping is
needed) and by twice its rounding; T Gaussian releases compose exactly. Values are brought into a
ball of public radius, so that the rounding has a bound whatever a neighbour sends. With a constant
step the agents settle near, not at, the optimum, at a distance in proportion to α times
how much their local gradients differ.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ppadmm.accounting import accountant
from ppadmm.accounting.calibration import Budget, largest_private
from ppadmm.accounting.events import Approximate, Charge, Gaussian, Tally
from ppadmm.accounting.sensitivity import MARGIN
from ppadmm.algorithms.base import Bits, Recipe, Reserved, SharedState, Site
from ppadmm.algorithms.defaults import Hyperparameters, Sizes, stopping_time
from ppadmm.algorithms.settings import Settings
from ppadmm.arrays import Array
from ppadmm.mechanisms import ChargedNoise, Release
from ppadmm.mechanisms.limits import data_rounding, within
from ppadmm.noise import FINENESS, Key, total_variation
from ppadmm.problem.losses import Loss
from ppadmm.problem.risk import summing
from ppadmm.records import HoldsRecords

STEP, ROUNDS = 16.0, (400, 1000)
"""α·w of the heaviest agent, whose steps are the longest, at c₁ = ¼; the least and most rounds."""
ROOM = 64.0
"""The radius of values, in units of T steps along the steepest gradient."""


@dataclass(frozen=True)
class GradientState:
    """An agent between rounds."""

    round: int
    own: SharedState
    theirs: tuple[SharedState, ...]


@dataclass(frozen=True)
class NoisyGradient(HoldsRecords):
    """One agent of noisy decentralised gradient descent; step α (R,), noise σ (R,)."""

    site: Site
    name: str
    rounds: int
    step: Array
    ridge: Array
    sigma: Array
    charges: tuple[Charge, ...]
    radius: Array

    @property
    def reserved(self) -> tuple[Reserved, ...]:
        """T releases."""
        times = self.rounds if self.site.risk.n else 0
        return tuple(((charge, times),) for charge in self.charges)

    @property
    def scales(self) -> dict[str, Array]:
        """σ of the gradient noise."""
        return {"sigma1": self.sigma}

    def init(self) -> GradientState:
        """Start from θ⁰ = 0."""
        zero = np.zeros((len(self.step), self.site.risk.d))
        heard = SharedState(zero, zero)
        return GradientState(0, heard, (heard,) * self.site.degree)

    def propose(self, state: GradientState, charged: ChargedNoise) -> tuple[GradientState, Release]:
        """Release the mixed point minus α times a noisy gradient."""
        slope = self.site.weight * self._noisy(state, charged)
        slope = slope + self.ridge[:, None] * state.own.value
        value = within(self._mixed(state) - self.step[:, None] * slope, self.radius)
        own = SharedState(value, state.own.total + value)
        return replace(state, own=own), Release.everyone(value)

    def resumed(
        self, state: GradientState, own: SharedState, spoke: Bits, spent: Bits
    ) -> GradientState:
        """Take up what was released."""
        return replace(state, own=own)

    def absorb(self, state: GradientState, inbox: Mapping[int, SharedState]) -> GradientState:
        """Take the neighbours' values."""
        theirs = tuple(inbox[j] for j in self.site.neighbours)
        return replace(state, round=state.round + 1, theirs=theirs)

    def heard(self, state: GradientState) -> SharedState:
        """Return the last release and the sum of all."""
        return state.own

    def _noisy(self, state: GradientState, charged: ChargedNoise) -> Array:
        gradient = self.site.risk.gradient(state.own.value)
        if not self.site.risk.n:
            return gradient
        noise = charged.charge(self.charges)
        key = Key(self.site.agent, state.round, "gradient")
        return noise.gaussian(gradient, self.sigma, FINENESS * self.sigma, key)

    def _mixed(self, state: GradientState) -> Array:
        mixed = state.own.value.copy()
        for other, degree in zip(state.theirs, self.site.neighbour_degrees, strict=True):
            share = 1.0 / (1.0 + max(self.site.degree, degree))
            mixed += share * (other.value - state.own.value)
        return mixed


def build_gradient(site: Site, settings: Settings) -> NoisyGradient:
    """Return noisy gradient descent at one site; η is the step α."""
    loss, n = site.risk.loss, max(site.risk.n, 1)
    radius = ROOM * settings.rounds * settings.etas * loss.lipschitz * site.heaviest
    changed = (2.0 if settings.adjacency == "replace-one" else 1.0) * loss.lipschitz / n
    error = loss.lipschitz * summing(n, loss.span) + data_rounding(loss, site.risk.d) * radius
    sensitivity = (changed + 2.0 * error) * (1.0 + MARGIN)
    charges = [_charge(budget, settings.rounds, site.risk.d) for budget in settings.budgets]
    ratios = np.array([ratio for ratio, _ in charges])
    return NoisyGradient(
        site=site,
        name="gradient",
        rounds=settings.rounds,
        step=settings.etas,
        ridge=settings.ridge(site.agents),
        sigma=sensitivity / ratios if site.risk.n else np.zeros_like(ratios),
        charges=tuple(charge for _, charge in charges),
        radius=radius,
    )


@lru_cache(maxsize=4096)
def _charge(budget: Budget, releases: int, d: int) -> tuple[float, Charge]:
    """Return the largest Δ/σ of which `releases` cost at most `budget`, and its charge."""
    distance = Approximate(total_variation(d, 1.0, FINENESS))

    def charge(ratio: float) -> Charge:
        return Charge((Gaussian(ratio), distance))

    def spent(ratio: float) -> float:
        return accountant.epsilon(Tally.of([charge(ratio)], releases), budget.delta).epsilon

    ratio = largest_private(spent, budget.epsilon, budget.epsilon / math.sqrt(releases))
    return ratio, charge(ratio)


def _plan(
    sizes: Sizes, budgets: Sequence[Budget], loss: Loss, rounds: int | None, eta: float | None
) -> Hyperparameters:
    """Return αT as PP-ADMM's rule has it; no step of the heaviest agent is too long."""
    time = stopping_time(sizes, budgets, loss)
    longest = STEP / (4.0 * loss.smoothness * max(sizes.weights))
    rounds = rounds or int(np.clip(math.ceil(time / (eta or longest)), *ROUNDS))
    return Hyperparameters(rounds, eta or min(time / rounds, longest))


RECIPE = Recipe(
    name="gradient",
    title="Noisy gradient descent",
    summary="noisy decentralised gradient descent",
    build=build_gradient,
    defaults=_plan,
    always_charged=True,
    alone="centralised",
    descends="explicit",
    solves=False,
)
