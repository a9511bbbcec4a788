"""Choosing η on private records, at its price.

Every candidate is a whole run, and the score that it is chosen by is a release, too. Two ways:

- `split`: all candidates are run and scored, in one budget: the events of all runs and all scores
  together cost at most (ε, δ). Valid whoever sees whatever was sent.
- `repeat`: a random, secret number of runs, each of a random candidate; only the best leaves. That
  is cheaper (Liu & Talwar 2019; Papernot & Steinke 2022), but its proof needs the other runs to
  stay hidden. In a decentralised run the neighbours see every message of every run, so it is
  refused unless all records are at one place (`centralised`).

The score is the share of an agent's own training records that the model gets right, with Gaussian
noise: replacing a record moves it by at most 1/n.
"""

import math
import random
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppadmm import checks
from ppadmm.algorithms import recipe_named
from ppadmm.algorithms.base import Reserved
from ppadmm.data import Shard, ShardStream
from ppadmm.errors import InfeasibleError, InputError
from ppadmm.experiments.held_out import judge
from ppadmm.experiments.scene import strictest
from ppadmm.experiments.spec import RunSpec
from ppadmm.experiments.train import Prepared, Result, _settings, prepare, run
from ppadmm.mechanisms import Desk
from ppadmm.noise import FINENESS, Key, SecureNoise, SeededNoise, total_variation
from ppadmm.privacy import (
    Approximate,
    Charge,
    Gaussian,
    MemoryLedger,
    RepeatAndSelect,
    Tally,
    accountant,
)
from ppadmm.privacy.calibration import largest_private
from ppadmm.privacy.gaussian import gdp_ratio
from ppadmm.privacy.sensitivity import MARGIN
from ppadmm.privacy.statement import finite_or_none
from ppadmm.typing import Array

HOW = ("split", "repeat")
SCORE_SHARE = 0.05
"""Part of the budget (of m², the Gaussian one) that goes to the scores."""


@dataclass(frozen=True)
class Candidate:
    """One setting that was tried, what each of its runs was allowed, and its noisy score."""

    eta: float | None
    regularisation: float
    score: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(vars(self))


@dataclass(frozen=True)
class Tuned:
    """The chosen run, whose statement covers all of them, and what may be told of the others."""

    how: str
    run_epsilon: float
    candidates: tuple[Candidate, ...]
    result: Result

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data, fit for JSON."""
        return {
            "how": self.how,
            "run_epsilon": self.run_epsilon,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "chosen": self.result.to_dict(),
        }


@dataclass(frozen=True)
class _Plan:
    """The grid, how it is searched, and the noise of a score as Δ/σ."""

    prepared: Prepared
    grid: tuple[tuple[float | None, float], ...]
    how: str
    mean: float
    ratio: float

    def runs(self, epsilon: float) -> list[Prepared]:
        """Return every candidate as a run with budget ε."""
        spec, scene = self.prepared.spec, self.prepared.scene
        found = []
        for eta, weight in self.grid:
            own = replace(spec, epsilon=epsilon, eta=eta, regularisation=weight)
            found.append(replace(self.prepared, spec=own, settings=_settings(own, scene)))
        return found

    def spent(self, epsilon: float) -> list[Tally]:
        """Return what each agent's whole search costs if every run has budget ε."""
        tallies = [_reserved(prepared) for prepared in self.runs(epsilon)]
        return [self._together(list(own)) for own in zip(*tallies, strict=True)]

    def _together(self, runs: list[Tally]) -> Tally:
        scored = [tally.plus(score_charge(self.ratio)) for tally in runs if tally.counts]
        if not scored:
            return Tally()
        if self.how == "repeat":
            return Tally().plus(Charge((RepeatAndSelect(tuple(scored), self.mean),)))
        return sum_of(scored)


def sum_of(tallies: Sequence[Tally]) -> Tally:
    """Return the tally of everything."""
    total = Tally()
    for tally in tallies:
        for event, times in tally.counts:
            total = total.plus(Charge((event,)), times)
    return total


def score_charge(ratio: float) -> Charge:
    """Return what one noisy score costs."""
    return Charge((Gaussian(ratio), Approximate(total_variation(1, 1.0, FINENESS))))


def tune(
    spec: RunSpec,
    etas: Sequence[float] = (),
    regularisations: Sequence[float] = (),
    how: str = "split",
    mean: float | None = None,
    *,
    data: object | None = None,
    on_run: Callable[[int, int], None] | None = None,
) -> Tuned:
    """Search a grid within the budget of `spec` and return the best run by noisy accuracy.

    `mean` is the expected number of runs of `repeat` [twice the size of the grid].
    """
    grid = _grid(spec, etas, regularisations)
    _refuse(spec, how)
    mean = 2.0 * len(grid) if mean is None else checks.positive("mean", mean)
    prepared = prepare(spec, data)
    plan = _Plan(prepared, grid, how, mean, _score_ratio(spec, len(grid) if how == "split" else 1))
    each = _budget_of_a_run(plan, spec)
    order = range(len(grid)) if how == "split" else _draws(spec, len(grid), mean)
    return _search(plan, each, list(order), on_run)


def _grid(
    spec: RunSpec, etas: Sequence[float], regularisations: Sequence[float]
) -> tuple[tuple[float | None, float], ...]:
    columns: tuple[float | None, ...] = tuple(dict.fromkeys(etas)) or (spec.eta,)
    weights = tuple(dict.fromkeys(regularisations)) or (spec.regularisation,)
    grid = tuple((eta, weight) for eta in columns for weight in weights)
    if len(grid) < 2:
        raise InputError("Expected at least 2 settings to choose from, got 1; use train instead.")
    return grid


def _refuse(spec: RunSpec, how: str) -> None:
    checks.one_of("way of tuning", how, HOW)
    if not spec.guaranteed:
        raise InputError(
            "Tuning on private records needs a run with a proven budget; with "
            f"algorithm {spec.algorithm!r} and calibration {spec.calibration!r} use compare, which "
            "says that it is not private."
        )
    if spec.epsilons is not None:
        raise InputError("Tuning takes one ε for all agents; leave epsilons out.")
    if how == "repeat" and not recipe_named(spec.algorithm).pooled:
        raise InputError(
            f"With {spec.algorithm!r} neighbours see the messages of every run, and repeat's "
            "proof needs all but the best to stay hidden; use split, or the algorithm centralised."
        )


def _score_ratio(spec: RunSpec, scores: int) -> float:
    """Return Δ/σ of one score: `SCORE_SHARE` of m² over all scores."""
    return gdp_ratio(spec.epsilon, spec.delta) * math.sqrt(SCORE_SHARE / scores)


def _reserved(prepared: Prepared) -> tuple[Tally, ...]:
    """Return what each agent's run may cost."""
    spec, settings = prepared.spec, prepared.settings
    build = recipe_named(spec.algorithm).build
    own = replace(settings, budgets=(strictest(spec.budgets),))
    sites = prepared.scene.sites(spec.algorithm)
    return tuple(_tally(build(site, own).reserved[0]) for site in sites)


def _tally(reserved: Reserved) -> Tally:
    total = Tally()
    for charge, times in reserved:
        total = total.plus(charge, times) if times else total
    return total


def _budget_of_a_run(plan: _Plan, spec: RunSpec) -> float:
    """Return the largest ε of a run with which the whole search costs at most the budget.

    An ε at which a run cannot be calibrated is too small, not too large: the search moves up.
    """

    @lru_cache(maxsize=256)
    def spent(epsilon: float) -> float:
        with suppress(InfeasibleError):
            return _cost(plan, epsilon)
        return 0.0

    guess = spec.epsilon / math.sqrt(len(plan.grid) if plan.how == "split" else 9.0)
    return largest_private(spent, spec.epsilon, guess)


def _cost(plan: _Plan, epsilon: float) -> float:
    bounds = [accountant.epsilon(t, plan.prepared.spec.delta) for t in plan.spent(epsilon)]
    return max(bound.epsilon for bound in bounds)


def _draws(spec: RunSpec, size: int, mean: float) -> list[int]:
    """Draw K from the geometric distribution with this mean, and K candidates."""
    source = secrets.SystemRandom() if spec.seed is None else random.Random(spec.seed)  # noqa: S311
    chosen = [source.randrange(size)]
    while source.random() > 1.0 / mean:
        chosen.append(source.randrange(size))
    return chosen


def _search(
    plan: _Plan, each: float, order: list[int], on_run: Callable[[int, int], None] | None
) -> Tuned:
    runs, best, tried = plan.runs(each), None, []
    made = np.zeros(len(plan.spent(each)), dtype=np.int64)
    for k, index in enumerate(order):
        prepared = _reseeded(runs[index], k)
        result = run(prepared)
        score = _noisy_score(prepared, result.model, plan.ratio, k)
        made += np.array(result.statement.releases) + 1
        tried.append(Candidate(*plan.grid[index], score))
        if best is None or score > best[0]:
            best = (score, result)
        if on_run is not None:
            on_run(k + 1, len(order))
    if best is None:
        raise InputError("Expected at least 1 run, got none.")
    told = tried if plan.how == "split" else [max(tried, key=lambda one: one.score)]
    result = _covered(plan, each, best[1], made)
    return Tuned(plan.how, each, tuple(told), result)


def _reseeded(prepared: Prepared, k: int) -> Prepared:
    """Give every simulated run noise of its own."""
    seed = prepared.spec.seed
    if seed is None:
        return prepared
    return replace(prepared, spec=replace(prepared.spec, seed=1000 * seed + k))


def _noisy_score(prepared: Prepared, model: Array, ratio: float, k: int) -> float:
    """Return the mean of the agents' noisy accuracies on their own records, weighted by n."""
    spec, scene = prepared.spec, prepared.scene
    source = SecureNoise() if spec.seed is None else SeededNoise((spec.seed,))
    pooled = recipe_named(spec.algorithm).pooled
    shards = [scene.pooled()] if pooled else scene.shards
    scores = []
    for agent, shard in enumerate(shards):
        ledger = MemoryLedger()
        ledger.reserve([(score_charge(ratio), 1)])
        noise = Desk((ledger,), source).pay([score_charge(ratio)])
        sigma = np.array([(1.0 + MARGIN) / (shard.n * ratio)])
        exact = np.array([[_accuracy(shard, model, scene.schema.classes)]])
        scores.append(noise.gaussian(exact, sigma, FINENESS * sigma, Key(agent, k, "score"))[0, 0])
    return float(np.average(scores, weights=[shard.n for shard in shards]))


def _accuracy(part: Shard | ShardStream, model: Array, classes: int) -> float:
    records = part if isinstance(part, ShardStream) else (part.X, part.y)
    return 1.0 - float(judge(records, model[None], classes, areas=False).error[0])


def _covered(plan: _Plan, each: float, result: Result, made: NDArray[np.int64]) -> Result:
    """Return the chosen run with a statement and ledgers that cover the whole search.

    `made` counts the releases and scores of all runs; with `repeat` that number stays hidden.
    """
    spec = plan.prepared.spec
    reserved = plan.spent(each)
    bounds = [accountant.epsilon(tally, spec.delta) for tally in reserved]
    worst = max(bounds, key=lambda bound: bound.epsilon)
    statement = result.statement
    split = plan.how == "split"
    count = "all these runs" if split else "the whole search"
    note = (
        f"Tuned on the private records over {len(plan.grid)} settings ({plan.how}): ε covers "
        f"{count} and the scores; each run has ε = {each:.4g} of its own."
    )
    statement = replace(
        statement,
        epsilon=finite_or_none(worst.epsilon),
        epsilons=tuple(finite_or_none(bound.epsilon) for bound in bounds),
        theorem=worst.theorem,
        claimed_epsilon=spec.epsilon,
        releases=tuple(made.tolist()) if split else statement.releases,
        caveats=(note, *statement.caveats),
    )
    return replace(result, statement=statement, reserved=reserved, spent=reserved)
