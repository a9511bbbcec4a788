"""Decentralised ADMM without privacy: what the private algorithms are measured against."""

from ppadmm.algorithms.admm import ADMM
from ppadmm.algorithms.base import Site
from ppadmm.algorithms.settings import Settings
from ppadmm.mechanisms import ExactMinimiser
from ppadmm.solvers import solver_named


def build_non_private(site: Site, settings: Settings) -> ADMM:
    """Return ADMM with every subproblem solved to gradient norm ≤ β and no noise."""
    return ADMM(
        site=site,
        name="non-private",
        rounds=settings.rounds,
        eta=settings.etas,
        weight=settings.weights(site.agents),
        solver=solver_named(settings.solver, site.risk.d),
        mechanism=ExactMinimiser(settings.beta, settings.replicates),
    )
