"""What to expect of a run before any data is touched, by simulation on data that are not private.

From public sizes alone: the noise, rounds and messages of the run; the test error with a range
over noise and over what the data may be like; a curve over ε; the smallest ε for an error that is
wanted; what would help most; and what every site gains by joining. It is a forecast on other data,
not a promise.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ppadmm.algorithms import title_of
from ppadmm.algorithms.method import MethodSpec, usual_algorithm
from ppadmm.errors import InputError
from ppadmm.planning.error_ranges import Change, Forecast, compared
from ppadmm.planning.forecast import Judged, Population, Progress, infeasible, setup, simulate
from ppadmm.planning.joining import Joining
from ppadmm.planning.joining_study import JoiningStudy
from ppadmm.planning.populations import (
    SampleSizes,
    is_short,
    made_up,
    most_simulated,
    open_public,
    resampled,
    sites_of,
)
from ppadmm.planning.result import TRUST, Plan, Target
from ppadmm.planning.scenario import Scenario
from ppadmm.planning.specification import PlanSpec
from ppadmm.problem import KINDS, loss_for, make_graph
from ppadmm.summing.trust import LOCAL, SUM

__all__ = ["Plan", "PlanSpec", "most_simulated", "plan"]

MULTIPLES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""The curve's budgets, in units of ε."""
SEARCHED = (0.0625, 0.25, 1.0, 4.0, 16.0, 64.0)
"""Where the search for an ε starts."""


def plan(spec: PlanSpec, progress: Progress | None = None) -> Plan:
    """Forecast a run by simulation. Private data are never read.

    Parameters
    ----------
    spec : PlanSpec
        Public sizes, and what may be known of the records.
    progress : callable, optional
        `progress(done, of)` counts batches of runs.

    Returns
    -------
    Plan
        Noise, rounds, messages, expected error with its range, the curve over ε, what would help,
        and every site alone, with all and without each of the others.

    Examples
    --------
    >>> forecast = plan(PlanSpec(records=(200,), features=4, seeds=3, rounds=5, changes=False))
    >>> forecast.expected.epsilon
    1.0
    """
    started = time.perf_counter()
    study = _Study(spec, progress)
    points, target = study.searched() if spec.error is not None else ({}, None)
    epsilon = target.epsilon if target is not None and target.epsilon else spec.epsilon
    curve = study.curve(epsilon, points)
    expected = next(point for point in curve if point.epsilon == epsilon)
    changes = study.changes(expected, curve) if spec.changes and expected.errors else ()
    joining = study.joining(epsilon) if spec.joining and study.spec.agents > 1 else None
    case, populations = study.case, study.populations
    return Plan(
        spec=study.spec,
        features=case.features,
        classes=study.classes,
        graph_name=case.graph.name,
        degrees=case.graph.degrees,
        parameters=case.parameters,
        setup=None if expected.infeasible else setup(case, epsilon),
        expected=expected,
        curve=tuple(p for p in curve if study.shown(p.epsilon, epsilon, points)),
        populations=tuple(group.name for group in populations),
        non_private=tuple(group.error for group in populations),
        majority=tuple(group.majority_error for group in populations),
        changes=changes,
        joining=joining,
        target=target,
        simulated_records=study.need.train,
        notes=study.notes,
        seconds=time.perf_counter() - started,
    )


class _Study:
    """The populations of a plan and what was simulated on them."""

    def __init__(self, spec: PlanSpec, progress: Progress | None) -> None:
        """Settle sizes, open public records if there are any, and draw the populations."""
        data = open_public(spec) if spec.real else None
        self.spec = spec = spec if data is None else sites_of(data, spec)
        features = spec.features or (data.d if data else 0)
        self.classes = data.schema.classes if data else spec.classes or 2
        if data is not None and features > data.d:
            raise InputError(
                f"Expected at most the {data.d} features of {data.name!r}, got {features}."
            )
        loss, total = loss_for(spec.loss, self.classes, spec.multiclass), sum(spec.holdings)
        self.case = Scenario(
            spec.holdings, features, spec.network, loss, spec.method, spec.fractions
        )  # fmt: skip
        share = min(1.0, most_simulated(features) / total)
        self.need = need = SampleSizes(spec.holdings, features, share, spec.dealing.alpha)
        notes = []
        if share < 1.0:
            notes.append(
                f"{need.train:,} simulated records stand for {total:,}; the noise is that of all."
            )
        if data is not None and is_short(data, need, spec):
            notes.append(
                f"{data.name} has {data.train_records:,} records to train on, so some are used "
                "more than once."
            )
        self.notes = tuple(notes)
        draws = (
            made_up(spec, need, loss, self.classes)
            if data is None
            else resampled(data, need, loss, spec)
        )
        self._progress, self._done = progress, 0
        helping = len(_changes(self.case, spec)) if spec.changes else 0
        self._of = len(draws) * (2 + helping + (3 if spec.error is not None else 0))
        self._together: dict[float, list[Judged]] = {}
        self.populations: list[Population] = []
        for draw in draws[: spec.seeds]:
            self.populations.append(draw())
            self._advance()

    def seeds(self, group: int) -> range:
        """Return the noise seeds of a group: all runs have seeds of their own."""
        first = 1_000_003 * self.spec.seed
        return range(first + group, first + self.spec.seeds, len(self.populations))

    def errors(self, case: Scenario, epsilons: Sequence[float]) -> dict[float, tuple[float, ...]]:
        """Return the errors of all runs at every feasible ε, group by group."""
        parts: list[dict[float, Judged]] = []
        for k, group in enumerate(self.populations):
            parts.append(simulate(case, group, epsilons, self.seeds(k)))
            self._advance()
        if case is self.case:
            self._together |= {e: [part[e] for part in parts] for e in parts[0]}
        return {e: tuple(float(v) for part in parts for v in part[e].pooled) for e in parts[0]}

    def joining(self, epsilon: float) -> Joining:
        """Compare every site alone with the run of all, and that with runs without one of them."""
        seeds = [self.seeds(k) for k in range(len(self.populations))]
        study = JoiningStudy(
            self.spec, self.case, epsilon, self.populations, seeds, self._together.get(epsilon, [])
        )
        self._done, self._of = 0, len(study.groups) + len(study.leaving)
        return study.found(self._advance)

    def curve(self, epsilon: float, known: dict[float, tuple[float, ...]]) -> tuple[Forecast, ...]:
        """Return forecasts at ε, 2ε and the curve's budgets; `known` ones are not run again."""
        asked = self.spec.epsilons
        if asked is None:
            asked = () if known else tuple(_nice(m * epsilon) for m in MULTIPLES)
        needed = {epsilon, 2.0 * epsilon} if self.spec.changes else {epsilon}
        wanted = sorted({*asked, *needed} - set(known))
        found = {**known, **self.errors(self.case, wanted)}
        return tuple(
            Forecast(e, found.get(e, ()), None if e in found else infeasible(self.case, e))
            for e in sorted({*wanted, *known})
        )

    def shown(self, at: float, epsilon: float, known: dict[float, tuple[float, ...]]) -> bool:
        """Whether the curve shows this ε, rather than only needs it for twice the budget."""
        asked = self.spec.epsilons
        return asked is None or at in asked or at == epsilon or at in known

    def searched(self) -> tuple[dict[float, tuple[float, ...]], Target]:
        """Find the smallest ε whose median error is at most the one wanted, to about 5 %."""
        wanted = float(self.spec.error or 0.0)
        found = self.errors(self.case, SEARCHED)

        def reaches(epsilon: float) -> bool:
            return epsilon in found and float(np.median(found[epsilon])) <= wanted

        high = next((e for e in SEARCHED if reaches(e)), None)
        if high is None:
            return found, Target(wanted, None, None, SEARCHED[-1])
        for _ in range(2):
            low = max((e for e in {*found, *SEARCHED} if e < high), default=None)
            if low is None:
                break
            between = {_nice(float(e)) for e in np.geomspace(low, high, 6)[1:-1]}
            found |= self.errors(self.case, sorted(between - set(found)))
            high = min(e for e in found if reaches(e) and e > low)
        share = Forecast(high, found[high]).reaching(wanted)
        return found, Target(wanted, high, share, SEARCHED[-1])

    def changes(self, base: Forecast, curve: Sequence[Forecast]) -> tuple[Change, ...]:
        """Simulate every change with the same seeds; the largest gain first."""
        epsilon, groups = base.epsilon, len(self.populations)
        doubled = next(point for point in curve if point.epsilon == 2.0 * epsilon)
        found = [compared("epsilon", "twice the ε", base, doubled, groups)]
        for name, words, case in _changes(self.case, self.spec):
            errors = self.errors(case, [epsilon]).get(epsilon, ())
            other = Forecast(epsilon, errors, None if errors else infeasible(case, epsilon))
            found.append(compared(name, words, base, other, groups))
        return tuple(sorted(found, key=lambda change: -change.gain))

    def _advance(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(min(self._done, self._of), self._of)


def _changes(case: Scenario, spec: PlanSpec) -> list[tuple[str, str, Scenario]]:
    """Return (name, words, case) of everything that may help."""
    N, pooled = case.graph.size, case.method.recipe.pooled
    doubled = replace(case, records=tuple(2 * n for n in case.records))
    found = [("records", "twice the records at every agent", doubled)]
    half = max(2, (case.features + 1) // 2)
    if half < case.features:
        words = f"the {half} most telling features only"
        found.append(("features", words, replace(case, features=half)))
    if len(case.graph.edges) < N * (N - 1) // 2 and not (pooled or case.method.recipe.everyone):
        complete = make_graph("complete", N)
        found.append(("graph", "a complete network", replace(case, graph=complete)))
    if case.graph.name in KINDS and not pooled:
        words = f"twice the agents ({2 * N}), each with as many records"
        found.append(("agents", words, _doubled(case)))
    if case.method.adjacency == "replace-one":
        words = "the weaker promise zero-out (a record's loss left out, not replaced)"
        weaker = replace(case.method, adjacency="zero-out")
        found.append(("adjacency", words, replace(case, method=weaker)))
    usual = MethodSpec().algorithm
    if case.method.algorithm != usual and not pooled:
        same = replace(case.method, algorithm=usual, trust=LOCAL)
        other = case.by_rule(usual) if case.method.recipe.everyone else same
        found.append(("algorithm", f"{title_of(usual)} instead", replace(case, method=other)))
    return [*found, *_trusts(case)]


def _trusts(case: Scenario) -> list[tuple[str, str, Scenario]]:
    """Return the same with the other trust model, where there is one."""
    N, method = case.graph.size, case.method
    if method.recipe.pooled or N < 2:
        return []
    if method.trusting.by_sum:
        other, words = case.by_rule(method.algorithm), "trust local: noise of its own at every site"
    else:
        other, c = case.by_rule(usual_algorithm(SUM), SUM), method.colluding
        words = f"trust sum: sites see sums only, at most {c} of {N} collude"
        if c >= N:
            return []
    return [(TRUST, words, replace(case, method=other))]


def _doubled(case: Scenario) -> Scenario:
    graph = make_graph(case.graph.name, 2 * case.graph.size)
    return replace(case, records=case.records * 2, graph=graph, fractions=case.fractions * 2)


def _nice(value: float) -> float:
    """Round to two significant digits."""
    return float(f"{value:.2g}")
