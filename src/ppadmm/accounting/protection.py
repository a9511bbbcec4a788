"""What a budget protects. Costs add up only where that is the same.

Between replace-one and zero-out there is a price (docs/decisions has it), but no run is charged at
another price than it states: a grant names its protection, and runs of another one are refused.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ppadmm import checks
from ppadmm.accounting.events import Event, ObjectivePerturbation, RepeatAndSelect, Tally
from ppadmm.accounting.sensitivity import ADJACENCIES

TOUCHED = {"replace-one": 2, "zero-out": 1}
"""Records whose loss changes between neighbours (docs/privacy.md, section 1)."""


@dataclass(frozen=True)
class Protection:
    """What a guarantee is about. The unit and the trust model have their place here, too."""

    adjacency: str = "replace-one"

    def __post_init__(self) -> None:
        checks.one_of("adjacency", self.adjacency, ADJACENCIES)

    def __str__(self) -> str:
        return self.adjacency

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Protection":
        """Read what `to_plain` wrote, and nothing else."""
        names = {field.name for field in fields(cls)}
        if not isinstance(plain, Mapping) or set(plain) != names:
            raise ValueError(f"{plain!r} names no protection")
        return cls(**plain)

    def to_plain(self) -> dict[str, Any]:
        """Return what an entry of a ledger says."""
        return dict(vars(self))

    def covers(self, tallies: Iterable[Tally]) -> bool:
        """Say whether all events are those of such neighbours, as far as events tell."""
        most = TOUCHED[self.adjacency]
        return all(e.records == most for tally in tallies for e in _perturbed(tally))


STANDARD = Protection()
"""What is protected unless somebody says otherwise."""


def _perturbed(tally: Tally) -> Iterator[ObjectivePerturbation]:
    for event, _ in tally.counts:
        yield from _perturbed_in(event)


def _perturbed_in(event: Event) -> Iterator[ObjectivePerturbation]:
    if isinstance(event, ObjectivePerturbation):
        yield event
    elif isinstance(event, RepeatAndSelect):
        for run in event.runs:
            yield from _perturbed(run)
