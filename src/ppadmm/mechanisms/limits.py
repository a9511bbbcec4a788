"""How large the numbers of a private run may get, decided once, before the first charge.

Every solve of a run must end (docs/privacy.md, section 5), whatever a neighbour sends and whatever
the records are. So values of agents lie in a ball of a public radius R: what an agent releases is
brought into it, a message from outside it is refused, and the linear term c of a subproblem is
brought to ‖c‖ ≤ μR. With ‖b‖ ≤ q, a quantile of the noise, the minimiser then has
‖θ̃‖ ≤ R + (G+q)/μ, and double precision is good enough for β there or it is not. All of that is
public: the terms of the run, the number of records, the size of the noise.

R itself follows from the terms that all agents share: at that distance rounding takes RADIUS_SHARE
of β. Honest values stay far below; `least_beta` sees to the room that they need.
"""

import math
from dataclasses import dataclass

import numpy as np

from ppadmm.accounting.sensitivity import MARGIN, TAIL, UNIT_ROUNDOFF
from ppadmm.arrays import Array, norms
from ppadmm.errors import SolverError
from ppadmm.problem.losses import Loss
from ppadmm.problem.risk import Subproblem, accumulated, summing
from ppadmm.solvers.accelerated import GROWTH, ROUNDING_SHARE

RADIUS_SHARE = 0.3
"""The share of β that rounding may take because of values of norm R."""
STRAY = math.sqrt(-2.0 * math.log(TAIL))
"""‖b‖ ≤ σ(√d + STRAY) but for a probability of TAIL: ‖Z‖ is a 1-Lipschitz function of Z."""


@dataclass(frozen=True)
class Reach:
    """One agent's public numbers: n records, μ (R,), β and the radius R (R,) of the run.

    β is that of the whole objective divided by the agent's `weight`. Where rows are agents, each
    has its own: (R,).
    """

    loss: Loss
    parameters: int
    n: int
    mu: Array
    beta: float | Array
    radius: Array
    weight: float | Array = 1.0

    def admissible(self, sub: Subproblem) -> Subproblem:
        """Return the subproblem with ‖c‖ ≤ μR: a public function of what was released."""
        linear = within(sub.linear, sub.mu * self.radius)
        return sub if linear is sub.linear else Subproblem(sub.risk, sub.mu, linear)

    def require(self, sigma1: Array) -> None:
        """Refuse a β that a solve with noise of size `sigma1` (R,) may not reach."""
        q = noise_quantile(sigma1, self.parameters)
        room = self.beta * q / (self.mu * self.radius)
        least = least_beta(self.loss, self.parameters, self.n, self.mu, q)
        needed = np.maximum(least, room)
        if not (self.beta >= needed).all():
            given = float(np.max(self.weight * self.beta))
            raise SolverError(
                f"β = {given:g} is too small for double precision with {self.n:,} records, "
                f"{self.parameters:,} parameters and μ = {self.mu.min():.3g}: a solve might not "
                f"reach it; choose β ≥ {_rounded_up(float((self.weight * needed).max()))} or a "
                "larger η."
            )


def public_radius(loss: Loss, parameters: int, beta: float, steepest: Array) -> Array:
    """Return R (R,), where μ ≤ `steepest` (R,) at every agent; all agents find the same."""
    return np.asarray(
        RADIUS_SHARE * beta / (GROWTH * rounding_per_unit(loss, parameters, steepest))
    )


def least_beta(loss: Loss, parameters: int, n: int, mu: Array, q: Array) -> Array:
    """Return the β (R,) from which on every solve with ‖c‖ ≤ μR and ‖b‖ ≤ q ends; all (R,).

    Values of norm R have their own share of β; b must fit into doubles besides.
    """
    G, u = loss.lipschitz, UNIT_ROUNDOFF
    fixed = G * summing(n, loss.span) + 8.0 * u * (1.0 + q)
    grown = rounding_per_unit(loss, parameters, mu) * (G + q) / mu
    solved = GROWTH * (fixed + grown) / (ROUNDING_SHARE - RADIUS_SHARE)
    return np.asarray(np.maximum(solved, 2.0 * u * q / MARGIN))


def noise_quantile(sigma1: Array, parameters: int) -> Array:
    """Return q (R,) with ‖b‖ ≤ q but for a probability of TAIL."""
    return sigma1 * (math.sqrt(parameters) + STRAY)


def rounding_per_unit(loss: Loss, parameters: int, mu: Array) -> Array:
    """Bound what rounding adds to ∇F in a step of `finish`, per unit of ‖θ̃‖; (R,).

    See `ppadmm.solvers.accelerated.rounding_within`: points go up to 3‖θ̃‖, and c/μ up to ‖θ̃‖.
    """
    own = data_rounding(loss, parameters) + 8.0 * UNIT_ROUNDOFF * mu
    added = 48.0 * UNIT_ROUNDOFF * (loss.smoothness + mu)
    return np.asarray(3.0 * own + added + 8.0 * UNIT_ROUNDOFF * mu)


def data_rounding(loss: Loss, parameters: int) -> float:
    """Bound the rounding of ∇f that grows with ‖θ‖, however the records are stored."""
    features = parameters // loss.outputs
    return 1.001 * loss.smoothness * accumulated(features + 2)


def within(vectors: Array, radius: Array) -> Array:
    """Bring each row (R, d) to a norm of at most its radius (R,); as they are if all are."""
    sizes = norms(vectors)
    if (sizes <= radius).all():
        return vectors
    scale = radius / np.maximum(sizes, radius)
    return np.asarray(vectors * scale[:, None])


def _rounded_up(value: float) -> str:
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit) * unit:.2g}"
