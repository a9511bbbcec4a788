"""What commands share: lists of numbers, a progress bar, Ctrl-C, printing."""

import json
import sys
import time
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
    """Refuse a number of agents where a column says who they are."""
    if agents is not None and (partition or "").startswith("column:"):
        raise InputError(
            f"With --partition {partition} the number of agents follows from the column; leave "
            "--agents out."
        )


@contextmanager
def interruptible(kept: str = "nothing was written") -> Iterator[None]:
    """Turn Ctrl-C into an error of ours: Typer has its own, silent way with it."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError(f"Interrupted; {kept}.") from None


Report = Callable[[int, int], None]


@contextmanager
def progress(hidden: bool) -> Iterator[Report | None]:
    """Show the rounds of a run as a bar on standard error while it is a terminal."""
    if hidden or not sys.stderr.isatty():
        yield None
    else:
        with _bar("rounds") as report:
            yield report


@contextmanager
def sweep_progress(hidden: bool) -> Iterator[Report | None]:
    """Show the cells of a sweep: a bar on a terminal, elsewhere a line now and then."""
    if hidden:
        yield None
    elif sys.stderr.isatty():
        with _bar("cells") as report:
            yield report
    else:
        yield Lines(time.monotonic)


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


def show(value: str | dict[str, Any]) -> None:
    """Print text as it is and anything else as one line of JSON."""
    typer.echo(value if isinstance(value, str) else json.dumps(value, allow_nan=False))
