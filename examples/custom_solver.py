"""A solver of one's own: gradient descent with Nesterov's momentum for strongly convex F.

∇²F lies between μ and L = c₁·λ_max(M) + μ, as ∇²f ⪯ c₁·M.
"""

import numpy as np

from ppadmm import RunSpec, train
from ppadmm.solvers import SOLVERS, Solution, Warm


@SOLVERS.add
class Nesterov:
    name = "nesterov"

    def solve(self, sub, start, tolerance):
        risk, mu, before = sub.risk, sub.mu[:, None], sub.risk.passes
        steepest = risk.loss.smoothness * np.linalg.eigvalsh(risk.gram)[-1] + mu
        momentum = (np.sqrt(steepest) - np.sqrt(mu)) / (np.sqrt(steepest) + np.sqrt(mu))
        theta, ahead = start.point, start.point
        for _ in range(5000):
            data = risk.gradient(ahead)
            gradient = sub.gradient(ahead, data)
            residual = np.linalg.norm(gradient, axis=1) + sub.rounding(ahead)
            if (residual <= tolerance).all():
                break
            theta, last = ahead - gradient / steepest, theta
            ahead = theta + momentum * (theta - last)
        return Solution(Warm(ahead, data), residual, passes=risk.passes - before)


result = train(RunSpec(solver="nesterov", epsilon=1.0))
print(f"{result.passes:.0f} passes over the records\n{result.statement.text()}")
