"""`ppadmm audit`: play against the code what the guarantee claims to withstand."""

from typing import Annotated

import typer

from ppadmm.cli.app import app
from ppadmm.cli.common import Json, interruptible, show

NAMES = "pp, ipp, one-shot, dvp, m-admm, r-admm, gradient, tune"


@app.command()
def audit(
    algorithm: Annotated[
        str, typer.Option(metavar="NAMES", help=f"Comma-separated: {NAMES}, or all.")
    ] = "all",
    epsilon: Annotated[
        float, typer.Option(metavar="ε", help="Budget of the audited runs; small ones show little.")
    ] = 4.0,
    delta: Annotated[float, typer.Option(metavar="δ", help="Its δ.")] = 1e-5,
    runs: Annotated[
        int | None,
        typer.Option(metavar="K", help="Runs on each data set [20000; 1000 with --secure]."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="INT", help="Of the simulated noise.")] = 0,
    secure: Annotated[
        bool, typer.Option("--secure", help="With the secure sampler in the loop: slower.")
    ] = False,
    membership: Annotated[
        bool,
        typer.Option(
            "--membership",
            help="Guess who trained models were trained on; --runs is their number [64].",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Try to tell two neighbouring data sets apart from whole runs, beyond what is claimed.

    Reads no data of yours. Exit code 1 if what is shown exceeds what is claimed. docs/audit.md
    says what an audit can show and what not.

    Example: ppadmm audit --algorithm pp,ipp
    """
    from ppadmm import checks
    from ppadmm.auditing.audit import RUNS, SECURE_RUNS, audits
    from ppadmm.auditing.games import GAMES
    from ppadmm.auditing.text import audit_text

    if membership:
        _membership(algorithm, epsilon, delta, runs, seed, secure, as_json)
        return
    names = NAMES.split(", ") if algorithm == "all" else algorithm.split(",")
    checks.positive("epsilon", epsilon)
    checks.count("seed", seed, at_least=0)
    count = runs if runs is not None else SECURE_RUNS if secure else RUNS
    checks.count("runs", count, at_least=200)
    with interruptible():
        found = audits(
            GAMES, names, epsilon=epsilon, delta=delta, runs=count, seed=seed, secure=secure
        )
    passed = all(one.passed for one in found)
    if as_json:
        show({"passed": passed, "games": [one.to_dict() for one in found]})
    else:
        show(audit_text(found))
    if not passed:
        raise typer.Exit(1)


def _membership(
    algorithm: str,
    epsilon: float,
    delta: float,
    runs: int | None,
    seed: int,
    secure: bool,
    as_json: bool,
) -> None:
    from ppadmm.auditing.membership import MODELS
    from ppadmm.auditing.membership import membership as attack
    from ppadmm.auditing.text import membership_text

    names = ["pp"] if algorithm == "all" else algorithm.split(",")
    models = MODELS if runs is None else runs
    with interruptible():
        found = [
            one
            for name in dict.fromkeys(["non-private", *names])
            for one in attack(name, epsilon, delta, models, seed, secure)
        ]
    passed = not any(one.exceeded for one in found)
    if as_json:
        show({"passed": passed, "attacks": [one.to_dict() for one in found]})
    else:
        show(membership_text(found))
    if not passed:
        raise typer.Exit(1)
