"""Algorithm 2 of Ding et al. (2020) to the letter, to reproduce its figures. Not private.

Differences from `ipp`, each an erratum (docs/errata.md, 5 to 8): the threshold's noise is drawn
anew in every round, the test looks at the very candidate that is then released, its sensitivity is
taken to be 2·C_loss, and σ₁ uses ε₁ where Algorithm 1 uses ε₃.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ppadmm.accounting.calibration import Budget
from ppadmm.accounting.events import Charge, NonPrivate
from ppadmm.algorithms.admm import ADMM, ADMMState
from ppadmm.algorithms.base import Bits, Reserved, SharedState, Site
from ppadmm.algorithms.pp import convexity, paper_settings, perturbed_minimiser
from ppadmm.algorithms.settings import Settings
from ppadmm.arrays import Array
from ppadmm.ledger.protocol import MemoryLedger
from ppadmm.mechanisms import ChargedNoise, Place, Release
from ppadmm.noise import FINENESS, Key, NoiseSource
from ppadmm.solvers import solver_named

RELEASES, SVT_SHARE = 15, 0.1


@dataclass(frozen=True)
class PaperState(ADMMState):
    """Also how many releases are left, (R,)."""

    left: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True)
class PaperIPP(ADMM):
    """Every candidate is made as in PP-ADMM, and sent if it lowers the clipped loss enough."""

    clip: float
    alpha: float
    threshold_scale: Array
    query_scale: Array
    releases: int

    @property
    def _charge(self) -> Charge:
        return Charge((NonPrivate(),))

    @property
    def reserved(self) -> tuple[Reserved, ...]:
        """One entry per round that no theorem covers."""
        return (((self._charge, self.rounds),),) * len(self.eta)

    @property
    def scales(self) -> dict[str, Array]:
        """The mechanism's noises and the test's."""
        return {**self.mechanism.scales, "test": math.sqrt(2.0) * self.query_scale}

    def init(self) -> PaperState:
        """Start from θ⁰ = 0, λ⁰ = 0 with c releases to go."""
        start = super().init()
        left = np.full(len(self.eta), self.releases)
        return PaperState(start.round, start.own, start.theirs, start.warm, left)

    def propose(self, state: ADMMState, charged: ChargedNoise) -> tuple[ADMMState, Release]:
        """Make a noisy candidate, then test that same candidate."""
        if not isinstance(state, PaperState):
            raise TypeError("PaperIPP needs its own state.")
        noise = charged.charge([self._charge] * len(self.eta))
        place = Place(self.site.agent, state.round)
        free = ChargedNoise(tuple(_Unbooked() for _ in self.eta), noise)
        candidate, warm = self.mechanism.release(
            self.subproblem(state), self.solver, state.warm, free, place
        )
        risk, own = self.site.risk, state.own.value
        gain = risk.clipped_value(own, self.clip) - risk.clipped_value(candidate.value, self.clip)
        spoke = (state.left > 0) & (self._noisy(gain, place, noise) >= 0.0)
        value = np.where(spoke[:, None], candidate.value, own)
        kept = SharedState(value, state.own.total + value)
        return replace(state, own=kept, warm=warm, left=state.left - spoke), Release(value, spoke)

    def resumed(self, state: ADMMState, own: SharedState, spoke: Bits, spent: Bits) -> ADMMState:
        """Count what was released."""
        if not isinstance(state, PaperState):
            raise TypeError("PaperIPP needs its own state.")
        return replace(state, own=own, left=state.left - spent)

    def _noisy(self, gain: Array, place: Place, noise: NoiseSource) -> Array:
        """Return gain + Lap(4cC/ε₂) − (α + Lap(2cC/ε₁)), both drawn now."""
        parts = []
        for values, scale, name in (
            (gain, self.query_scale, "query"),
            (np.full_like(gain, self.alpha), self.threshold_scale, "threshold"),
        ):
            key = Key(place.agent, place.round, name)
            parts.append(noise.laplace(values[:, None], scale, FINENESS * scale, key)[:, 0])
        return np.asarray(parts[0] - parts[1])


class _Unbooked(MemoryLedger):
    """A ledger for what no theorem covers: the round was booked as not private already."""

    def charge(self, charge: Charge) -> None:
        """Accept anything."""


def build_paper_ipp(site: Site, settings: Settings) -> PaperIPP:
    """Return Algorithm 2 at one site."""
    releases = settings.speaking.releases or RELEASES
    clip = settings.speaking.clip
    left = tuple(Budget(b.epsilon * math.sqrt(1.0 - SVT_SHARE), b.delta) for b in settings.budgets)
    inner = paper_settings(site, replace(settings, budgets=left), releases)
    mechanism = perturbed_minimiser(site, inner, convexity(site, inner), releases)
    noises = tuple(replace(noise, sigma1=0.99 * noise.sigma1) for noise in mechanism.noises)
    rho = np.array([b.epsilon**2 / (4.0 * math.log(1.0 / b.delta)) for b in settings.budgets])
    epsilon = np.sqrt(2.0 * SVT_SHARE * rho)
    weight = (2.0 * releases) ** (2.0 / 3.0)
    first, second = epsilon / (1.0 + weight), epsilon * weight / (1.0 + weight)
    return PaperIPP(
        site=site,
        name="ipp",
        rounds=settings.rounds,
        eta=settings.etas,
        ridge=inner.ridge(site.agents),
        solver=solver_named(settings.solver, site.risk.d),
        mechanism=replace(mechanism, noises=noises),
        clip=clip,
        alpha=settings.speaking.alpha,
        threshold_scale=2.0 * releases * clip / first,
        query_scale=4.0 * releases * clip / second,
        releases=releases,
    )
