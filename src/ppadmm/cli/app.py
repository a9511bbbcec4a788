"""The application that commands register with, and what becomes of their errors."""

import os
import sys
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from ppadmm import __version__
from ppadmm.errors import InputError, PpadmmError

app = typer.Typer(
    name="ppadmm",
    help="Train one classifier across organisations, with no server and proven privacy.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its markup swallows the [defaults] of the help texts
    context_settings={"max_content_width": 100},
)


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
