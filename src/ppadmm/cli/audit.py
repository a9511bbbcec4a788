"""`ppadmm audit`: play against the code what the guarantee claims to withstand."""

from typing import Annotated

import typer

from ppadmm.cli import names, options
from ppadmm.cli.app import app
from ppadmm.cli.common import interruptible, show


@app.command(cls=names.NamingCommand)
def audit(
    algorithm: Annotated[
        str, options.value("NAMES", "Comma-separated: {audited}, or all.")
    ] = "all",
    epsilon: Annotated[
        float, options.epsilon("Budget of the audited runs; small ones show little.")
    ] = 4.0,
    delta: options.Delta = 1e-5,
    runs: Annotated[
        int | None, options.value("K", "Runs on each data set [20000; 1000 with --secure].")
    ] = None,
    seed: Annotated[int, options.seed("Of the simulated noise.")] = 0,
    secure: Annotated[
        bool, options.flag("--secure", "With the secure sampler in the loop: slower.")
    ] = False,
    membership: Annotated[
        bool,
        options.flag(
            "--membership", "Guess who trained models were trained on; --runs is their number [64]."
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Try to tell two neighbouring data sets apart from whole runs, beyond what is claimed.

    Reads no data of yours. Exit code 1 if what is shown exceeds what is claimed. docs/audit.md
    says what an audit can show and what not.

    Example: ppadmm audit --algorithm pp,ipp
    """
    from ppadmm.auditing.suite import AuditOptions, attack_members, audit_algorithms
    from ppadmm.auditing.text import audit_text, membership_text

    asked = AuditOptions(algorithm, epsilon, delta, runs, seed, secure)
    with interruptible():
        if membership:
            attacks = attack_members(asked)
            passed, text = all(one.passed for one in attacks), membership_text(attacks)
            plain = {"passed": passed, "attacks": [one.to_dict() for one in attacks]}
        else:
            games = audit_algorithms(asked)
            passed, text = all(one.passed for one in games), audit_text(games)
            plain = {"passed": passed, "games": [one.to_dict() for one in games]}
    show(plain if as_json else text)
    if not passed:
        raise typer.Exit(1)
