"""R-ADMM (Zhang, Khalili & Liu 2018): every other round reuses what was released before.

Rounds 0, 2, 4, … solve and release as DVP does and update the dual. Rounds 1, 3, … touch no data:

    θᵢ⁺ = θᵢ − η/(2η|B|+γ) · Σⱼ (θᵢ' + θⱼ' − 2θⱼ),

with θ the values of the round before and θ' those of the round before that; the dual stays. Only
the rounds that touch data are charged.
"""

from dataclasses import dataclass, replace

import numpy as np

from ppadmm.algorithms.admm import ADMM, ADMMState, bind
from ppadmm.algorithms.base import Bits, Recipe, Reserved, SharedState, Site
from ppadmm.algorithms.gamma import NOT_PRIVATE, SOURCE, gamma_mechanism, gamma_plan
from ppadmm.algorithms.settings import Settings
from ppadmm.arrays import Array
from ppadmm.mechanisms import ChargedNoise, Release

GAMMA = 0.4
"""γ in units of η."""


@dataclass(frozen=True)
class RecyclingState(ADMMState):
    """Also what was said in the round before the last: own and the sum of theirs, (R, d)."""

    earlier: tuple[Array, ...] = ()


@dataclass(frozen=True)
class RADMM(ADMM):
    """ADMM that reads the records in every other round only."""

    @property
    def reserved(self) -> tuple[Reserved, ...]:
        """Half of the rounds, rounded up."""
        return tuple(((charge, (self.rounds + 1) // 2),) for charge in self.mechanism.charges)

    def init(self) -> RecyclingState:
        """Start from θ⁰ = 0, λ⁰ = 0."""
        start = super().init()
        earlier = (start.own.value, start.theirs.value)
        return RecyclingState(start.round, start.own, start.theirs, start.warm, earlier)

    def propose(self, state: ADMMState, charged: ChargedNoise) -> tuple[ADMMState, Release]:
        """Solve in even rounds, recycle in odd ones."""
        if not isinstance(state, RecyclingState):
            raise TypeError("RADMM needs its own state.")
        before = (state.own.value, state.theirs.value)
        if state.round % 2 == 0:
            return super().propose(replace(state, earlier=before), charged)
        value = self._recycled(state)
        own = SharedState(value, state.own.total)
        return replace(state, own=own, earlier=before), Release.everyone(value)

    def resumed(self, state: ADMMState, own: SharedState, spoke: Bits, spent: Bits) -> ADMMState:
        """Also remember what everyone said before."""
        before = (state.own.value, state.theirs.value)
        return replace(state, own=own, earlier=before)  # type: ignore[call-arg]

    def _recycled(self, state: RecyclingState) -> Array:
        mine, others = state.earlier
        pull = self.site.degree * mine + others - 2.0 * state.theirs.value
        step = self.eta / (2.0 * self.eta * self.site.degree + GAMMA * self.eta)
        return np.asarray(state.own.value - step[:, None] * pull)


def build_r_admm(site: Site, settings: Settings) -> RADMM:
    """Return R-ADMM at one site."""
    mechanism = gamma_mechanism(site, settings, (settings.rounds + 1) // 2)
    return bind(RADMM, "r-admm", site, settings, mechanism)


RECIPE = Recipe(
    name="r-admm",
    title="R-ADMM",
    summary="every other round recycles past releases (Zhang, Khalili & Liu 2018)",
    build=build_r_admm,
    defaults=gamma_plan,
    not_private_because=NOT_PRIVATE,
    noise_source=SOURCE,
    every=2,
    alone="centralised",
)
