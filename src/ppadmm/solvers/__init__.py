"""Local solvers; each certifies the residual it reached."""

from ppadmm import checks
from ppadmm.solvers.base import Solution, Solver, Warm, cold_start
from ppadmm.solvers.newton import Newton
from ppadmm.solvers.quasi_newton import LBFGS, FixedMetric

SOLVERS: dict[str, type[FixedMetric] | type[Newton] | type[LBFGS]] = {
    FixedMetric.name: FixedMetric,
    Newton.name: Newton,
    LBFGS.name: LBFGS,
}
WIDE = 1500
"""From this many features on a dense d × d metric costs more than it saves."""


def solver_named(name: str, d: int) -> Solver:
    """Return the solver called `name`; `auto` picks by the number of features."""
    checks.one_of("solver", name, ["auto", *SOLVERS])
    if name == "auto":
        name = FixedMetric.name if d < WIDE else LBFGS.name
    return SOLVERS[name]()


__all__ = [
    "LBFGS",
    "SOLVERS",
    "WIDE",
    "FixedMetric",
    "Newton",
    "Solution",
    "Solver",
    "Warm",
    "cold_start",
    "solver_named",
]
