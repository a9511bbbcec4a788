"""The command line: commands only, one module each. Errors become one sentence and an exit code.

A command imports what it needs when it runs, so that `ppadmm --help` is quick.
"""

from ppadmm.cli import (  # noqa: F401 (commands register themselves)
    audit,
    certificate,
    compare,
    data,
    doctor,
    ledger,
    peer,
    peer_agree,
    peer_check,
    peer_run,
    plan,
    report,
    reproduce,
    samples,
    schema,
    train,
    tune,
)
from ppadmm.cli.app import app, main

__all__ = ["app", "main"]
