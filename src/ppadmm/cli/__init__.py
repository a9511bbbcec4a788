"""The command line: commands only, one module each. Errors become one sentence and an exit code.

A command imports what it needs when it runs, so that `ppadmm --help` is quick.
"""

from ppadmm.cli import (  # they register themselves
    audit,
    compare,
    data,
    report,
    samples,
    schema,
    train,
    tune,
)
from ppadmm.cli.app import app, main

__all__ = [
    "app",
    "audit",
    "compare",
    "data",
    "main",
    "report",
    "samples",
    "schema",
    "train",
    "tune",
]
