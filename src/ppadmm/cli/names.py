"""Names in help texts and completions, read off the registries when they are asked for.

Registries import NumPy and more. So a help text holds `{algorithms}`, and the names take its place
only when that help is shown: `ppadmm --help` and `--version` stay quick.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from typer.core import TyperCommand


def _algorithms() -> Iterable[str]:
    from ppadmm.algorithms import ALGORITHMS

    return ALGORITHMS


def _peer_algorithms() -> Iterable[str]:
    from ppadmm.algorithms import ALGORITHMS

    return (name for name, recipe in ALGORITHMS.items() if not recipe.pooled)


def _planned() -> Iterable[str]:
    from ppadmm.planning.specification import PLANNED

    return PLANNED


def _audited() -> Iterable[str]:
    from ppadmm.auditing.suite import AUDITED

    return AUDITED


def _graphs() -> Iterable[str]:
    from ppadmm.problem.graphs import KINDS

    return KINDS


def _data() -> Iterable[str]:
    from ppadmm.datasets import NAMES

    return NAMES


def _solvers() -> Iterable[str]:
    from ppadmm.solvers import SOLVERS

    return ("auto", *SOLVERS)


LISTS: dict[str, Callable[[], Iterable[str]]] = {
    "algorithms": _algorithms,
    "peer_algorithms": _peer_algorithms,
    "planned": _planned,
    "audited": _audited,
    "graphs": _graphs,
    "data": _data,
    "solvers": _solvers,
}


def filled(text: str) -> str:
    """Return a text with the names that there are in place of `{algorithms}` and its like."""
    return re.sub(r"\{(\w+)\}", lambda found: ", ".join(LISTS[found[1]]()), text)


def completed(listed: str) -> Callable[[str], list[str]]:
    """Return what a shell is told when it asks to complete one of the names in `listed`."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in filled(listed).split(", ") if name.startswith(incomplete)]

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
