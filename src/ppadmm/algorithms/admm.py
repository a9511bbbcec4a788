"""Decentralised consensus ADMM, whatever makes its primal step private.

    primal:  θᵢ⁺ = argmin wᵢfᵢ(θ) + (λ̂/N)R(θ) + 2λᵢᵀθ + η Σⱼ ‖½(θᵢ+θⱼ) − θ‖²
    dual:    λᵢ⁺ = λᵢ + (η/2) Σⱼ (θᵢ⁺ − θⱼ⁺)

The primal step is released by a mechanism. An agent solves it divided by its weight wᵢ, which has
the same minimiser: its loss is then a mean over its records whatever wᵢ is, and all that a weight
changes is public (docs/privacy.md, section 17).

The dual is kept as λᵢ = (η/2) Σⱼ (Sᵢ − Sⱼ) with S the running sum of all that an agent has
released, so a message that carries (round, θ, S) makes up for any that was lost before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ppadmm.algorithms.base import Bits, Reserved, SharedState, Site
from ppadmm.algorithms.settings import Settings
from ppadmm.arrays import Array
from ppadmm.mechanisms import ChargedNoise, Mechanism, Place, Release
from ppadmm.problem.risk import Subproblem
from ppadmm.records import HoldsRecords
from ppadmm.solvers import solver_named
from ppadmm.solvers.base import Solver, Warm


@dataclass(frozen=True)
class ADMMState(HoldsRecords):
    """An agent between rounds; arrays (R, d). `theirs` is the sum over what neighbours said."""

    round: int
    own: SharedState
    theirs: SharedState
    warm: Warm


@dataclass(frozen=True)
class ADMM(HoldsRecords):
    """Consensus ADMM at one site with penalty η (R,) and its part λ̂/N (R,) of the regulariser."""

    site: Site
    name: str
    rounds: int
    eta: Array
    ridge: Array
    solver: Solver
    mechanism: Mechanism

    @property
    def reserved(self) -> tuple[Reserved, ...]:
        """T releases."""
        return tuple(((charge, self.rounds),) for charge in self.mechanism.charges)

    def penalty(self, round_: int) -> Array:
        """Return the primal penalty η(t), (R,): here the same in every round."""
        return self.eta

    @property
    def scales(self) -> dict[str, Array]:
        """The mechanism's noises."""
        return self.mechanism.scales

    @property
    def radius(self) -> Array:
        """The mechanism's."""
        return self.mechanism.radius

    def init(self) -> ADMMState:
        """Start from θ⁰ = 0, λ⁰ = 0."""
        zero = np.zeros((len(self.eta), self.site.risk.d))
        heard = SharedState(zero, zero)
        warm = Warm(zero, self.site.risk.gradient(zero))
        return ADMMState(0, heard, heard, warm)

    def subproblem(self, state: ADMMState) -> Subproblem:
        """Return F/wᵢ: μ = (λ̂/N + 2η(t)|B|)/wᵢ and c = (2λᵢ − η(t) Σⱼ (θᵢ + θⱼ))/wᵢ."""
        penalty, degree = self.penalty(state.round), np.array([self.site.degree])
        linear = linear_term(self.eta, penalty, degree, state.own, state.theirs)
        mu = self.ridge + 2.0 * penalty * degree
        return Subproblem(self.site.risk, mu / self.site.weight, linear / self.site.weight)

    def propose(self, state: ADMMState, charged: ChargedNoise) -> tuple[ADMMState, Release]:
        """Solve this round's subproblem through the mechanism."""
        place = Place(self.site.agent, state.round)
        release, warm = self.mechanism.release(
            self.subproblem(state), self.solver, state.warm, charged, place
        )
        own = SharedState(release.value, state.own.total + release.value)
        return replace(state, own=own, warm=warm), release

    def resumed(self, state: ADMMState, own: SharedState, spoke: Bits, spent: Bits) -> ADMMState:
        """Take up what was released; the solver starts from where it is, as any start will do."""
        return replace(state, own=own)

    def absorb(self, state: ADMMState, inbox: Mapping[int, SharedState]) -> ADMMState:
        """Add up what the neighbours said, in order of their numbers; the dual follows."""
        heard = [inbox[j] for j in self.site.neighbours]
        shape = state.own.value.shape
        theirs = SharedState(
            _sum(shape, [h.value for h in heard]), _sum(shape, [h.total for h in heard])
        )
        return replace(state, round=state.round + 1, theirs=theirs)

    def heard(self, state: ADMMState) -> SharedState:
        """Return the last release and the sum of all."""
        return state.own


def linear_term(
    eta: Array, penalty: Array, degree: Array, own: SharedState, theirs: SharedState
) -> Array:
    """c = η(|B|·S − Σⱼ Sⱼ) − η(t)(|B|·θ + Σⱼ θⱼ) for each row; `degree` (R,) or (1,)."""
    count = degree[:, None]
    linear: Array = eta[:, None] * (count * own.total - theirs.total)
    linear -= penalty[:, None] * (count * own.value + theirs.value)
    return linear


def _sum(shape: tuple[int, ...], arrays: Sequence[Array]) -> Array:
    total = np.zeros(shape)
    for array in arrays:
        total += array
    return total


A = TypeVar("A", bound=ADMM)


def bind(rule: type[A], name: str, site: Site, settings: Settings, mechanism: Mechanism) -> A:
    """Return `rule` at one site with a run's settings; all rules that add no field share this."""
    return rule(
        site=site,
        name=name,
        rounds=settings.rounds,
        eta=settings.etas,
        ridge=settings.ridge(site.agents),
        solver=solver_named(settings.solver, site.risk.d),
        mechanism=mechanism,
    )
