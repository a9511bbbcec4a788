"""Simulates every site alone, and all without each of them, beside the run of all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ppadmm.arrays import Array
from ppadmm.planning.dealing import Places
from ppadmm.planning.error_ranges import Change, Forecast, compared
from ppadmm.planning.forecast import Judged, Population, infeasible, simulate, stand_ins
from ppadmm.planning.joining import Absence, Joining, SiteForecast, SiteGroup, alike
from ppadmm.planning.populations import most_simulated
from ppadmm.planning.scenario import Scenario
from ppadmm.planning.specification import PlanSpec

Runs = list[Judged]
"""Those of each population; none at all where no noise reaches the budget."""
MANY_SITES = 20
"""Of more sites only one of the smallest, of the middle and of the largest is left out."""


@dataclass(frozen=True)
class JoiningStudy:
    """The run of all at one ε, `together`, on populations with their noise seeds."""

    spec: PlanSpec
    case: Scenario
    epsilon: float
    populations: Sequence[Population]
    seeds: Sequence[Sequence[int]]
    together: Runs

    @cached_property
    def groups(self) -> tuple[SiteGroup, ...]:
        """Sites with the same records and ε; those that a column names are all different."""
        each = self.case.fractions or (1.0,) * self.case.graph.size
        apart = self.spec.dealing.column is not None
        keys = zip(self.case.records, each, strict=True)
        return alike([(*key, i if apart else 0) for i, key in enumerate(keys)])

    @cached_property
    def mixes(self) -> list[Array]:
        """What every site's records are like (S, C), in each population."""
        return [people.dealing.mixes(self.case.records) for people in self.populations]

    @cached_property
    def parts(self) -> list[list[Places]]:
        """Every site's records in each population, the same in all comparisons."""
        return [people.dealt(self.case.records) for people in self.populations]

    def found(self, advance: Callable[[], None]) -> Joining:
        """Return every group of sites alone and together, and all without one of each group."""
        sites, absences = [], []
        for group in self.groups:
            sites.append(self._site(group))
            advance()
        for group in self.leaving:
            absences.append(self._absence(group))
            advance()
        return Joining(tuple(sites), tuple(absences), bool(self.mixes[0].shape[1]))

    @property
    def leaving(self) -> tuple[SiteGroup, ...]:
        """Whom to leave one of out. Of two sites nobody: the other would be alone."""
        if not (self.spec.absences and self.together) or self.case.graph.size <= 2:
            return ()
        if self.case.graph.size <= MANY_SITES or len(self.groups) <= 3:
            return self.groups
        order = sorted(self.groups, key=lambda group: self.case.records[group.typical])
        return order[0], order[len(order) // 2], order[-1]

    def _site(self, group: SiteGroup) -> SiteForecast:
        i = group.typical
        case, records = self.case.alone(i), [self.case.records[k] for k in group.sites]
        alone = self._runs(case, [[self._rows_alone(k, i)] for k in range(len(self.populations))])
        budgets = [self.case.budgets(self.epsilon)[k].epsilon for k in group.sites]
        own = self._forecast(case, alone, i), self._forecast(self.case, self.together, i)
        return SiteForecast(
            names=tuple(self.spec.named(k) for k in group.sites),
            records=(min(records), max(records)),
            epsilons=(min(budgets), max(budgets)),
            alone=self._forecast(case, alone),
            together=self._forecast(self.case, self.together),
            own_alone=own[0],
            own_together=own[1],
            majorities=self._naming(i),
            gain=compared("joining", "with everybody", *own, len(self.populations)),
        )

    def _absence(self, group: SiteGroup) -> Absence:
        away = group.typical
        left = [i for i in range(self.case.graph.size) if i != away]
        case = self.case.without([away])
        runs = self._runs(case, [[parts[i] for i in left] for parts in self.parts])
        some = [next((i for i in each.sites if i != away), None) for each in self.groups]
        name = self.spec.named(away)
        told = [None if i is None else self._changed(case, runs, i) for i in some]
        forecast, change = self._changed(case, runs)
        return Absence(
            name=name if len(group.sites) == 1 else f"one like {name}",
            forecast=forecast,
            change=change,
            own=tuple(pair and pair[0] for pair in told),
            own_changes=tuple(pair and pair[1] for pair in told),
        )

    def _changed(
        self, case: Scenario, runs: Runs, site: int | None = None
    ) -> tuple[Forecast, Change]:
        """Return the errors without somebody, and how much less they are than with all."""
        base, found = (
            self._forecast(self.case, self.together, site), self._forecast(case, runs, site)
        )  # fmt: skip
        return found, compared("absence", "without it", base, found, len(self.populations))

    def _rows_alone(self, k: int, site: int) -> Places:
        """Return a site's records, or more of the same kind where few stood for many."""
        people, n = self.populations[k], self.case.records[site]
        if people.share == 1.0:
            return self.parts[k][site]
        count = stand_ins(n, min(1.0, most_simulated(self.case.features) / n))
        return people.dealing.rows([count], self.mixes[k][[site]])[0]

    def _runs(self, case: Scenario, parts: Sequence[Sequence[Places]]) -> Runs:
        if infeasible(case, self.epsilon) is not None:
            return []
        each = zip(self.populations, self.seeds, parts, strict=True)
        return [
            simulate(case, people, [self.epsilon], seeds, rows)[self.epsilon]
            for people, seeds, rows in each
        ]

    def _forecast(self, case: Scenario, runs: Runs, site: int | None = None) -> Forecast:
        """Return the errors on everybody's records, or on records like those of one site."""
        if not runs:
            return Forecast(self.epsilon, (), infeasible(case, self.epsilon))
        judged = [
            run.pooled if site is None else run.on(mixes[site])
            for run, mixes in zip(runs, self.mixes, strict=True)
        ]
        return Forecast(self.epsilon, tuple(float(v) for errors in judged for v in errors))

    def _naming(self, site: int) -> tuple[float, ...]:
        """Return the error of naming the commonest class of its own mix, run by run."""
        each = zip(self.populations, self.mixes, self.seeds, strict=True)
        return tuple(
            float(people.majority_errors(mixes)[site]) for people, mixes, seeds in each
            for _ in seeds
        )  # fmt: skip
