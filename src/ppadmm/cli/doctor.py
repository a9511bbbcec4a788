"""`ppadmm doctor`: whether this machine is fit to train on."""

from typing import TYPE_CHECKING

import typer

from ppadmm.cli import options
from ppadmm.cli.app import app
from ppadmm.cli.common import show

if TYPE_CHECKING:
    from ppadmm.doctor import Findings


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
    from ppadmm.doctor import examine

    found = examine(data_dir)
    show(found.to_dict() if as_json else _text(found))
    if not found.well:
        raise typer.Exit(1)


def _text(found: "Findings") -> list[str]:
    """Return the findings as lines to read, the verdict last."""
    packages = [f"{name} {number or '(absent)'}" for name, number in found.packages.items()]
    here = [f"{name} {'yes' if there else 'no'}" for name, there in found.data.items()]
    lines = [
        f"ppadmm {found.version}, Python {found.python}, {found.platform}",
        f"  needs          {', '.join(packages)}",
        f"  kernel         {found.kernel}",
        f"  noise          {found.sampler}",
        "",
        "Extras (pip install 'ppadmm[NAME]')",
    ]
    for name, extra in found.extras.items():
        state = f"{extra['package']} {extra['version']}" if extra["present"] else "not installed"
        lines.append(f"  {name:<14} {state:<24} {extra['for']}")
    where = found.data_dir or "no folder (give --data-dir or PPADMM_DATA)"
    lines += ["", f"Data sets in {where}", f"  {', '.join(here)}", "", "Secure noise"]
    for look in found.noise:
        verdict = "as it should be" if look.passed else "NOT as it should be"
        lines.append(f"  {look.name:<22} p = {look.p_value:<10.3g} {verdict} ({look.test})")
    problems = [f"Problem: {problem}." for problem in found.problems]
    return [*lines, "", *(["All is well, as far as was looked."] if found.well else problems)]
