"""What several runs on the same records cost together.

In one run a record belongs to one agent, in the next perhaps to another. So a run is a list of
alternatives, one tally per agent, and the sum over runs is the worst choice of one tally from each:

    ε = max over (i₁, i₂, …) of ε(T₁[i₁] + T₂[i₂] + …).

All is counted in one tally and converted once, which is far less than the sum of the runs' ε.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

from ppadmm.accounting import accountant
from ppadmm.accounting.accountant import Bound
from ppadmm.accounting.events import Event, RepeatAndSelect, Tally

MOST_SUMS = 256
"""Choices that are tried one by one; beyond, a run is replaced by an upper bound of its agents."""


def together(runs: Sequence[Sequence[Tally]], delta: float) -> Bound:
    """Return the bound of all runs together; each run is a tally per agent."""
    sums = _sums([_distinct(agents) for agents in runs])
    if sums is None:
        sums = _sums([(_envelope(_distinct(agents)),) for agents in runs])
    return max((accountant.epsilon(tally, delta) for tally in sums or ()), key=lambda b: b.epsilon)


def _distinct(agents: Iterable[Tally]) -> tuple[Tally, ...]:
    """Drop repetitions, and agents that pay nothing unless nobody pays."""
    found = dict.fromkeys(agents)
    return tuple(t for t in found if t.counts) or (Tally(),)


def _sums(runs: Sequence[tuple[Tally, ...]]) -> set[Tally] | None:
    """Return every sum of one tally per run, or None if there are too many."""
    sums = {Tally()}
    for agents in runs:
        sums = {_plus(so_far, tally) for so_far in sums for tally in agents}
        if len(sums) > MOST_SUMS:
            return None
    return sums


def _plus(one: Tally, other: Tally) -> Tally:
    counts = dict(one.counts)
    for event, times in other.counts:
        counts[event] = counts.get(event, 0) + times
    return Tally(tuple(sorted(counts.items(), key=repr)))


def _envelope(agents: Sequence[Tally]) -> Tally:
    """Return a tally that costs at least as much as each of `agents`.

    Every bound of the accountant grows with every constant of an event and with its times. So the
    largest of each will do where the tallies are alike, and their sum always does.
    """
    shapes = {tuple(type(event) for event, _ in tally.counts) for tally in agents}
    if len(agents) == 1:
        return agents[0]
    if len(shapes) > 1 or any(RepeatAndSelect in shape for shape in shapes):
        return _summed(agents)
    columns = zip(*(tally.counts for tally in agents), strict=True)
    return Tally(tuple((_largest([e for e, _ in c]), max(k for _, k in c)) for c in columns))


def _largest(events: Sequence[Event]) -> Event:
    names = [field.name for field in fields(events[0])]
    return replace(events[0], **{name: max(getattr(e, name) for e in events) for name in names})


def _summed(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total = _plus(total, tally)
    return total
