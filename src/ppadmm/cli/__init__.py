"""The command line: commands only, one module each. Errors become one sentence and an exit code.

A command imports what it needs when it runs, so that `ppadmm --help` is quick.
"""

from ppadmm.cli import (  # commands register themselves
    compare,
    data,
    peer,
    report,
    reproduce,
    samples,
    schema,
    train,
)
from ppadmm.cli.app import app, main

__all__ = [
    "app",
    "compare",
    "data",
    "main",
    "peer",
    "report",
    "reproduce",
    "samples",
    "schema",
    "train",
]
