"""An audit as a table on the terminal."""

from collections.abc import Sequence

from ppadmm.auditing.audit import Audit
from ppadmm.auditing.membership import Membership

HEAD = (
    "game",
    "runs",
    "claimed ε",
    "shown ε ≥",
    "as Gaussian",
    "TPR ≥",
    "allowed",
    "verdict",
    "seconds",
)
MEMBERSHIP = (
    "algorithm",
    "ε",
    "attack",
    "AUC",
    "allowed",
    "TPR at FPR 1 %",
    "allowed",
    "verdict",
)
NOTES = (
    "shown ε: a smaller one is refuted, with no assumption; as Gaussian: if the privacy loss is",
    "that of a Gaussian mechanism. TPR: of the event that speaks most against the claim.",
    "An audit can refute a claim, never prove it.",
)


def audit_text(found: Sequence[Audit]) -> str:
    """Return one line per game, what the columns mean, and the verdict."""
    lines = _table([HEAD, *(_cells(one) for one in found)])
    first = found[0].finding
    how = (
        f"At δ = {first.delta:g}; runs on each of two data sets, confidence {first.confidence:.1%}"
    )
    return "\n".join([*lines, "", f"{how} per game.", _noises(found), *NOTES, "", _verdict(found)])


def _noises(found: Sequence[Audit]) -> str:
    """Say which noise was played with, and in which games if there were several."""
    names = dict.fromkeys(one.noise for one in found)
    if len(names) == 1:
        return f"Noise: {found[0].noise}."
    games = {name: "; ".join(one.game for one in found if one.noise == name) for name in names}
    rare = min(names, key=lambda name: len(games[name]))
    common = " and ".join(name for name in names if name != rare)
    return f"Noise: {common}; {rare} in {games[rare]}."


def _cells(one: Audit) -> tuple[str, ...]:
    finding = one.finding
    return (
        one.game,
        f"{finding.runs:,}",
        f"{one.claimed:.3g}",
        f"{finding.epsilon:.3g}",
        f"{finding.gaussian_epsilon:.3g}" if one.gaussian else "",
        f"{finding.tpr:.4f}",
        f"{finding.allowed:.4f}",
        "passed" if one.passed else "EXCEEDED" if finding.exceeded else "GAVE UP",
        f"{one.seconds:.1f}",
    )


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
    lines = _table([MEMBERSHIP, *(_guesses(one) for one in found)])
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
    return "\n".join([*lines, "", how, NOTES[-1], "", verdict])


def _guesses(one: Membership) -> tuple[str, ...]:
    allowed = ("any", "any")
    if one.epsilon is not None:
        allowed = (f"{one.auc_allowed:.4f}", f"{one.tpr_allowed:.4f}")
    return (
        one.algorithm,
        "∞" if one.epsilon is None else f"{one.epsilon:g}",
        one.attack,
        f"{one.auc:.4f} ± {one.auc_error:.4f}",
        allowed[0],
        f"{one.tpr:.4f} ± {one.tpr_error:.4f}",
        allowed[1],
        "EXCEEDED" if one.exceeded else "passed" if one.epsilon else "no claim",
    )


def _table(cells: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[k]) for line in cells) for k in range(len(cells[0]))]
    lines = [_line(line, widths) for line in cells]
    return [lines[0], _line(["-" * width for width in widths], widths), *lines[1:]]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |"
