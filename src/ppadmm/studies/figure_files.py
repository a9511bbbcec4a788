"""A reproduced figure on disk: its numbers as CSV and its plots beside them."""

import csv
import io
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from ppadmm.files import write_whole
from ppadmm.studies import plots
from ppadmm.studies.figures import CurvePoint, Figure

COLUMNS = tuple(field.name for field in fields(CurvePoint))


def table(points: Sequence[CurvePoint]) -> str:
    """Return one line per mark, numbers in full; an empty cell is "none"."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(point.to_dict() for point in points)
    return stream.getvalue()


def write_figure(figure: Figure, points: Sequence[CurvePoint], folder: Path) -> list[Path]:
    """Write figure-N.csv, .png and .pdf into the folder and return their paths."""
    stem = folder / f"figure-{figure.number}"
    contents = {"csv": table(points).encode(), **plots.draw(figure, points)}
    paths = [stem.with_suffix(f".{kind}") for kind in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        write_whole(path, content)
    return paths
