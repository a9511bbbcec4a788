"""`ppadmm compare`: algorithms side by side at the same total budget."""

from pathlib import Path
from typing import Annotated

import typer

from ppadmm.cli.app import app
from ppadmm.cli.common import (
    ALGORITHM_NAMES,
    Jobs,
    Json,
    RayAddress,
    SweepEngine,
    agents_or_column,
    interruptible,
    numbers,
    show,
    sweep_progress,
    sweep_runner,
)


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
    agents: Annotated[int | None, typer.Option(metavar="N", help="Number of agents [5].")] = None,
    partition: Annotated[str, typer.Option(metavar="HOW", help="As for train.")] = "even",
    graph: Annotated[str, typer.Option(metavar="KIND", help="As for train.")] = "erdos-renyi",
    loss: Annotated[str, typer.Option(metavar="NAME", help="As for train.")] = "logistic",
    multiclass: Annotated[str, typer.Option(metavar="NAME", help="As for train.")] = "auto",
    calibration: Annotated[str, typer.Option(metavar="NAME", help="proven or paper.")] = "proven",
    rounds: Annotated[int | None, typer.Option(metavar="T", help="As for train.")] = None,
    eta: Annotated[float | None, typer.Option(metavar="η", help="As for train.")] = None,
    beta: Annotated[float | None, typer.Option(metavar="β", help="As for train.")] = None,
    jobs: Jobs = None,
    engine: SweepEngine = "pool",
    ray_address: RayAddress = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for finished cells; one that exists is continued."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Simulate several algorithms at the same total budget and print a table.

    Example: ppadmm compare adult --algorithms pp,ipp,gradient --epsilons 0.5,1,2 --seeds 20
    """
    from ppadmm.algorithms import ALGORITHMS
    from ppadmm.studies.compare import Grid
    from ppadmm.studies.compare import compare as run
    from ppadmm.studies.compare_text import comparison

    agents_or_column(agents, partition)
    names = tuple(ALGORITHMS) if algorithms == "all" else tuple(algorithms.split(","))
    runner = sweep_runner(engine, jobs, ray_address)
    kept = f"finished cells are kept in {str(out)!r}" if out else "nothing was written"
    with interruptible(kept):
        grid = Grid(
            data=data, algorithms=names, epsilons=numbers("epsilons", epsilons), delta=delta,
            seeds=seeds, splits=splits, agents=5 if agents is None else agents, partition=partition,
            graph=graph, loss=loss, label=label,
            data_dir=data_dir, calibration=calibration, rounds=rounds, eta=eta, beta=beta,
            multiclass=multiclass,
        )  # fmt: skip
        with sweep_progress(hidden=as_json) as report:
            rows = run(grid, report, out, jobs or 1, runner)
    why = "a comparison is a simulation with known seeds"
    if as_json:
        figures = [row.to_dict() for row in rows]
        show({"private": False, "not_private_because": [why], "rows": figures})
    else:
        show(f"{comparison(rows)}\n\nNOT PRIVATE: {why}.")
