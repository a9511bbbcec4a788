"""One training run, from data to result."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from ppadmm import __version__
from ppadmm.accounting import Budget, Tally
from ppadmm.accounting.event_data import to_plain
from ppadmm.algorithms import Settings
from ppadmm.algorithms.method import MethodSpec, settings_of, strictest
from ppadmm.arrays import Array
from ppadmm.data import Dataset, StreamedData
from ppadmm.data.fingerprint import fingerprint
from ppadmm.engines import local
from ppadmm.errors import InputError
from ppadmm.problem import loss_for, risk_over
from ppadmm.records import HoldsRecords
from ppadmm.runs.agent_factory import AgentFactory, agent_factories
from ppadmm.runs.benefit import SiteBenefit, site_benefits
from ppadmm.runs.curves import DrawsCurves
from ppadmm.runs.evaluation import figures_by_round, judge, largest_share, records_in
from ppadmm.runs.facts import facts_of
from ppadmm.runs.federation import (
    Federation,
    FederationFacts,
    OpenLedgers,
    build_federation,
    make_agents,
    noise_from,
)
from ppadmm.runs.hints import hints
from ppadmm.runs.ledger_session import LedgerOptions, LedgerSession, open_session
from ppadmm.runs.metrics import Metrics
from ppadmm.runs.opening import open_data
from ppadmm.runs.specification import RunSpec, Search
from ppadmm.statements.claims import Statement, finite_or_none
from ppadmm.statements.facts import RunFacts, disclosure_of, reasons_against, statement_of

Progress = Callable[[int, int], None]
OnRound = Callable[[int], None]
Advise = Callable[[str], None]
Engine = Callable[[Sequence[AgentFactory], OnRound | None], tuple[local.Trace, list[local.Ending]]]
"""Drives agents made from their roles to the end of a run."""
FORMAT = 3
"""Of what `to_dict` returns; a report needs the format that it knows."""


@dataclass(frozen=True)
class Prepared(HoldsRecords):
    """A run that has passed every check and can start."""

    spec: RunSpec
    method: MethodSpec
    federation: Federation

    @classmethod
    def of(cls, spec: RunSpec, federation: Federation) -> "Prepared":
        """Choose what the spec leaves open, from the public sizes of the federation."""
        return cls(spec, federation.chosen(spec, spec.budgets), federation)

    @cached_property
    def settings(self) -> Settings:
        """What agents run with, at the strictest budget of all."""
        budgets = [strictest(self.spec.budgets)]
        return settings_of([self.method], budgets, solver=self.spec.solver)

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The budget of every site; the strictest of all where the records are pooled."""
        budgets = self.spec.budgets
        if self.spec.recipe.pooled:
            return (strictest(budgets),)
        return (strictest(budgets),) * len(budgets) if self.spec.trusting.by_sum else budgets

    def changed(self, **changes: Any) -> "Prepared":
        """Return the same federation with other settings."""
        return Prepared.of(replace(self.spec, **changes), self.federation)

    @property
    def weights(self) -> tuple[float, ...]:
        """How much every agent counts."""
        return self.federation.weights(self.method, self.spec.budgets)

    @property
    def not_private_because(self) -> tuple[str, ...]:
        """Why no run of this may be called private; empty if it may."""
        dealt, confirmed = self.federation.dealt, self.federation.schema.confirmed
        reasons = reasons_against(self.spec, self.spec.seed, confirmed)
        return (*reasons, *filter(None, [dealt.not_private_because]))


@dataclass(frozen=True)
class EngineOutput:
    """What the agents did: every release, and what is left of each of them."""

    trace: local.Trace
    endings: list[local.Ending]
    started: datetime
    seconds: float

    @property
    def reserved(self) -> list[Tally]:
        """What each agent's ledger set aside."""
        return [end.reserved[0] for end in self.endings]


@dataclass(frozen=True)
class Result(DrawsCurves):
    """A finished run: what was released, public sizes and figures; no record.

    No ε covers `metrics`, `agent_metrics`, `test_majority`, `history`, `train_loss`, `sites`,
    `passes` and `seconds`: they are local diagnostics, worked out from records when the run ended.

    Attributes
    ----------
    spec, settings, setup
        What was asked for, what was chosen, and the public sizes.
    model : array (d,)
        The released model, averaged over agents by weight and over the last half of the rounds.
    agent_models : array (N, d)
        What each agent could have made from its own releases.
    trace : Trace
        Every release, by round and agent, and who spoke when.
    metrics, agent_metrics : Metrics
        Test figures of `model` and of `agent_models`.
    test_records, test_majority
        Number of held-out records, and the share of their commonest class.
    train_loss : float or None
        None for a private run.
    noise : list of dict
        Each agent's scales, such as σ₁ and σ₂.
    passes : float
        How often an agent read all its records, on average.
    started, seconds
        When the run began, and how long it took.
    history : dict
        Test figures by round.
    facts : RunFacts
        What is public, and what every agent paid and released: the statement follows from it.
    statement : Statement
        The verdict with its reasons; `print(result.statement)` shows it.
    sites : tuple of SiteBenefit
        Each site's test error with the joint model, with its own private one, and with the
        commonest class.
    ledger_file : str or None
        Where that ledger lies.
    search : Search or None
        What it is the best of, if it was chosen.
    """

    spec: RunSpec
    settings: Settings
    setup: FederationFacts
    model: Array
    agent_models: Array
    trace: local.Trace
    metrics: Metrics
    agent_metrics: Metrics
    test_records: int
    test_majority: float
    train_loss: float | None
    noise: list[dict[str, float]]
    passes: float
    started: datetime
    seconds: float
    history: dict[str, Any]
    facts: RunFacts
    statement: Statement
    sites: tuple[SiteBenefit, ...] = ()
    search: Search | None = None
    ledger_file: str | None = None

    @property
    def reserved(self) -> list[Tally]:
        """What each agent's ledger set aside."""
        return [agent.reserved for agent in self.facts.agents]

    @property
    def spent(self) -> list[Tally]:
        """What each agent's ledger booked."""
        return [agent.spent for agent in self.facts.agents]

    @property
    def entry(self) -> dict[str, Any] | None:
        """The run's place in the data owner's ledger, if it has one."""
        return self.facts.booked

    def booked(self, entry: dict[str, Any] | None) -> "Result":
        """Return the result with its place in a ledger."""
        return replace(self, facts=replace(self.facts, booked=entry))

    def disclosure(self) -> dict[str, Any]:
        """Return the privacy statement as plain data: what statement.json holds."""
        return disclosure_of(self.facts, self.statement)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data, fit for JSON."""
        spec, setup, statement = self.spec, self.setup, self.statement
        return {
            "format": FORMAT,
            "version": __version__,
            "started": self.started.isoformat(timespec="seconds"),
            "algorithm": spec.algorithm,
            "calibration": spec.calibration,
            "epsilon": statement.claimed_epsilon,
            "delta": spec.delta,
            "epsilon_proven": statement.epsilon,
            "adjacency": spec.adjacency,
            "private": statement.private,
            "not_private_because": list(statement.not_private_because),
            "warnings": list(statement.warnings),
            "hints": list(hints(spec, setup)),
            "agents": spec.agents,
            "agent_names": list(setup.names),
            "partition": spec.partition,
            "graph": {"name": setup.graph.name, "edges": setup.graph.edges},
            "records": list(setup.records),
            "weights": self.facts.method.weighting,
            "site_weights": [agent.weight for agent in self.facts.agents],
            "features": setup.features,
            "parameters": setup.parameters,
            "classes": list(setup.schema.label.names),
            "loss": setup.loss.name,
            "rounds": self.trace.rounds,
            "eta": self.settings.eta[0],
            "beta": self.settings.beta,
            "releases": self.trace.messages[:, 0].tolist(),
            "test_records": self.test_records,
            "test_majority": self.test_majority,
            "test_error": float(self.metrics.error[0]),
            "test_error_per_agent": [float(e) for e in self.agent_metrics.error],
            "test_auc": finite_or_none(float(self.metrics.auc[0])),
            "test_log_loss": float(self.metrics.log_loss[0]),
            "test_log_loss_per_agent": [float(v) for v in self.agent_metrics.log_loss],
            "train_loss": self.train_loss,
            "sites": [site.to_dict() for site in self.sites],
            "passes": self.passes,
            "seconds": self.seconds,
            "history": self.history,
            "noise": self.noise,
            "ledger": [
                {"reserved": to_plain(agent.reserved), "spent": to_plain(agent.spent)}
                for agent in self.facts.agents
            ],
            "booked": self.entry,
            "ledger_file": self.ledger_file,
            "spec": asdict(spec),
            "search": None if self.search is None else self.search.settings(),
            "statement": statement.to_dict(),
        }


def prepare(spec: RunSpec, data: object | None = None) -> Prepared:
    """Read the data, split it, draw the network and choose what the user left open.

    `data`, a data frame or a `Dataset`, takes the place of the name or path in the spec.
    """
    return prepare_opened(spec, open_data(spec, data), data)


def prepare_opened(
    spec: RunSpec, opened: Dataset | StreamedData, data: object | None = None
) -> Prepared:
    """Do the same with what `open_data` returned for this `data`."""
    loss = loss_for(spec.loss, opened.schema.classes, spec.multiclass)
    federation = build_federation(
        opened, spec.agents, spec.graph, loss, spec.seed or 0, spec.records, spec.partition
    )
    spec = spec.settled(spec.data if data is None else opened.name, federation.graph.size)
    return Prepared.of(spec, federation)


def train(
    spec: RunSpec,
    progress: Progress | None = None,
    *,
    data: object | None = None,
    booking: LedgerOptions | None = None,
    engine: Engine | None = None,
    advise: Advise | None = None,
) -> Result:
    """Run `spec` from data to result, in this process or on `engine`.

    Parameters
    ----------
    spec : RunSpec
        What to run.
    progress : callable, optional
        `progress(done, of)` is called after every round.
    data : frame or Dataset, optional
        In place of the name or path in the spec: a pandas or polars frame with a `label` or a
        `schema` in the spec, or what `ppadmm.datasets.load` returned.
    booking : LedgerOptions, optional
        The data owner's ledger that the run is charged to.
    engine : callable, optional
        What drives the agents (docs/howto/add-an-engine.md).
    advise : callable, optional
        Gets a sentence on what would help, before anything is spent.

    Returns
    -------
    Result
        Model, statement and figures. Nothing is written; `ppadmm.runs.folder.write_run` does that.

    Raises
    ------
    InputError, DataError
        A setting or a record cannot be used. Nothing was released.
    BudgetError
        The ledger does not allow it, or no noise reaches the budget. Nothing was released.

    Examples
    --------
    >>> result = train(RunSpec(agents=3, records=(50, 50, 50), rounds=2, epsilon=1.0))
    >>> result.statement.private, result.statement.epsilon <= 1.0
    (True, True)
    """
    if booking is not None and engine is not None:
        raise InputError("A ledger needs all agents in this process; leave out the engine.")
    opened = open_data(spec, data)
    prepared = prepare_opened(spec, opened, data)
    try:
        for hint in hints(prepared.spec, prepared.federation.setup):
            (advise or _unsaid)(hint)
        if booking is None:
            return run(prepared, progress, engine=engine)
        with open_ledger(booking, prepared, opened) as booked:
            result = run(prepared, progress, booked.book)
            return replace(result.booked(booked.finish()), ledger_file=str(booking.ledger))
    finally:
        prepared.federation.close()


def _unsaid(hint: str) -> None:
    """Keep what nobody asked for: a result has it, too."""


def open_ledger(
    booking: LedgerOptions,
    prepared: Prepared,
    opened: Dataset | StreamedData,
    search: Search | None = None,
) -> LedgerSession:
    """Open the ledger that a run, or a whole search, is to be charged to."""
    return open_session(
        booking,
        prepared.spec,
        prepared.not_private_because,
        name=opened.name,
        schema=opened.schema,
        fingerprint=fingerprint(opened),
        search=search,
    )


def run(
    prepared: Prepared,
    progress: Progress | None = None,
    book: OpenLedgers | None = None,
    engine: Engine | None = None,
) -> Result:
    """Run what was prepared; reading the data is not part of it.

    `book` takes what every agent reserves and returns the ledgers that they pay into.
    """
    return _result(prepared, execute(prepared, progress, book, engine))


def execute(
    prepared: Prepared,
    progress: Progress | None = None,
    book: OpenLedgers | None = None,
    engine: Engine | None = None,
) -> EngineOutput:
    """Drive the agents to the end; nothing is held against test records."""
    now, started = datetime.now().astimezone(), time.perf_counter()
    spec, federation, before = prepared.spec, prepared.federation, prepared.spec.trusting.announced
    rounds = prepared.settings.rounds + before
    on_round = None if progress is None else lambda t: progress(t + 1, rounds)
    own = [replace(prepared.settings, budgets=(budget,)) for budget in prepared.budgets]
    if engine is None:
        sites, noise = federation.sites(prepared.method, spec.budgets), noise_from(spec.seed)
        agents = make_agents(spec.algorithm, sites, own, noise, spec.guaranteed, book)
        trace = local.run(agents, on_round)
        pairs = zip(agents, sites, strict=True)
        endings = [local.ending(agent, site.risk) for agent, site in pairs]
    else:
        roles = agent_factories(federation, prepared.method, own, spec.seed, spec.guaranteed)
        trace, endings = engine(roles, on_round)
    return EngineOutput(trace.since(before), endings, now, time.perf_counter() - started)


def _result(prepared: Prepared, output: EngineOutput) -> Result:
    trace, endings, federation = output.trace, output.endings, prepared.federation
    facts = facts_of(prepared, output)
    statement = statement_of(facts)
    weights = prepared.weights
    model, agent_models = trace.model(weights)[0], trace.agent_models()[:, 0]
    classes, test = federation.schema.classes, federation.held_out
    return Result(
        spec=prepared.spec,
        settings=prepared.settings,
        setup=federation.setup,
        model=model,
        agent_models=agent_models,
        trace=trace,
        metrics=judge(test, model[None], classes),
        agent_metrics=judge(test, agent_models, classes, areas=False),
        test_records=records_in(test),
        test_majority=largest_share(test),
        train_loss=None if statement.private else _train_loss(federation, model),
        noise=[{name: float(s[0]) for name, s in end.scales.items()} for end in endings],
        passes=float(np.mean([end.passes for end in endings])),
        started=output.started,
        seconds=output.seconds,
        history=figures_by_round(trace, weights, test, classes),
        facts=facts,
        statement=statement,
        sites=site_benefits(federation, prepared.method, prepared.budgets, model),
    )


def _train_loss(federation: Federation, model: Array) -> float:
    values = [risk_over(part, federation.loss).value(model[None])[0] for part in federation.shards]
    return float(np.average(values, weights=[part.n for part in federation.shards]))
