"""η and T when the user gives none: from public sizes and the budget, never from records.

Over T rounds the agents' mean moves as in gradient descent that stops at time T/(2ηD), D the mean
degree, whatever the network, the sizes and the skew are. So 2ηD/T acts as a regulariser, and the
best amount of it grows with the noise that remains after averaging over agents,

    x = √d·σ̄,   σ̄ = s/(m√N),   m = the Δ/σ of a Gaussian mechanism with the whole budget,

as η/T = RATE·x^POWER/D. Rounds must then be enough for two things. Agents whose records differ must
agree: differences between them die away as ηℓ₂T grows, ℓ₂ the network's algebraic connectivity, and
it is at least AGREEMENT. And the curvature term of the accountant, about Tφκ² with κ = c₁/(2η|B|n),
falls as 1/T at a fixed η/T: it takes at most a share of CURVATURE[0] of the budget m²/2. T is the
least that does, between the limits. If the most rounds are too few, η is raised until curvature
takes CURVATURE[1]. These are shares of all noise; no agent's own share is above WORST. The
constants were fitted by `benchmarks/defaults.py` on synthetic data only; docs/defaults.md shows the
simulation.

m is that of as much of the budget as the sampler lets one spend.

β is 10⁻⁸, or as much more as double precision asks for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppadmm.accounting.calibration import Budget, StepConstants, largest_kappa, spendable
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.accounting.sensitivity import sampler_distance
from ppadmm.mechanisms.limits import least_beta, noise_quantile, public_radius
from ppadmm.problem.losses import Loss
from ppadmm.summing.trust import LOCAL_TRUST, Trust

RATE, POWER = 0.155, 4.0 / 3.0
CURVATURE, WORST = (0.1, 0.2), 0.4
AGREEMENT = 0.22
ROUNDS, ROUNDS_BY_SITES = (80, 400), 40.0
"""The least and the most rounds; with more than a hundred sites the most are 40√N."""
BETA = 1e-8
LOUDER = 8.0
"""How much larger than s√T/m the noise of a calibrated run may be, where β is chosen."""


@dataclass(frozen=True)
class Sizes:
    """What is public about a run before it starts, of the agents who have records.

    In the common objective a site's curvature, sensitivity and noise are those of n/w records that
    count once: its `effective` number. With weights by records all have the same. `connectivity` is
    ℓ₂ of the network, infinite where nobody has to agree.
    """

    records: tuple[int, ...]
    features: int
    degrees: tuple[int, ...]
    weights: tuple[float, ...]
    connectivity: float = math.inf
    trust: Trust = LOCAL_TRUST

    @property
    def agents(self) -> int:
        """N, of those who have records."""
        return len(self.records)

    @property
    def effective(self) -> tuple[float, ...]:
        """nᵢ/wᵢ."""
        return tuple(n / w for n, w in zip(self.records, self.weights, strict=True))


@dataclass(frozen=True)
class Hyperparameters:
    """T, η and λ̂ of a run; β follows from them (`default_beta`)."""

    rounds: int
    eta: float
    regularisation: float = 0.0


def remaining_noise(sizes: Sizes, budgets: Sequence[Budget], lipschitz: float) -> float:
    """σ̄: the standard deviation left in the mean gradient after averaging over agents."""
    pairs = zip(sizes.effective, budgets, strict=True)
    variances = [(2.0 * lipschitz / n / gdp_ratio(b.epsilon, b.delta)) ** 2 for n, b in pairs]
    return math.sqrt(sum(variances)) / sizes.agents


def loudest(sizes: Sizes, budgets: Sequence[Budget]) -> tuple[tuple[int, ...], float]:
    """Return the agents without which least noise remains, and how many times less that is.

    Leaving out agents of noise σᵢ moves σ̄ = √(Σσᵢ²)/Σwᵢ both ways: both sums become smaller.
    """
    pairs, weights = zip(sizes.effective, budgets, strict=True), np.array(sizes.weights)
    noise = np.array([1.0 / n / gdp_ratio(b.epsilon, b.delta) for n, b in pairs])
    order = np.argsort(-(noise**2) / weights, kind="stable")
    left = order[::-1]
    remaining = (np.sqrt(np.cumsum(noise[left] ** 2)) / np.cumsum(weights[left]))[::-1]
    k = int(np.argmin(remaining))
    return tuple(order[:k].tolist()), float(remaining[0] / remaining[k])


def gaussian_plan(
    sizes: Sizes, budgets: Sequence[Budget], loss: Loss, rounds: int | None, eta: float | None
) -> Hyperparameters:
    """Return the rule's T and η for Gaussian objective perturbation in every round."""
    rounds = rounds or default_rounds(sizes, budgets, loss)
    return Hyperparameters(rounds, eta or default_eta(sizes, budgets, loss, rounds))


def default_beta(
    plan: Hyperparameters, sizes: Sizes, budgets: Sequence[Budget], loss: Loss
) -> float:
    """Return β: BETA, or as much more as every agent's solves and the room for values ask for.

    `sizes.degrees` are those that count in wμ = λ̂/N + 2η|B|. Values need room for one step along
    the steepest gradient and for T noises, (G + √T·q)/μ. A solve reaches β/w.
    """
    parameters, n = loss.outputs * sizes.features, np.array(sizes.records)
    degrees, weights = np.array(sizes.degrees), np.array(sizes.weights)
    steepness = plan.regularisation / sizes.agents + 2.0 * plan.eta * degrees
    mu, heaviest = steepness / weights, float(weights.max())
    ratios = np.array([gdp_ratio(b.epsilon, b.delta) for b in budgets])
    sigma = LOUDER * 2.0 * loss.lipschitz * math.sqrt(plan.rounds) / (n * ratios)
    q = noise_quantile(sigma, parameters)
    room = float(((loss.lipschitz + math.sqrt(plan.rounds) * q) / mu).max())
    most = float(steepness.max()) + 2.0 * plan.eta * max(sizes.agents - 1, 1) * bool(degrees.any())
    each = weights * least_beta(loss, parameters, int(n.max()), mu, q)
    per_beta = float(public_radius(loss, parameters, 1.0 / heaviest, np.array(most / heaviest)))
    return max(BETA, _round_up(max(float(each.max()), room / per_beta)))


def usable(sizes: Sizes, budgets: Sequence[Budget], loss: Loss, rounds: int) -> list[Budget]:
    """Return what of every budget T rounds can spend, tests before their releases included."""
    distance = 2.0 * rounds * sampler_distance(loss.outputs * sizes.features)
    return [spendable(budget, distance) for budget in budgets]


def default_rounds(sizes: Sizes, budgets: Sequence[Budget], loss: Loss) -> int:
    """Return T."""
    most = max(ROUNDS[1], int(ROUNDS_BY_SITES * math.sqrt(sizes.agents)))
    budgets = usable(sizes, budgets, loss, most)
    rate = penalty_rate(sizes, remaining_noise(sizes, budgets, loss.lipschitz))
    flat = (_floor(sizes, budgets, loss, CURVATURE[0]) / rate) ** 2
    agreed = math.sqrt(AGREEMENT / (sizes.connectivity * rate))
    return int(np.clip(math.ceil(max(flat, agreed)), ROUNDS[0], most))


def default_eta(sizes: Sizes, budgets: Sequence[Budget], loss: Loss, rounds: int) -> float:
    """Return η for T = `rounds`, to two significant digits (rounded up)."""
    budgets = usable(sizes, budgets, loss, rounds)
    wanted = rounds * penalty_rate(sizes, remaining_noise(sizes, budgets, loss.lipschitz))
    least = _floor(sizes, budgets, loss, CURVATURE[1]) * math.sqrt(rounds)
    return _round_up(max(wanted, least))


def penalty_rate(sizes: Sizes, noise: float) -> float:
    """Return η/T for noise of standard deviation σ̄ in every coordinate of the mean gradient."""
    degree = sum(sizes.degrees) / sizes.agents
    return float(RATE * (math.sqrt(sizes.features) * noise) ** POWER / degree)


def stopping_time(sizes: Sizes, budgets: Sequence[Budget], loss: Loss) -> float:
    """Return T/(2ηD) of the rule: how long gradient descent with as much noise goes on."""
    budgets = usable(sizes, budgets, loss, ROUNDS[1])
    rate = penalty_rate(sizes, remaining_noise(sizes, budgets, loss.lipschitz))
    return sizes.agents / (2.0 * sum(sizes.degrees) * rate)


def _floor(sizes: Sizes, budgets: Sequence[Budget], loss: Loss, share: float) -> float:
    """Return η/√T at which curvature takes `share` of the budget, and WORST at no agent's.

    Tφκ²/(m²/2) = 2φ(c₁/(2|B|nm))²·T/η² at an agent; agents count by their noise, (1/(nm))².
    """
    ratios = np.array([gdp_ratio(b.epsilon, b.delta) for b in budgets])
    noise = 1.0 / (np.array(sizes.effective) * ratios)
    each = loss.square * 2.0 * (loss.smoothness * noise / (2.0 * np.array(sizes.degrees))) ** 2
    average = float(np.average(each, weights=noise**2))
    return math.sqrt(max(average / share, float(each.max()) / WORST))


def smallest_mu(budget: Budget, n: float, loss: Loss, features: int, releases: int) -> float:
    """Return the smallest μ at which some noise reaches the budget when a record is replaced.

    Infinite if none does: the sampler is then too coarse for so small a δ.
    """
    shape = StepConstants(
        sensitivity=0.0,
        kappa=0.0,
        records=2,
        spread=0.0,
        distance=sampler_distance(loss.outputs * features),
        span=loss.span,
        trace=loss.trace,
        square=loss.square,
    )
    kappa = largest_kappa(budget, shape, releases)
    return loss.smoothness / (n * kappa) if kappa else math.inf


def _round_up(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.2g}")
