"""Names in help texts and completions, read off the registries when they are asked for.

Registries import NumPy and more. So a help text holds `{algorithms}`, and the names take its place
only when that help is shown: `ppadmm --help` and `--version` stay quick.
"""

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from typer.core import TyperCommand

LISTS = {
    "algorithms": "ppadmm.algorithms:ALGORITHMS",
    "planned": "ppadmm.planning.specification:PLANNED",
    "audited": "ppadmm.auditing.suite:AUDITED",
    "graphs": "ppadmm.problem.graphs:KINDS",
    "data": "ppadmm.datasets:NAMES",
    "solvers": "ppadmm.solvers:SOLVERS",
}
"""Where the names are: a module and what it calls them."""


def listed(what: str) -> Iterable[str]:
    """Return the names of one kind."""
    if what == "peer_algorithms":
        from ppadmm.algorithms import ALGORITHMS

        return (name for name, recipe in ALGORITHMS.items() if not recipe.pooled)
    module, _, name = LISTS[what].partition(":")
    found: Iterable[str] = getattr(import_module(module), name)
    return ("auto", *found) if what == "solvers" else found


def filled(text: str) -> str:
    """Return a text with the names that there are in place of `{algorithms}` and its like."""
    return re.sub(r"\{(\w+)\}", lambda found: ", ".join(listed(found[1])), text)


def completed(text: str) -> Callable[[str], list[str]]:
    """Return what a shell is told when it asks to complete one of the names in a text."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in filled(text).split(", ") if name.startswith(incomplete)]

    return complete


class NamingCommand(TyperCommand):
    """A command whose help lists names of registries."""

    def fill_help(self) -> None:
        """Put the names into the help texts of all options."""
        for param in self.params:
            if text := getattr(param, "help", None):
                param.help = filled(text)  # type: ignore[attr-defined]

    def get_help(self, ctx: Any) -> str:
        """Return the whole help."""
        self.fill_help()
        return super().get_help(ctx)
