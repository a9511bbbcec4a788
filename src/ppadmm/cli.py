"""The command line: commands only. Errors become one sentence and an exit code."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ppadmm import __version__
from ppadmm.errors import InputError, PpadmmError

ALGORITHM_NAMES = "pp, ipp, dvp, m-admm, r-admm, gradient, one-shot, centralised, non-private"

if TYPE_CHECKING:
    from ppadmm.algorithms.settings import Speaking
    from ppadmm.experiments.train import Progress

app = typer.Typer(
    name="ppadmm",
    help="Train one classifier across organisations, with no server and proven privacy.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its markup swallows the [defaults] of the help texts
    context_settings={"max_content_width": 100},
)


class InterruptedRunError(PpadmmError):
    """The user pressed Ctrl-C."""

    exit_code = 130


def _version(value: bool) -> None:
    if value:
        typer.echo(f"ppadmm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            show_default=False,
            help="synthetic (made-up records, no file needed), adult, adult-onehot, brazil, or a "
            "CSV or Parquet file [synthetic].",
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
        typer.Option(metavar="DIR", help="Folder of adult and brazil [$PPADMM_DATA]."),
    ] = None,
    agents: Annotated[
        int | None, typer.Option(metavar="N", help="Agents that share the records evenly [5].")
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Who talks to whom: complete, ring, star, grid, erdos-renyi, small-world, or a "
            "file with one edge 'i j' per line, agents from 0 [erdos-renyi].",
        ),
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"{ALGORITHM_NAMES} [pp].")
    ] = None,
    loss: Annotated[
        str | None, typer.Option(metavar="NAME", help="logistic or huber-hinge [logistic].")
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
        typer.Option(metavar="β", help="Gradient norm every local solve must certify [1e-8]."),
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
        typer.Option(metavar="NAME", help="auto, fixed-metric, newton or lbfgs [auto]."),
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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="New folder for result.json, model.json, statement.txt and releases.npz.",
        ),
    ] = None,
) -> None:
    """Train one classifier over several agents, all in this process.

    Without --seed the noise comes from the operating system, and the run is private if the
    schema of its data is public: the statement at the end says so, or why not.

    Example: ppadmm train patients.csv --schema patients.toml --epsilon 2 --out runs/first
    """
    from ppadmm.experiments.spec import RunSpec
    from ppadmm.experiments.train import train as run
    from ppadmm.reports.files import require_new, write_run
    from ppadmm.reports.text import summary

    given = {
        "data": data, "label": label, "schema": schema, "data_dir": data_dir, "agents": agents,
        "graph": graph, "algorithm": algorithm, "loss": loss, "epsilon": epsilon, "delta": delta,
        "rounds": rounds, "eta": eta, "regularisation": regularisation, "beta": beta,
        "calibration": calibration, "adjacency": adjacency, "solver": solver, "seed": seed,
    }  # fmt: skip
    tested = {"releases": releases, "statistic": statistic, "test": test, "share": test_share,
              "level": level}  # fmt: skip
    with _interruptible():
        each = {
            "epsilons": None if epsilons is None else _numbers("epsilons", epsilons),
            "records": None if records is None else _counts("records", records),
        }
        spec = RunSpec.of(preset, speaking=_speaking(tested), **given, **each)
        if out is not None:
            require_new(out)
        with _progress(hidden=as_json) as progress:
            result = run(spec, progress)
        if out is not None:
            write_run(result, out)
    _show(result.to_dict() if as_json else summary(result))
    if out is not None and not as_json:
        typer.echo(f"\nResults: {out}")


def _speaking(given: dict[str, Any]) -> "Speaking | None":
    from ppadmm.algorithms.settings import Speaking

    chosen = {name: value for name, value in given.items() if value is not None}
    return Speaking(**chosen) if chosen else None


@app.command()
def compare(
    data: Annotated[
        str, typer.Argument(metavar="[DATA]", help="As for ppadmm train [synthetic].")
    ] = "synthetic",
    algorithms: Annotated[
        str, typer.Option(metavar="NAMES", help=f"Comma-separated: {ALGORITHM_NAMES}, or all.")
    ] = "all",
    epsilons: Annotated[
        str, typer.Option(metavar="ε,ε,…", help="Budgets, comma-separated.")
    ] = "0.5,1,2",
    seeds: Annotated[int, typer.Option(metavar="K", help="Noise seeds.")] = 5,
    splits: Annotated[
        int, typer.Option(metavar="S", help="Splits of the records to deal the seeds over.")
    ] = 5,
    delta: Annotated[float, typer.Option(metavar="δ", help="δ of every budget.")] = 1e-4,
    label: Annotated[str | None, typer.Option(metavar="NAME", help="As for train.")] = None,
    data_dir: Annotated[str | None, typer.Option(metavar="DIR", help="As for train.")] = None,
    agents: Annotated[int, typer.Option(metavar="N", help="Number of agents.")] = 5,
    graph: Annotated[str, typer.Option(metavar="KIND", help="As for train.")] = "erdos-renyi",
    loss: Annotated[str, typer.Option(metavar="NAME", help="As for train.")] = "logistic",
    calibration: Annotated[str, typer.Option(metavar="NAME", help="proven or paper.")] = "proven",
    rounds: Annotated[int | None, typer.Option(metavar="T", help="As for train.")] = None,
    eta: Annotated[float | None, typer.Option(metavar="η", help="As for train.")] = None,
    beta: Annotated[float, typer.Option(metavar="β", help="As for train.")] = 1e-8,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """Simulate several algorithms at the same total budget and print a table.

    Example: ppadmm compare adult --algorithms pp,ipp,gradient --epsilons 0.5,1,2 --seeds 20
    """
    from ppadmm.algorithms import ALGORITHMS
    from ppadmm.experiments.compare import Grid
    from ppadmm.experiments.compare import compare as run
    from ppadmm.reports.tables import comparison

    names = tuple(ALGORITHMS) if algorithms == "all" else tuple(algorithms.split(","))
    with _interruptible():
        grid = Grid(
            data=data, algorithms=names, epsilons=_numbers("epsilons", epsilons), delta=delta,
            seeds=seeds, splits=splits, agents=agents, graph=graph, loss=loss, label=label,
            data_dir=data_dir, calibration=calibration, rounds=rounds, eta=eta, beta=beta,
        )  # fmt: skip
        with _progress(hidden=as_json) as progress:
            rows = run(grid, progress)
    why = "a comparison is a simulation with known seeds"
    if as_json:
        figures = [row.to_dict() for row in rows]
        _show({"private": False, "not_private_because": [why], "rows": figures})
    else:
        _show(f"{comparison(rows)}\n\nNOT PRIVATE: {why}.")


def _counts(name: str, text: str) -> tuple[int, ...]:
    from ppadmm import checks

    return tuple(checks.count(name, word, at_least=0) for word in text.split(","))  # type: ignore[arg-type]


def _numbers(name: str, text: str) -> tuple[float, ...]:
    from ppadmm import checks

    return tuple(checks.positive(name, word) for word in text.split(","))  # type: ignore[arg-type]


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turn Ctrl-C into an error of ours: Typer has its own, silent way with it."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError("Interrupted; nothing was written.") from None


@contextmanager
def _progress(hidden: bool) -> "Iterator[Progress | None]":
    """Show a bar on standard error while it is a terminal."""
    if hidden or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("rounds", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("rounds", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _show(value: str | dict[str, Any]) -> None:
    typer.echo(value if isinstance(value, str) else json.dumps(value, allow_nan=False))


def main() -> None:
    """Run the command line; an expected error is one sentence on standard error."""
    # Matrices are small: more BLAS threads gain little, and lose much on a busy machine.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _print_any_letter()
    try:
        app()
    except PpadmmError as error:
        _fail(error)
    except OSError as error:
        _fail(InputError(f"{error.strerror or error}: {error.filename!r}."))


def _print_any_letter() -> None:
    """Spell out the letters that the terminal's encoding lacks, rather than fail at the end."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fail(error: PpadmmError) -> NoReturn:
    typer.echo(f"Error: {error}", err=True)
    sys.exit(error.exit_code)
