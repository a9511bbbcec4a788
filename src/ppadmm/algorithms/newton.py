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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ppadmm.accounting import accountant
from ppadmm.accounting.calibration import Budget, largest_private
from ppadmm.accounting.events import Approximate, Charge, Gaussian, Tally
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.accounting.sensitivity import MARGIN
from ppadmm.algorithms.base import Bits, Recipe, Reserved, SharedState, Site
from ppadmm.algorithms.defaults import Hyperparameters, Sizes
from ppadmm.algorithms.settings import Settings
from ppadmm.arrays import Array
from ppadmm.errors import InfeasibleError, InputError, OutOfBoundsError, ProtocolError
from ppadmm.mechanisms import ChargedNoise, Release
from ppadmm.mechanisms.limits import data_rounding, within
from ppadmm.noise import FINENESS, Key, NoiseSource, total_variation
from ppadmm.problem.losses import Loss
from ppadmm.problem.risk import Risk, summing
from ppadmm.records import HoldsRecords
from ppadmm.summing.fixed_point import FixedPoint, as_words, distance, fixed_point
from ppadmm.summing.masks import KEY, Masks, new_key, public_key
from ppadmm.summing.trust import Trust

WIDEST = 1000
"""Features up to which all second moments are released."""
SHARE = 0.15
"""The part of the budget that second moments get."""
RADIUS = 1e4
"""‖θ‖ stays within it."""
LOUDEST = 1e6
"""The norm of a part that is refused."""
ROUNDS = 13
DAMPING = 0.5
KEYS, MOMENTS, SLOPES = "keys", "moments", "slopes"


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

    def of_stage(self, stage: str) -> float:
        """Return that of one kind of release."""
        return self.moments if stage == MOMENTS else self.slopes


# The algorithm


@dataclass(frozen=True)
class NewtonState:
    """A site between rounds: θ (R, d), the sum of θ over the last half, P for each replicate.

    `own` is what this site said last, `members` who takes part, and `exchange` counts all sums that
    were begun, repeats included. With sums `private` is the site's key and `masks` what it agreed
    on.
    """

    round: int
    exchange: int
    members: tuple[int, ...]
    theta: Array
    summed: Array
    own: SharedState
    metrics: tuple[Metric, ...] = ()
    private: bytes = b""
    masks: Masks | None = None


@dataclass(frozen=True)
class Newton(HoldsRecords):
    """One site of noisy Newton. A round is one exchange: keys if sums are masked, M, slopes."""

    site: Site
    name: str
    stages: tuple[str, ...]
    damping: Array
    ridge: Array
    costs: tuple[Costs, ...]
    sensitivities: Sensitivities
    trust: Trust
    run: bytes = b""

    @property
    def rounds(self) -> int:
        """How many exchanges there are."""
        return len(self.stages)

    @property
    def steps(self) -> int:
        """How often θ moves."""
        return self.stages.count(SLOPES)

    @property
    def features(self) -> int:
        """d, per class."""
        return self.site.risk.d // self.site.risk.loss.outputs

    @property
    def reserved(self) -> tuple[Reserved, ...]:
        """Second moments once, a slope in every step, and as many repeats of each as agreed."""
        again = self.trust.repeats
        times = (1 + again, self.steps + again) if self.site.risk.n else (0, 0)
        return tuple(((c.moments[1], times[0]), (c.slopes[1], times[1])) for c in self.costs)

    @property
    def scales(self) -> dict[str, Array]:
        """σ of the slopes and of the second moments of this site, or of its shares of a sum."""
        return {"sigma1": self._sigma(SLOPES), "sigma_moments": self._sigma(MOMENTS)}

    @property
    def radius(self) -> Array:
        """‖θ‖ stays within it."""
        return np.full(len(self.damping), RADIUS)

    def length(self, round_: int) -> int:
        """Return how many numbers a site says in a round."""
        return self._length(self.stages[round_])

    def require(self, agent: int, round_: int, said: SharedState) -> None:
        """Refuse what no site can have said in a round; a masked part may be anything."""
        part, shape = said.value, (len(self.damping), self.length(round_))
        if part.shape != shape:
            raise ProtocolError(
                f"Site {agent} said {part.shape} numbers in round {round_}, not {shape}."
            )
        if self.trust.by_sum:
            return
        with np.errstate(over="ignore"):
            norms = np.sqrt(np.vecdot(part, part))
        if not (norms <= LOUDEST).all():
            raise OutOfBoundsError(
                f"Agent {agent} sent values of norm {norms.max():.3g} in round {round_}; the terms "
                f"of this run allow {LOUDEST:g}."
            )

    def init(self) -> NewtonState:
        """Start from θ = 0."""
        zero = np.zeros((len(self.damping), self.site.risk.d))
        everyone = tuple(range(self.site.agents))
        return NewtonState(0, 0, everyone, zero, zero, _said(zero[:, :0]))

    def propose(self, state: NewtonState, charged: ChargedNoise) -> tuple[NewtonState, Release]:
        """Say this round's part; what is new to the world is θ, which all sites know."""
        stage = self.stages[state.round]
        if stage == KEYS:
            state = replace(state, private=self._private(charged))
            part = self._repeated(np.frombuffer(public_key(state.private), np.float64))
        else:
            part = self._part(state, stage, charged)
        return replace(state, own=_said(part)), Release.everyone(state.theta)

    def resumed(
        self, state: NewtonState, own: SharedState, spoke: Bits, spent: Bits
    ) -> NewtonState:
        """Take up what was said."""
        return replace(state, own=own)

    def absorb(self, state: NewtonState, inbox: Mapping[int, SharedState]) -> NewtonState:
        """Add up what all said and move on."""
        return self.advanced(state, self.total(state, inbox))

    def total(self, state: NewtonState, inbox: Mapping[int, SharedState]) -> Array:
        """Return what all members said together (R, length): their mean, or everybody's keys."""
        said = {self.site.agent: state.own.value} | {j: heard.value for j, heard in inbox.items()}
        stage, parts = self.stages[state.round], [said[j] for j in state.members]
        if stage == KEYS:
            return np.concatenate(parts, axis=1)
        shares = [self.site.shares[j] for j in state.members]
        if not self.trust.by_sum:
            return np.asarray(np.einsum("j,jrl->rl", np.array(shares), parts) / sum(shares))
        words = np.stack([part.view(np.uint64) for part in parts])
        added = np.add.reduce(words, axis=0)  # modulo 2⁶⁴
        rows = zip(self._adders(stage, len(parts)), added, strict=True)
        return np.stack([adder.decode(row) for adder, row in rows]) / sum(shares)

    def advanced(self, state: NewtonState, total: Array) -> NewtonState:
        """Return the state after an exchange, from what all said together."""
        stage = self.stages[state.round]
        after = replace(state, round=state.round + 1, exchange=state.exchange + 1)
        if stage == KEYS:
            return replace(after, masks=self._agreed(state, total[0]))
        if stage == MOMENTS:
            return replace(after, metrics=self._metrics(total))
        return self._moved(after, total)

    def heard(self, state: NewtonState) -> SharedState:
        """Return what this site said last."""
        return state.own

    def model(self, state: NewtonState) -> Array:
        """Return the mean of θ over the last half of the steps: (R, d)."""
        counted = self.stages[: state.round].count(SLOPES) - self.steps // 2
        return np.asarray(state.summed / counted) if counted > 0 else state.theta

    # -- one site's part -----------------------------------------------------------------------

    def _part(self, state: NewtonState, stage: str, charged: ChargedNoise) -> Array:
        values, key = self._values(state, stage), Key(self.site.agent, state.exchange, stage)
        source = charged.source
        if self.site.risk.n:
            source = charged.charge([self._cost(c, stage)[1] for c in self.costs])
        if self.trust.by_sum:
            return self._masked(state, stage, values, source, key)
        if not self.site.risk.n:
            return values
        sigma = self._sigma(stage)
        return source.gaussian(values, sigma, FINENESS * sigma, key)

    def _masked(
        self, state: NewtonState, stage: str, values: Array, source: NoiseSource, key: Key
    ) -> Array:
        """Return integers with this site's share of the noise, under its mask of this exchange."""
        if state.masks is None:
            raise ProtocolError("No keys were agreed on before the first sum.")
        adders = self._adders(stage, len(state.members))
        rows = zip(adders, values * self.site.share, strict=True)
        whole = np.stack([adder.encode(row) for adder, row in rows])
        scale = np.array([adder.scale for adder in adders])
        noisy = as_words(np.rint(source.gaussian(whole, scale, np.ones_like(scale), key)))
        mask = state.masks.mask(state.members, state.exchange, noisy.size)
        return (noisy + mask.reshape(noisy.shape)).view(np.float64)

    def _values(self, state: NewtonState, stage: str) -> Array:
        """Return this site's mean (R, length), of a norm that no records can exceed."""
        risk = self.site.risk
        if stage == MOMENTS:
            values = self._repeated(moments(risk) if risk.n else np.zeros(self._length(stage)))
        else:
            values = risk.gradient(state.theta)
        return within(values, np.full(len(values), self._bound(stage)))

    def _private(self, charged: ChargedNoise) -> bytes:
        """Return this site's key of the run, which outlives a process that keeps books."""
        found = charged.kept("key")
        if found is None:
            found = np.frombuffer(new_key(), np.float64)
            charged.keep("key", self._repeated(found))
        return found[: KEY // 8].tobytes()

    # -- everybody's ---------------------------------------------------------------------------

    def _agreed(self, state: NewtonState, keys: Array) -> Masks:
        rows = keys.reshape(len(state.members), -1)
        pairs = zip(state.members, rows, strict=True)
        others = {j: row.tobytes() for j, row in pairs if j != self.site.agent}
        return Masks.between(self.site.agent, state.private, others, self.run)

    def _metrics(self, total: Array) -> tuple[Metric, ...]:
        smoothness = self.site.risk.loss.smoothness
        pairs = zip(total, self.damping + self.ridge, strict=True)
        return tuple(Metric.of(row, self.features, smoothness, float(eta)) for row, eta in pairs)

    def _moved(self, state: NewtonState, slope: Array) -> NewtonState:
        slope = within(slope, np.full(len(slope), LOUDEST)) + self.ridge[:, None] * state.theta
        step = np.stack([m.apply(row) for m, row in zip(state.metrics, slope, strict=True)])
        theta = within(state.theta - step, self.radius)
        late = self.stages[: state.round].count(SLOPES) > self.steps // 2
        return replace(state, theta=theta, summed=state.summed + theta if late else state.summed)

    # -- small things --------------------------------------------------------------------------

    def _repeated(self, row: Array) -> Array:
        return np.tile(row, (len(self.damping), 1))

    def _length(self, stage: str) -> int:
        sizes = {KEYS: KEY // 8, MOMENTS: moment_length(self.features), SLOPES: self.site.risk.d}
        return sizes[stage]

    def _bound(self, stage: str) -> float:
        return (1.0 if stage == MOMENTS else self.site.risk.loss.lipschitz) * (1.0 + MARGIN)

    def _cost(self, cost: Costs, stage: str) -> tuple[float, Charge]:
        return cost.moments if stage == MOMENTS else cost.slopes

    def _adders(self, stage: str, members: int) -> list[FixedPoint]:
        """Return grid and noise of each replicate, where so many sites take part."""
        moved, bound = self.sensitivities.of_stage(stage), self._bound(stage)
        honest, size = self.trust.honest(members), self._length(stage)
        return [
            fixed_point(moved, self._cost(c, stage)[0], bound, size, honest) for c in self.costs
        ]

    def _sigma(self, stage: str) -> Array:
        if self.trust.by_sum:
            return np.array([a.sigma for a in self._adders(stage, self.site.agents)])
        moved = self.sensitivities.of_stage(stage)
        sigma = np.array([moved / self._cost(c, stage)[0] for c in self.costs])
        return sigma if self.site.risk.n else np.zeros_like(sigma)


def _said(part: Array) -> SharedState:
    return SharedState(part, part[:, :0])


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
        damping=settings.etas,
        ridge=settings.ridge(site.agents),
        costs=tuple(found),
        sensitivities=Sensitivities.of(site.risk.loss, site.risk.d, n, settings.adjacency),
        trust=settings.trust,
        run=settings.run,
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
