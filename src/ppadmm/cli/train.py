"""`ppadmm train`: one run, all agents in this process or each in an actor of a Ray cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppadmm.cli.app import app
from ppadmm.cli.common import (
    ALGORITHM_NAMES,
    Json,
    LedgerFile,
    LedgerName,
    NoSave,
    RayAddress,
    Resume,
    agents_or_column,
    booking_of,
    completed,
    counts,
    interruptible,
    is_saved,
    kept_by,
    kept_for,
    no_address,
    numbers,
    progress,
    show,
    size,
)
from ppadmm.errors import InputError, UnfinishedError

if TYPE_CHECKING:
    from ppadmm.algorithms.settings import Speaking
    from ppadmm.runs.run import Engine


@app.command()
def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            show_default=False,
            autocompletion=completed("synthetic, adult, adult-onehot, us, brazil"),
            help="synthetic (made-up records, no file needed), adult, adult-onehot, us, brazil, "
            "a CSV or Parquet file, or a folder of Parquet files, which is streamed [synthetic].",
        ),
    ] = "synthetic",
    label: Annotated[
        str | None, typer.Option(metavar="NAME", help="The label column of a file.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with the public bounds, categories and classes of a file. Without it "
            "they are read off the records and the run is NOT private.",
        ),
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder of the named data sets [$PPADMM_DATA]."),
    ] = None,
    agents: Annotated[
        int | None, typer.Option(metavar="N", help="Agents that share the records [5].")
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="Who holds which record: even, column:NAME (an agent for each value of a "
            "column), files (an agent for each file of a folder), or dirichlet:ALPHA (skewed "
            "labels, a simulation, NOT private) [even].",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Stream a Parquet file and hold at most so much of it at a time; for a folder "
            "[512MB].",
        ),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            autocompletion=completed("complete, ring, star, grid, erdos-renyi, small-world"),
            help="Who talks to whom: complete, ring, star, grid, erdos-renyi, small-world, or a "
            "file with one edge 'i j' per line, agents from 0 [erdos-renyi].",
        ),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=completed(ALGORITHM_NAMES),
            help=f"{ALGORITHM_NAMES} [pp].",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=completed("logistic, huber-hinge"),
            help="logistic or huber-hinge [logistic].",
        ),
    ] = None,
    multiclass: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Three or more classes: multinomial (logistic only) or one-vs-rest [auto].",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(metavar="ε", help="Privacy budget of every agent, all rounds together [1]."),
    ] = None,
    epsilons: Annotated[
        str | None,
        typer.Option(metavar="ε,ε,…", help="A budget for each agent, in place of --epsilon."),
    ] = None,
    records: Annotated[
        str | None,
        typer.Option(
            metavar="n,n,…",
            help="Training records of each agent, 0 to only listen [an even share].",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(metavar="δ", help="Its δ; choose it well below 1/records [1e-6]."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(metavar="T", help="Rounds [chosen from public sizes].")
    ] = None,
    eta: Annotated[
        float | None,
        typer.Option(metavar="η", help="Penalty of ADMM [chosen from public sizes]."),
    ] = None,
    regularisation: Annotated[
        float | None, typer.Option(metavar="λ", help="Weight of ½‖θ‖² [0].")
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(
            metavar="β",
            help="Gradient norm that local solves reach [1e-8], or more where rounding needs it.",
        ),
    ] = None,
    calibration: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="proven, or paper (a claim, NOT private) [proven]."),
    ] = None,
    adjacency: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="replace-one or zero-out [replace-one]."),
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=completed("auto, fixed-metric, newton, lbfgs"),
            help="auto, fixed-metric, newton or lbfgs [auto].",
        ),
    ] = None,
    releases: Annotated[
        int | None,
        typer.Option(metavar="C", help="ipp: rounds to speak in at the most [half of them]."),
    ] = None,
    statistic: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="ipp: gradient, movement or loss [gradient]."),
    ] = None,
    test: Annotated[
        str | None, typer.Option(metavar="NAME", help="ipp: auto, gaussian or svt [auto].")
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="ipp: part of the budget for the tests [0.02]."),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(metavar="X", help="ipp: threshold, in units of the noise's effect [0.5]."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="paper: the settings of the paper, NOT private."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="INT", help="Simulate: repeatable numbers, NOT private."),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="local (all agents in this process) or ray (each agent in an actor of a cluster; "
            "pip install 'ppadmm[ray]').",
        ),
    ] = "local",
    ray_address: RayAddress = None,
    checkpoints: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --engine ray: a folder that all nodes share, where an agent that is lost "
            "is taken up from [temporary files of this machine].",
        ),
    ] = None,
    as_json: Json = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="New folder for report.html, result.json, model.json, statement.txt and "
            "releases.npz [runs/<date>-<time>-<algorithm>-<data>; with --json none].",
        ),
    ] = None,
    no_save: NoSave = False,
    mlflow: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="Log to this MLflow store what was released, and nothing else; "
            "pip install 'ppadmm[mlflow]'.",
        ),
    ] = None,
    ledger: LedgerFile = None,
    dataset: LedgerName = None,
    resume: Resume = False,
) -> None:
    """Train one classifier over several agents, all in this process or on one cluster.

    Without --seed the noise comes from the operating system, and the run is private if the
    schema of its data is public: the statement at the end says so, or why not.

    The results and a report to read in a browser are saved in a new folder under runs, or in
    that of --out. With --json nothing is saved unless --out is given; with --no-save, never.

    Example: ppadmm train patients.csv --schema patients.toml --epsilon 2 --out runs/first
    """
    from ppadmm.integrations.mlflow import MLflowCallback
    from ppadmm.runs.folder import new_folder, require_new, write_run
    from ppadmm.runs.run import train as run
    from ppadmm.runs.specification import RunSpec
    from ppadmm.runs.text import summary

    given = {
        "data": data, "label": label, "schema": schema, "data_dir": data_dir, "agents": agents,
        "partition": partition, "graph": graph, "algorithm": algorithm, "loss": loss,
        "epsilon": epsilon, "delta": delta, "rounds": rounds, "eta": eta,
        "regularisation": regularisation, "beta": beta, "calibration": calibration,
        "adjacency": adjacency, "solver": solver, "seed": seed,
        "multiclass": multiclass,
    }  # fmt: skip
    tested = {"releases": releases, "statistic": statistic, "test": test, "share": test_share,
              "level": level}  # fmt: skip
    agents_or_column(agents, partition)
    booking = booking_of(ledger, dataset, resume)
    with interruptible(kept_by(booking)):
        each = {
            "epsilons": None if epsilons is None else numbers("epsilons", epsilons),
            "records": None if records is None else counts("records", records),
            "memory": None if memory is None else size("memory", memory),
        }
        spec = RunSpec.of(preset, speaking=_speaking(tested), **given, **each)
        placed = _engine(engine, ray_address, checkpoints)
        save = is_saved(out, no_save, as_json)
        track = None if mlflow is None else MLflowCallback(mlflow)
        if track is not None:
            track.ready()
        if save:
            require_new(out or new_folder(spec))
        with progress(hidden=as_json) as report:
            result = run(spec, report, booking=booking, engine=placed)
        folder, unfinished = None, None
        with kept_for(None if booking is None else "the same command with --resume"):
            try:
                folder = write_run(result, out) if save else None
            except UnfinishedError as error:
                unfinished = error
    show(result.to_dict() if as_json else summary(result))
    if folder is not None and not as_json:
        typer.echo(f"\nResults: {folder}\nReport:  {folder / 'report.html'}")
    if track is not None:
        track(result)
    if unfinished is not None:
        raise unfinished


def _engine(name: str, address: str | None, checkpoints: Path | None) -> "Engine | None":
    """Return what runs the agents, None for this process; all is checked here."""
    from functools import partial

    from ppadmm import checks
    from ppadmm.engines.ray import actors, tasks

    if checks.one_of("engine", name, ("local", "ray")) == "local":
        no_address(address)
        if checkpoints is not None:
            raise InputError(f"--checkpoints {str(checkpoints)!r} needs --engine ray.")
        return None
    tasks.imported(local=address is None)
    if address is not None and checkpoints is None:
        raise InputError(
            f"With --ray-address {address} give --checkpoints, a folder that all nodes share."
        )
    return partial(actors.run, address=address, checkpoints=checkpoints)


def _speaking(given: dict[str, Any]) -> "Speaking | None":
    from ppadmm.algorithms.settings import Speaking

    chosen = {name: value for name, value in given.items() if value is not None}
    return Speaking(**chosen) if chosen else None
