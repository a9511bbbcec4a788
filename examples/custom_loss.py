"""A loss of one's own: the hinge loss, rounded off by a logarithm.

ℓ(m) = τ·log(1 + exp((1−m)/τ)): ℓ' = −p with p = 1/(1 + exp((m−1)/τ)), so |ℓ'| ≤ 1 = G, and
ℓ'' = p(1−p)/τ ≤ 1/(4τ) = c₁.
"""

import numpy as np
from scipy.special import expit

from ppadmm import RunSpec, train
from ppadmm.problem import LOSSES, OneMargin


@LOSSES.add
class SoftHinge(OneMargin):
    name = "soft-hinge"
    tau = 0.5
    lipschitz = 1.0
    smoothness = 1.0 / (4.0 * tau)

    def value(self, margins):
        return self.tau * np.logaddexp(0.0, (1.0 - margins) / self.tau)

    def gradient(self, margins):
        return -expit((1.0 - margins) / self.tau)

    def curvature(self, margins):
        p = expit((1.0 - margins) / self.tau)
        return p * (1.0 - p) / self.tau


result = train(RunSpec(loss="soft-hinge", epsilon=1.0))
print(result.statement.text())
