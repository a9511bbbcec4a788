"""One release per agent: a perturbed local model, averaged over agents.

Also the same at one place: objective perturbation on the pooled records, the price of
decentralisation. Both minimise (1/n)Σℓ + (μ/2)‖θ‖² + bᵀθ with μ = λ̂/(N·wᵢ) and release once, with
PP-ADMM's mechanism and proof; models are averaged by weight. An average of local minimisers is not
the minimiser of the average, so one-shot averaging keeps a bias without noise, too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ppadmm.accounting.calibration import Budget
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.algorithms.admm import ADMM, ADMMState
from ppadmm.algorithms.base import Recipe, Site
from ppadmm.algorithms.defaults import (
    POWER,
    Hyperparameters,
    Sizes,
    default_beta,
    remaining_noise,
    smallest_mu,
    usable,
)
from ppadmm.algorithms.pp import perturbed_minimiser
from ppadmm.algorithms.settings import Settings
from ppadmm.errors import InputError
from ppadmm.problem.losses import Loss
from ppadmm.problem.risk import Subproblem
from ppadmm.solvers import solver_named

RATE = 0.35
SECOND = 0.1
"""σ₂ may be so large: it grows as λ̂ becomes small, with many records or much ε."""
STEP = 1.1


@dataclass(frozen=True)
class OneShot(ADMM):
    """A single round that listens to nobody."""

    def subproblem(self, state: ADMMState) -> Subproblem:
        """Return F = f + (μ/2)‖θ‖²."""
        mu = self.ridge / self.site.weight
        return Subproblem(self.site.risk, mu, np.zeros_like(state.own.value))


def build_one_shot(site: Site, settings: Settings) -> OneShot:
    """Return the one-shot rule at one site; the whole budget goes to one release."""
    if not site.risk.n:
        raise InputError(
            f"Agent {site.agent} has no records, so it has no model to average; leave it out."
        )
    ridge = settings.ridge(site.agents)
    return OneShot(
        site=site,
        name="one-shot",
        rounds=1,
        eta=settings.etas,
        ridge=ridge,
        solver=solver_named(settings.solver, site.risk.d),
        mechanism=perturbed_minimiser(site, settings, ridge / site.weight, 1, most=ridge),
    )


def _plan(
    sizes: Sizes, budgets: Sequence[Budget], loss: Loss, rounds: int | None, eta: float | None
) -> Hyperparameters:
    """Return λ̂ = N·μ with μ = RATE·(√d·σ̄)^POWER, and twice what the budget needs at least."""
    budgets = usable(sizes, budgets, loss, rounds=1)
    noise = remaining_noise(sizes, budgets, loss.lipschitz)
    wanted = RATE * (math.sqrt(sizes.features) * noise) ** POWER
    pairs = set(zip(sizes.effective, budgets, strict=True))
    needed = [smallest_mu(b, n, loss, sizes.features, releases=1) for n, b in pairs]
    least = 2.0 * max(mu for mu in [0.0, *needed] if mu < math.inf)
    return _with_small_second_noise(max(wanted, least), sizes, budgets, loss)


def _with_small_second_noise(
    mu: float, sizes: Sizes, budgets: Sequence[Budget], loss: Loss
) -> Hyperparameters:
    """Return λ̂ = N·μ, with μ raised until σ₂ = 2β/(μ·m·√share) is at most SECOND.

    A small μ asks for a large β, too (`default_beta`), so both are looked at together.
    """
    ratio = min(gdp_ratio(b.epsilon, b.delta) for b in budgets)
    alone = replace(sizes, degrees=(0,) * sizes.agents)
    while True:
        plan = Hyperparameters(1, 1.0, sizes.agents * mu)
        beta = default_beta(plan, alone, budgets, loss)
        if 2.0 * beta <= SECOND * mu * ratio * math.sqrt(Settings.share):
            return plan
        mu *= STEP


RECIPE = Recipe(
    name="one-shot",
    title="One-shot averaging",
    summary="one perturbed local model per agent, averaged",
    build=build_one_shot,
    defaults=_plan,
    always_charged=True,
    alone="centralised",
    listens=False,
)
CENTRALISED = Recipe(
    name="centralised",
    title="Centralised objective perturbation",
    summary="objective perturbation on the pooled records, at one place",
    build=build_one_shot,
    defaults=_plan,
    always_charged=True,
    alone="centralised",
    pooled=True,
    listens=False,
)
