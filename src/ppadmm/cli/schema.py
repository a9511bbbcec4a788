"""`ppadmm schema`: the schema of a named data set, or a draft for a file."""

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from ppadmm.cli.app import app
from ppadmm.cli.common import Json, show


@app.command()
def schema(
    source: Annotated[
        str,
        typer.Argument(metavar="FILE|NAME", help="A CSV or Parquet file, or a named data set."),
    ],
    label: Annotated[
        str | None, typer.Option(metavar="NAME", help="The label column of a file.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="New file for the schema [standard output]."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draft a schema for a file, or print the one of a named data set.

    What is drafted is not public: correct it, then set confirmed = true in it. Until then a run
    that uses it is NOT private.

    Example: ppadmm schema patients.csv --label ill --out patients.toml
    """
    text = _text(source, label)
    if out is not None:
        _write(out, text)
    if as_json:
        show({"file": None if out is None else str(out), "schema": tomllib.loads(text)})
    elif out is None:
        typer.echo(text, nl=False)
    elif not _is_named(source):
        show(f"{out}: a draft. Correct it, then set confirmed = true in it.")


def _is_named(source: str) -> bool:
    from ppadmm.datasets import NAMES

    return source in NAMES


def _text(source: str, label: str | None) -> str:
    from ppadmm.data.suggest import suggest_schema
    from ppadmm.datasets import SOURCES
    from ppadmm.errors import InputError

    if not _is_named(source):
        return suggest_schema(source, label)
    if label is not None:
        raise InputError(f"{source!r} has a label already; give --label to files only.")
    known = SOURCES[source]
    head = f"# {known.name}: {known.features} features and the intercept, from {known.origin}.\n"
    return head + known.schema.to_toml()


def _write(out: Path, text: str) -> None:
    from ppadmm.files import write_new

    write_new(out, text.encode())
