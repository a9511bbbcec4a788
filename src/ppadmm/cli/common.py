"""What commands share: lists of numbers, a progress bar, Ctrl-C, printing."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from ppadmm.errors import InputError, PpadmmError

ALGORITHM_NAMES = "pp, ipp, dvp, m-admm, r-admm, gradient, one-shot, centralised, non-private"


class InterruptedRunError(PpadmmError):
    """The user pressed Ctrl-C."""

    exit_code = 130


def counts(name: str, text: str) -> tuple[int, ...]:
    """Read comma-separated whole numbers ≥ 0."""
    from ppadmm import checks

    return tuple(checks.count(name, word, at_least=0) for word in text.split(","))  # type: ignore[arg-type]


def numbers(name: str, text: str) -> tuple[float, ...]:
    """Read comma-separated positive numbers."""
    from ppadmm import checks

    return tuple(checks.positive(name, word) for word in text.split(","))  # type: ignore[arg-type]


def agents_or_column(agents: int | None, partition: str | None) -> None:
    """Refuse a number of agents where a column or the files say who they are."""
    if agents is not None and ((partition or "").startswith("column:") or partition == "files"):
        what = "files" if partition == "files" else "column"
        raise InputError(
            f"With --partition {partition} the number of agents follows from the {what}; leave "
            "--agents out."
        )


def size(name: str, text: str) -> int:
    """Read a number of bytes such as 512MB, 2GB, 64MiB or 1000000."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?", text.strip().upper())
    if found is None:
        raise InputError(f"Expected {name} such as 512MB or 2GB, got {text!r}.")
    number, prefix, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index(prefix or " "))


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn Ctrl-C into an error of ours: Typer has its own, silent way with it."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError("Interrupted; nothing was written.") from None


@contextmanager
def progress(hidden: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on standard error while it is a terminal."""
    if hidden or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("rounds", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("rounds", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def show(value: str | dict[str, Any]) -> None:
    """Print text as it is and anything else as one line of JSON."""
    typer.echo(value if isinstance(value, str) else json.dumps(value, allow_nan=False))
