"""What the baselines with Gamma noise share: calibration and default settings."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ppadmm.accounting import accountant
from ppadmm.accounting.calibration import Budget, largest_private
from ppadmm.accounting.events import Charge, Pure, Tally
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.algorithms.base import Site
from ppadmm.algorithms.defaults import Hyperparameters, Sizes, penalty_rate, remaining_noise
from ppadmm.algorithms.pp import convexity
from ppadmm.algorithms.settings import Settings
from ppadmm.mechanisms import FreeMinimiser, GammaMinimiser, Mechanism
from ppadmm.problem.losses import Loss

BETA, ROUNDS = 1e-10, 40
SOURCE = "the operating system, in floating point"
NOT_PRIVATE = (
    "its proof needs the exact minimiser and real-valued Gamma noise, which no computer gives"
)


@lru_cache(maxsize=4096)
def epsilon_per_release(budget: Budget, releases: int) -> float:
    """Return the largest pure ε₀ of which `releases` cost at most `budget`."""

    def spent(each: float) -> float:
        return accountant.epsilon(Tally.of([Charge((Pure(each),))], releases), budget.delta).epsilon

    return largest_private(spent, budget.epsilon, budget.epsilon / releases)


def gamma_mechanism(site: Site, settings: Settings, releases: int) -> Mechanism:
    """Return the mechanism that spends every replicate's budget on `releases` releases."""
    if not site.risk.n:
        return FreeMinimiser(settings.replicates, np.full(settings.replicates, np.inf))
    loss, n = site.risk.loss, site.risk.n
    replaced = settings.adjacency == "replace-one"
    mechanism = GammaMinimiser(
        epsilons=tuple(epsilon_per_release(budget, releases) for budget in settings.budgets),
        sensitivity=(2.0 if replaced else 1.0) * loss.lipschitz / n,
        curvature=loss.smoothness / n,
        beta=min(settings.beta, BETA),
        span=loss.span,
        trace=loss.trace,
    )
    mechanism.rates(convexity(site, settings))  # refuses now what would fail in the first round
    return mechanism


def gamma_plan(
    sizes: Sizes, budgets: Sequence[Budget], loss: Loss, rounds: int | None, eta: float | None
) -> Hyperparameters:
    """Return PP-ADMM's rule for noise that is √(d+1) times as large in every coordinate.

    A Gamma(d, 1/r) norm in a uniform direction has variance (d+1)/r² per coordinate, against
    (s√T/m)² of a Gaussian, and r = ε₀/s with ε₀ close to m/√T.
    """
    rounds = rounds or ROUNDS
    noise = remaining_noise(sizes, budgets, loss.lipschitz) * math.sqrt(sizes.features + 1.0)
    wanted = rounds * penalty_rate(sizes, noise)
    triples = zip(sizes.effective, sizes.degrees, budgets, strict=True)
    room = min(degree * n * gdp_ratio(b.epsilon, b.delta) for n, degree, b in triples)
    least = 2.5 * loss.smoothness * math.sqrt(rounds) / room
    return Hyperparameters(
        rounds, eta or max(wanted, least, _half_for_noise(sizes, budgets, loss, rounds))
    )


def _half_for_noise(sizes: Sizes, budgets: Sequence[Budget], loss: Loss, releases: int) -> float:
    """Return the least η at which J takes at most half of a release's ε at every agent."""
    q, triples = loss.span, set(zip(sizes.effective, sizes.degrees, budgets, strict=True))

    def most(budget: Budget) -> float:
        share = min(epsilon_per_release(budget, releases) / (2.0 * q), 700.0)
        return q * math.expm1(share) / loss.trace

    return max(loss.smoothness / (2.0 * degree * n * most(b)) for n, degree, b in triples)
