"""Noisy Newton: second moments of the features once, then preconditioned noisy gradients.

    once:      M = Σᵢ φᵢ (1/nᵢ) Σ xxᵀ + noise,   P = (c₁·M₊ + η)⁻¹
    T−1 times: θ⁺ = θ − P(Σᵢ φᵢ ∇fᵢ(θ) + noise + (λ̂/N)θ)

φᵢ is the share of site i, M₊ the part of M without negative eigenvalues. c₁M₊ is above the Hessian
wherever θ lies, so steps of length one are safe; η keeps them short where M is mostly noise. All
sites add up what all released, so all have the same θ. The model is the mean of θ over the last
half of its steps.

A symmetric matrix is released as its upper triangle, entries off the diagonal times √2: its length
is then the Frobenius norm. One record moves (1/n)Σxxᵀ by at most √2/n when it is replaced. With
more than `WIDEST` features only the diagonal is released.

All noise is Gaussian: the releases compose exactly. With `trust = sum` parts are integers, every
site adds its share of the noise and a mask, and only the sum is known (`ppadmm.summing`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ppadmm.accounting import accountant
from ppadmm.accounting.calibration import Budget, largest_private
from ppadmm.accounting.events import Approximate, Charge, Gaussian, Tally
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.accounting.sensitivity import MARGIN
from ppadmm.algorithms.base import Recipe, Site
from ppadmm.algorithms.defaults import Hyperparameters, Sizes
from ppadmm.algorithms.settings import Settings
from ppadmm.algorithms.sums import KEYS, SumAlgorithm, SumState
from ppadmm.arrays import Array
from ppadmm.errors import InfeasibleError, InputError
from ppadmm.mechanisms.limits import data_rounding, within
from ppadmm.noise import FINENESS, total_variation
from ppadmm.problem.losses import Loss
from ppadmm.problem.risk import Risk, summing
from ppadmm.summing.fixed_point import distance, fixed_point

WIDEST = 1000
"""Features up to which all second moments are released."""
SHARE = 0.15
"""The part of the budget that second moments get."""
RADIUS = 1e4
"""‖θ‖ stays within it."""
ROUNDS = 13
DAMPING = 0.5
MOMENTS, SLOPES = "moments", "slopes"


# Second moments as vectors


def is_full(features: int) -> bool:
    """Whether all second moments are released, or those of each feature with itself only."""
    return features <= WIDEST


def moment_length(features: int) -> int:
    """Return how many numbers the second moments are."""
    return features * (features + 1) // 2 if is_full(features) else features


def folded(matrix: Array) -> Array:
    """Return a symmetric matrix (d, d) as a vector of the same length in the Euclidean norm."""
    rows, columns = np.triu_indices(len(matrix))
    weights = np.where(rows == columns, 1.0, math.sqrt(2.0))
    return np.asarray(matrix[rows, columns] * weights)


def unfolded(vector: Array, features: int) -> Array:
    """Return the matrix that `folded` was given."""
    rows, columns = np.triu_indices(features)
    weights = np.where(rows == columns, 1.0, math.sqrt(0.5))
    matrix = np.zeros((features, features))
    matrix[rows, columns] = matrix[columns, rows] = vector * weights
    return matrix


def moments(risk: Risk) -> Array:
    """Return a site's second moments as a vector."""
    if is_full(risk.d // risk.loss.outputs):
        return folded(risk.second_moments)
    return risk.squares


@dataclass(frozen=True)
class Metric:
    """P: an orthogonal basis (d, d), or None for the axes, and 1/(c₁·eigenvalue + η) in it (d,)."""

    basis: Array | None
    inverse: Array

    @classmethod
    def of(cls, released: Array, features: int, smoothness: float, damping: float) -> "Metric":
        """Return the metric that follows from noisy second moments."""
        if not is_full(features):
            return cls(None, 1.0 / (smoothness * np.maximum(released, 0.0) + damping))
        values, basis = np.linalg.eigh(unfolded(released, features))
        return cls(basis, 1.0 / (smoothness * np.maximum(values, 0.0) + damping))

    def apply(self, gradient: Array) -> Array:
        """Return P·g for each class; (K·d,) → (K·d,)."""
        rows = gradient.reshape(-1, len(self.inverse))
        if self.basis is None:
            return (rows * self.inverse).reshape(-1)
        return np.asarray(((rows @ self.basis) * self.inverse @ self.basis.T).reshape(-1))


# What each kind of release costs


@dataclass(frozen=True)
class Costs:
    """One budget over a run: Δ/σ and charge of the second moments and of each slope."""

    moments: tuple[float, Charge]
    slopes: tuple[float, Charge]


@lru_cache(maxsize=4096)
def costs(
    budget: Budget, slopes: int, repeats: int, distances: tuple[float, float], share: float = SHARE
) -> Costs:
    """Return the least noise for which all releases, and `repeats` of each kind, fit the budget.

    `distances` are those of the samplers, of second moments and of a slope.
    """

    def priced(ratio: float) -> Costs:
        first = ratio * math.sqrt(share / (1 + repeats))
        other = ratio * math.sqrt((1.0 - share) / (slopes + repeats))
        pairs = zip((first, other), distances, strict=True)
        return Costs(*((r, Charge((Gaussian(r), Approximate(far)))) for r, far in pairs))

    def spent(ratio: float) -> float:
        found = priced(ratio)
        tally = Tally.of([found.moments[1]], 1 + repeats)
        tally = tally.plus(found.slopes[1], slopes + repeats)
        return accountant.epsilon(tally, budget.delta).epsilon

    return priced(largest_private(spent, budget.epsilon, gdp_ratio(budget.epsilon, budget.delta)))


@dataclass(frozen=True)
class Sensitivities:
    """How far one record moves a site's second moments and its slope, rounding included."""

    moments: float
    slopes: float

    @classmethod
    def of(cls, loss: Loss, parameters: int, n: int, adjacency: str) -> "Sensitivities":
        """Return them for a mean over n records."""
        both = adjacency == "replace-one"
        error = summing(n, loss.span)
        slope = loss.lipschitz * error + data_rounding(loss, parameters) * RADIUS
        moved = (math.sqrt(2.0) if both else 1.0) / n
        steep = (2.0 if both else 1.0) * loss.lipschitz / n
        room = 1.0 + MARGIN
        return cls((moved + 2.0 * error) * room, (steep + 2.0 * slope) * room)


# The algorithm


@dataclass(frozen=True)
class Iterate:
    """θ (R, d), the sum of θ over the last half of the steps, and P for each replicate."""

    theta: Array
    summed: Array
    metrics: tuple[Metric, ...] = ()


@dataclass(frozen=True)
class Newton(SumAlgorithm):
    """One site of noisy Newton: second moments, then slopes."""

    damping: Array
    ridge: Array
    costs: tuple[Costs, ...]
    sensitivities: Sensitivities

    @property
    def steps(self) -> int:
        """How often θ moves."""
        return self.stages.count(SLOPES)

    @property
    def features(self) -> int:
        """d, per class."""
        return self.site.risk.d // self.site.risk.loss.outputs

    @property
    def scales(self) -> dict[str, Array]:
        """σ of the slopes and of the second moments of this site, or of its shares of a sum."""
        return {"sigma1": self.sigma(SLOPES), "sigma_moments": self.sigma(MOMENTS)}

    def size(self, stage: str) -> int:
        """Return d, or the length of the second moments."""
        return moment_length(self.features) if stage == MOMENTS else self.site.risk.d

    def bound(self, stage: str) -> float:
        """Return 1 for second moments, as ‖x‖ ≤ 1, and G for a slope."""
        return 1.0 if stage == MOMENTS else self.site.risk.loss.lipschitz

    def sensitivity(self, stage: str) -> float:
        """Return how far one record moves a mean."""
        return self.sensitivities.moments if stage == MOMENTS else self.sensitivities.slopes

    def price(self, stage: str, replicate: int) -> tuple[float, Charge]:
        """Return Δ/σ of a release and what is booked for it."""
        cost = self.costs[replicate]
        return cost.moments if stage == MOMENTS else cost.slopes

    def values(self, held: Iterate, stage: str) -> Array:
        """Return the second moments of this site's records, or its slope at θ."""
        if stage == SLOPES:
            return self.site.risk.gradient(held.theta)
        return self._repeated(moments(self.site.risk))

    def first(self) -> Iterate:
        """Start from θ = 0."""
        zero = np.zeros((self.replicates, self.site.risk.d))
        return Iterate(zero, zero)

    def gained(self, held: Iterate, stage: str, total: Array, round_: int) -> Iterate:
        """Return the metric, or θ after a step."""
        if stage == MOMENTS:
            return replace(held, metrics=self._metrics(total))
        slope = within(total, self.radius) + self.ridge[:, None] * held.theta
        step = np.stack([m.apply(row) for m, row in zip(held.metrics, slope, strict=True)])
        theta = within(held.theta - step, np.full(self.replicates, RADIUS))
        late = self.stages[:round_].count(SLOPES) > self.steps // 2
        return replace(held, theta=theta, summed=held.summed + theta if late else held.summed)

    def shown(self, held: Iterate) -> Array:
        """Return θ."""
        return held.theta

    def model(self, state: SumState) -> Array:
        """Return the mean of θ over the last half of the steps: (R, d)."""
        counted = self.stages[: state.round].count(SLOPES) - self.steps // 2
        held = state.held
        return np.asarray(held.summed / counted) if counted > 0 else held.theta

    def _metrics(self, total: Array) -> tuple[Metric, ...]:
        smoothness = self.site.risk.loss.smoothness
        pairs = zip(total, self.damping + self.ridge, strict=True)
        return tuple(Metric.of(row, self.features, smoothness, float(eta)) for row, eta in pairs)


def build_newton(site: Site, settings: Settings) -> Newton:
    """Return noisy Newton at one site; η is the damping of its steps."""
    if settings.rounds < 2:
        raise InputError(f"Noisy Newton needs 2 rounds or more, got {settings.rounds}.")
    return _build_sum(site, settings) if settings.trust.by_sum else _build_local(site, settings)


def _build_local(site: Site, settings: Settings) -> Newton:
    far = [total_variation(size, 1.0, FINENESS) for size in _lengths(site.risk)]
    steps, repeats = settings.rounds - 1, settings.trust.repeats
    found = [costs(budget, steps, repeats, (far[0], far[1])) for budget in settings.budgets]
    return _newton(site, settings, max(site.risk.n, 1), found, (MOMENTS, *(SLOPES,) * steps))


def _build_sum(site: Site, settings: Settings) -> Newton:
    steps, n = settings.rounds - 1, max(site.records, 1)
    moved = Sensitivities.of(site.risk.loss, site.risk.d, n, settings.adjacency)
    found = [_summed(budget, moved, site, settings) for budget in settings.budgets]
    return _newton(site, settings, n, found, (KEYS, MOMENTS, *(SLOPES,) * steps))


def _newton(
    site: Site, settings: Settings, n: int, found: Sequence[Costs], stages: tuple[str, ...]
) -> Newton:
    return Newton(
        site=site,
        name="newton",
        stages=stages,
        replicates=settings.replicates,
        trust=settings.trust,
        run=settings.run,
        damping=settings.etas,
        ridge=settings.ridge(site.agents),
        costs=tuple(found),
        sensitivities=Sensitivities.of(site.risk.loss, site.risk.d, n, settings.adjacency),
    )


def _summed(budget: Budget, moved: Sensitivities, site: Site, settings: Settings) -> Costs:
    """Return what sums cost.

    The samplers' distance depends on the noise and the noise, a little, on it. The distance of half
    the noise is assumed, and the noise that comes out is above that.
    """
    trust, risk, steps = settings.trust, site.risk, settings.rounds - 1
    honest, lengths = trust.honest(site.agents), _lengths(risk)
    bounds = 1.0 + MARGIN, risk.loss.lipschitz * (1.0 + MARGIN)

    def far(cost: Costs, part: float) -> tuple[float, float]:
        first, second = (
            fixed_point(delta, ratio, bound, size, honest)
            for delta, ratio, bound, size in zip(
                (moved.moments, moved.slopes), (cost.moments[0], cost.slopes[0]), bounds, lengths,
                strict=True,
            )
        )  # fmt: skip
        return (
            distance(lengths[0], part * first.scale, site.agents),
            distance(lengths[1], part * second.scale, site.agents),
        )

    assumed = far(costs(budget, steps, trust.repeats, (0.0, 0.0)), 0.5)
    cost = costs(budget, steps, trust.repeats, assumed)
    if any(found > most for found, most in zip(far(cost, 1.0), assumed, strict=True)):
        raise InfeasibleError("The noise of a sum is too coarse for so small a δ; choose a larger.")
    return cost


def _lengths(risk: Risk) -> tuple[int, int]:
    return moment_length(risk.d // risk.loss.outputs), risk.d


def _plan(
    sizes: Sizes, budgets: Sequence[Budget], loss: Loss, rounds: int | None, eta: float | None
) -> Hyperparameters:
    """Return T and the damping η = DAMPING·c₁·2σ_M√d, σ_M the noise of the mean second moments."""
    rounds = rounds or ROUNDS
    return Hyperparameters(rounds, eta or default_damping(sizes, budgets, loss))


def default_damping(sizes: Sizes, budgets: Sequence[Budget], loss: Loss) -> float:
    """Return η."""
    pairs = zip(sizes.records, sizes.weights, budgets, strict=True)
    total, share = sum(sizes.weights), SHARE
    variances = [
        (w / total * math.sqrt(2.0) / n / gdp_ratio(b.epsilon, b.delta)) ** 2 / share
        for n, w, b in pairs
    ]
    if sizes.trust.by_sum:
        honest = sizes.trust.honest(sizes.agents)
        strict = min(gdp_ratio(b.epsilon, b.delta) for b in budgets)
        one = (math.sqrt(2.0) / sum(sizes.records) / strict) ** 2 / share
        variances = [one * sizes.agents / honest]
    noise = math.sqrt(sum(variances))
    return DAMPING * loss.smoothness * 2.0 * noise * math.sqrt(sizes.features)


RECIPE = Recipe(
    name="newton",
    title="Noisy Newton",
    summary="noisy second moments once, then noisy preconditioned gradients; few rounds",
    build=build_newton,
    defaults=_plan,
    always_charged=True,
    alone="newton",
    everyone=True,
    sums=True,
    solves=False,
)
