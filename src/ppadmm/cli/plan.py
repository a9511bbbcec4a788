"""`ppadmm plan`: what to expect, before any data is touched."""

from pathlib import Path
from typing import Annotated

import typer

from ppadmm.cli import names, options
from ppadmm.cli.app import app
from ppadmm.cli.common import (
    agents_or_sites,
    counts,
    interruptible,
    knots_or_lines,
    numbers,
    progress,
    show,
    trust_of,
)


@app.command(cls=names.NamingCommand)
def plan(
    records: Annotated[int | None, options.value("n", "Training records of every agent.")] = None,
    records_per_agent: Annotated[
        str | None, options.value("n,n,…", "Training records, agent by agent.")
    ] = None,
    features: Annotated[
        int | None, options.value("d", "Features, the intercept included [the public records'].")
    ] = None,
    agents: options.OpenAgents = None,
    graph: options.Graph = "erdos-renyi",
    partition: Annotated[
        str,
        options.value(
            "HOW",
            "How sites differ: even (not at all), dirichlet:ALPHA (skewed labels, sizes as given), "
            "or, of public records, column:NAME (a site for each value of a column).",
        ),
    ] = "even",
    epsilon: Annotated[float, options.epsilon("Budget of the run.")] = 1.0,
    epsilons_per_agent: Annotated[
        str | None,
        options.value("ε,ε,…", "A budget for each agent, in place of --epsilon."),
    ] = None,
    delta: options.Delta = 1e-6,
    error: Annotated[
        float | None, options.value("α", "Find the smallest ε with this median test error.")
    ] = None,
    epsilons: Annotated[
        str | None, options.epsilons("Budgets of the curve [1/8 to 4 times ε].")
    ] = None,
    algorithm: Annotated[
        str | None, options.algorithm("pp; with --trust sum newton", "{planned}")
    ] = None,
    trust: options.Trust = None,
    colluding: options.Colluding = None,
    classes: Annotated[int | None, options.value("K", "Classes [2].")] = None,
    loss: options.Loss = "logistic",
    nonprivate_error: Annotated[
        float | None, options.value("e", "Test error of a model without privacy on similar data.")
    ] = None,
    majority_error: Annotated[
        float | None, options.value("m", "Share of all but the commonest class, if it is known.")
    ] = None,
    like: Annotated[
        str | None,
        options.value(
            "NAME",
            "Plan with made-up records of one kind (table, scattered, power-law, flat) or a "
            "data set (synthetic, adult, us, brazil) [made-up records of several kinds].",
        ),
    ] = None,
    public: Annotated[
        Path | None, options.value("FILE", "Plan with these records. Declares them PUBLIC.")
    ] = None,
    schema: Annotated[str | None, options.value("FILE", "Schema of the public records.")] = None,
    label: Annotated[
        str | None, options.value("NAME", "Label column of the public records.")
    ] = None,
    data_dir: options.DataDir = None,
    adjacency: options.Adjacency = "replace-one",
    rounds: options.Rounds = None,
    eta: options.Eta = None,
    beta: options.Beta = None,
    weights: options.Weights = None,
    knots: options.Knots = None,
    linear: options.Linear = False,
    seeds: Annotated[int, options.value("K", "Simulated runs, dealt over the populations.")] = 12,
    seed: Annotated[int, options.value("S", "Another seed, another simulation.")] = 0,
    changes: Annotated[
        bool, typer.Option(help="Simulate what would help most; quicker without.")
    ] = True,
    joining: Annotated[
        bool, typer.Option(help="Simulate every site alone and without each other; or not.")
    ] = True,
    out: Annotated[
        Path | None, options.out("DIR", "New folder for plan.json and plan.html.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Forecast noise, rounds, messages and test error of a run, and whether joining helps a site.

    Simulated on made-up or public records, at no privacy cost: your own data are not read.
    docs/plan.md says how well such forecasts met real data.

    Every site is forecast alone, with all, and without each of the others.

    Example: ppadmm plan --records-per-agent 20000,3500,500 --features 42 --nonprivate-error 0.15
    """
    from ppadmm.planning.page import plan_text, write_plan
    from ppadmm.planning.plan import plan as run
    from ppadmm.planning.specification import PlanSpec
    from ppadmm.runs.folder import require_new

    if out is not None:
        require_new(out)
    agents_or_sites(agents, partition, None)
    spec = PlanSpec.of(
        records,
        None if records_per_agent is None else counts("records", records_per_agent),
        features=features, agents=agents, graph=graph,
        epsilon=epsilon, delta=delta, error=error, classes=classes,
        epsilons=None if epsilons is None else numbers("epsilons", epsilons), loss=loss,
        nonprivate_error=nonprivate_error, majority_error=majority_error, like=like,
        public=None if public is None else str(public), schema=schema, label=label,
        data_dir=data_dir, adjacency=adjacency, rounds=rounds, eta=eta, beta=beta, seeds=seeds,
        seed=seed, changes=changes, weights=weights, partition=partition, joining=joining,
        knots=knots_or_lines(knots, linear), **trust_of(trust, colluding, algorithm, as_json),
        epsilons_per_agent=None if epsilons_per_agent is None
        else numbers("epsilons per agent", epsilons_per_agent),
    )  # fmt: skip
    with interruptible(), progress(hidden=as_json) as report:
        found = run(spec, report)
    page = None if out is None else write_plan(found, out)
    if as_json:
        show(found.to_dict())
    else:
        show(plan_text(found) + ("" if page is None else f"\n\nPlan: {page}"))
