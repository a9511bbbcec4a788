"""`ppadmm tune`: choose settings on private records, within one budget."""

from pathlib import Path
from typing import Annotated

import typer

from ppadmm.cli import names, options
from ppadmm.cli.app import app
from ppadmm.cli.common import (
    agents_or_sites,
    booking_of,
    interruptible,
    is_saved,
    kept_by,
    knots_or_lines,
    named,
    numbers,
    progress,
    show,
    trust_of,
    written,
)


@app.command(cls=names.NamingCommand)
def tune(
    data: options.Data = None,
    etas: Annotated[str | None, options.value("η,η,…", "Penalties to choose from.")] = None,
    regularisations: Annotated[
        str | None, options.value("λ,λ,…", "Regularisers to choose from.")
    ] = None,
    how: Annotated[
        str,
        options.value(
            "NAME",
            "split (all settings are run, in one budget) or repeat (a random number of runs, "
            "only the best leaves: with --algorithm centralised).",
        ),
    ] = "split",
    algorithm: options.OpenAlgorithm = None,
    trust: options.Trust = None,
    colluding: options.Colluding = None,
    epsilon: Annotated[float, options.epsilon("Budget of the whole search and its result.")] = 1.0,
    delta: options.Delta = 1e-6,
    label: options.Label = None,
    schema: options.Schema = None,
    data_dir: options.DataDir = None,
    agents: options.OpenAgents = None,
    partition: options.OpenPartition = None,
    graph: options.Graph = "erdos-renyi",
    rounds: options.Rounds = None,
    seed: options.Seed = None,
    as_json: options.Json = False,
    out: Annotated[
        Path | None,
        options.out(
            "DIR",
            "New folder for the chosen run and tune.json, what was tried "
            "[runs/<date>-<time>-<algorithm>-<data>; with --json none].",
        ),
    ] = None,
    no_save: options.NoSave = False,
    knots: options.Knots = None,
    linear: options.Linear = False,
    ledger: options.LedgerFile = None,
    dataset: options.LedgerName = None,
    resume: options.Resume = False,
) -> None:
    """Choose η or λ on the private records: all runs and their scores fit into one budget.

    What need not be tuned on private records is free: the defaults come from public sizes, and
    public data of the same kind cost nothing.

    With --ledger all runs and scores are reserved in the data owner's ledger before the first.

    The chosen run and what was tried are saved as train saves a run: in a new folder under runs, or
    in that of --out. With --json nothing is saved unless --out is given; with --no-save, never.

    Example: ppadmm tune patients.csv --schema patients.toml --etas 0.001,0.01,0.1 --epsilon 1
    """
    from ppadmm.runs.folder import new_folder, require_new
    from ppadmm.runs.specification import RunSpec
    from ppadmm.studies.tune import tune as search
    from ppadmm.studies.tune import write_tuned
    from ppadmm.studies.tune_text import tune_text

    agents_or_sites(agents, partition, data)
    booking = booking_of(ledger, dataset, resume)
    with interruptible(kept_by(booking)):
        spec = RunSpec.of(
            data=named(data), epsilon=epsilon, delta=delta, label=label,
            schema=schema, data_dir=data_dir, agents=agents, partition=partition, graph=graph,
            rounds=rounds, seed=seed, knots=knots_or_lines(knots, linear),
            **trust_of(trust, colluding, algorithm, as_json),
        )  # fmt: skip
        save = is_saved(out, no_save, as_json)
        if save:
            require_new(out or new_folder(spec))
        with progress(hidden=as_json) as report:
            found = search(
                spec,
                numbers("etas", etas) if etas else (),
                numbers("regularisations", regularisations) if regularisations else (),
                how,
                on_run=report,
                booking=booking,
            )
        again = None if booking is None else "the same command with --resume"
        folder, unfinished = written(lambda: write_tuned(found, out) if save else None, again)
    show(found.to_dict() if as_json else tune_text(found))
    if folder is not None and not as_json:
        typer.echo(f"\nResults: {folder}\nReport:  {folder / 'report.html'}")
    if unfinished is not None:
        raise unfinished
