"""The algorithms by name. To add one, write a module with a `RECIPE` and list it here."""

from typing import Any

from ppadmm import checks
from ppadmm.algorithms import dvp, gradient, ipp, m_admm, newton, non_private, one_shot, pp, r_admm
from ppadmm.algorithms.base import Algorithm, Recipe, SharedState, Site
from ppadmm.algorithms.settings import CALIBRATIONS, Settings
from ppadmm.algorithms.statistics import STATISTICS
from ppadmm.errors import InputError
from ppadmm.registry import Registry

ALGORITHMS: Registry[Recipe] = Registry(
    "algorithm",
    (
        pp.RECIPE,
        ipp.RECIPE,
        dvp.RECIPE,
        m_admm.RECIPE,
        r_admm.RECIPE,
        gradient.RECIPE,
        newton.RECIPE,
        one_shot.RECIPE,
        one_shot.CENTRALISED,
        non_private.RECIPE,
    ),
)
"""A user's own gets in with `ALGORITHMS.add` (docs/howto/add-an-algorithm.md)."""


def recipe_named(name: str) -> Recipe:
    """Return the recipe called `name`."""
    return ALGORITHMS[checks.one_of("algorithm", name, ALGORITHMS)]


def name_alone(name: str) -> str:
    """Return the algorithm that a single agent runs in place of the one called `name`."""
    alone = recipe_named(name).alone
    if alone is None:
        raise InputError(
            f"The algorithm {name!r} needs two agents or more, got 1; use 'pp', which is "
            "centralised objective perturbation for one."
        )
    return alone


def title_of(name: str) -> str:
    """Return what an algorithm is called in headings; its name if nothing is known of it."""
    recipe = ALGORITHMS.get(name)
    return name if recipe is None else recipe.title or name


def build(name: str, site: Site, settings: Settings) -> Algorithm[Any]:
    """Return the algorithm called `name` at one site."""
    return recipe_named(name).build(site, settings)


__all__ = [
    "ALGORITHMS",
    "CALIBRATIONS",
    "STATISTICS",
    "Algorithm",
    "Recipe",
    "Settings",
    "SharedState",
    "Site",
    "build",
    "name_alone",
    "recipe_named",
    "title_of",
]
