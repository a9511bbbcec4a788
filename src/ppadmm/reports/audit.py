"""An audit as a table on the terminal."""

from collections.abc import Sequence

from ppadmm.experiments.audit import Audit

HEAD = ("game", "claimed ε", "shown ε ≥", "as Gaussian", "TPR ≥", "allowed", "verdict", "seconds")
NOTES = (
    "shown ε: a smaller one is refuted, with no assumption; as Gaussian: if the privacy loss is",
    "that of a Gaussian mechanism. TPR: of the event that speaks most against the claim.",
    "An audit can refute a claim, never prove it.",
)


def audit_text(found: Sequence[Audit]) -> str:
    """Return one line per game, what the columns mean, and the verdict."""
    cells = [HEAD, *(_cells(one) for one in found)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(HEAD))]
    lines = [_line(line, widths) for line in cells]
    lines.insert(1, _line(["-" * width for width in widths], widths))
    first = found[0].finding
    how = (
        f"At δ = {first.delta:g}; {first.runs:,} runs a side, confidence "
        f"{first.confidence:.1%} per game; noise: {found[0].noise}."
    )
    return "\n".join([*lines, "", how, *NOTES, "", _verdict(found)])


def _cells(one: Audit) -> tuple[str, ...]:
    finding = one.finding
    return (
        one.game,
        f"{one.claimed:.3g}",
        f"{finding.epsilon:.3g}",
        f"{finding.gaussian_epsilon:.3g}" if one.gaussian else "",
        f"{finding.tpr:.4f}",
        f"{finding.allowed:.4f}",
        "passed" if one.passed else "EXCEEDED",
        f"{one.seconds:.1f}",
    )


def _verdict(found: Sequence[Audit]) -> str:
    failed = [one.game for one in found if not one.passed]
    if not failed:
        return f"PASSED: nothing in {len(found)} games speaks against the claims."
    return (
        f"FAILED: the runs exceed what is claimed ({'; '.join(failed)}). Do not release anything."
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |"
