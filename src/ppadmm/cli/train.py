"""`ppadmm train`: one run, all agents in this process or each in an actor of a Ray cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppadmm.cli import names, options
from ppadmm.cli.app import app
from ppadmm.cli.common import (
    agents_or_sites,
    booking_of,
    counts,
    hint,
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

if TYPE_CHECKING:
    from ppadmm.algorithms.settings import Speaking


@app.command(cls=names.NamingCommand)
def train(
    data: options.Data = None,
    label: options.Label = None,
    schema: options.Schema = None,
    data_dir: options.DataDir = None,
    agents: options.OpenAgents = None,
    partition: options.OpenPartition = None,
    memory: Annotated[
        str | None,
        options.value(
            "SIZE",
            "Stream Parquet files and hold at most so much at a time; of a folder [512MB].",
        ),
    ] = None,
    graph: options.OpenGraph = None,
    algorithm: options.OpenAlgorithm = None,
    trust: options.Trust = None,
    colluding: options.Colluding = None,
    loss: options.OpenLoss = None,
    multiclass: options.OpenMulticlass = None,
    epsilon: Annotated[
        float | None, options.epsilon("Privacy budget of every agent, all rounds together [1].")
    ] = None,
    epsilons: Annotated[
        str | None, options.epsilons("A budget for each agent, in place of --epsilon.")
    ] = None,
    records: options.Records = None,
    delta: Annotated[
        float | None, options.delta("Its δ; choose it well below 1/records [1e-6].")
    ] = None,
    rounds: options.Rounds = None,
    eta: options.Eta = None,
    regularisation: options.OpenRegularisation = None,
    beta: options.Beta = None,
    calibration: options.OpenCalibration = None,
    adjacency: options.OpenAdjacency = None,
    weights: options.Weights = None,
    knots: options.Knots = None,
    linear: options.Linear = False,
    solver: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=names.completed("{solvers}"),
            help="{solvers} [auto].",
        ),
    ] = None,
    releases: Annotated[
        int | None, options.value("C", "ipp: rounds to speak in at the most [half of them].")
    ] = None,
    statistic: Annotated[
        str | None, options.value("NAME", "ipp: gradient, movement or loss [gradient].")
    ] = None,
    test: Annotated[str | None, options.value("NAME", "ipp: auto, gaussian or svt [auto].")] = None,
    test_share: Annotated[
        float | None, options.value("SHARE", "ipp: part of the budget for the tests [0.02].")
    ] = None,
    level: Annotated[
        float | None, options.value("X", "ipp: threshold, in units of the noise's effect [0.5].")
    ] = None,
    preset: Annotated[
        str | None, options.value("NAME", "paper: the settings of the paper, NOT private.")
    ] = None,
    seed: options.Seed = None,
    engine: Annotated[
        str,
        options.value(
            "NAME",
            "local (all agents in this process) or ray (each agent in an actor of a cluster; "
            "pip install 'ppadmm[ray]').",
        ),
    ] = "local",
    ray_address: options.RayAddress = None,
    checkpoints: Annotated[
        Path | None,
        options.value(
            "DIR",
            "With --engine ray: a folder that all nodes share, where an agent that is lost "
            "is taken up from [temporary files of this machine].",
        ),
    ] = None,
    as_json: options.Json = False,
    out: Annotated[
        Path | None,
        options.out(
            "DIR",
            "New folder for report.html, result.json, model.json, statement.txt, curves.csv and "
            "releases.npz [runs/<date>-<time>-<algorithm>-<data>; with --json none].",
        ),
    ] = None,
    no_save: options.NoSave = False,
    mlflow: Annotated[
        str | None,
        options.value(
            "URI",
            "Log to this MLflow store what was released, and nothing else; "
            "pip install 'ppadmm[mlflow]'.",
        ),
    ] = None,
    ledger: options.LedgerFile = None,
    dataset: options.LedgerName = None,
    resume: options.Resume = False,
) -> None:
    """Train one classifier over several agents, all in this process or on one cluster.

    Without --seed the noise comes from the operating system, and the run is private if the
    schema of its data is public: the statement at the end says so, or why not.

    The results and a report to read in a browser are saved in a new folder under runs, or in
    that of --out. With --json nothing is saved unless --out is given; with --no-save, never.

    Several files are several agents: ppadmm train north.csv south.csv --schema patients.toml

    Example: ppadmm train patients.csv --schema patients.toml --epsilon 2 --out runs/first
    """
    from ppadmm.checks import byte_size
    from ppadmm.engines.ray.choice import agents_engine
    from ppadmm.integrations.mlflow import MLflowCallback
    from ppadmm.runs.folder import require_writable, write_run
    from ppadmm.runs.run import train as run
    from ppadmm.runs.specification import RunSpec
    from ppadmm.runs.text import summary

    given = {
        "data": named(data), "label": label, "schema": schema, "data_dir": data_dir,
        "agents": agents, "partition": partition, "graph": graph,
        "loss": loss, "epsilon": epsilon, "delta": delta, "rounds": rounds, "eta": eta,
        "regularisation": regularisation, "beta": beta, "calibration": calibration,
        "adjacency": adjacency, "solver": solver, "seed": seed,
        "multiclass": multiclass, "weights": weights, "knots": knots_or_lines(knots, linear),
        **trust_of(trust, colluding, algorithm, as_json),
    }  # fmt: skip
    tested = {"releases": releases, "statistic": statistic, "test": test, "share": test_share,
              "level": level}  # fmt: skip
    agents_or_sites(agents, partition, data)
    booking = booking_of(ledger, dataset, resume)
    with interruptible(kept_by(booking)):
        each = {
            "epsilons": None if epsilons is None else numbers("epsilons", epsilons),
            "records": None if records is None else counts("records", records),
            "memory": None if memory is None else byte_size("memory", memory),
        }
        spec = RunSpec.of(preset, speaking=_speaking(tested), **given, **each)
        placed = agents_engine(engine, ray_address, checkpoints)
        save = is_saved(out, no_save, as_json)
        require_writable(spec, out, save)
        track = None if mlflow is None else MLflowCallback(mlflow)
        if track is not None:
            track.ready()
        with progress(hidden=as_json) as report:
            advise = None if as_json else hint
            result = run(spec, report, booking=booking, engine=placed, advise=advise)
        again = None if booking is None else "the same command with --resume"
        folder, unfinished = written(lambda: write_run(result, out) if save else None, again)
    show(result.to_dict() if as_json else summary(result))
    if folder is not None and not as_json:
        typer.echo(f"\nResults: {folder}\nReport:  {folder / 'report.html'}")
    if track is not None:
        track(result)
    if unfinished is not None:
        raise unfinished


def _speaking(given: dict[str, Any]) -> "Speaking | None":
    from ppadmm.algorithms.settings import Speaking

    chosen = {name: value for name, value in given.items() if value is not None}
    return Speaking(**chosen) if chosen else None
