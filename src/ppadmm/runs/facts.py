"""A simulated run, or one owner's, as the facts that a statement is made from."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ppadmm.accounting import Tally
from ppadmm.algorithms import title_of
from ppadmm.data import Schema
from ppadmm.runs.ledger_session import spec_digest
from ppadmm.runs.specification import Search
from ppadmm.statements.facts import AgentFacts, RunFacts, Tuning, noise_source

if TYPE_CHECKING:
    from ppadmm.runs.run import EngineOutput, Prepared

POOLED = "all, pooled"
"""What the one agent is called that has everybody's records."""
LOCAL_BUDGET = "each agent's budget (ε, δ) and the size of its noise"
SUM_BUDGET = "the strictest budget (ε, δ) of all sites, and each one's share of the noise"


def facts_of(prepared: "Prepared", output: "EngineOutput") -> RunFacts:
    """Return what is public of a run that is over, and what its agents paid and released."""
    spec, federation = prepared.spec, prepared.federation
    return RunFacts(
        method=prepared.method,
        loss=federation.loss.name,
        rounds=output.trace.rounds,
        features=federation.features,
        parameters=federation.setup.parameters,
        edges=federation.graph.edges,
        agents=_agents(prepared, output),
        total=sum(federation.records),
        schema=federation.schema.digest(),
        settings=spec_digest(spec, federation.schema),
        public=_public(federation.schema.confirmed, spec.trusting.by_sum),
        started=output.started.isoformat(timespec="seconds"),
        noise_source=noise_source(spec, spec.seed),
        not_private_because=prepared.not_private_because,
        caveats=_caveats(prepared),
        tuning=Tuning(
            rounds="rule" if spec.rounds is None else "given",
            eta="rule" if spec.eta is None else "given",
            regularisation="given" if spec.regularisation else "rule",
        ),
    )


def tuned_facts(
    facts: RunFacts,
    search: Search,
    schema: Schema,
    reserved: Sequence[Tally],
    releases: Sequence[int],
) -> RunFacts:
    """Return the facts of the best of a search, whose agents reserved and released all of it."""
    agents = tuple(
        replace(agent, claimed=search.spec.epsilon, reserved=most, spent=most, releases=made)
        for agent, most, made in zip(facts.agents, reserved, releases, strict=True)
    )
    pairs = zip(("eta", "regularisation"), zip(*search.grid, strict=True), strict=True)
    chosen = {name: "chosen" for name, tried in pairs if len(set(tried)) > 1}
    tried = (
        f"{len(search.grid)} settings were tried on the records; ε covers all their runs, the "
        "scores they were chosen by, and the result."
    )
    tuning = replace(facts.tuning, **chosen, note=tried, search=search.settings())
    count = "all these runs" if search.how == "split" else "the whole search"
    note = (
        f"Tuned on the private records over {len(search.grid)} settings ({search.how}): ε covers "
        f"{count} and the scores; each run has ε = {search.each:.4g} of its own."
    )
    return replace(
        facts,
        agents=agents,
        settings=spec_digest(search.spec, schema, search),
        tuning=tuning,
        caveats=(note, *facts.caveats),
    )


def _agents(prepared: "Prepared", output: "EngineOutput") -> tuple[AgentFacts, ...]:
    federation, recipe, budgets = prepared.federation, prepared.spec.recipe, prepared.budgets
    names = [POOLED] if recipe.pooled and len(federation.names) > 1 else federation.names
    records = [sum(federation.records)] if recipe.pooled else federation.records
    weights = prepared.weights
    return tuple(
        AgentFacts(
            number=i,
            name=names[i],
            records=records[i],
            weight=weights[i],
            claimed=None if recipe.noiseless else budgets[i].epsilon,
            releases=int(output.trace.messages[i, 0]),
            reserved=end.reserved[0],
            spent=end.spent[0],
            noise={name: float(size[0]) for name, size in end.scales.items()},
        )
        for i, end in enumerate(output.endings)
    )


def _caveats(prepared: "Prepared") -> tuple[str, ...]:
    """Say what a single site ran, and what the guarantee does not cover of who holds what."""
    spec, caveat = prepared.spec, prepared.federation.dealt.caveat
    alone = f"One site has nobody to exchange with: {title_of(spec.algorithm)} ran at that site."
    return (*([alone] if spec.agents == 1 else []), *([caveat] if caveat else []))


def _public(confirmed: bool, by_sum: bool) -> tuple[str, ...]:
    how = "a person confirmed" if confirmed else "inferred from the records, NOT public"
    return (
        "the number of records of each agent",
        f"the schema: columns, bounds, categories and classes ({how})",
        "the network: who talks to whom",
        "algorithm, loss, rounds, η, β, the weights of the agents and that of the regulariser",
        SUM_BUDGET if by_sum else LOCAL_BUDGET,
    )
