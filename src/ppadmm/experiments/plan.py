"""What to expect of a run before any data is touched, by simulation on data that are not private.

From public sizes alone: the noise, rounds and messages of the run; the test error with a range
over noise and over what the data may be like; a curve over ε; the smallest ε for an error that is
wanted; and what would help most. It is a forecast on other data, not a promise.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ppadmm import __version__, checks
from ppadmm.algorithms import ALGORITHMS, recipe_named
from ppadmm.algorithms.settings import MAX_ROUNDS
from ppadmm.data import SOURCES
from ppadmm.data.populations import POPULATIONS
from ppadmm.errors import InputError
from ppadmm.experiments.crowds import Need, is_named, made_up, open_public, repeats, resampled
from ppadmm.experiments.forecast import (
    Case,
    Crowd,
    Progress,
    Setup,
    infeasible,
    setup,
    simulate,
)
from ppadmm.experiments.spec import BETA
from ppadmm.privacy import ADJACENCIES, Budget
from ppadmm.problem import KINDS, LOSSES, graph_from, loss_for, make_graph
from ppadmm.typing import Array

FORMAT = 1
"""Of what `to_dict` returns."""
PLANNED = tuple(name for name, recipe in ALGORITHMS.items() if not recipe.not_private_because)
MULTIPLES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""The curve's budgets, in units of ε."""
RANGE = (0.1, 0.9)
MOST_RECORDS, MOST_CELLS, MOST_FEATURES = 40_000, 2_400_000, 5_000
SEARCHED = (0.0625, 0.25, 1.0, 4.0, 16.0, 64.0)
"""Where the search for an ε starts."""


@dataclass(frozen=True)
class PlanSpec:
    """What is known before a run. `None` means: not known, or chosen by the rule.

    `records` is one number for every agent, or one for each. `public` is a file that the user
    calls public; `like` a data set or a kind of population. `error` asks for the smallest ε whose
    median test error is at most so much; it takes the place of `epsilon`.
    """

    records: tuple[int, ...]
    features: int | None = None
    agents: int = 5
    graph: str = "erdos-renyi"
    algorithm: str = "pp"
    loss: str = "logistic"
    classes: int | None = None
    epsilon: float = 1.0
    delta: float = 1e-6
    error: float | None = None
    epsilons: tuple[float, ...] | None = None
    adjacency: str = "replace-one"
    rounds: int | None = None
    eta: float | None = None
    beta: float = BETA
    like: str | None = None
    public: str | None = None
    schema: str | None = None
    label: str | None = None
    data_dir: str | None = None
    nonprivate_error: float | None = None
    majority_error: float | None = None
    seeds: int = 12
    seed: int = 0
    changes: bool = True

    def __post_init__(self) -> None:
        checks.count("agents", self.agents)
        if len(self.records) not in (1, self.agents):
            raise InputError(
                f"Expected records for {self.agents} agents, or one number for all, got "
                f"{len(self.records)} values."
            )
        for n in self.records:
            checks.count("records", n)
        if self.features is not None:
            checks.count("features", self.features, at_least=2, at_most=MOST_FEATURES)
        checks.one_of("algorithm", self.algorithm, PLANNED)
        checks.one_of("loss", self.loss, LOSSES)
        checks.one_of("adjacency", self.adjacency, ADJACENCIES)
        for epsilon in (self.epsilon, *(self.epsilons or ())):
            Budget(epsilon, self.delta)
        for name in ("error", "nonprivate_error", "majority_error", "beta"):
            if getattr(self, name) is not None:
                checks.probability(name.replace("_", " "), getattr(self, name))
        if self.rounds is not None:
            checks.count("rounds", self.rounds, at_most=MAX_ROUNDS)
        if self.eta is not None:
            checks.positive("eta", self.eta)
        checks.count("seeds", self.seeds, at_least=3)
        checks.count("seed", self.seed, at_least=0)
        self._check_source()

    def _check_source(self) -> None:
        if self.like is not None:
            checks.one_of("like", self.like, [*POPULATIONS, *SOURCES])
            if self.public is not None:
                raise InputError("Give like or public records to plan with, not both.")
        if self.classes is not None:
            checks.count("classes", self.classes, at_least=2)
        if self.real:
            for name in ("nonprivate_error", "majority_error", "classes"):
                if getattr(self, name) is not None:
                    raise InputError(
                        f"The {name.replace('_', ' ')} is that of the records planned with; "
                        "leave it out."
                    )
        elif self.features is None:
            raise InputError("How many features has a record, the intercept included? Give them.")
        elif self.schema is not None or self.label is not None:
            raise InputError("A schema or a label is for public records; give them as well.")

    @property
    def real(self) -> bool:
        """Whether records are resampled rather than made up."""
        return self.public is not None or (self.like is not None and is_named(self.like))

    @property
    def holdings(self) -> tuple[int, ...]:
        """Every agent's number of records."""
        return self.records * self.agents if len(self.records) == 1 else self.records


@dataclass(frozen=True)
class Forecast:
    """Simulated test errors at one ε, over populations and noise; empty if ε is infeasible."""

    epsilon: float
    errors: tuple[float, ...]
    infeasible: str | None = None

    @property
    def median(self) -> float | None:
        """Half of the simulated runs do better."""
        return float(np.median(self.errors)) if self.errors else None

    @property
    def range(self) -> tuple[float, float] | None:
        """Four of five simulated runs lie within."""
        return quantiles(self.errors) if self.errors else None

    def reaching(self, error: float) -> float | None:
        """Share of the simulated runs whose error is at most `error`."""
        return float(np.mean(np.array(self.errors) <= error)) if self.errors else None

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, fit for JSON."""
        low, high = self.range or (None, None)
        return {
            "epsilon": self.epsilon,
            "error": self.median,
            "low": low,
            "high": high,
            "infeasible": self.infeasible,
        }


@dataclass(frozen=True)
class Change:
    """What one change would do: how much less error, run by run with the same noise seeds.

    `sources` says which population each run is on.
    """

    name: str
    words: str
    gains: tuple[float, ...]
    sources: tuple[int, ...] = ()
    infeasible: str | None = None

    @property
    def gain(self) -> float:
        """Mean fall of the error."""
        return float(np.mean(self.gains)) if self.gains else float("-inf")

    @property
    def uncertainty(self) -> float:
        """Standard error of the gain; runs on one population count as one, their mean."""
        if not self.gains:
            return 0.0
        gains, sources = np.array(self.gains), np.array(self.sources)
        means = [gains[sources == k].mean() for k in np.unique(sources)]
        return float(np.std(means, ddof=1) / np.sqrt(len(means)))

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, fit for JSON."""
        low, high = quantiles(self.gains) if self.gains else (None, None)
        return {
            "change": self.name,
            "words": self.words,
            "gain": self.gain if self.gains else None,
            "standard_error": self.uncertainty if self.gains else None,
            "low": low,
            "high": high,
            "infeasible": self.infeasible,
        }


@dataclass(frozen=True)
class Target:
    """The answer to "which ε for this error"; `epsilon` is None if none that was tried will do."""

    error: float
    epsilon: float | None
    share: float | None
    largest_tried: float


@dataclass(frozen=True)
class Plan:
    """What to expect. `setup` is None where no noise reaches ε; `expected.infeasible` says why."""

    spec: PlanSpec
    features: int
    classes: int
    graph_name: str
    degrees: tuple[int, ...]
    parameters: int
    setup: Setup | None
    expected: Forecast
    curve: tuple[Forecast, ...]
    populations: tuple[str, ...]
    non_private: tuple[float, ...]
    majority: tuple[float, ...]
    changes: tuple[Change, ...]
    target: Target | None
    simulated_records: int
    notes: tuple[str, ...]
    seconds: float = field(compare=False)

    @property
    def epsilon(self) -> float:
        """The ε of the plan: given, or found for the error that is wanted."""
        return self.expected.epsilon

    @property
    def message_bytes(self) -> int:
        """Two vectors of doubles, θ and the sum of all released, without the envelope."""
        return 16 * self.parameters

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data, fit for JSON (docs/plan.md says what is what)."""
        low, high = _within(self.non_private)
        return {
            "format": FORMAT,
            "version": __version__,
            "private": None,
            "forecast": True,
            "reads_private_data": False,
            "spec": asdict(self.spec),
            "records": list(self.spec.holdings),
            "features": self.features,
            "classes": self.classes,
            "graph": {"name": self.graph_name, "degrees": list(self.degrees)},
            "epsilon": self.epsilon,
            "delta": self.spec.delta,
            "settings": self._settings(),
            "expected": {**self.expected.to_dict(), "errors": list(self.expected.errors)},
            "non_private": {"error": float(np.median(self.non_private)), "low": low, "high": high},
            "majority_error": float(np.median(self.majority)),
            "populations": [
                {"name": name, "non_private_error": error, "majority_error": majority}
                for name, error, majority in zip(
                    self.populations, self.non_private, self.majority, strict=True
                )
            ],
            "curve": [point.to_dict() for point in self.curve],
            "changes": [change.to_dict() for change in self.changes],
            "target": None if self.target is None else asdict(self.target),
            "simulated_records": self.simulated_records,
            "notes": list(self.notes),
            "seconds": self.seconds,
        }

    def _settings(self) -> dict[str, Any] | None:
        if self.setup is None:
            return None
        pooled = recipe_named(self.spec.algorithm).pooled
        return {
            **asdict(self.setup),
            "noise": list(self.setup.noise),
            "messages_per_agent": 0 if pooled else self.setup.releases * max(self.degrees),
            "bytes_per_message": self.message_bytes,
            "bytes_per_agent_and_round": 0 if pooled else self.message_bytes * max(self.degrees),
        }


def quantiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends between which the next value lies four times in five (i/(n+1) quantiles)."""
    low, high = np.quantile(values, RANGE, method="weibull")
    return float(low), float(high)


def _within(values: Sequence[float]) -> tuple[float, float]:
    return float(min(values)), float(max(values))


def plan(spec: PlanSpec, progress: Progress | None = None) -> Plan:
    """Simulate; `progress(done, of)` counts batches of runs. Private data are never read."""
    started = time.perf_counter()
    study = _Study.of(spec, progress)
    points, target = study.searched() if spec.error is not None else ({}, None)
    epsilon = target.epsilon if target is not None and target.epsilon else spec.epsilon
    curve = study.curve(epsilon, points)
    expected = next(point for point in curve if point.epsilon == epsilon)
    doubled = next(point for point in curve if point.epsilon == 2.0 * epsilon)
    changes = study.changes(expected, doubled) if spec.changes and expected.errors else ()
    case, crowds = study.case, study.crowds
    return Plan(
        spec=spec,
        features=case.features,
        classes=study.classes,
        graph_name=case.graph.name,
        degrees=case.graph.degrees,
        parameters=case.parameters,
        setup=None if expected.infeasible else setup(case, epsilon),
        expected=expected,
        curve=tuple(p for p in curve if study.shown(p.epsilon, epsilon, points)),
        populations=tuple(crowd.name for crowd in crowds),
        non_private=tuple(crowd.error for crowd in crowds),
        majority=tuple(crowd.majority_error for crowd in crowds),
        changes=changes,
        target=target,
        simulated_records=study.need.train,
        notes=study.notes,
        seconds=time.perf_counter() - started,
    )


class _Study:
    """The crowds of a plan and what was simulated on them."""

    def __init__(
        self,
        spec: PlanSpec,
        case: Case,
        classes: int,
        need: Need,
        recruits: list[Callable[[], Crowd]],
        notes: tuple[str, ...],
        progress: Progress | None,
    ) -> None:
        self.spec, self.case, self.classes = spec, case, classes
        self.need, self.notes = need, notes
        self._progress, self._done = progress, 0
        self._of = len(recruits) * (2 + _batches(spec, case))
        self.crowds: list[Crowd] = []
        for recruit in recruits[: spec.seeds]:
            self.crowds.append(recruit())
            self._advance()

    @classmethod
    def of(cls, spec: PlanSpec, progress: Progress | None) -> "_Study":
        """Settle sizes, open public records if there are any, and draw the crowds."""
        data = None
        if spec.real:
            data = open_public(
                str(spec.public or spec.like), spec.schema, spec.label, spec.data_dir
            )
        features = spec.features or (data.d if data else 0)
        classes = data.schema.classes if data else spec.classes or 2
        if data is not None and features > data.d:
            raise InputError(
                f"Expected at most the {data.d} features of {data.name!r}, got {features}."
            )
        loss = loss_for(spec.loss, classes)
        case = Case(
            records=spec.holdings, features=features,
            graph=graph_from(spec.graph, spec.agents), loss=loss, algorithm=spec.algorithm,
            delta=spec.delta, adjacency=spec.adjacency, rounds=spec.rounds, eta=spec.eta,
            beta=spec.beta,
        )  # fmt: skip
        total = sum(spec.holdings)
        need = Need(spec.holdings, features, min(1.0, most_simulated(features) / total))
        notes = []
        if need.share < 1.0:
            notes.append(
                f"{need.train:,} simulated records stand for {total:,}; the noise is that of all."
            )
        if data is not None and repeats(data, need):
            notes.append(
                f"{data.name} has {data.train_records:,} records to train on, so some are used "
                "more than once."
            )
        known = (spec.nonprivate_error, spec.majority_error)
        recruits = (
            made_up(spec.like, need, loss, classes, known, spec.seed)
            if data is None
            else resampled(data, need, loss, spec.seed)
        )
        return cls(spec, case, classes, need, recruits, tuple(notes), progress)

    def seeds(self, crowd: int) -> range:
        """Return the noise seeds of a crowd: all runs have seeds of their own."""
        first = 1_000_003 * self.spec.seed
        return range(first + crowd, first + self.spec.seeds, len(self.crowds))

    def errors(self, case: Case, epsilons: Sequence[float]) -> dict[float, tuple[float, ...]]:
        """Return the errors of all runs at every feasible ε, crowd by crowd."""
        parts: list[dict[float, Array]] = []
        for k, crowd in enumerate(self.crowds):
            parts.append(simulate(case, crowd, epsilons, self.seeds(k)))
            self._advance()
        feasible = parts[0]
        return {e: tuple(float(v) for part in parts for v in part[e]) for e in feasible}

    def curve(self, epsilon: float, known: dict[float, tuple[float, ...]]) -> tuple[Forecast, ...]:
        """Return forecasts at ε, 2ε and the curve's budgets; `known` ones are not run again."""
        asked = self.spec.epsilons
        if asked is None:
            asked = () if known else tuple(_nice(m * epsilon) for m in MULTIPLES)
        wanted = sorted({*asked, epsilon, 2.0 * epsilon} - set(known))
        found = {**known, **self.errors(self.case, wanted)}
        points = sorted({*wanted, *known})
        return tuple(
            Forecast(e, found.get(e, ()), None if e in found else infeasible(self.case, e))
            for e in points
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
        for inner in (4, 4):
            low = max((e for e in {*found, *SEARCHED} if e < high), default=None)
            if low is None:
                break
            between = {_nice(float(e)) for e in np.geomspace(low, high, inner + 2)[1:-1]}
            found |= self.errors(self.case, sorted(between - set(found)))
            high = min(e for e in found if reaches(e) and e > low)
        share = float(np.mean(np.array(found[high]) <= wanted))
        return found, Target(wanted, high, share, SEARCHED[-1])

    def changes(self, base: Forecast, doubled: Forecast) -> tuple[Change, ...]:
        """Simulate every change with the same seeds; the largest gain first."""
        found = [self._compared("epsilon", "twice the ε", base, doubled)]
        for name, words, case in _changes(self.case, self.spec):
            errors = self.errors(case, [base.epsilon]).get(base.epsilon, ())
            why = None if errors else infeasible(case, base.epsilon)
            found.append(self._compared(name, words, base, Forecast(base.epsilon, errors, why)))
        return tuple(sorted(found, key=lambda change: -change.gain))

    def _compared(self, name: str, words: str, base: Forecast, other: Forecast) -> Change:
        if not other.errors:
            return Change(name, words, (), infeasible=other.infeasible)
        gains = tuple(b - e for b, e in zip(base.errors, other.errors, strict=True))
        sources = tuple(k for k in range(len(self.crowds)) for _ in self.seeds(k))
        return Change(name, words, gains, sources)

    def _advance(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(min(self._done, self._of), self._of)


def most_simulated(features: int) -> int:
    """Return how many records are simulated at most: fewer of wide ones, but five per feature."""
    return max(5 * features, min(MOST_RECORDS, MOST_CELLS // features))


def _batches(spec: PlanSpec, case: Case) -> int:
    """Return how many times all crowds are simulated."""
    changes = len(_changes(case, spec)) if spec.changes else 0
    return changes + (3 if spec.error is not None else 0)


def _changes(case: Case, spec: PlanSpec) -> list[tuple[str, str, Case]]:
    """Return (name, words, case) of everything that may help."""
    N, pooled = case.graph.size, recipe_named(case.algorithm).pooled
    found = [
        ("records", "twice the records at every agent",
         replace(case, records=tuple(2 * n for n in case.records))),
    ]  # fmt: skip
    half = max(2, (case.features + 1) // 2)
    if half < case.features:
        words = f"the {half} most telling features only"
        found.append(("features", words, replace(case, features=half)))
    complete = make_graph("complete", N)
    if complete.edges != case.graph.edges and not pooled:
        found.append(("graph", "a complete network", replace(case, graph=complete)))
    if spec.graph in KINDS and not pooled:
        words = f"twice the agents ({2 * N}), each with as many records"
        more = replace(case, records=case.records * 2, graph=make_graph(spec.graph, 2 * N))
        found.append(("agents", words, more))
    if case.adjacency == "replace-one":
        words = "the weaker promise zero-out (a record's loss left out, not replaced)"
        found.append(("adjacency", words, replace(case, adjacency="zero-out")))
    if case.algorithm != "pp" and not pooled:
        found.append(("algorithm", "PP-ADMM instead", replace(case, algorithm="pp")))
    return found


def _nice(value: float) -> float:
    """Round to two significant digits."""
    return float(f"{value:.2g}")
