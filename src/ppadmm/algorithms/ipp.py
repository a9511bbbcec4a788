"""IPP-ADMM: PP-ADMM that speaks only when a private test says it has something to say.

In every round, while it has releases left, an agent tests whether a statistic of its unperturbed
subproblem exceeds a public threshold. If so it draws a fresh b and releases as PP-ADMM does; if
not it keeps θᵢ and its neighbours keep what they have. After c releases it no longer tests.

Guarantee (`proven`): at most T tests and c releases are reserved and every one is charged before
its noise is drawn; which of them happen depends on released bits only (fully adaptive composition
within a fixed budget: Feldman & Zrnic 2021 for RDP, Koskela, Tobaben & Honkela 2023 for GDP).
`paper` is Algorithm 2 of Ding et al. (2020) to the letter and not private.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ppadmm.accounting.calibration import Budget, spendable
from ppadmm.accounting.events import Tally
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.algorithms.admm import ADMM
from ppadmm.algorithms.admm import ADMMState as PlainState
from ppadmm.algorithms.base import Bits, Recipe, Reserved, SharedState, Site
from ppadmm.algorithms.defaults import Hyperparameters, Sizes, default_eta, default_rounds
from ppadmm.algorithms.ipp_paper import build_paper_ipp
from ppadmm.algorithms.pp import build_pp, convexity, perturbed, perturbed_minimiser, reach
from ppadmm.algorithms.settings import Settings
from ppadmm.algorithms.statistics import Statistic, statistic_named
from ppadmm.arrays import Array, Rows
from ppadmm.mechanisms import ChargedNoise, PerturbedMinimiser, Place, Release
from ppadmm.mechanisms.threshold_tests import GaussianTest, PrivateTest, SparseVector
from ppadmm.problem.losses import Loss
from ppadmm.solvers import solver_named
from ppadmm.solvers.base import Warm


@dataclass(frozen=True)
class IPPState(PlainState):
    """Also how many releases are left (R,) and the threshold kept for the run (R,)."""

    left: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    kept: Array | None = None


@dataclass(frozen=True)
class IPP(ADMM):
    """PP-ADMM with a test before every release."""

    mechanism: PerturbedMinimiser
    statistic: Statistic
    test: PrivateTest
    releases: int

    @property
    def reserved(self) -> tuple[Reserved, ...]:
        """All tests and c releases."""
        pairs = zip(self.test.reserved, self.mechanism.charges, strict=True)
        return tuple((tested, (charge, self.releases)) for tested, charge in pairs)

    @property
    def scales(self) -> dict[str, Array]:
        """The mechanism's noises and that of a test."""
        return {**self.mechanism.scales, "test": self.test.noise}

    def init(self) -> IPPState:
        """Start from θ⁰ = 0, λ⁰ = 0 with c releases to go."""
        start = super().init()
        left = np.full(len(self.eta), self.releases)
        return IPPState(start.round, start.own, start.theirs, start.warm, left)

    def propose(self, state: PlainState, charged: ChargedNoise) -> tuple[PlainState, Release]:
        """Test, and release where the test passes; a replicate without releases does neither."""
        if not isinstance(state, IPPState):
            raise TypeError("IPP needs its own state.")
        if state.kept is None:
            state = replace(state, kept=self.test.draw_threshold(charged, self.site.agent))
        rows = np.flatnonzero(state.left > 0)
        warm, speaking = self._tested(state, rows, charged)
        value = state.own.value.copy()
        if len(speaking):
            value[speaking], warm = self._released(state, warm, speaking, charged)
        spoke = np.isin(np.arange(len(value)), speaking)
        own = SharedState(value, state.own.total + value)
        return replace(state, own=own, warm=warm, left=state.left - spoke), Release(value, spoke)

    def resumed(self, state: PlainState, own: SharedState, spoke: Bits, spent: Bits) -> PlainState:
        """Count a release that was lost as one that was made: it is paid for."""
        if not isinstance(state, IPPState):
            raise TypeError("IPP needs its own state.")
        return replace(state, own=own, left=state.left - spent)

    def _tested(self, state: IPPState, rows: Rows, charged: ChargedNoise) -> tuple[Warm, Rows]:
        if not len(rows) or state.kept is None:
            return state.warm, rows
        part = self.mechanism.reach.admissible(self.subproblem(state)).restricted(rows)
        values, warm = self.statistic.measure(
            part,
            state.own.value[rows],
            self.solver,
            state.warm.restricted(rows),
            self.mechanism.beta,
        )
        place = Place(self.site.agent, state.round)
        passed = self.test.decide(values, state.kept[rows], rows, charged.restricted(rows), place)
        return state.warm.replaced(rows, warm), rows[passed]

    def _released(
        self, state: IPPState, warm: Warm, rows: Rows, charged: ChargedNoise
    ) -> tuple[Array, Warm]:
        release, after = self.mechanism.restricted(rows).release(
            self.subproblem(state).restricted(rows),
            self.solver,
            warm.restricted(rows),
            charged.restricted(rows),
            Place(self.site.agent, state.round),
        )
        return release.value, warm.replaced(rows, after)


def build_ipp(site: Site, settings: Settings) -> ADMM:
    """Return IPP-ADMM at one site, calibrated for every replicate's budget."""
    if not site.risk.n:
        return build_pp(site, settings)
    if settings.calibration == "paper":
        return build_paper_ipp(site, settings)
    speaking, mu = settings.speaking, convexity(site, settings)
    releases = speaking.releases or max(1, settings.rounds // 2)
    statistic = statistic_named(speaking.statistic, speaking.clip)
    step = perturbed(site, settings, float(mu.min()))
    delta = statistic.sensitivity(step, reach(site, settings, mu))
    usable = [spendable(b, 2.0 * settings.rounds * step.distance) for b in settings.budgets]
    test = _test(settings, usable, delta, releases)
    besides = tuple(Tally().plus(*pair) for pair in test.reserved)
    mechanism = perturbed_minimiser(site, settings, mu, releases, besides)
    unit = statistic.unit(mechanism.scales["sigma1"], mu, site.risk.d)
    return IPP(
        site=site,
        name="ipp",
        rounds=settings.rounds,
        eta=settings.etas,
        ridge=settings.ridge(site.agents),
        solver=solver_named(settings.solver, site.risk.d),
        mechanism=mechanism,
        statistic=statistic,
        test=replace(test, threshold=speaking.level * unit),
        releases=releases,
    )


def _test(
    settings: Settings, budgets: Sequence[Budget], delta: Array, releases: int
) -> GaussianTest | SparseVector:
    """Return the tests that `share` of the Gaussian budget m² buys; `auto` takes the quieter."""
    speaking = settings.speaking
    m = np.array([gdp_ratio(b.epsilon, b.delta) for b in budgets])
    m = m * np.sqrt(speaking.share)
    zero = np.zeros_like(delta)
    gaussian = GaussianTest(delta, zero, m / np.sqrt(settings.rounds), settings.rounds)
    svt = SparseVector(delta, zero, m, releases)
    if speaking.test == "auto":
        return gaussian if gaussian.noise.sum() <= svt.noise.sum() else svt
    return gaussian if speaking.test == "gaussian" else svt


def _plan(
    sizes: Sizes, budgets: Sequence[Budget], loss: Loss, rounds: int | None, eta: float | None
) -> Hyperparameters:
    """Return PP-ADMM's rounds, and its η for the half of them that are spoken in."""
    rounds = rounds or default_rounds(sizes, budgets, loss)
    return Hyperparameters(rounds, eta or default_eta(sizes, budgets, loss, max(1, rounds // 2)))


RECIPE = Recipe(
    name="ipp",
    title="IPP-ADMM",
    summary="IPP-ADMM: PP-ADMM that speaks only when a private test passes",
    build=build_ipp,
    defaults=_plan,
    tests=True,
    always_charged=True,
    alone="centralised",
)
