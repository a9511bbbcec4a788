"""An algorithm of one's own: PP-ADMM that shrinks towards a public model θ₀ instead of 0.

(λ̂/N)·½‖θ − θ₀‖² in place of (λ̂/N)·½‖θ‖² adds −(λ̂/N)θ₀ᵀθ and a constant to F: μ is the same and the
new term public, so the proof of PP-ADMM (docs/privacy.md, sections 2 to 7) covers it.
"""

from dataclasses import dataclass, replace

from ppadmm import RunSpec, train
from ppadmm.algorithms import ALGORITHMS, Recipe
from ppadmm.algorithms.admm import ADMM, bind
from ppadmm.algorithms.defaults import gaussian_plan
from ppadmm.algorithms.pp import pp_mechanism

# From records that everybody may see; here, made-up ones.
PUBLIC = train(RunSpec(algorithm="non-private", records=(500,) * 5, rounds=50)).model


@dataclass(frozen=True)
class Towards(ADMM):
    def subproblem(self, state):
        sub = super().subproblem(state)
        ridge = self.ridge / self.site.weight
        return replace(sub, linear=sub.linear - ridge[:, None] * PUBLIC)


def build(site, settings):
    return bind(Towards, "towards-public", site, settings, pp_mechanism(site, settings))


ALGORITHMS.add(Recipe("towards-public", "PP-ADMM around a public model", build, gaussian_plan))

result = train(RunSpec(algorithm="towards-public", regularisation=0.1, epsilon=1.0))
print(result.statement.text())
