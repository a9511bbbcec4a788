"""An audit as a table on the terminal."""

from collections.abc import Sequence

from ppadmm.auditing.audit import Audit
from ppadmm.auditing.membership import Membership
from ppadmm.runs.tables import table

NOTES = (
    "shown ε: a smaller one is refuted, with no assumption; as Gaussian: if the privacy loss is",
    "that of a Gaussian mechanism. TPR: of the event that speaks most against the claim.",
    "An audit can refute a claim, never prove it.",
)


def audit_text(found: Sequence[Audit]) -> str:
    """Return one line per game, what the columns mean, and the verdict."""
    lines = _table([_cells(one) for one in found])
    first = found[0].finding
    how = (
        f"At δ = {first.delta:g}; runs on each of two data sets, confidence {first.confidence:.1%}"
    )
    return "\n".join([lines, "", f"{how} per game.", _noises(found), *NOTES, "", _verdict(found)])


def _noises(found: Sequence[Audit]) -> str:
    """Say which noise was played with, and in which games if there were several."""
    names = dict.fromkeys(one.noise for one in found)
    if len(names) == 1:
        return f"Noise: {found[0].noise}."
    games = {name: "; ".join(one.game for one in found if one.noise == name) for name in names}
    rare = min(names, key=lambda name: len(games[name]))
    common = " and ".join(name for name in names if name != rare)
    return f"Noise: {common}; {rare} in {games[rare]}."


def _table(rows: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return rows of (column, cell) as a table."""
    head = [name for name, _ in rows[0]]
    return table(head, [[cell for _, cell in row] for row in rows], right=False)


def _cells(one: Audit) -> list[tuple[str, str]]:
    finding = one.finding
    return [
        ("game", one.game),
        ("runs", f"{finding.runs:,}"),
        ("claimed ε", f"{one.claimed:.3g}"),
        ("shown ε ≥", f"{finding.epsilon:.3g}"),
        ("as Gaussian", f"{finding.gaussian_epsilon:.3g}" if one.gaussian else ""),
        ("TPR ≥", f"{finding.tpr:.4f}"),
        ("allowed", f"{finding.allowed:.4f}"),
        ("verdict", "passed" if one.passed else "EXCEEDED" if finding.exceeded else "GAVE UP"),
        ("seconds", f"{one.seconds:.1f}"),
    ]


def _verdict(found: Sequence[Audit]) -> str:
    failed = [one.game for one in found if one.finding.exceeded]
    ended = [one.game for one in found if one.gave_up and not one.finding.exceeded]
    if not failed + ended:
        return f"PASSED: nothing in {len(found)} games speaks against the claims."
    why = [f"the runs exceed what is claimed ({'; '.join(failed)})"] if failed else []
    why += [f"agents gave up after they had paid ({'; '.join(ended)})"] if ended else []
    return f"FAILED: {', and '.join(why)}. Do not release anything."


def membership_text(found: Sequence[Membership]) -> str:
    """Return one line per algorithm and attack, beside what the claim allows."""
    lines = _table([_guesses(one) for one in found])
    how = (
        f"{found[0].models} models attacked, each trained on a random half of made-up records; "
        "± one standard error."
    )
    failed = [one.algorithm for one in found if one.exceeded]
    verdict = (
        f"FAILED: guesses are better than what is claimed allows ({'; '.join(failed)})."
        if failed
        else "PASSED: no guess is better than what is claimed allows."
    )
    return "\n".join([lines, "", how, NOTES[-1], "", verdict])


def _guesses(one: Membership) -> list[tuple[str, str]]:
    free = one.epsilon is None
    return [
        ("algorithm", one.algorithm),
        ("ε", "∞" if free else f"{one.epsilon:g}"),
        ("attack", one.attack),
        ("AUC", f"{one.auc:.4f} ± {one.auc_error:.4f}"),
        ("allowed", "any" if free else f"{one.auc_allowed:.4f}"),
        ("TPR at FPR 1 %", f"{one.tpr:.4f} ± {one.tpr_error:.4f}"),
        ("allowed", "any" if free else f"{one.tpr_allowed:.4f}"),
        ("verdict", "EXCEEDED" if one.exceeded else "no claim" if free else "passed"),
    ]
