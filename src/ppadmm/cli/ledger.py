"""`ppadmm ledger`: the book that a data owner keeps of all that was spent on its records."""

from pathlib import Path
from typing import Annotated

from ppadmm.cli import options
from ppadmm.cli.app import new_group
from ppadmm.cli.common import show

ledger_app = new_group(
    "ledger", "The privacy budget of a data owner: granted, spent, verified (docs/ledger.md)."
)

File = Annotated[Path, options.argument("FILE", "The ledger.")]


@ledger_app.command()
def new(
    file: Annotated[Path, options.argument("FILE", "The new ledger.")],
    owner: Annotated[str, options.value("NAME", "Who owns the records.")],
    as_json: options.Json = False,
) -> None:
    """Make a new, empty ledger.

    Example: ppadmm ledger new hospital.ledger --owner "St Mary's Hospital"
    """
    from ppadmm.ledger.owner import OwnerLedger

    with OwnerLedger.create(file, owner) as ledger:
        made, head = ledger.books.ledger, ledger.head.hash
        plain = {"file": str(file), "ledger": made, "owner": owner, "head": head}
        show(plain if as_json else f"{file}: ledger {made} of {owner}. Head: {head}")


@ledger_app.command()
def grant(
    file: File,
    dataset: Annotated[str, options.argument("NAME", "What the data set is called.")],
    epsilon: Annotated[float, options.epsilon("For all runs together.")],
    delta: options.Delta = 1e-6,
    by: Annotated[str, options.value("NAME", "Who grants it [the user].")] = "",
    note: Annotated[str, options.value("TEXT", "Why, or where it is written.")] = "",
    rule: Annotated[
        str,
        options.value(
            "NAME",
            "adaptive (each run may be chosen because of what earlier ones released) or "
            "planned (all runs are fixed before the first; costs a little less).",
        ),
    ] = "adaptive",
    adjacency: Annotated[
        str,
        options.adjacency(
            "What is protected: replace-one or zero-out; runs of the other are refused."
        ),
    ] = "replace-one",
    as_json: options.Json = False,
) -> None:
    """Grant a data set a budget: what all runs on it, ever, may cost together.

    A later grant for the same data set takes the place of the earlier one and, once there are runs,
    has the same adjacency. It must not be chosen because of what was released.

    Example: ppadmm ledger grant hospital.ledger patients --epsilon 3 --by "Data protection officer"
    """
    from ppadmm.accounting import Budget
    from ppadmm.accounting.protection import Protection
    from ppadmm.ledger.owner import OwnerLedger

    with OwnerLedger.open(file) as ledger:
        ledger.grant(dataset, Budget(epsilon, delta), by, note, rule, Protection(adjacency))
        spent = ledger.spent(dataset)
    plain = {"dataset": dataset, "granted": epsilon, "delta": delta, "rule": rule,
             "adjacency": adjacency, "spent": spent}  # fmt: skip
    text = (
        f"{dataset}: ε = {epsilon:g} at δ = {delta:g} granted for {adjacency} ({rule} rule), "
        f"ε = {spent:.4g} spent so far."
    )
    show(plain if as_json else text)


@ledger_app.command(name="show")
def show_ledger(file: File, as_json: options.Json = False) -> None:
    """Show budgets, runs and what they cost; checks the whole ledger first.

    Example: ppadmm ledger show hospital.ledger
    """
    from ppadmm.ledger.chain import read_rows, verify
    from ppadmm.ledger.text import ledger_dict, ledger_text

    books, head = verify(read_rows(file))
    found = ledger_dict(books, head)
    show(found if as_json else ledger_text(found))


@ledger_app.command(name="verify")
def verify_ledger(
    file: File,
    head: Annotated[
        str | None, options.value("HASH", "A head that was noted before; it must still be there.")
    ] = None,
    certificate: Annotated[
        Path | None, options.value("CERT", "A certificate whose head must be there.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check every entry, every hash and the bytes of every release; name the first that is bad.

    That entries were cut off at the end cannot be seen from the rest: give --head or --certificate.

    Example: ppadmm ledger verify hospital.ledger --certificate runs/first/certificate.json
    """
    from ppadmm.runs.certificates import verify_book

    books, last = verify_book(file, head, certificate)
    known = bool(head) or certificate is not None
    plain = {"ledger": books.ledger, "owner": books.owner, "entries": last.count,
             "head": last.hash, "end_checked": known}  # fmt: skip
    open_end = (
        "Whether entries are missing at the end was not checked: give --head or --certificate."
    )
    lines = [f"{file}: all {last.count} entries hold. Head: {last.hash}"]
    show(plain if as_json else lines if known else [*lines, open_end])


@ledger_app.command()
def abandon(
    file: File,
    run: Annotated[str, options.argument("RUN", "An unfinished run.")],
    note: Annotated[str, options.value("TEXT", "Why.")] = "",
    as_json: options.Json = False,
) -> None:
    """End a run that will not be resumed. What it reserved stays spent if it charged anything.

    Example: ppadmm ledger abandon hospital.ledger 3f0c9a1e --note "the machine is gone"
    """
    from ppadmm.ledger.owner import OwnerLedger

    with OwnerLedger.open(file) as ledger:
        ledger.abandon(run, note)
        back = ledger.books.runs[run].given_back
    text = f"Run {run}: abandoned; " + ("given back." if back else "its cost stays spent.")
    show({"run": run, "outcome": "abandoned", "given_back": back} if as_json else text)
