"""`ppadmm reproduce`: the paper's figures."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppadmm.cli.app import app
from ppadmm.cli.common import (
    Jobs,
    Json,
    RayAddress,
    SweepEngine,
    interruptible,
    show,
    sweep_progress,
    sweep_runner,
)

if TYPE_CHECKING:
    from ppadmm.studies.figures import CurvePoint, Figure, FigureSetting
    from ppadmm.studies.sweep import Sweep


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
        typer.Option(
            metavar="DIR",
            help="Folder for plots, CSV and finished cells; one that exists is continued.",
        ),
    ] = Path("runs/figures"),
    seeds: Annotated[int, typer.Option(metavar="K", help="Noise seeds.")] = 20,
    splits: Annotated[
        int, typer.Option(metavar="S", help="Splits of the records to deal the seeds over.")
    ] = 5,
    jobs: Jobs = None,
    engine: SweepEngine = "pool",
    ray_address: RayAddress = None,
    data: Annotated[
        str, typer.Option(metavar="NAME", help="Data of figures 1 to 6, as for train.")
    ] = "adult",
    label: Annotated[str | None, typer.Option(metavar="NAME", help="As for train.")] = None,
    data_dir: Annotated[str | None, typer.Option(metavar="DIR", help="As for train.")] = None,
    as_json: Json = False,
) -> None:
    """Make the figures of the paper, at its calibration and at the proven one side by side.

    A run that was stopped continues where it was: no finished cell runs again.

    Example: ppadmm reproduce 5 6 --seeds 20 --out runs/figures
    """
    from ppadmm.studies.figures import FigureSetting, figure
    from ppadmm.studies.plots import require_matplotlib
    from ppadmm.studies.sweep import sweep

    runner = sweep_runner(engine, jobs, ray_address)
    kept = f"finished cells are kept in {str(out)!r} and the same command continues from there"
    with interruptible(kept):
        require_matplotlib()
        started = time.perf_counter()
        setting = FigureSetting(data, seeds, splits, data_dir, label)
        planned = [figure(number, setting) for number in _numbers(figures or ["all"])]
        cells = [cell for drawn in planned for cell in drawn.cells]
        cells.sort(key=lambda cell: cell.split)
        with sweep_progress(hidden=as_json) as report:
            done = sweep(cells, out / "cells", jobs or 2, report, runner)
        result = _result(planned, done, setting, out)
    result["seconds"] = round(time.perf_counter() - started, 1)
    result["cpu_seconds"] = round(_cpu_seconds(), 1) if runner is None else None
    show(result if as_json else _text(result))


def _numbers(words: Sequence[str]) -> list[int]:
    """Read figure numbers, each once and in order."""
    from ppadmm.errors import InputError
    from ppadmm.studies.figures import MAKERS

    if "all" in words:
        return sorted(MAKERS)
    for word in words:
        if word not in map(str, MAKERS):
            raise InputError(f"Expected a figure from 1 to {len(MAKERS)} or all, got {word!r}.")
    return sorted({int(word) for word in words})


def _result(
    planned: "Sequence[Figure]", done: "Sweep", setting: "FigureSetting", out: Path
) -> dict[str, Any]:
    from ppadmm.studies.figure_files import write_figure
    from ppadmm.studies.figures import SIMULATION, points

    entries = []
    for drawn in planned:
        marks = points(drawn, done)
        paths = write_figure(drawn, marks, out)
        entries.append(_entry(drawn, marks, paths))
    return {
        "private": False,
        "not_private_because": [SIMULATION],
        "data": setting.data,
        "seeds": setting.seeds,
        "splits": min(setting.seeds, setting.splits),
        "cells": {"ran": done.ran, "found": len(done.results) - done.ran},
        "figures": entries,
    }


def _entry(drawn: "Figure", marks: "Sequence[CurvePoint]", paths: Sequence[Path]) -> dict[str, Any]:
    from ppadmm.studies.plots import caption_of

    return {
        "figure": drawn.number,
        "title": drawn.title,
        "caption": caption_of(drawn, marks),
        "absent": list(drawn.absent),
        "files": [str(path) for path in paths],
        "points": [mark.to_dict() for mark in marks],
    }


def _cpu_seconds() -> float:
    """CPU time of this process and of its ended workers, not of a cluster's."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _text(result: dict[str, Any]) -> str:
    lines = [
        f"Figure {entry['figure']}: {entry['title']}\n  {'  '.join(entry['files'])}"
        for entry in result["figures"]
    ]
    absent = [f"Absent: {why}" for entry in result["figures"] for why in entry["absent"]]
    cells, cpu = result["cells"], result["cpu_seconds"]
    cost = (
        f"{cells['ran']} cells ran, {cells['found']} were found finished; "
        f"{result['seconds']:.0f} s{'' if cpu is None else f', {cpu:.0f} s of CPU time'}."
    )
    why = "; ".join(result["not_private_because"])
    return "\n".join([*lines, "", *absent, cost, f"NOT PRIVATE: {why}."])
