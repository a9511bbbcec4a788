"""What commands share: lists of numbers, a progress bar, Ctrl-C, printing."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ppadmm.errors import InputError, PpadmmError, UnfinishedError

if TYPE_CHECKING:
    from ppadmm.runs.ledger_session import LedgerOptions


class InterruptedRunError(PpadmmError):
    """The user pressed Ctrl-C."""

    exit_code = 130


def counts(name: str, text: str) -> tuple[int, ...]:
    """Read comma-separated whole numbers ≥ 0."""
    from ppadmm import checks

    return tuple(
        checks.count(name, checks.parsed(name, word), at_least=0) for word in text.split(",")
    )


def numbers(name: str, text: str) -> tuple[float, ...]:
    """Read comma-separated positive numbers."""
    from ppadmm import checks

    return tuple(checks.positive(name, checks.parsed(name, word)) for word in text.split(","))


def named(data: list[str] | None) -> tuple[str, ...] | None:
    """Return the data that a user named, None if there are none."""
    return tuple(data) if data else None


def agents_or_sites(agents: int | None, partition: str | None, data: list[str] | None) -> None:
    """Refuse a number of agents where a column or the files say who they are."""
    how = partition or ("files" if data and len(data) > 1 else "even")
    if agents is None or not (how.startswith("column:") or how == "files"):
        return
    said = f"With --partition {partition}" if partition else f"With {len(data or ())} files"
    raise InputError(
        f"{said} the number of agents follows from the {'files' if how == 'files' else 'column'}; "
        "leave --agents out."
    )


def booking_of(ledger: Path | None, dataset: str | None, resume: bool) -> "LedgerOptions | None":
    """Return which ledger to charge, None without one."""
    from ppadmm.runs.ledger_session import LedgerOptions

    if ledger is not None:
        return LedgerOptions(ledger, dataset, resume)
    if dataset is not None or resume:
        raise InputError("--dataset and --resume say how to use a ledger; give --ledger, too.")
    return None


def kept_by(booking: "LedgerOptions | None") -> str:
    """Return what Ctrl-C leaves of a run: with a ledger, all that was charged and released."""
    if booking is None:
        return "nothing was written"
    return (
        f"no results were written, and what the run was charged stays in {str(booking.ledger)!r}; "
        "the same command with --resume goes on without paying again"
    )


def is_saved(out: Path | None, no_save: bool, as_json: bool) -> bool:
    """Say whether results are written: with --json only where --out asks for it."""
    if no_save and out is not None:
        raise InputError(f"--no-save writes nothing and --out {str(out)!r} asks to; leave out one.")
    return not no_save and (out is not None or not as_json)


@contextmanager
def interruptible(kept: str = "nothing was written") -> Iterator[None]:
    """Turn Ctrl-C into an error of ours: Typer has its own, silent way with it."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError(f"Interrupted; {kept}.") from None


def written(
    write: Callable[[], Path | None], command: str | None
) -> tuple[Path | None, UnfinishedError | None]:
    """Write results; return where they are and what is missing, to be raised after they are shown.

    Where those of a paid run cannot be written, the error adds which command writes them later.
    """
    try:
        return write(), None
    except UnfinishedError as error:
        return None, error
    except InputError as error:
        if command is None:
            raise
        way = f"What was paid for is kept: {command} writes the results, at no further cost."
        raise InputError(f"{error} {way}") from error


def hint(words: str) -> None:
    """Tell a person what would help, before anything is spent."""
    typer.echo(f"Hint: {words}", err=True)


Report = Callable[[int, int], None]


@contextmanager
def progress(hidden: bool, unit: str = "rounds") -> Iterator[Report | None]:
    """Show a bar on standard error while it is a terminal, elsewhere a line now and then of cells.

    The rounds of a run are over soon enough to show none there.
    """
    if hidden:
        yield None
    elif sys.stderr.isatty():
        with _bar(unit) as report:
            yield report
    else:
        yield Lines(time.monotonic) if unit == "cells" else None


@contextmanager
def _bar(unit: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (unit, BarColumn(), MofNCompleteColumn(), Left(), TextColumn("left"))
    bar = Progress(
        *columns, console=Console(stderr=True), transient=True, speed_estimate_period=300.0
    )
    with bar:
        task = bar.add_task(unit, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


class Lines:
    """Progress where there is no terminal: what was found, then a line every half minute."""

    EVERY = 30.0

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._found: int | None = None
        self._started = self._said = clock()

    def __call__(self, done: int, of: int) -> None:
        """Take in that `done` of `of` cells are there."""
        now = self._clock()
        if self._found is None:
            self._found, self._started, self._said = done, now, now
            if done:
                self._say(f"{done} of {of} cells are there already.")
        elif now - self._said >= self.EVERY and done > self._found:
            self._said = now
            left = (now - self._started) / (done - self._found) * (of - done)
            self._say(f"{done} of {of} cells, about {_spelt(left)} left.")

    def _say(self, line: str) -> None:
        typer.echo(line, err=True)


def _spelt(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def show(value: str | list[str] | dict[str, Any]) -> None:
    """Print a text or lines as they are, and plain data as one line of JSON."""
    if isinstance(value, dict):
        value = json.dumps(value, allow_nan=False)
    typer.echo(value if isinstance(value, str) else "\n".join(value))


def trust_of(
    trust: str | None, colluding: int | None, algorithm: str | None = None, quiet: bool = False
) -> dict[str, Any]:
    """Return trust, c and the algorithm of a method; sums choose one that has them, and say so."""
    from ppadmm.algorithms.method import usual_algorithm
    from ppadmm.summing.trust import SUM

    if colluding is not None and trust != SUM:
        raise InputError(
            f"--colluding {colluding} counts sites that see sums; give --trust sum, or leave it "
            "out."
        )
    chosen = algorithm or usual_algorithm(trust)
    if algorithm is None and trust == SUM and not quiet:
        typer.echo(f"Trust sum: the algorithm is {chosen}, which needs sums only.", err=True)
    found = {"trust": trust, "colluding": colluding, "algorithm": chosen}
    return {name: value for name, value in found.items() if value is not None}


def knots_or_lines(knots: int | None, linear: bool) -> int | None:
    """Return the knots of a method: none are straight lines, None leaves them to the rule."""
    if linear and knots:
        raise InputError(f"Straight lines have no knots; leave out --linear or --knots {knots}.")
    return 0 if linear else knots
