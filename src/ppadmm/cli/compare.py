"""`ppadmm compare`: algorithms side by side at the same total budget."""

from pathlib import Path
from typing import Annotated

from ppadmm.cli import names, options
from ppadmm.cli.app import app
from ppadmm.cli.common import (
    agents_or_sites,
    counts,
    interruptible,
    knots_or_lines,
    named,
    numbers,
    progress,
    show,
    trust_of,
)


@app.command(cls=names.NamingCommand)
def compare(
    data: options.Data = None,
    algorithms: Annotated[
        str, options.value("NAMES", "Comma-separated: {algorithms}, or all.")
    ] = "all",
    epsilons: Annotated[str, options.epsilons("Budgets, comma-separated.")] = "0.5,1,2",
    seeds: options.Seeds = 5,
    splits: options.Splits = 5,
    delta: options.Delta = 1e-4,
    label: options.Label = None,
    schema: options.Schema = None,
    data_dir: options.DataDir = None,
    agents: options.OpenAgents = None,
    partition: options.OpenPartition = None,
    records: options.Records = None,
    graph: options.Graph = "erdos-renyi",
    loss: options.Loss = "logistic",
    multiclass: options.Multiclass = "auto",
    trust: options.Trust = None,
    colluding: options.Colluding = None,
    calibration: options.Calibration = "proven",
    rounds: options.Rounds = None,
    eta: options.Eta = None,
    beta: options.Beta = None,
    weights: options.Weights = None,
    knots: options.Knots = None,
    linear: options.Linear = False,
    jobs: options.Jobs = None,
    engine: options.SweepEngine = "pool",
    ray_address: options.RayAddress = None,
    out: Annotated[
        Path | None, options.out("DIR", "Folder for finished cells; one that exists is continued.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Simulate several algorithms at the same total budget and print a table.

    Example: ppadmm compare adult --algorithms pp,ipp,gradient --epsilons 0.5,1,2 --seeds 20
    """
    from ppadmm.engines.ray.choice import cells_runner
    from ppadmm.studies.compare import SIMULATION, Grid
    from ppadmm.studies.compare import compare as run
    from ppadmm.studies.compare_text import comparison

    agents_or_sites(agents, partition, data)
    trusting = trust_of(trust, colluding, quiet=True)
    runner = cells_runner(engine, jobs, ray_address)
    kept = f"finished cells are kept in {str(out)!r}" if out else "nothing was written"
    with interruptible(kept):
        grid = Grid.of(
            data=named(data), algorithms=algorithms, epsilons=numbers("epsilons", epsilons),
            delta=delta, seeds=seeds, splits=splits, agents=agents, partition=partition,
            graph=graph, loss=loss, label=label, schema=schema, data_dir=data_dir,
            calibration=calibration, rounds=rounds, eta=eta, beta=beta, multiclass=multiclass,
            trust=trusting.get("trust"), colluding=colluding, weights=weights,
            knots=knots_or_lines(knots, linear),
            records=None if records is None else counts("records", records),
        )  # fmt: skip
        with progress(as_json, "cells") as report:
            rows = run(grid, report, out, jobs or 1, runner)
    if as_json:
        figures = [row.to_dict() for row in rows]
        show({"private": False, "not_private_because": [SIMULATION], "rows": figures})
    else:
        show(f"{comparison(rows)}\n\nNOT PRIVATE: {SIMULATION}.")
