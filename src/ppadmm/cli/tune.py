"""`ppadmm tune`: choose settings on private records, within one budget."""

from pathlib import Path
from typing import Annotated

import typer

from ppadmm.cli import names, options
from ppadmm.cli.app import app
from ppadmm.cli.common import booking_of, interruptible, kept_by, numbers, progress, show


@app.command(cls=names.NamingCommand)
def tune(
    data: options.Data = "synthetic",
    etas: Annotated[
        str | None, typer.Option(metavar="η,η,…", help="Penalties to choose from.")
    ] = None,
    regularisations: Annotated[
        str | None, typer.Option(metavar="λ,λ,…", help="Regularisers to choose from.")
    ] = None,
    how: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="split (all settings are run, in one budget) or repeat (a random number of runs, "
            "only the best leaves: with --algorithm centralised).",
        ),
    ] = "split",
    algorithm: options.Algorithm = "pp",
    epsilon: Annotated[float, options.epsilon("Budget of the whole search and its result.")] = 1.0,
    delta: options.Delta = 1e-6,
    label: options.Label = None,
    schema: options.Schema = None,
    data_dir: options.DataDir = None,
    agents: options.Agents = 5,
    graph: options.Graph = "erdos-renyi",
    rounds: options.Rounds = None,
    seed: options.Seed = None,
    as_json: options.Json = False,
    out: Annotated[Path | None, options.out("DIR", "New folder for the chosen run.")] = None,
    ledger: options.LedgerFile = None,
    dataset: options.LedgerName = None,
    resume: options.Resume = False,
) -> None:
    """Choose η or λ on the private records: all runs and their scores fit into one budget.

    What need not be tuned on private records is free: the defaults come from public sizes, and
    public data of the same kind cost nothing.

    With --ledger all runs and scores are reserved in the data owner's ledger before the first.

    Example: ppadmm tune patients.csv --schema patients.toml --etas 0.001,0.01,0.1 --epsilon 1
    """
    from ppadmm.runs.folder import require_new, write_run
    from ppadmm.runs.specification import RunSpec
    from ppadmm.studies.tune import tune as search
    from ppadmm.studies.tune_text import tune_text

    booking = booking_of(ledger, dataset, resume)
    with interruptible(kept_by(booking)):
        spec = RunSpec.of(
            data=data, algorithm=algorithm, epsilon=epsilon, delta=delta, label=label,
            schema=schema, data_dir=data_dir, agents=agents, graph=graph, rounds=rounds, seed=seed,
        )  # fmt: skip
        if out is not None:
            require_new(out)
        with progress(hidden=as_json) as report:
            found = search(
                spec,
                numbers("etas", etas) if etas else (),
                numbers("regularisations", regularisations) if regularisations else (),
                how,
                on_run=report,
                booking=booking,
            )
        if out is not None:
            write_run(found.result, out)
    show(found.to_dict() if as_json else tune_text(found))
