"""Noisy Newton: second moments of the features once, then preconditioned noisy gradients.

    once:      M = Σᵢ φᵢ (1/nᵢ) Σ xxᵀ + noise,   P = (max(c₁M, η) + λ̂/N)⁻¹
    T−1 times: θ⁺ = θ − P(Σᵢ φᵢ ∇fᵢ(θ) + noise + (λ̂/N)θ)

φᵢ is the share of site i. Eigenvalues of c₁M below η are η in P. c₁M is above the Hessian wherever
θ lies, so steps of length one are safe; η keeps them short where M is mostly noise. All sites add
up what all released, so all have the same θ. The model is the mean of θ, step t counted t² times.

A symmetric matrix is released as its upper triangle, entries off the diagonal times √2: its length
is then the Frobenius norm. One record moves (1/n)Σxxᵀ by at most √2/n when it is replaced. With
more than `WIDEST` features only the diagonal is released. It is not above M, whose features go
together: it is taken relative to its largest entry (`_relative`).

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
from ppadmm.algorithms.defaults import Hyperparameters, Sizes, remaining_noise
from ppadmm.algorithms.settings import Settings
from ppadmm.algorithms.sums import KEYS, SumAlgorithm, SumState, require_by_records
from ppadmm.arrays import Array
from ppadmm.errors import InfeasibleError, InputError
from ppadmm.mechanisms.limits import data_rounding, within
from ppadmm.noise import FINENESS, total_variation
from ppadmm.problem.losses import Loss
from ppadmm.problem.risk import Risk, summing
from ppadmm.summing.fixed_point import distance, fixed_point

WIDEST = 1000
"""Features up to which all second moments are released."""
RADIUS = 1e4
"""‖θ‖ stays within it."""
ROUNDS = 19
RATE, POWER = 80.0, 5.0 / 3.0
"""η/c₁ = RATE·x^POWER, x the noise √d·σ̄ against the loss (docs/defaults.md)."""
SHARE, SHARES = 0.006, (0.02, 0.2)
"""Second moments get SHARE/√(η/c₁) of the budget, no less and no more than these."""
MOMENTS, SLOPES = "moments", "slopes"


# Second moments as vectors


def is_full(features: int) -> bool:
    """Whether all second moments are released, or those of each feature with itself only."""
    return features <= WIDEST


def moment_length(features: int) -> int:
    """Return how many numbers the second moments are."""
    return features * (features + 1) // 2 if is_full(features) else features


def longest_part(parameters: int) -> int:
    """Return the most numbers that a part can have, with however many classes."""
    return max(parameters, moment_length(min(parameters, WIDEST)))


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
class Preconditioner:
    """P: an orthogonal basis (d, d), or None for the axes, and its eigenvalues there (d,)."""

    basis: Array | None
    inverse: Array

    @classmethod
    def of(
        cls, released: Array, features: int, smoothness: float, damping: float, ridge: float
    ) -> "Preconditioner":
        """Return the metric that follows from noisy second moments."""
        if is_full(features):
            values, basis = np.linalg.eigh(unfolded(released, features))
        else:
            values, basis = _relative(released), None
        return cls(basis, 1.0 / (np.maximum(smoothness * values, damping) + ridge))

    def apply(self, gradient: Array) -> Array:
        """Return P·g for each class; (K·d,) → (K·d,)."""
        rows = gradient.reshape(-1, len(self.inverse))
        if self.basis is None:
            return (rows * self.inverse).reshape(-1)
        return np.asarray(((rows @ self.basis) * self.inverse @ self.basis.T).reshape(-1))


def _relative(squares: Array) -> Array:
    """Return half of each feature's mean square over the largest of them.

    With k features in a record, M may be k times its diagonal. In one-hot records the constant has
    the largest mean square, 1/k. A Hessian is about half of c₁M.
    """
    largest = float(squares.max())
    return np.asarray(0.5 * squares / largest) if largest > 0.0 else np.zeros_like(squares)


# What each kind of release costs


@dataclass(frozen=True)
class Costs:
    """One budget over a run: Δ/σ and charge of the second moments and of each slope."""

    moments: tuple[float, Charge]
    slopes: tuple[float, Charge]


@lru_cache(maxsize=4096)
def costs(
    budget: Budget, share: float, slopes: int, repeats: int, distances: tuple[float, float]
) -> Costs:
    """Return the least noise for which all releases, and `repeats` of each kind, fit the budget.

    Second moments get `share` of it. `distances` are those of the samplers, of second moments and
    of a slope.
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
    """θ (R, d), the sum of t²θ over the steps t, and P for each replicate."""

    theta: Array
    summed: Array
    metrics: tuple[Preconditioner, ...] = ()


@dataclass(frozen=True)
class NoisyNewton(SumAlgorithm):
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
        t = self.stages[:round_].count(SLOPES)
        return replace(held, theta=theta, summed=held.summed + t * t * theta)

    def shown(self, held: Iterate) -> Array:
        """Return θ."""
        return held.theta

    def model(self, state: SumState) -> Array:
        """Return the mean of θ over the steps so far, step t counted t² times: (R, d)."""
        steps, held = self.stages[: state.round].count(SLOPES), state.held
        counted = sum(t * t for t in range(1, steps + 1))
        return np.asarray(held.summed / counted) if counted else held.theta

    def _metrics(self, total: Array) -> tuple[Preconditioner, ...]:
        smoothness = self.site.risk.loss.smoothness
        rows = zip(total, self.damping, self.ridge, strict=True)
        return tuple(
            Preconditioner.of(row, self.features, smoothness, float(eta), float(own))
            for row, eta, own in rows
        )


def build_newton(site: Site, settings: Settings) -> NoisyNewton:
    """Return noisy Newton at one site; η is the damping of its steps."""
    if settings.rounds < 2:
        raise InputError(f"Noisy Newton needs 2 rounds or more, got {settings.rounds}.")
    return _build_sum(site, settings) if settings.trust.by_sum else _build_local(site, settings)


def _build_local(site: Site, settings: Settings) -> NoisyNewton:
    far = [total_variation(size, 1.0, FINENESS) for size in _lengths(site.risk)]
    steps, repeats = settings.rounds - 1, settings.trust.repeats
    found = [
        costs(budget, share_of(eta, site.risk.loss), steps, repeats, (far[0], far[1]))
        for budget, eta in zip(settings.budgets, settings.eta, strict=True)
    ]
    return _newton(site, settings, max(site.risk.n, 1), found, (MOMENTS, *(SLOPES,) * steps))


def _build_sum(site: Site, settings: Settings) -> NoisyNewton:
    require_by_records(site)
    steps, n = settings.rounds - 1, max(site.records, 1)
    if site.share * n > site.risk.n * (1.0 + MARGIN):
        raise InputError(
            f"Site {site.agent} counts for {site.share:.3g} of a sum over {n:,} records, of which "
            f"it has {site.risk.n:,}; weigh sites by their records."
        )
    moved = Sensitivities.of(site.risk.loss, site.risk.d, n, settings.adjacency)
    pairs = zip(settings.budgets, settings.eta, strict=True)
    found = [_summed(budget, eta, moved, site, settings) for budget, eta in pairs]
    return _newton(site, settings, n, found, (KEYS, MOMENTS, *(SLOPES,) * steps))


def _newton(
    site: Site, settings: Settings, n: int, found: Sequence[Costs], stages: tuple[str, ...]
) -> NoisyNewton:
    return NoisyNewton(
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


def _summed(
    budget: Budget, eta: float, moved: Sensitivities, site: Site, settings: Settings
) -> Costs:
    """Return what sums cost.

    The samplers' distance depends on the noise and the noise, a little, on it. The distance of half
    the noise is assumed, and the noise that comes out is above that.
    """
    trust, risk, steps = settings.trust, site.risk, settings.rounds - 1
    honest, lengths, share = trust.honest(site.agents), _lengths(risk), share_of(eta, risk.loss)
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

    assumed = far(costs(budget, share, steps, trust.repeats, (0.0, 0.0)), 0.5)
    cost = costs(budget, share, steps, trust.repeats, assumed)
    if any(found > most for found, most in zip(far(cost, 1.0), assumed, strict=True)):
        raise InfeasibleError("The noise of a sum is too coarse for so small a δ; choose a larger.")
    return cost


def _lengths(risk: Risk) -> tuple[int, int]:
    return moment_length(risk.d // risk.loss.outputs), risk.d


# What is chosen where nothing is given


def share_of(eta: float, loss: Loss) -> float:
    """Return the part of the budget for second moments; η is public, so all sites find the same.

    The more noise there is, the larger is η, and the less is M worth.
    """
    return float(np.clip(SHARE / math.sqrt(eta / loss.smoothness), *SHARES))


def _plan(
    sizes: Sizes, budgets: Sequence[Budget], loss: Loss, rounds: int | None, eta: float | None
) -> Hyperparameters:
    return Hyperparameters(rounds or ROUNDS, eta or default_damping(sizes, budgets, loss))


def default_damping(sizes: Sizes, budgets: Sequence[Budget], loss: Loss) -> float:
    """Return η = c₁·RATE·x^POWER with x = √d·σ̄/(4c₁): noise and curvature scale with the loss."""
    noise = mean_noise(sizes, budgets, loss.lipschitz)
    x = math.sqrt(sizes.features) * noise / (4.0 * loss.smoothness)
    return float(loss.smoothness * RATE * x**POWER)


def mean_noise(sizes: Sizes, budgets: Sequence[Budget], lipschitz: float) -> float:
    """Return σ̄, the noise in the mean of all sites' slopes if one had the whole budget.

    That of a sum is the noise of one site with all records, and what colluding adds to it.
    """
    if not sizes.trust.by_sum:
        return remaining_noise(sizes, budgets, lipschitz)
    strict = min(gdp_ratio(b.epsilon, b.delta) for b in budgets)
    alone = 2.0 * lipschitz / (sum(sizes.records) * strict)
    return alone * math.sqrt(sizes.agents / sizes.trust.honest(sizes.agents))


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
