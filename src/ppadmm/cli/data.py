"""`ppadmm data`: the data sets that are known by name, and how to get them."""

from typing import Annotated, Any

import typer

from ppadmm.cli import options
from ppadmm.cli.app import new_group
from ppadmm.cli.common import interruptible, show

group = new_group("data", "The data sets that are known by name, and how to get them.")

HEAD = ("name", "here", "records", "features", "from", "licence")


@group.command("list")
def list_(
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """List the data sets that are known by name, and say which are here.

    Example: ppadmm data list --data-dir ~/data
    """
    from ppadmm.datasets import SOURCES, data_folder
    from ppadmm.datasets.catalogue import facts

    folder = data_folder(data_dir)
    rows = [facts(source, folder) for source in SOURCES.values()]
    place = None if folder is None else str(folder)
    where = place or "none (give --data-dir or PPADMM_DATA)"
    text = f"\nData folder: {where}. To get a data set: ppadmm data fetch NAME."
    show({"data_dir": place, "data": rows} if as_json else [_table(rows), text])


@group.command()
def fetch(
    name: Annotated[str, options.argument("NAME", "adult; us and brazil: the steps.")],
    data_dir: options.DataDir = None,
    url: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="A mirror; the checksums must match."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Download UCI Adult and check its SHA-256, or print the steps that only a person can do.

    Example: ppadmm data fetch adult --data-dir ~/data
    """
    from ppadmm.datasets.catalogue import fetch as get
    from ppadmm.errors import DataError

    with interruptible():
        found = get(name, data_dir, url)
    if found.problem:  # the steps are for a person, and nothing but JSON goes to a program
        typer.echo(found.text, err=as_json)
        raise DataError(found.problem)
    show({"name": name, "written": list(found.written)} if as_json else found.text)


def _table(rows: list[dict[str, Any]]) -> str:
    """One line per data set, columns aligned."""
    cells = [HEAD]
    for row in rows:
        here = "yes" if row["present"] else "no"
        numbers = (f"{row['records']:,}", str(row["features"]))
        cells.append((row["name"], here, *numbers, row["origin"], row["licence"]))
    sides = ("<", "<", ">", ">", "<", "<")
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    form = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return "\n".join(form.format(*line).rstrip() for line in cells)
