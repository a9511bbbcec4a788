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
    """Return the usual T and η; a single agent, whom no neighbour holds, gets λ̂ = 1/n.

    Without it separable records have no minimiser. It is what scikit-learn calls C = 1.
    """
    degree = sum(sizes.degrees) / sizes.agents
    weight = 0.0 if degree else 1.0 / sum(sizes.records)
    return Hyperparameters(rounds or ROUNDS, eta or PENALTY / max(degree, 1.0), weight)


RECIPE = Recipe(
    name="non-private",
    title="ADMM without noise",
    summary="decentralised ADMM without noise",
    build=build_non_private,
    defaults=_plan,
    not_private_because="the algorithm adds no noise",
    noise_source="none",
    noiseless=True,
    alone="non-private",
)
