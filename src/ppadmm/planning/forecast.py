"""Simulated runs on records that are nobody's secret, quick because they are only simulated.

Noise, η and T are those of the real run with the declared numbers of records. Two things are
cheaper: local problems are solved to a fraction of the noise rather than to β, in single
precision; and very many records are stood for by fewer (`Population.share`), whose noise stays that
of the many. Neither moves the error by more than other seeds do (tests/planning/test_forecast.py).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ppadmm.accounting import Budget
from ppadmm.agent import Agent
from ppadmm.algorithms import Algorithm, Settings, Site
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.method import MethodSpec, choose, settings_of, weigh
from ppadmm.arrays import Array
from ppadmm.data import Matrix, Shard, normalise_rows
from ppadmm.data.coded import Coded
from ppadmm.engines import local
from ppadmm.errors import InfeasibleError
from ppadmm.ledger import MemoryLedger
from ppadmm.ledger.state import reserved_by, tally_of
from ppadmm.noise import SeededNoise
from ppadmm.problem import Graph, Loss, NoRecords, Risk, Subproblem, risk_of
from ppadmm.runs.metrics import evaluate
from ppadmm.solvers import Solution, Solver, Warm, cold_start, solver_named
from ppadmm.statements.claims import worst

FRACTION = 0.05
"""Residual of a simulated solve, in units of σ₁ …"""
TOLERANCES = (1e-5, 1e-3)
"""… but within these: below them single precision is not enough."""


@dataclass(frozen=True)
class Scenario:
    """A setting to forecast: all that is public about a run but its ε."""

    records: tuple[int, ...]
    features: int
    graph: Graph
    loss: Loss
    method: MethodSpec

    @property
    def parameters(self) -> int:
        """Length of a model."""
        return self.features * self.loss.outputs

    def chosen(self, epsilon: float) -> MethodSpec:
        """Return the method as `train` would choose what is open."""
        sizes = (self.records, self.features, self.graph)
        return choose(self.method, sizes, self.budgets(epsilon), self.loss)

    def settings(self, epsilons: Sequence[float]) -> Settings:
        """Return the settings of one replicate per ε; their T must be the same."""
        budgets = [Budget(epsilon, self.method.delta) for epsilon in epsilons]
        return settings_of([self.chosen(epsilon) for epsilon in epsilons], budgets)

    def sites(self, risks: Sequence[Risk], epsilon: float) -> list[Site]:
        """Return every agent's place in the network, or the one place of pooled records."""
        if self.method.recipe.pooled:
            return [Site(0, 1, (), risks[0])]
        weights = self.weights(epsilon)
        return [site_in(self.graph, i, risk, weights) for i, risk in enumerate(risks)]

    def weights(self, epsilon: float) -> tuple[float, ...]:
        """Return how much each site counts."""
        return weigh(self.method, self.records, self.budgets(epsilon), self.parameters)

    def budgets(self, epsilon: float) -> list[Budget]:
        """Return that of each site."""
        return [Budget(epsilon, self.method.delta)] * self.graph.size

    @property
    def holdings(self) -> tuple[int, ...]:
        """Records at each site."""
        pooled = self.method.recipe.pooled
        return (sum(self.records),) if pooled else self.records


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

    def risks(self, case: Scenario) -> list[ScaledRisk]:
        """Deal records to the sites of `case`, in the order in which they stand."""
        parts, start = [], 0
        for n in case.holdings:
            end = start + stand_ins(n, self.share)
            shard = Shard(self.X[start:end], self.y[start:end], self.classes)
            parts.append(ScaledRisk(risk_of(shard, case.loss), n))
            start = end
        return parts


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
    empty = NoRecords(case.parameters, case.loss)
    rules = _rules(case, settings, [ScaledRisk(empty, n) for n in case.holdings])
    noise = tuple({k: float(v[0]) for k, v in rule.scales.items()} for rule in rules)
    bound = worst([tally_of(reserved_by(rule.reserved[0])) for rule in rules], case.method.delta)
    return Setup(
        epsilon=epsilon,
        rounds=rules[0].rounds,
        eta=settings.eta[0],
        regularisation=settings.regularisation[0],
        noise=noise,
        releases=getattr(rules[0], "releases", rules[0].rounds),
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
    case: Scenario, group: Population, epsilons: Iterable[float], seeds: Sequence[int]
) -> dict[float, Array]:
    """Return the test errors (len(seeds),) at every feasible ε.

    Budgets with the same T and weights advance together, as columns of one run.
    """
    batches: dict[Any, list[float]] = {}
    for epsilon in epsilons:
        if infeasible(case, epsilon) is None:
            alike = (case.chosen(epsilon).rounds, case.weights(epsilon))
            batches.setdefault(alike, []).append(epsilon)
    group = group.with_features(case.features)
    risks = group.risks(case) if batches else []
    errors: dict[float, Array] = {}
    for batch in batches.values():
        errors.update(_batch(case, group, risks, batch, seeds))
    return errors


def _batch(
    case: Scenario,
    group: Population,
    risks: list[ScaledRisk],
    epsilons: list[float],
    seeds: Sequence[int],
) -> dict[float, Array]:
    settings = case.settings([epsilon for epsilon in epsilons for _ in seeds])
    noise = SeededNoise(tuple(seed for _ in epsilons for seed in seeds))
    rules = [_coarse(rule) for rule in _rules(case, settings, risks)]
    agents = [
        Agent(rule, i, rule.site.neighbours, [MemoryLedger() for _ in settings.eta], noise)
        for i, rule in enumerate(rules)
    ]
    models = local.run(agents).model(case.weights(epsilons[0]))
    error = evaluate(*group.test, models, group.classes).error
    return dict(zip(epsilons, error.reshape(len(epsilons), len(seeds)), strict=True))


def _rules(case: Scenario, settings: Settings, risks: Sequence[Risk]) -> list[Algorithm[Any]]:
    build = case.method.recipe.build
    epsilon = settings.budgets[0].epsilon
    return [build(site, settings) for site in case.sites(risks, epsilon)]


def _coarse(rule: Any) -> Any:
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
