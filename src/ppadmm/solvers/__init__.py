"""Local solvers; each certifies the residual it reached."""

from collections.abc import Callable

from ppadmm import checks
from ppadmm.registry import Registry
from ppadmm.solvers.accelerated import finish
from ppadmm.solvers.base import Solution, Solver, Warm, cold_start, descend
from ppadmm.solvers.guarded import Guarded
from ppadmm.solvers.newton import Newton
from ppadmm.solvers.quasi_newton import LBFGS, FixedMetric

SOLVERS: Registry[Callable[[], Solver]] = Registry("solver", (FixedMetric, Newton, LBFGS))
"""A user's own gets in with `SOLVERS.add` (docs/howto/add-a-solver.md)."""
WIDE = 1500
"""From this many features on a dense d × d metric costs more than it saves."""


def solver_named(name: str, d: int) -> Guarded:
    """Return the solver called `name`, guarded; `auto` picks by the number of features.

    What a user's own returns is verified before it is used.
    """
    checks.one_of("solver", name, ["auto", *SOLVERS])
    if name == "auto":
        name = FixedMetric.name if d < WIDE else LBFGS.name
    return Guarded(SOLVERS[name](), verify=name in SOLVERS.own)


__all__ = [
    "LBFGS",
    "SOLVERS",
    "WIDE",
    "FixedMetric",
    "Guarded",
    "Newton",
    "Solution",
    "Solver",
    "Warm",
    "cold_start",
    "descend",
    "finish",
    "solver_named",
]
