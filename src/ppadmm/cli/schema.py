"""`ppadmm schema`: the schema of a named data set, or a draft for a file."""

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from ppadmm.cli import options
from ppadmm.cli.app import app
from ppadmm.cli.common import show


@app.command()
def schema(
    source: Annotated[
        str, options.argument("FILE|NAME", "A CSV or Parquet file, or a named data set.")
    ],
    label: options.Label = None,
    out: Annotated[
        Path | None, options.out("FILE", "New file for the schema [standard output].")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Draft a schema for a file, or print the one of a named data set.

    What is drafted is not public: correct it, then set confirmed = true in it. Until then a run
    that uses it is NOT private.

    Example: ppadmm schema patients.csv --label ill --out patients.toml
    """
    from ppadmm.datasets import NAMES
    from ppadmm.datasets.catalogue import schema_text
    from ppadmm.files import write_new

    text = schema_text(source, label)
    if out is not None:
        write_new(out, text.encode())
    if as_json:
        show({"file": None if out is None else str(out), "schema": tomllib.loads(text)})
    elif out is None:
        typer.echo(text, nl=False)
    elif source not in NAMES:
        show(f"{out}: a draft. Correct it, then set confirmed = true in it.")
