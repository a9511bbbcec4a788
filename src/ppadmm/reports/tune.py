"""A search as a table on the terminal."""

from ppadmm.experiments.tune import Candidate, Tuned
from ppadmm.reports.text import summary


def tune_text(found: Tuned) -> str:
    """Return the noisy scores that were released, then the chosen run."""
    best = max(found.candidates, key=lambda one: one.score)
    lines = [_line(one, one is best) for one in found.candidates]
    return "\n".join(["noisy accuracy on the training records:", *lines, "", summary(found.result)])


def _line(one: Candidate, chosen: bool) -> str:
    eta = "η by rule" if one.eta is None else f"η = {one.eta:g}"
    mark = "  chosen" if chosen else ""
    return f"  {eta}, λ = {one.regularisation:g}: {one.score:.4f}{mark}"
