"""`ppadmm data`: the data sets that are known by name, and how to get them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppadmm.cli.app import app
from ppadmm.cli.common import Json, interruptible, show

if TYPE_CHECKING:
    from ppadmm.datasets import DataSource

group = typer.Typer(
    name="data",
    help="The data sets that are known by name, and how to get them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(group)

DataDir = Annotated[
    str | None, typer.Option(metavar="DIR", help="Folder of the data sets [$PPADMM_DATA].")
]
HEAD = ("name", "here", "records", "features", "from", "licence")


@group.command("list")
def list_(
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """List the data sets that are known by name, and say which are here.

    Example: ppadmm data list --data-dir ~/data
    """
    from ppadmm.datasets import SOURCES, data_folder

    folder = data_folder(data_dir)
    rows = [_facts(source, folder) for source in SOURCES.values()]
    if as_json:
        show({"data_dir": None if folder is None else str(folder), "data": rows})
        return
    show(_table(rows))
    where = "none (give --data-dir or PPADMM_DATA)" if folder is None else str(folder)
    show(f"\nData folder: {where}. To get a data set: ppadmm data fetch NAME.")


@group.command()
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="adult; us and brazil: the steps.")],
    data_dir: DataDir = None,
    url: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="A mirror; the checksums must match."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Download UCI Adult and check its SHA-256, or print the steps that only a person can do.

    Example: ppadmm data fetch adult --data-dir ~/data
    """
    from ppadmm import checks
    from ppadmm.datasets import SOURCES, data_folder
    from ppadmm.errors import InputError

    source = SOURCES[checks.one_of("data set", name, SOURCES)]
    folder = data_folder(data_dir)
    if source.find is None:
        _say(name, [], as_json, f"{name} is made up when it is used: there is nothing to fetch.")
        return
    if folder is None:
        raise InputError("Which folder? Name it with --data-dir or PPADMM_DATA.")
    if source.steps:
        _explain(source, folder, as_json)
    else:
        with interruptible():
            _download(name, folder, url, as_json)


def _say(name: str, written: list[str], as_json: bool, text: str) -> None:
    show({"name": name, "written": written} if as_json else text)


def _download(name: str, folder: Path, url: str | None, as_json: bool) -> None:
    from ppadmm.datasets.download import ADULT_URL, fetch_adult

    files = [str(file) for file in fetch_adult(folder, url or ADULT_URL)]
    lines = [f"{file}: written, SHA-256 as expected." for file in files]
    if not files:
        lines = [f"Adult is in {folder} already, SHA-256 as expected."]
    lines.append("Adult (Becker and Kohavi, 1996, doi.org/10.24432/C5XW20), licence CC BY 4.0.")
    _say(name, files, as_json, "\n".join(lines))


def _explain(source: "DataSource", folder: Path, as_json: bool) -> None:
    """Print what a person has to do; that the data is not here is an error all the same."""
    from ppadmm.errors import DataError

    if source.present(folder):
        _say(source.name, [], as_json, f"{source.name} is in {folder} already.")
        return
    typer.echo(source.steps, err=as_json)
    raise DataError(
        f"{source.name!r} ({source.origin}, {source.licence}) cannot be fetched by a program; "
        "follow the steps above."
    )


def _facts(source: "DataSource", folder: Path | None) -> dict[str, Any]:
    return {
        "name": source.name,
        "present": source.present(folder),
        "records": source.records,
        "features": source.features,
        "origin": source.origin,
        "licence": source.licence,
    }


def _table(rows: list[dict[str, Any]]) -> str:
    """One line per data set, columns aligned."""
    cells = [HEAD]
    for row in rows:
        here = "yes" if row["present"] else "no"
        numbers = (f"{row['records']:,}", str(row["features"]))
        cells.append((row["name"], here, *numbers, row["origin"], row["licence"]))
    widths = [max(len(line[k]) for line in cells) for k in range(len(HEAD))]
    return "\n".join(
        "  ".join(_aligned(k, cell, widths[k]) for k, cell in enumerate(line)).rstrip()
        for line in cells
    )


def _aligned(k: int, cell: str, width: int) -> str:
    return cell.rjust(width) if HEAD[k] in ("records", "features") else cell.ljust(width)
