"""An algorithm of one's own: PP-ADMM whose dual variables count half.

A step still minimises f + (μ/2)‖θ‖² + cᵀθ + bᵀθ with the same μ, and c is made of what was
released: the proof of PP-ADMM (docs/privacy.md, sections 2 to 7) covers it, with its noise.
"""

from dataclasses import dataclass, replace

from ppadmm import RunSpec, train
from ppadmm.algorithms import ALGORITHMS, Recipe
from ppadmm.algorithms.admm import ADMM, bind
from ppadmm.algorithms.defaults import gaussian_plan
from ppadmm.algorithms.pp import pp_mechanism


@dataclass(frozen=True)
class HalfDual(ADMM):
    def subproblem(self, state):
        whole = super().subproblem(state)
        dual = sum(state.own.total - other.total for other in state.theirs)
        return replace(whole, linear=whole.linear - 0.5 * self.eta[:, None] * dual)


def build(site, settings):
    return bind(HalfDual, "half-dual", site, settings, pp_mechanism(site, settings))


ALGORITHMS.add(Recipe("half-dual", "PP-ADMM, duals halved", build, gaussian_plan))

result = train(RunSpec(algorithm="half-dual", epsilon=1.0))
print(result.statement.text())
