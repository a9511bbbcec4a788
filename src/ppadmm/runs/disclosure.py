"""statement.json: all that may be said about a run's privacy, as data with a published schema.

ppadmm/statements/schemas/statement.schema.json says what each entry means.
"""

from collections import Counter
from typing import Any

from ppadmm import __version__
from ppadmm.accounting import Tally, accountant
from ppadmm.accounting.curves import curves
from ppadmm.accounting.event_data import to_plain
from ppadmm.algorithms import recipe_named
from ppadmm.runs.ledger_session import spec_digest
from ppadmm.runs.run import Result
from ppadmm.statements.certificate import STATEMENT_FORMAT
from ppadmm.statements.claims import finite_or_none

FORMAT, KIND = STATEMENT_FORMAT, "ppadmm privacy statement"
UNTRIED = (
    "This run tried nothing on the records to choose its settings. Settings that a person gave "
    "must not come from looking at them, or from runs that are not in the ledger: each private "
    "trial costs an ε of its own."
)
TRIED = (
    "{} settings were tried on the records; ε covers all their runs, the scores they were chosen "
    "by, and the result."
)


def disclosure(result: Result) -> dict[str, Any]:
    """Return the statement of a run as plain data."""
    statement = result.statement
    return {
        "format": FORMAT,
        "kind": KIND,
        "version": __version__,
        "started": result.started.isoformat(timespec="seconds"),
        "private": statement.private,
        "not_private_because": list(statement.not_private_because),
        "unit": statement.unit,
        "adjacency": statement.adjacency,
        "epsilon": statement.epsilon,
        "delta": statement.delta,
        "bound": statement.theorem,
        "claim": _claim(result),
        "accountant": statement.accountant,
        "agents": _agents(result),
        "released": _released(result.spent),
        "curves": curves(result.reserved),
        "run": _run(result),
        "tuned": _tuned(result),
        "public": _public(result),
        "schema_digest": result.setup.schema.digest(),
        "settings_digest": _settings_digest(result),
        "noise_source": statement.noise_source,
        "warnings": list(statement.warnings),
        "caveats": list(statement.caveats),
        "booked": result.entry,
    }


def _claim(result: Result) -> dict[str, Any]:
    """Compare what the calibration aimed at with what is proven, agent by agent."""
    said = result.statement
    return {"calibration": said.calibration, "epsilon": said.claimed_epsilon,
            "proven": said.claims_hold}  # fmt: skip


def _agents(result: Result) -> list[dict[str, Any]]:
    setup = result.setup
    pooled = recipe_named(result.spec.algorithm).pooled
    names = ["all, pooled"] if pooled else list(setup.names)
    records = [sum(setup.records)] if pooled else list(setup.records)
    return [
        {
            "agent": i,
            "name": names[i],
            "records": records[i],
            "claimed": result.statement.claims[i],
            "epsilon": finite_or_none(bound.epsilon),
            "bound": bound.theorem,
            "releases": result.statement.releases[i],
            "reserved": to_plain(tally),
            "booked": to_plain(result.spent[i]),
        }
        for i, tally in enumerate(result.reserved)
        for bound in [accountant.epsilon(tally, result.statement.delta)]
    ]


def _released(spent: list[Tally]) -> dict[str, int]:
    """Count what was booked, over all agents, by kind of event."""
    counts: Counter[str] = Counter()
    for tally in spent:
        for event, times in tally.counts:
            counts[type(event).__name__] += times
    return dict(counts)


def _run(result: Result) -> dict[str, Any]:
    spec, settings = result.spec, result.settings
    return {
        "algorithm": spec.algorithm,
        "loss": result.setup.loss.name,
        "rounds": result.trace.rounds,
        "eta": settings.eta[0],
        "regularisation": settings.regularisation[0],
        "beta": settings.beta,
        "features": result.setup.features,
        "parameters": result.setup.parameters,
        "edges": [list(edge) for edge in result.setup.graph.edges],
    }


def _settings_digest(result: Result) -> str:
    search = result.search
    spec = result.spec if search is None else search.spec
    return spec_digest(spec, result.setup.schema, search)


def _tuned(result: Result) -> dict[str, Any]:
    spec, search = result.spec, result.search
    found = {
        "rounds": "rule" if spec.rounds is None else "given",
        "eta": "rule" if spec.eta is None else "given",
        "regularisation": "given" if spec.regularisation else "rule",
        "on_the_records": False,
        "epsilon": 0.0,
        "note": UNTRIED,
        "search": None,
    }
    if search is None:
        return found
    for name, tried in zip(("eta", "regularisation"), zip(*search.grid, strict=True), strict=True):
        if len(set(tried)) > 1:
            found[name] = "chosen"
    note = TRIED.format(len(search.grid))
    return {**found, "on_the_records": True, "epsilon": result.statement.epsilon, "note": note,
            "search": search.settings()}  # fmt: skip


def _public(result: Result) -> list[str]:
    schema = result.setup.schema
    confirmed = (
        "a person confirmed" if schema.confirmed else "inferred from the records, NOT public"
    )
    return [
        "the number of records of each agent",
        f"the schema: columns, bounds, categories and classes ({confirmed})",
        "the network: who talks to whom",
        "algorithm, loss, rounds, η, β and the weight of the regulariser",
        "each agent's budget (ε, δ) and the size of its noise",
    ]
