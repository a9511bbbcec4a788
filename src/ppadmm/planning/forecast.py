"""Simulated runs on records that are nobody's secret, quick because they are only simulated.

Noise, η and T are those of the real run with the declared numbers of records. Two things are
cheaper: local problems are solved to a fraction of the noise rather than to β, in single
precision; and very many records are stood for by fewer (`Population.share`), whose noise stays that
of the many. Neither moves the error by more than other seeds do (tests/planning/test_forecast.py).
Sums are simulated by the real algorithm with the real shares of noise, and without masks.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ppadmm.agent import Agent
from ppadmm.algorithms import Algorithm, Settings
from ppadmm.algorithms.newton import NoisyNewton
from ppadmm.algorithms.sums import SumState
from ppadmm.arrays import Array
from ppadmm.data import Matrix, Shard, normalise_rows
from ppadmm.data.coded import Coded
from ppadmm.engines import local
from ppadmm.errors import InfeasibleError
from ppadmm.ledger import MemoryLedger
from ppadmm.ledger.state import reserved_by, tally_of
from ppadmm.noise import SeededNoise
from ppadmm.planning.dealing import Dealing, Evenly, Places
from ppadmm.planning.scenario import Scenario
from ppadmm.problem import Loss, NoRecords, Risk, Subproblem, risk_of
from ppadmm.runs.metrics import evaluate
from ppadmm.solvers import Solution, Solver, Warm, cold_start, solver_named
from ppadmm.statements.claims import worst
from ppadmm.sum_agent import SumAgent
from ppadmm.summing.fixed_point import Words
from ppadmm.summing.masks import Masks

FRACTION = 0.05
"""Residual of a simulated solve, in units of σ₁ …"""
TOLERANCES = (1e-5, 1e-3)
"""… but within these: below them single precision is not enough."""


class ScaledRisk:
    """A risk that says it has `n` records, evaluated in single precision.

    Its rounding terms are those of double precision: nothing is certified here.
    """

    def __init__(self, risk: Risk, n: int) -> None:
        self.risk, self.n, self.passes = risk, n, 0
        self.loss, self.d, self.rounding_terms = risk.loss, risk.d, risk.rounding_terms
        self.value, self.clipped_value = risk.value, risk.clipped_value

    def gradient(self, theta: Array, single: bool = False) -> Array:
        """∇f(θ) in single precision."""
        return self.risk.gradient(theta, single=True)

    def hessian(self, theta: Array, single: bool = False) -> Array:
        """∇²f(θ) in single precision."""
        return self.risk.hessian(theta, single=True)

    @property
    def gram(self) -> Array:
        """An upper bound of the curvature."""
        return self.risk.gram

    @property
    def second_moments(self) -> Array:
        """(1/n) Σ xxᵀ."""
        return self.risk.second_moments

    @property
    def squares(self) -> Array:
        """Its diagonal."""
        return self.risk.squares


@dataclass(frozen=True)
class NoMasks(Masks):
    """Masks of a simulation, which hides nothing: in a sum they cancel anyway."""

    def mask(self, members: Iterable[int], sum_: int, size: int) -> Words:
        """Return zeros."""
        return np.zeros(size, np.uint64)


@dataclass(frozen=True)
class OpenSums(NoisyNewton):
    """Newton with the noise of sums, and with parts that are added up in the open: no keys."""

    def init(self) -> SumState:
        """Begin after the keys."""
        return replace(super().init(), masks=NoMasks(self.site.agent, b"", {}))


@dataclass(frozen=True)
class CoarseSolver:
    """A solver that stops at `tolerance` whatever it is asked for."""

    solver: Solver
    tolerance: float

    @property
    def name(self) -> str:
        """That of the solver."""
        return self.solver.name

    def solve(self, sub: Subproblem, start: Warm, tolerance: float) -> Solution:
        """Solve to our tolerance."""
        return self.solver.solve(sub, start, self.tolerance)


@dataclass(frozen=True)
class Population:
    """Records to simulate with: X (n, d), the intercept last, y (n,), and a test set.

    `order` lists the features from the most telling to the least. Each simulated record stands for
    1/`share` declared ones. `error` is that of a model without privacy.
    """

    name: str
    X: Matrix
    y: Array
    test: tuple[Matrix, Array]
    classes: int
    order: tuple[int, ...]
    share: float
    error: float
    majority_error: float
    dealing: Dealing = field(default_factory=lambda: Evenly([]))

    def with_features(self, features: int) -> "Population":
        """Keep the most telling features and the intercept, rows normalised again."""
        last = self.X.shape[1] - 1
        if features == last + 1:
            return self
        kept = [*sorted([j for j in self.order if j != last][: features - 1]), last]
        test = (normalise_rows(_columns(self.test[0])[:, kept]), self.test[1])
        X = normalise_rows(_columns(self.X)[:, kept])
        order = tuple(kept.index(j) for j in self.order if j in kept)
        return replace(self, X=X, test=test, order=order)

    def dealt(self, records: Sequence[int]) -> list[Places]:
        """Return the records that stand for so many at each site."""
        counts = [stand_ins(n, self.share) for n in records]
        return self.dealing.rows(counts, self.dealing.mixes(records))

    def risks(self, case: Scenario, parts: Sequence[Places]) -> list[ScaledRisk]:
        """Return the losses of the sites of `case`, each on its part of the records."""
        pooled = case.method.recipe.pooled
        rows: Sequence[Places] = [np.concatenate(parts)] if pooled else parts
        return [
            ScaledRisk(risk_of(Shard(self.X[own], self.y[own], self.classes), case.loss), n)
            for own, n in zip(rows, case.holdings, strict=True)
        ]

    def judge(self, models: Array) -> "Judged":
        """Return the test errors of models (R, K·d)."""
        X, y = self.test
        parts = [(X, y), *((X[cell], y[cell]) for cell in self.dealing.cells)]
        errors = [evaluate(*part, models, self.classes, areas=False).error for part in parts]
        return Judged(errors[0], np.array(errors[1:]).reshape(-1, len(models)))

    def majority_errors(self, mixes: Array) -> Array:
        """Return how often naming the commonest class is wrong at sites with these mixes (S,)."""
        if not mixes.shape[1]:
            return np.full(len(mixes), self.majority_error)
        y, names = self.test[1], np.unique(self.test[1])
        shares = np.array([[np.mean(y[cell] == c) for c in names] for cell in self.dealing.cells])
        return np.asarray(1.0 - (mixes @ shares).max(axis=1))


@dataclass(frozen=True)
class Judged:
    """Test errors of R runs: on everybody's records (R,), and on each cell of them (C, R)."""

    pooled: Array
    cells: Array

    def on(self, mix: Array) -> Array:
        """Return the errors (R,) on records of which `mix` (C,) are of each cell."""
        return np.asarray(mix @ self.cells) if len(mix) else self.pooled


def stand_ins(records: int, share: float) -> int:
    """Return how many simulated records stand for so many declared ones."""
    return max(1, round(records * share))


@dataclass(frozen=True)
class Setup:
    """What a run would use at one ε; noises are by agent."""

    epsilon: float
    rounds: int
    eta: float
    regularisation: float
    noise: tuple[dict[str, float], ...]
    releases: int
    epsilon_proven: float
    theorem: str


def setup(case: Scenario, epsilon: float) -> Setup:
    """Work out the noise from public sizes alone; raises `InfeasibleError` if none is enough."""
    settings = case.settings([epsilon])
    first = settings[0]
    empty = NoRecords(case.parameters, case.loss)
    counted = [ScaledRisk(empty, n) for n in case.holdings]
    rules = _rules(case, settings, counted, epsilon)
    noise = tuple({k: float(v[0]) for k, v in rule.scales.items()} for rule in rules)
    bound = worst([tally_of(reserved_by(rule.reserved[0])) for rule in rules], case.method.delta)
    return Setup(
        epsilon=epsilon,
        rounds=first.rounds if case.method.recipe.everyone else rules[0].rounds,
        eta=first.eta[0],
        regularisation=first.regularisation[0],
        noise=noise,
        releases=getattr(rules[0], "releases", rules[0].rounds - first.trust.announced),
        epsilon_proven=bound.epsilon,
        theorem=bound.theorem,
    )


def infeasible(case: Scenario, epsilon: float) -> str | None:
    """Return why no noise reaches ε, with the way out, or None if one does."""
    try:
        setup(case, epsilon)
    except InfeasibleError as error:
        return str(error)
    return None


def simulate(
    case: Scenario,
    group: Population,
    epsilons: Iterable[float],
    seeds: Sequence[int],
    parts: Sequence[Places] | None = None,
) -> dict[float, Judged]:
    """Return the test errors of len(seeds) runs at every feasible ε.

    The sites hold the records `parts`, else as many as are dealt to them. Budgets with the same
    T, β and weights advance together, as columns of one run.
    """
    batches: dict[Any, list[float]] = {}
    for epsilon in epsilons:
        if infeasible(case, epsilon) is None:
            method = case.chosen(epsilon)
            alike = (method.rounds, method.beta, case.weights(epsilon))
            batches.setdefault(alike, []).append(epsilon)
    group = group.with_features(case.features)
    dealt = group.dealt(case.records) if parts is None else parts
    risks = group.risks(case, dealt) if batches else []
    errors: dict[float, Judged] = {}
    for batch in batches.values():
        errors.update(_batch(case, group, risks, batch, seeds))
    return errors


def _batch(
    case: Scenario,
    group: Population,
    risks: list[ScaledRisk],
    epsilons: list[float],
    seeds: Sequence[int],
) -> dict[float, Judged]:
    settings = case.settings([epsilon for epsilon in epsilons for _ in seeds])
    noise = SeededNoise(tuple(seed for _ in epsilons for seed in seeds))
    rules = [_coarse(rule) for rule in _rules(case, settings, risks, epsilons[0])]
    kind = SumAgent if case.method.recipe.everyone else Agent
    agents = [
        kind(rule, i, rule.site.neighbours, [MemoryLedger() for _ in noise.seeds], noise)
        for i, rule in enumerate(rules)
    ]
    models = local.run(agents).model(case.weights(epsilons[0]))
    models = models.reshape(len(epsilons), len(seeds), -1)
    return {e: group.judge(own) for e, own in zip(epsilons, models, strict=True)}


def _rules(
    case: Scenario, settings: Sequence[Settings], risks: Sequence[Risk], epsilon: float
) -> list[Algorithm[Any]]:
    build, sites = case.method.recipe.build, case.sites(risks, epsilon)
    return [build(site, own) for site, own in zip(sites, settings, strict=True)]


def _coarse(rule: Any) -> Any:
    """Return a rule that simulates quicker what this one does."""
    if isinstance(rule, NoisyNewton):
        open_ = OpenSums(**vars(rule))
        return replace(open_, stages=open_.stages[1:]) if rule.trust.by_sum else rule
    if not hasattr(rule, "solver"):
        return rule
    wanted = FRACTION * float(rule.scales["sigma1"].min())
    return replace(rule, solver=CoarseSolver(rule.solver, float(np.clip(wanted, *TOLERANCES))))


def fit(X: Matrix, y: Array, loss: Loss, classes: int) -> Array:
    """Return a model without privacy, (K·d,): all records at one place, hardly regularised."""
    risk = risk_of(Shard(X, y, classes), loss)
    zero = np.zeros((1, risk.d))
    sub = Subproblem(ScaledRisk(risk, risk.n), np.array([0.1 / risk.n]), zero)
    solver = solver_named("auto", risk.d)
    return np.asarray(solver.solve(sub, cold_start(sub), 3.0 * TOLERANCES[0]).point[0])


def _columns(X: Any) -> Any:
    """Return records whose columns can be taken: coded ones are written out."""
    return X.toarray() if isinstance(X, Coded) else X


def most_telling(model: Array, X: Any) -> tuple[int, ...]:
    """Order features by how much they move the scores: ‖θⱼ‖ times the spread of xⱼ."""
    X, d = _columns(X), X.shape[1]
    mean, square = np.asarray(X.mean(axis=0)).ravel(), np.asarray((X * X).mean(axis=0)).ravel()
    spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    size = np.linalg.norm(model.reshape(-1, d), axis=0) * spread
    return tuple(int(j) for j in np.argsort(-size, kind="stable"))


Progress = Callable[[int, int], None]
