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

With a booking the whole search is one run in the data owner's ledger, reserved before anything is
drawn. Of `split` every release and every score is charged and kept on its own. Of `repeat` the
ledger must not show how many runs there were, nor how long they took: it is charged once, before
the first, and the best is the one thing that is kept, all at the time of the reservation.
"""

import math
import random
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from ppadmm import checks
from ppadmm.accounting import Charge, RepeatAndSelect, Tally
from ppadmm.accounting.calibration import largest_private
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.algorithms import recipe_named
from ppadmm.algorithms.base import Algorithm, Reserved
from ppadmm.algorithms.method import strictest
from ppadmm.data import Partition
from ppadmm.errors import BudgetError, InfeasibleError, InputError, SolverError
from ppadmm.ledger.run import RunLedger
from ppadmm.ledger.state import reserved_by, tally_of
from ppadmm.records import HoldsRecords
from ppadmm.runs.facts import tuned_facts
from ppadmm.runs.federation import Reservations
from ppadmm.runs.folder import write_run
from ppadmm.runs.ledger_session import LedgerOptions, LedgerSession
from ppadmm.runs.opening import open_data
from ppadmm.runs.run import Prepared, Result, open_ledger, prepare_opened, run
from ppadmm.runs.scoring import (
    ReplayedLedger,
    SearchLedger,
    SelectionRecord,
    noisy_score,
    score_charge,
)
from ppadmm.runs.specification import RunSpec, Search
from ppadmm.statements.claims import worst
from ppadmm.statements.facts import statement_of

FORMAT = 1
"""Of tune.json."""
HOW = ("split", "repeat")
SCORE_SHARE = 0.05
"""Part of the budget (of m², the Gaussian one) that goes to the scores."""


@dataclass(frozen=True)
class Candidate:
    """One setting that was tried and its noisy score; None if a crash lost it."""

    eta: float | None
    regularisation: float
    score: float | None

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

    def tried(self) -> dict[str, Any]:
        """Return what was tried, as plain data; all of it was released and is paid for."""
        return {
            "how": self.how,
            "run_epsilon": self.run_epsilon,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data, fit for JSON."""
        return {**self.tried(), "chosen": self.result.to_dict()}


def write_tuned(found: Tuned, folder: Path | None = None) -> Path:
    """Write the chosen run into a new folder, with tune.json beside it; return the folder."""
    return write_run(found.result, folder, {"tune.json": {"format": FORMAT, **found.tried()}})


@dataclass(frozen=True)
class _Plan(HoldsRecords):
    """The grid, how it is searched, and the noise of a score as Δ/σ."""

    prepared: Prepared
    grid: tuple[tuple[float | None, float], ...]
    how: str
    mean: float
    ratio: float

    def runs(self, epsilon: float) -> list[Prepared]:
        """Return every candidate as a run with budget ε."""
        return [
            self.prepared.changed(epsilon=epsilon, eta=eta, regularisation=weight)
            for eta, weight in self.grid
        ]

    def spent(self, epsilon: float) -> list[Tally]:
        """Return what each agent's whole search costs if every run has budget ε."""
        return [_tally(most) for _, most in self.reserved(epsilon)]

    def reserved(self, epsilon: float) -> Reservations:
        """Return each agent's number and what its whole search may charge."""
        columns = zip(*(_rules(prepared) for prepared in self.runs(epsilon)), strict=True)
        return [
            (i, self._together([rule.reserved[0] for rule in c])) for i, c in enumerate(columns)
        ]

    def _together(self, runs: list[Reserved]) -> Reserved:
        score = (score_charge(self.ratio), 1)
        scored = [(*most, score) for most in runs if _tally(most).counts]
        if self.how == "repeat" and scored:
            search = RepeatAndSelect(tuple(map(_tally, scored)), self.mean)
            return ((Charge((search,)), 1),)
        return tuple(each for most in scored for each in most)


def tune(
    spec: RunSpec,
    etas: Sequence[float] = (),
    regularisations: Sequence[float] = (),
    how: str = "split",
    mean: float | None = None,
    *,
    data: object | None = None,
    on_run: Callable[[int, int], None] | None = None,
    booking: LedgerOptions | None = None,
) -> Tuned:
    """Search a grid within the budget of `spec` and return the best run by noisy accuracy.

    `mean` is the expected number of runs of `repeat` [twice the size of the grid]. With a `booking`
    the search is charged to a data owner's ledger, which may refuse it.
    """
    grid = _grid(spec, etas, regularisations)
    _refuse(spec, how)
    mean = 2.0 * len(grid) if mean is None else checks.positive("mean", mean)
    opened = open_data(spec, data)
    prepared = prepare_opened(spec, opened, data)
    _refuse_eta(prepared.spec, etas)
    plan = _Plan(prepared, grid, how, mean, _score_ratio(spec, len(grid) if how == "split" else 1))
    each = _budget_of_a_run(plan, spec)
    search = Search(prepared.spec, grid, how, mean if how == "repeat" else None, each)
    booked = None if booking is None else open_ledger(booking, prepared, opened, search)
    try:
        with nullcontext() if booked is None else booked:
            if how == "split":
                found = _split(plan, search, booked, on_run)
            else:
                found = _repeat(plan, search, booked)
            entry = None if booked is None else booked.finish()
        file = None if booking is None else str(booking.ledger)
        return replace(found, result=replace(found.result.booked(entry), ledger_file=file))
    finally:
        prepared.federation.close()


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
    if how == "repeat" and not _alone_or_pooled(spec):
        raise InputError(
            f"With {spec.algorithm!r} neighbours see the messages of every run, and repeat's "
            "proof needs all but the best to stay hidden; use split, or the algorithm centralised."
        )


def _alone_or_pooled(spec: RunSpec) -> bool:
    """Whether nobody sees a message, as far as is known before the records are read."""
    alone = spec.agents == 1 and not Partition.parse(spec.partition).names_agents
    return alone or spec.recipe.pooled


def _refuse_eta(spec: RunSpec, etas: Sequence[float]) -> None:
    if etas and not spec.recipe.listens:
        what = "a single site" if spec.agents == 1 else f"algorithm {spec.algorithm!r}"
        raise InputError(
            f"With {what} nothing is exchanged and η has no effect; leave etas out and give "
            "regularisations to choose from."
        )


def _score_ratio(spec: RunSpec, scores: int) -> float:
    """Return Δ/σ of one score: `SCORE_SHARE` of m² over all scores."""
    return gdp_ratio(spec.epsilon, spec.delta) * math.sqrt(SCORE_SHARE / scores)


def _rules(prepared: Prepared) -> list[Algorithm[Any]]:
    """Return what each agent would do."""
    spec, settings = prepared.spec, prepared.settings
    build = recipe_named(spec.algorithm).build
    own = replace(settings, budgets=(strictest(spec.budgets),))
    return [build(site, own) for site in prepared.federation.sites(prepared.method, spec.budgets)]


def _tally(reserved: Iterable[tuple[Charge, int]]) -> Tally:
    return tally_of(reserved_by(reserved))


def _budget_of_a_run(plan: _Plan, spec: RunSpec) -> float:
    """Return the largest ε of a run with which the whole search costs at most the budget.

    An ε at which a run cannot be calibrated is too small, not too large: the search moves up.
    """

    @lru_cache(maxsize=256)
    def spent(epsilon: float) -> float:
        with suppress(InfeasibleError, SolverError):
            return worst(plan.spent(epsilon), spec.delta).epsilon
        return 0.0

    guess = spec.epsilon / math.sqrt(len(plan.grid) if plan.how == "split" else 9.0)
    each = largest_private(spent, spec.epsilon, guess)
    if spent(each) == 0.0:
        _refuse_infeasible(plan, 0.9 * min(guess, spec.epsilon / len(plan.grid)))
    return each


def _refuse_infeasible(plan: _Plan, share: float) -> None:
    """Name the first setting that no noise brings within an even share of the budget."""
    for prepared, (eta, weight) in zip(plan.runs(share), plan.grid, strict=True):
        try:
            _rules(prepared)
        except (InfeasibleError, SolverError) as error:
            setting = f"λ = {weight:g}" if eta is None else f"η = {eta:g}"
            raise InfeasibleError(
                f"{setting} cannot be tried: {len(plan.grid)} settings share the budget. {error}"
            ) from None


# -- split: every run and every score in one budget -------------------------------------------


def _split(
    plan: _Plan,
    search: Search,
    booked: LedgerSession | None,
    on_run: Callable[[int, int], None] | None,
) -> Tuned:
    runs = plan.runs(search.each)
    first = accumulate((_rules(each)[0].rounds + 1 for each in runs), initial=0)
    books = SearchLedger(plan.ratio, tuple(first), _whole(plan, search, booked))
    results, tried = [], []
    for k, (prepared, setting) in enumerate(zip(runs, plan.grid, strict=True)):
        own = _reseeded(prepared, k)
        result = run(own, book=books.book(k))
        results.append(result)
        tried.append(Candidate(*setting, noisy_score(own, result.model, books, k)))
        if on_run is not None:
            on_run(k + 1, len(runs))
    scores = [-math.inf if one.score is None else one.score for one in tried]
    best = scores.index(max(scores))
    made = np.sum([result.statement.releases for result in results], axis=0) + len(runs)
    chosen = _covered(plan, search, results[best], tuple(made.tolist()))
    return Tuned("split", search.each, tuple(tried), _spent(chosen, _paid(books, results)))


def _spent(result: Result, paid: Sequence[Tally]) -> Result:
    """Return the result with what every agent booked."""
    pairs = zip(result.facts.agents, paid, strict=True)
    agents = tuple(replace(agent, spent=spent) for agent, spent in pairs)
    return replace(result, facts=replace(result.facts, agents=agents))


def _paid(books: SearchLedger, results: Sequence[Result]) -> list[Tally]:
    """Return what each agent booked in all runs and for all scores."""
    agents = range(len(results[0].spent))
    if books.ledger is not None:
        return [books.ledger.agent(i).spent for i in agents]
    score = score_charge(books.ratio)
    own = [[r.spent[i].plus(score) for r in results if r.spent[i].counts] for i in agents]
    return [_tally((Charge((e,)), k) for t in tallies for e, k in t.counts) for tallies in own]


def _whole(plan: _Plan, search: Search, booked: LedgerSession | None) -> RunLedger | None:
    """Reserve the whole search in the ledger, or take it up again."""
    if booked is None:
        return None
    asked = plan.reserved(search.each)
    for ledger, (_, most) in zip(booked.book(asked), asked, strict=True):
        ledger.reserve(most)
    return booked.run


def _reseeded(prepared: Prepared, k: int) -> Prepared:
    """Give every simulated run noise of its own."""
    seed = prepared.spec.seed
    if seed is None:
        return prepared
    return replace(prepared, spec=replace(prepared.spec, seed=1000 * seed + k))


# -- repeat: a random number of runs, of which the best leaves --------------------------------


def _repeat(plan: _Plan, search: Search, booked: LedgerSession | None) -> Tuned:
    began = datetime.now().astimezone()
    runs = plan.runs(search.each)
    ledger = _whole(plan, search, booked)
    if ledger is not None:
        ledger.stop_clock()  # the time that all runs took together would tell of K
    kept = None if ledger is None else SelectionRecord(ledger.agent(0))
    if booked is not None and kept is not None and kept.is_lost:
        booked.abandon("interrupted before the best was kept")
        raise BudgetError(
            "The search was interrupted after it was paid for and before its result was kept: "
            "nothing was released and its cost stays spent; leave out --resume for a new one."
        )
    if kept is not None and kept.sent is not None:
        index, score, release = kept.sent
        result = run(runs[index], book=lambda _: [ReplayedLedger(release)])
    else:
        if kept is not None:
            kept.pay()
        index, score, result = _best(plan, runs)
        if kept is not None:
            kept.keep(index, score, result)
    result = replace(result, started=began)  # when the best of them began would tell of K
    told = (Candidate(*plan.grid[index], score),)
    chosen = _covered(plan, search, result, result.statement.releases)
    return Tuned("repeat", search.each, told, chosen)


def _best(plan: _Plan, runs: list[Prepared]) -> tuple[int, float, Result]:
    """Make the runs and return the best; of the others nothing leaves this function."""
    books, best = SearchLedger(plan.ratio), None
    for k, index in enumerate(_draws(plan.prepared.spec, len(runs), plan.mean)):
        own = _reseeded(runs[index], k)
        result = run(own)
        score = noisy_score(own, result.model, books, k)
        if score is not None and (best is None or score > best[1]):
            best = (index, score, result)
    if best is None:
        raise InputError("Expected at least 1 run, got none.")
    return best


def _draws(spec: RunSpec, size: int, mean: float) -> list[int]:
    """Draw K from the geometric distribution with this mean, and K candidates."""
    source = secrets.SystemRandom() if spec.seed is None else random.Random(spec.seed)  # noqa: S311
    chosen = [source.randrange(size)]
    while source.random() > 1.0 / mean:
        chosen.append(source.randrange(size))
    return chosen


# -- the claim --------------------------------------------------------------------------------


def _covered(plan: _Plan, search: Search, result: Result, made: tuple[int, ...]) -> Result:
    """Return the chosen run with a statement and ledgers that cover the whole search.

    `made` counts the releases and scores of all runs; with `repeat` that number stays hidden.
    """
    reserved, schema = plan.spent(search.each), plan.prepared.federation.schema
    facts = tuned_facts(result.facts, search, schema, reserved, made)
    return replace(result, facts=facts, statement=statement_of(facts), search=search)
