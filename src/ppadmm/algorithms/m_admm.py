"""M-ADMM (Zhang, Khalili & Liu 2018): Gamma noise and a penalty that grows.

ηᵢ(t) = η·min(qᵗ, cap) in the primal step, one constant dual step η for all agents. A penalty that
grows without a cap stalls short of the optimum, and dual steps of the agents' own lead to another
point than the optimum: neither is offered.
"""

from dataclasses import dataclass

import numpy as np

from ppadmm.algorithms.admm import ADMM, bind
from ppadmm.algorithms.base import Recipe, Site
from ppadmm.algorithms.gamma import NOT_PRIVATE, SOURCE, gamma_mechanism, gamma_plan
from ppadmm.algorithms.settings import Settings
from ppadmm.arrays import Array

GROWTH, CAP = 1.02, 2.0


@dataclass(frozen=True)
class MADMM(ADMM):
    """ADMM with η(t) = η·min(qᵗ, cap)."""

    def penalty(self, round_: int) -> Array:
        """Return η·min(qᵗ, cap), (R,)."""
        return np.asarray(self.eta * min(GROWTH**round_, CAP))


def build_m_admm(site: Site, settings: Settings) -> MADMM:
    """Return M-ADMM at one site."""
    mechanism = gamma_mechanism(site, settings, settings.rounds)
    return bind(MADMM, "m-admm", site, settings, mechanism)


RECIPE = Recipe(
    name="m-admm",
    title="M-ADMM",
    summary="penalty perturbation with a growing penalty (Zhang, Khalili & Liu 2018)",
    build=build_m_admm,
    defaults=gamma_plan,
    not_private_because=NOT_PRIVATE,
    noise_source=SOURCE,
    alone="centralised",
)
