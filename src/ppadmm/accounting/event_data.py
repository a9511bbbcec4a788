"""Tallies as plain data, so that anyone can work out ε again from what a run wrote down."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ppadmm import checks
from ppadmm.accounting.events import (
    Approximate,
    Event,
    Gaussian,
    NonPrivate,
    ObjectivePerturbation,
    Pure,
    RepeatAndSelect,
    Tally,
)
from ppadmm.errors import InputError

KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (Gaussian, ObjectivePerturbation, Pure, Approximate, NonPrivate, RepeatAndSelect)
}


def to_plain(tally: Tally) -> list[dict[str, Any]]:
    """Return one entry per event: its kind, its public constants, and how often it may happen."""
    return [{**event_to_plain(event), "times": times} for event, times in tally.counts]


def event_to_plain(event: Event) -> dict[str, Any]:
    """Return one event's kind and constants."""
    constants = asdict(event)
    if isinstance(event, RepeatAndSelect):
        constants = {**vars(event), "runs": [to_plain(run) for run in event.runs]}
    return {"event": type(event).__name__, **constants}


def from_plain(entries: Sequence[dict[str, Any]]) -> Tally:
    """Read what `to_plain` wrote."""
    return Tally(tuple((event_from_plain(entry), _times(entry)) for entry in entries))


def _times(entry: dict[str, Any]) -> int:
    return checks.count("times of an event", entry["times"], at_least=0)


def event_from_plain(entry: dict[str, Any]) -> Event:
    """Read one event; how often it happens is not part of it."""
    kind = KINDS.get(entry["event"])
    if kind is None:
        raise InputError(
            f"The event {entry['event']!r} is unknown to this version; use the one that wrote it."
        )
    if kind is RepeatAndSelect:
        entry = {**entry, "runs": tuple(from_plain(run) for run in entry["runs"])}
    return kind(**{name: v for name, v in entry.items() if name not in ("event", "times")})
