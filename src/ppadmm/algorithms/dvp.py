"""DVP (Zhang & Zhu 2016): Gamma noise on the dual variable, in the primal step only.

The primal step uses λᵢ + b/2; the dual update uses λᵢ itself. Carrying the noise on into the dual
makes it a random walk, and the iteration diverges.
"""

from ppadmm.algorithms.admm import ADMM, bind
from ppadmm.algorithms.base import Recipe, Site
from ppadmm.algorithms.gamma import NOT_PRIVATE, SOURCE, gamma_mechanism, gamma_plan
from ppadmm.algorithms.settings import Settings


def build_dvp(site: Site, settings: Settings) -> ADMM:
    """Return ADMM whose every primal step is perturbed by Gamma noise."""
    mechanism = gamma_mechanism(site, settings, settings.rounds)
    return bind(ADMM, "dvp", site, settings, mechanism)


RECIPE = Recipe(
    name="dvp",
    title="DVP",
    summary="dual variable perturbation with Gamma noise (Zhang & Zhu 2016)",
    build=build_dvp,
    defaults=gamma_plan,
    not_private_because=NOT_PRIVATE,
    noise_source=SOURCE,
    alone="centralised",
)
