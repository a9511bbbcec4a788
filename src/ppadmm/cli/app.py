"""The application that commands register with, and what becomes of their errors."""

import os
import sys
import traceback
import warnings
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from ppadmm import __version__
from ppadmm.cli.common import InterruptedRunError
from ppadmm.errors import InputError, OverlapWarning, PpadmmError

DEBUG = "--debug"
_HERE = f"{os.sep}ppadmm{os.sep}"


class InternalError(PpadmmError):
    """A fault in ppadmm itself."""

    exit_code = 70


app = typer.Typer(
    name="ppadmm",
    help="Train one classifier across organisations, with no server and proven privacy.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its markup swallows the [defaults] of the help texts
    context_settings={"max_content_width": 100},
)


def new_group(name: str, text: str, parent: typer.Typer = app) -> typer.Typer:
    """Return a new group of commands."""
    group = typer.Typer(name=name, help=text, no_args_is_help=True, rich_markup_mode=None)
    parent.add_typer(group)
    return group


def _version(value: bool) -> None:
    if value:
        typer.echo(f"ppadmm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show where an error came from; may stand anywhere.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; an error is one sentence on standard error and an exit code."""
    # Matrices are small: more BLAS threads gain little, and lose much on a busy machine.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _print_any_letter()
    debug = DEBUG in sys.argv[1:]
    usual, warnings.formatwarning = warnings.formatwarning, _warning
    try:
        app([word for word in sys.argv[1:] if word != DEBUG], prog_name="ppadmm")
    except SystemExit as end:
        if end.code == InterruptedRunError.exit_code:  # Typer's own way, which says nothing
            _fail(InterruptedRunError("Interrupted; the command did not end, so run it again."))
        raise
    except Exception as error:
        if debug:
            traceback.print_exception(error)
        _fail(_known(error))
    finally:
        warnings.formatwarning = usual


def _warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Spell a warning of ours as one sentence."""
    if issubclass(category, OverlapWarning):
        return f"Warning: {message}\n"
    return f"{filename}:{lineno}: {category.__name__}: {message}\n"


def _known(error: Exception) -> PpadmmError:
    """Return an error of ours that says the same."""
    if isinstance(error, PpadmmError):
        return error
    if isinstance(error, OSError):
        return InputError(_refused(error))
    # Not in the error's own words: they may quote a record.
    return InternalError(
        f"{type(error).__name__} in {_place(error)}. This is a fault of ppadmm, not of your input; "
        f"please report it. The same command says more with {DEBUG}, which may quote records: look "
        "before you pass it on."
    )


def _place(error: Exception) -> str:
    """Return the file and the line of ours where an error arose."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if _HERE in frame.filename]
    where = ours[-1]
    return f"{where.filename[where.filename.rindex(_HERE) + 1 :]}, line {where.lineno}"


def _refused(error: OSError) -> str:
    """Say what the system refused; what has no file's name is the command's own output."""
    why = error.strerror or str(error)
    if error.filename is None:
        return f"The system refused to go on: {why}; see where the output goes, and try again."
    return f"Cannot use {str(error.filename)!r}: {why}; name another or mend its permissions."


def _print_any_letter() -> None:
    """Spell out the letters that the terminal's encoding lacks, rather than fail at the end."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fail(error: PpadmmError) -> NoReturn:
    typer.echo(f"Error: {error}", err=True)
    sys.exit(error.exit_code)
