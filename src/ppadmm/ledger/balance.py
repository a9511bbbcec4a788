"""What the runs in a ledger cost together, by the rule of the grant that they are charged to."""

from collections.abc import Sequence

from ppadmm.accounting.calibration import Budget
from ppadmm.accounting.composition import together
from ppadmm.accounting.events import Tally
from ppadmm.accounting.filters import filtered, rule_of
from ppadmm.accounting.protection import Protection
from ppadmm.ledger.state import Body, LedgerState, ReservedRun


def cost(books: LedgerState, dataset: str, more: Sequence[Tally] = ()) -> float:
    """Return the ε of all runs that count, and of one `more`, at the δ that was granted.

    The only run of a data set was chosen before anything was released, so it is no matter of the
    rule: whatever is proven for it alone holds.
    """
    runs = [run.tallies for run in books.counted(dataset)] + ([list(more)] if more else [])
    if not runs:
        return 0.0
    grant = books.grants[dataset]
    rule = rule_of(grant)
    if rule.order is None or len(runs) == 1:
        return together(runs, grant["delta"]).epsilon
    return filtered(runs, Budget(grant["epsilon"], grant["delta"]), rule.order)


def mixed(books: LedgerState, dataset: str, protection: Protection, ledger: str) -> str | None:
    """Say why a run of this protection cannot be charged to a grant; None if it can."""
    granted = books.protection(dataset)
    if protection == granted:
        return None
    return (
        f"This run protects by {protection}, but the budget of {dataset!r} is granted for "
        f"{granted}, and costs of the two do not add up; run it with adjacency {granted}, or "
        f"charge it to a grant of its own (ppadmm ledger grant {ledger} NAME --epsilon ε "
        f"--adjacency {protection}). Nothing was reserved."
    )


def refusal(books: LedgerState, dataset: str, total: float, more: Sequence[Tally]) -> str:
    """Say why a run is refused: the sum, the grant, and who spent what."""
    grant = books.grants[dataset]
    spent = [_spent(run) for run in books.counted(dataset)]
    return (
        f"With this run {dataset!r} would cost ε = {total:.4g} at δ = {grant['delta']:g} in all, "
        f"but ε = {grant['epsilon']:g} is granted (by {grant['by']}); "
        f"spent: {'; '.join(spent) or 'nothing yet'}. {_if_planned(books, grant, more)}Nothing was "
        "released."
    )


def _spent(run: ReservedRun) -> str:
    state = "" if run.outcome == "finished" else f" ({run.outcome or 'not finished'})"
    body = run.body
    return f"run {run.run} by {body['by']} on {body['time'][:10]}: {body['epsilon']:.4g}{state}"


def _if_planned(books: LedgerState, grant: Body, more: Sequence[Tally]) -> str:
    """Say so where only the rule stands in the way."""
    runs = [*(run.tallies for run in books.counted(grant["dataset"])), list(more)]
    planned = together(runs, grant["delta"]).epsilon
    if rule_of(grant).order is None or len(runs) == 1 or planned > grant["epsilon"]:
        return ""
    return (
        f"(If all runs had been fixed before the first, and granted so with --rule planned, they "
        f"would cost ε = {planned:.4g}.) "
    )
