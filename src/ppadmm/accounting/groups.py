"""What a run costs k records of one agent at once, such as those of one person.

docs/privacy.md, section 7: in Theorems A, B and C a group of k has k times s and k times κ, and its
gradients span k times as many dimensions, while the eigenvalues' trace and squares stay within the
same multiples of the larger κ. So J becomes k·J, and not the J of k times κ, which is less.
"""

from dataclasses import replace

from ppadmm import checks
from ppadmm.accounting.events import (
    Event,
    Gaussian,
    ObjectivePerturbation,
    Pure,
    RepeatAndSelect,
    Tally,
)


def of_group(tally: Tally, k: int) -> Tally:
    """Return what `tally`, the cost of one record, is for a group of k records of the agent."""
    checks.count("records of a group", k)
    return Tally(tuple((_for_group(event, k), times) for event, times in tally.counts))


def _for_group(event: Event, k: int) -> Event:
    match event:
        case Gaussian(ratio):
            return Gaussian(k * ratio)
        case ObjectivePerturbation():
            return replace(event, ratio=k * event.ratio, kappa=k * event.kappa, span=k * event.span)
        case Pure(epsilon):
            return Pure(k * epsilon)
        case RepeatAndSelect():
            return replace(event, runs=tuple(of_group(run, k) for run in event.runs))
        case _:
            return event
