"""The algorithms by name. Each builder binds one agent's rule to its site."""

from collections.abc import Callable
from typing import Any

from ppadmm import checks
from ppadmm.algorithms.base import Algorithm, Heard, Site
from ppadmm.algorithms.non_private import build_non_private
from ppadmm.algorithms.pp import build_pp
from ppadmm.algorithms.settings import CALIBRATIONS, Settings

Builder = Callable[[Site, Settings], Algorithm[Any]]

ALGORITHMS: dict[str, Builder] = {"pp": build_pp, "non-private": build_non_private}


def build(name: str, site: Site, settings: Settings) -> Algorithm[Any]:
    """Return the algorithm called `name` at one site."""
    return ALGORITHMS[checks.one_of("algorithm", name, ALGORITHMS)](site, settings)


__all__ = [
    "ALGORITHMS",
    "CALIBRATIONS",
    "Algorithm",
    "Builder",
    "Heard",
    "Settings",
    "Site",
    "build",
]
