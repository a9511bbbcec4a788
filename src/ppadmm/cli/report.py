"""`ppadmm report`: one HTML file from a run folder."""

from pathlib import Path
from typing import Annotated

from ppadmm.cli import options
from ppadmm.cli.app import app
from ppadmm.cli.common import interruptible, show


@app.command()
def report(
    run: Annotated[Path, options.argument("RUN", "A folder that train wrote.")],
    public: Annotated[
        bool,
        options.flag(
            "--public",
            "For sending outside: leave out everything that the privacy guarantee does not "
            "cover (test figures, running time, folders). Refused for a run that is not private.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        options.out("FILE", "New file [RUN/report.html, with --public RUN/report-public.html]."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write one self-contained HTML file about a finished run and print its path.

    The file loads nothing from the network and can be sent by mail or printed.

    Example: ppadmm report runs/first --public
    """
    from ppadmm.runs.report.page import write_report

    with interruptible():
        path = write_report(run, out, public)
    show({"report": str(path), "public": public} if as_json else f"Report: {path}")
