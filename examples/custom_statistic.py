"""A statistic of one's own for IPP-ADMM: the largest entry of the subproblem's gradient.

Replacing a record moves ∇F by at most s in the Euclidean norm, so no entry by more: Δ = s.
"""

import numpy as np

from ppadmm import RunSpec, train
from ppadmm.algorithms import STATISTICS
from ppadmm.algorithms.settings import Speaking
from ppadmm.algorithms.statistics import GradientNorm
from ppadmm.solvers import Warm


@STATISTICS.add
class LargestSlope:
    name = "largest-slope"

    def sensitivity(self, step, reach):
        return GradientNorm().sensitivity(step, reach)  # s, with room for the rounding of ∇F

    def unit(self, sigma1, mu, d):
        return sigma1 * np.sqrt(2.0 * np.log(d + 1.0))  # the largest of d noises, roughly

    def measure(self, sub, own, solver, start, beta):
        data = sub.risk.gradient(own)
        return np.abs(sub.gradient(own, data)).max(axis=1), Warm(own, data, start.memory)


spec = RunSpec(algorithm="ipp", speaking=Speaking(statistic="largest-slope"), epsilon=1.0)
result = train(spec)
print(f"spoke {result.statement.releases} of {result.trace.rounds} rounds")
print(result.statement.text())
