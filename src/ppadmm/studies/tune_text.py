"""A search as a table on the terminal."""

from ppadmm.runs.text import summary
from ppadmm.studies.tune import Candidate, Tuned


def tune_text(found: Tuned) -> str:
    """Return the noisy scores that were released, then the chosen run."""
    chosen = found.result.spec
    lines = [
        _line(one, (one.eta, one.regularisation) == (chosen.eta, chosen.regularisation))
        for one in found.candidates
    ]
    return "\n".join(["noisy accuracy on the training records:", *lines, "", summary(found.result)])


def _line(one: Candidate, chosen: bool) -> str:
    eta = "η by rule" if one.eta is None else f"η = {one.eta:g}"
    mark = "  chosen" if chosen else ""
    score = "lost in a crash" if one.score is None else f"{one.score:.4f}"
    return f"  {eta}, λ = {one.regularisation:g}: {score}{mark}"
