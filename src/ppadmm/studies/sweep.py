"""Many cells, over processes or machines, into a folder that a killed sweep continues from.

Each finished cell is one file, named by the digest of its specification and written whole or not at
all. A file that does not say what its name promises counts as absent: its cell runs again.
Two sweeps may share a folder; at worst both run a cell, and write the same numbers.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ppadmm import checks
from ppadmm.engines import processes
from ppadmm.errors import InputError
from ppadmm.files import require_format, write_whole
from ppadmm.studies.cell import Cell, CellResult, json_digest, run_cell

FORMAT = 1
Outcomes = tuple[CellResult, ...]
Progress = Callable[[int, int], None]
Runner = Callable[[Callable[[Cell], Outcomes], Iterator[Cell]], Iterator[tuple[Cell, Outcomes]]]
"""Yields (cell, what it gave) as they are done, wherever they run."""


@dataclass(frozen=True)
class CellStore:
    """Finished cells in a folder."""

    folder: Path

    def path(self, cell: Cell) -> Path:
        """Return where the cell's file is or will be."""
        return self.folder / f"{cell.digest()}.json"

    def read(self, cell: Cell) -> Outcomes | None:
        """Return what the cell gave, or None if no whole and true file says so."""
        try:
            record = json.loads(self.path(cell).read_bytes())
            require_format(str(self.path(cell)), record["format"], FORMAT, "choose another --out")
            if record["checksum"] != json_digest([record["cell"], record["outcomes"]]):
                return None
            if json_digest(record["cell"]) != cell.digest():
                return None
            return tuple(CellResult.from_dict(values) for values in record["outcomes"])
        except InputError:
            raise
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, cell: Cell, outcomes: Outcomes) -> None:
        """Keep what the cell gave."""
        self.folder.mkdir(parents=True, exist_ok=True)
        plain: list[Any] = [cell.specification(), [asdict(outcome) for outcome in outcomes]]
        record = {
            "format": FORMAT,
            "cell": plain[0],
            "outcomes": plain[1],
            "checksum": json_digest(plain),
        }
        write_whole(self.path(cell), (json.dumps(record, allow_nan=False) + "\n").encode())


@dataclass(frozen=True)
class Sweep:
    """What all cells gave, and how many of them ran now; the others were found finished."""

    results: dict[Cell, Outcomes]
    ran: int

    def outcomes(self, cells: Sequence[Cell], epsilon: float | None) -> list[CellResult]:
        """Return what some cells gave at one ε."""
        return [o for cell in cells for o in self.results[cell] if o.epsilon == epsilon]


def sweep(
    cells: Sequence[Cell],
    folder: Path | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    runner: Runner | None = None,
) -> Sweep:
    """Run the cells that `folder` does not hold; `progress(done, of)` counts cells.

    They run over `jobs` processes of this machine, or wherever `runner` runs them. Only this
    process writes to the folder.
    """
    checks.count("jobs", jobs)
    store = None if folder is None else _opened(folder)
    distinct = tuple(dict.fromkeys(cells))
    results = _found(store, distinct)
    report = progress or (lambda done, of: None)
    report(len(results), len(distinct))

    def left() -> Iterator[Cell]:
        """Look again just before a cell would run: another sweep may have finished it."""
        for cell in [cell for cell in distinct if cell not in results]:
            results.update(_found(store, (cell,)))
            if cell not in results:
                yield cell

    ran = 0
    for cell, outcomes in (runner or partial(processes.run, jobs=jobs))(run_cell, left()):
        if store is not None:
            store.write(cell, outcomes)
        results[cell] = outcomes
        ran += 1
        report(len(results), len(distinct))
    return Sweep(results, ran)


def _found(store: CellStore | None, cells: Sequence[Cell]) -> dict[Cell, Outcomes]:
    if store is None:
        return {}
    kept = ((cell, store.read(cell)) for cell in cells)
    return {cell: outcomes for cell, outcomes in kept if outcomes is not None}


def _opened(folder: Path) -> CellStore:
    """Return the store, or refuse before any work a folder that cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / ".writable", b"")
        (folder / ".writable").unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"Cannot write cells to {str(folder)!r}: {reason}.") from None
    return CellStore(folder)
