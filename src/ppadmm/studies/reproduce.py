"""The paper's figures, made: cells run, points counted, plots and tables written."""

import csv
import io
import os
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ppadmm.errors import InputError
from ppadmm.files import write_whole
from ppadmm.studies.figures import (
    MAKERS,
    SIMULATION,
    CurvePoint,
    Figure,
    FigureSetting,
    figure,
    points,
)
from ppadmm.studies.plots import caption_of, draw, require_matplotlib
from ppadmm.studies.sweep import Progress, Runner, Sweep, sweep

JOBS = 2


def figure_numbers(words: Sequence[str]) -> list[int]:
    """Read figure numbers, each once and in order; "all" is all of them."""
    if "all" in words:
        return sorted(MAKERS)
    for word in words:
        if word not in map(str, MAKERS):
            raise InputError(f"Expected a figure from 1 to {len(MAKERS)} or all, got {word!r}.")
    return sorted({int(word) for word in words})


def reproduce(
    numbers: Sequence[int],
    setting: FigureSetting,
    out: Path,
    jobs: int | None = None,
    progress: Progress | None = None,
    runner: Runner | None = None,
) -> dict[str, Any]:
    """Make figures of the paper, at its calibration and at the proven one side by side.

    Parameters
    ----------
    numbers : sequence of int
        From 1 to 7.
    setting : FigureSetting
        The records and how many replicates to run.
    out : Path
        Folder for plots, tables and finished cells; one that exists is continued.
    jobs : int, optional
        Cells to run at a time on this machine, by default 2.
    progress : callable, optional
        Gets (done, of) as cells are finished.
    runner : callable, optional
        Runs the cells elsewhere, see `ppadmm.engines.ray.choice.cells_runner`.

    Returns
    -------
    dict
        All points, captions and files, what is absent and what it took; fit for JSON.
    """
    require_matplotlib()
    started = time.perf_counter()
    planned = [figure(number, setting) for number in numbers]
    cells = [cell for drawn in planned for cell in drawn.cells]
    cells.sort(key=lambda cell: cell.split)
    done = sweep(cells, out / "cells", jobs or JOBS, progress, runner)
    return {
        "private": False,
        "not_private_because": [SIMULATION],
        "data": setting.data,
        "seeds": setting.seeds,
        "splits": min(setting.seeds, setting.splits),
        "cells": {"ran": done.ran, "found": len(done.results) - done.ran},
        "figures": [_entry(drawn, done, out) for drawn in planned],
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(_cpu_seconds(), 1) if runner is None else None,
    }


def _entry(drawn: Figure, done: Sweep, out: Path) -> dict[str, Any]:
    marks = points(drawn, done)
    return {
        "figure": drawn.number,
        "title": drawn.title,
        "caption": caption_of(drawn, marks),
        "absent": list(drawn.absent),
        "files": [str(path) for path in write_figure(drawn, marks, out)],
        "points": [mark.to_dict() for mark in marks],
    }


def write_figure(drawn: Figure, marks: Sequence[CurvePoint], folder: Path) -> list[Path]:
    """Write figure-N.csv, .png and .pdf into the folder and return their paths."""
    stem = folder / f"figure-{drawn.number}"
    contents = {"csv": _table(marks).encode(), **draw(drawn, marks)}
    paths = [stem.with_suffix(f".{kind}") for kind in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        write_whole(path, content)
    return paths


def _table(marks: Sequence[CurvePoint]) -> str:
    """Return one line per mark, numbers in full; an empty cell is "none"."""
    stream = io.StringIO()
    names = [field.name for field in fields(CurvePoint)]
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(mark.to_dict() for mark in marks)
    return stream.getvalue()


def _cpu_seconds() -> float:
    """CPU time of this process and of its ended workers, not of a cluster's."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def reproduced_text(result: dict[str, Any]) -> str:
    """Return what was made, and what it took, as lines to read."""
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
