"""`ppadmm reproduce`: the paper's figures."""

from pathlib import Path
from typing import Annotated

import typer

from ppadmm.cli import options
from ppadmm.cli.app import app
from ppadmm.cli.common import interruptible, progress, show


@app.command()
def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="1 … 7 | all",
            show_default=False,
            help="Figures to make: 1 splits, 2 β, 3 C_loss, 4 α, 5 error against ε, "
            "6 convergence, 7 Brazil and US [all].",
        ),
    ] = None,
    out: Annotated[
        Path,
        options.out(
            "DIR", "Folder for plots, CSV and finished cells; one that exists is continued."
        ),
    ] = Path("runs/figures"),
    seeds: options.Seeds = 20,
    splits: options.Splits = 5,
    jobs: options.Jobs = None,
    engine: options.SweepEngine = "pool",
    ray_address: options.RayAddress = None,
    data: Annotated[str, options.value("NAME", "Data of figures 1 to 6, as for train.")] = "adult",
    label: options.Label = None,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """Make the figures of the paper, at its calibration and at the proven one side by side.

    A run that was stopped continues where it was: no finished cell runs again.

    Example: ppadmm reproduce 5 6 --seeds 20 --out runs/figures
    """
    from ppadmm.engines.ray.choice import cells_runner
    from ppadmm.studies.figures import FigureSetting
    from ppadmm.studies.reproduce import figure_numbers, reproduced_text
    from ppadmm.studies.reproduce import reproduce as run

    runner = cells_runner(engine, jobs, ray_address)
    kept = f"finished cells are kept in {str(out)!r} and the same command continues from there"
    with interruptible(kept), progress(as_json, "cells") as report:
        setting = FigureSetting(data, seeds, splits, data_dir, label)
        result = run(figure_numbers(figures or ["all"]), setting, out, jobs, report, runner)
    show(result if as_json else reproduced_text(result))
