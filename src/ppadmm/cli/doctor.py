"""`ppadmm doctor`: whether this machine is fit to train on."""

import typer

from ppadmm.cli import options
from ppadmm.cli.app import app
from ppadmm.cli.common import show


@app.command()
def doctor(
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """Say what is installed and found, and test the secure noise. Reads no records.

    Exit code 1 if something that private training needs is missing or wrong. A test of the noise
    raises a false alarm about once in a million times.

    Example: ppadmm doctor --json
    """
    from ppadmm.cli.doctor_text import doctor_text
    from ppadmm.doctor import examine

    found = examine(data_dir)
    show(found.to_dict() if as_json else doctor_text(found))
    if not found.well:
        raise typer.Exit(1)
