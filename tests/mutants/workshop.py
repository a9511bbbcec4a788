"""Makes mutants from a copy of the package, and sees whether they are caught."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

from tests.mutants.catcher import BROKEN, CAUGHT, PASSED
from tests.mutants.mutant import RUNS

PROJECT = Path(__file__).resolve().parents[2]
WORDS = {PASSED: "NOT CAUGHT", CAUGHT: "caught", BROKEN: "BROKEN"}
LONGEST = 600
"""Seconds after which a catcher is given up: nothing was caught by then."""


class OutOfDateError(Exception):
    """A replacement of a mutant no longer applies."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: PASSED, CAUGHT or BROKEN, and why."""

    code: int
    reason: str
    seconds: float


class Workshop:
    """A copy of the package, of which one mutant is made at a time; the tree stays as it is."""

    def __init__(self, folder):
        self.root = Path(folder).resolve() / "src"
        shutil.copytree(PROJECT / "src" / "ppadmm", self.root / "ppadmm")

    @contextmanager
    def mutated(self, mutant):
        """Apply the changes of a mutant to the copy, and take them back."""
        before = {}
        try:
            for change in mutant.changes:
                path = self.root / "ppadmm" / change.file
                text = path.read_text()
                if text.count(change.old) != 1:
                    raise OutOfDateError(
                        f"{mutant.name}: {change.file} has {text.count(change.old)} places like "
                        f"{change.old.strip()!r}, expected 1"
                    )
                before.setdefault(path, text)
                self._write(path, text.replace(change.old, change.new))
            yield
        finally:
            for path, text in before.items():
                self._write(path, text)

    def _write(self, path, text):
        """Python tells sources apart by size and second: forget what it made of the one before."""
        path.write_text(text)
        Path(cache_from_source(path)).unlink(missing_ok=True)

    def run(self, *catchers, runs=RUNS):
        """Run catchers against the copy as it is now; games with so many runs."""
        began = time.perf_counter()
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "PYTHON"))}
        environment = {**clean, "PYTHONPATH": str(self.root)}
        command = [
            sys.executable,
            "-m",
            "tests.mutants.catcher",
            str(self.root),
            str(runs),
            *catchers,
        ]
        try:
            found = subprocess.run(
                command, cwd=PROJECT, env=environment, capture_output=True, text=True,
                timeout=LONGEST, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Outcome(PASSED, f"still running after {LONGEST} s", LONGEST)
        lines = [line for line in (found.stdout + found.stderr).splitlines() if line.strip()]
        code = found.returncode if found.returncode in WORDS else BROKEN
        said = found.stdout.splitlines() if code != BROKEN else lines
        return Outcome(code, said[-1] if said else "", time.perf_counter() - began)

    def try_out(self, mutant):
        """Make a mutant and run what must catch it."""
        try:
            with self.mutated(mutant):
                return self.run(mutant.caught_by, runs=mutant.runs)
        except OutOfDateError as error:
            return Outcome(BROKEN, str(error), 0.0)
