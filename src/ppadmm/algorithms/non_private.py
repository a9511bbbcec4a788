"""Decentralised ADMM without privacy: what the private algorithms are measured against."""

from collections.abc import Sequence

from ppadmm.accounting.calibration import Budget
from ppadmm.algorithms.admm import ADMM, bind
from ppadmm.algorithms.base import Recipe, Site
from ppadmm.algorithms.defaults import Hyperparameters, Sizes
from ppadmm.algorithms.settings import Settings
from ppadmm.mechanisms import ExactMinimiser, FreeMinimiser
from ppadmm.problem.losses import Loss

PENALTY, ROUNDS = 0.0025, 400
"""η times the mean degree, and T: enough for sites whose labels differ, and for sparse networks."""


def build_non_private(site: Site, settings: Settings) -> ADMM:
    """Return ADMM with every subproblem solved to gradient norm ≤ β and no noise."""
    exact = ExactMinimiser(settings.beta, settings.replicates)
    mechanism = exact if site.risk.n else FreeMinimiser(settings.replicates, exact.radius)
    return bind(ADMM, "non-private", site, settings, mechanism)


def _plan(
    sizes: Sizes, budgets: Sequence[Budget], loss: Loss, rounds: int | None, eta: float | None
) -> Hyperparameters:
    degree = sum(sizes.degrees) / sizes.agents
    return Hyperparameters(rounds or ROUNDS, eta or PENALTY / degree)


RECIPE = Recipe(
    name="non-private",
    title="ADMM without noise",
    summary="decentralised ADMM without noise",
    build=build_non_private,
    defaults=_plan,
    not_private_because="the algorithm adds no noise",
    noise_source="none",
    noiseless=True,
)
