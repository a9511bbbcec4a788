"""What a mutant is."""

from dataclasses import dataclass

RUNS = 20_000
"""As many as `ppadmm audit` plays by default."""


@dataclass(frozen=True)
class Change:
    """One replacement: `old` is in the file exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A broken build: its name, what is broken, and the game, with its runs, or test that fails."""

    name: str
    about: str
    caught_by: str
    changes: tuple[Change, ...]
    quick: bool = False
    runs: int = RUNS


MINIMISER = "mechanisms/minimiser.py"
TESTING = "mechanisms/threshold_tests.py"
