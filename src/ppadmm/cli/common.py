"""What commands share: lists of numbers, a progress bar, Ctrl-C, printing."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppadmm.errors import InputError, PpadmmError

if TYPE_CHECKING:
    from ppadmm.runs.ledger_session import LedgerOptions
    from ppadmm.studies.sweep import Runner

Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="J", help="Cells to run at a time [compare 1, reproduce 2, ray every CPU it has]."
    ),
]
SweepEngine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Where cells run: pool (processes of this machine) or ray (a cluster; "
        "pip install 'ppadmm[ray]').",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDR",
        help="With --engine ray: HOST:PORT of a running cluster, or auto [one that is started "
        "here and ends with the command]. Ray does not keep those who share a cluster apart and "
        "moves everything by pickle: use it on your own organisation's machines only.",
    ),
]
LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        metavar="FILE",
        help="Charge the run to this ledger, which refuses it if the budget granted to the "
        "data set does not cover it; runs that are NOT private are refused.",
    ),
]
LedgerName = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="NAME",
        help="With --ledger: what the data set is called there [its own name].",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="With --ledger: take up the unfinished run with the same records and options, or "
        "show the finished one again; what was released is used again, never drawn again.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
NoSave = Annotated[bool, typer.Option("--no-save", help="Write nothing.")]
ALGORITHM_NAMES = "pp, ipp, dvp, m-admm, r-admm, gradient, one-shot, centralised, non-private"


class InterruptedRunError(PpadmmError):
    """The user pressed Ctrl-C."""

    exit_code = 130


def completed(names: str) -> Callable[[str], list[str]]:
    """Return what a shell is told when it asks to complete one of `names`."""
    return lambda incomplete: [name for name in names.split(", ") if name.startswith(incomplete)]


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


def agents_or_column(agents: int | None, partition: str | None) -> None:
    """Refuse a number of agents where a column or the files say who they are."""
    if agents is not None and ((partition or "").startswith("column:") or partition == "files"):
        what = "files" if partition == "files" else "column"
        raise InputError(
            f"With --partition {partition} the number of agents follows from the {what}; leave "
            "--agents out."
        )


def booking_of(ledger: Path | None, dataset: str | None, resume: bool) -> "LedgerOptions | None":
    """Return which ledger to charge, None without one."""
    from ppadmm.runs.ledger_session import LedgerOptions

    if ledger is not None:
        return LedgerOptions(ledger, dataset, resume)
    if dataset is not None or resume:
        raise InputError("--dataset and --resume say how to use a ledger; give --ledger, too.")
    return None


def sweep_runner(engine: str, jobs: int | None, address: str | None) -> "Runner | None":
    """Return what runs cells, None for processes of this machine; all is checked here."""
    from functools import partial

    from ppadmm import checks
    from ppadmm.engines.ray import tasks

    checks.one_of("engine", engine, ("pool", "ray"))
    if jobs is not None:
        checks.count("jobs", jobs)
    if engine == "pool":
        no_address(address)
        return None
    tasks.imported(local=address is None)
    return partial(tasks.run, address=address, jobs=jobs)


def no_address(address: str | None) -> None:
    """Refuse the address of a cluster that would not be used."""
    if address is not None:
        raise InputError(f"--ray-address {address} needs --engine ray.")


def size(name: str, text: str) -> int:
    """Read a number of bytes such as 512MB, 2GB, 64MiB or 1000000."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?", text.strip().upper())
    if found is None:
        raise InputError(f"Expected {name} such as 512MB or 2GB, got {text!r}.")
    number, prefix, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index(prefix or " "))


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


@contextmanager
def kept_for(command: str | None) -> Iterator[None]:
    """Where the results of a paid run cannot be written, add which command writes them later."""
    try:
        yield
    except InputError as error:
        if command is None:
            raise
        way = f"What was paid for is kept: {command} writes the results, at no further cost."
        raise InputError(f"{error} {way}") from error


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
