"""What a ledger's entries may say, and what they add up to.

`LedgerState.apply` is the one rule for both sides: it is asked before an entry is written and again
for every entry when a ledger is read or verified. What it refuses cannot be written, and if it was
written by other means it is named.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ppadmm import canonical, checks
from ppadmm.accounting.event_data import event_from_plain, event_to_plain
from ppadmm.accounting.events import Charge, Tally
from ppadmm.accounting.filters import rule_of
from ppadmm.accounting.protection import Protection

FORMAT = 2
Body = dict[str, Any]

KEYS: dict[str, frozenset[str]] = {
    kind: frozenset(names.split())
    for kind, names in {
        "created": "format owner ledger version secret",
        "dataset": "dataset commitment secret",
        "grant": "dataset epsilon delta by note rule protection",
        "reserve": "run dataset commitment spec by agents protection accountant epsilon total "
        "delta",
        "charge": "run agent round events",
        "kept": "run agent name secret",
        "release": "run agent round charges lost digest",
        "end": "run outcome note",
    }.items()
}
COMMON = frozenset({"seq", "time", "kind", "previous"})
OUTCOMES = ("finished", "abandoned")


class EntryRefused(Exception):  # noqa: N818 - it is an answer, not a fault
    """Why an entry cannot stand where it is."""


@dataclass
class ReservedRun:
    """A reserved run: what each agent may charge, and what it booked and released by round."""

    run: str
    body: Body
    reserved: dict[int, Counter[Charge]]
    charged: dict[int, Counter[Charge]]
    booked: dict[tuple[int, int], Counter[Charge]] = field(default_factory=dict)
    open_charges: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    releases: dict[tuple[int, int], Body] = field(default_factory=dict)
    kept: dict[tuple[int, str], Body] = field(default_factory=dict)
    charges: int = 0
    outcome: str | None = None

    @property
    def tallies(self) -> list[Tally]:
        """The most that the run may cost the records of each agent."""
        return [tally_of(counter) for counter in self.reserved.values()]

    @property
    def protection(self) -> Protection:
        """What its cost is the cost of."""
        return Protection.of(self.body["protection"])

    def charged_in(self, agent: int, rounds: range) -> Counter[Charge]:
        """Return what an agent has charged in some rounds."""
        booked = (self.booked.get((agent, round_), Counter()) for round_ in rounds)
        return sum(booked, Counter[Charge]())

    @property
    def given_back(self) -> bool:
        """Whether it ended before any charge: nothing was drawn, so nothing was spent."""
        return self.outcome is not None and not self.charges


@dataclass
class LedgerState:
    """The sum of all entries so far."""

    owner: str = ""
    ledger: str = ""
    created: Body = field(default_factory=dict)
    registered: dict[str, Body] = field(default_factory=dict)
    commitments: dict[str, str] = field(default_factory=dict)
    grants: dict[str, Body] = field(default_factory=dict)
    runs: dict[str, ReservedRun] = field(default_factory=dict)
    count: int = 0

    def apply(self, body: Body) -> None:
        """Add an entry, or raise `EntryRefused` and add nothing."""
        kind = str(body.get("kind"))
        if kind not in KEYS or body.keys() != KEYS[kind] | COMMON:
            raise EntryRefused("it is of no known kind or its fields are not those of its kind")
        if (kind == "created") != (self.count == 0):
            raise EntryRefused("a ledger begins with its creation, once")
        try:
            getattr(self, f"_{kind}")(body)  # one of KEYS, so one of the methods below
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EntryRefused(f"its fields cannot be read ({error!r})") from None
        self.count += 1

    def counted(self, dataset: str) -> list[ReservedRun]:
        """Return the runs that count against a data set's budget, in order."""
        runs = (run for run in self.runs.values() if run.body["dataset"] == dataset)
        return [run for run in runs if not run.given_back]

    def protection(self, dataset: str) -> Protection:
        """Return what the budget of a data set protects."""
        return Protection.of(self.grants[dataset]["protection"])

    @property
    def datasets(self) -> list[str]:
        """All names that were granted a budget or registered."""
        return list(dict.fromkeys([*self.grants, *self.commitments.values()]))

    def _created(self, body: Body) -> None:
        if body["format"] != FORMAT:
            raise EntryRefused(
                f"the ledger has format {body['format']} and this version reads {FORMAT}; use the "
                "version that wrote it, or make a new ledger and grant what is left"
            )
        self.owner, self.ledger = str(body["owner"]), str(body["ledger"])
        self.created = body

    def _dataset(self, body: Body) -> None:
        if body["commitment"] in self.commitments:
            raise EntryRefused("these records are registered already")
        self.commitments[body["commitment"]] = body["dataset"]
        self.registered[body["commitment"]] = body

    def _grant(self, body: Body) -> None:
        if not (float(body["epsilon"]) > 0 and 0 < float(body["delta"]) < 1):
            raise EntryRefused("it grants no (ε, δ)")
        rule_of(body)
        protection = Protection.of(body["protection"])
        for run in self.counted(body["dataset"]):
            if run.protection != protection:
                raise EntryRefused(
                    f"run {run.run} counts against every grant for {body['dataset']!r} and is a "
                    f"run of {run.protection}; grant that, not {protection}, which other records "
                    "may have under a name of their own"
                )
        self.grants[body["dataset"]] = body

    def _reserve(self, body: Body) -> None:
        if body["run"] in self.runs:
            raise EntryRefused(f"run {body['run']} is reserved already")
        if body["dataset"] not in self.grants:
            raise EntryRefused(f"no budget is granted for {body['dataset']!r}")
        if self.commitments.get(body["commitment"]) != body["dataset"]:
            raise EntryRefused(f"its records are not registered as {body['dataset']!r}")
        reserved = {int(part["agent"]): reserved_of(part["charges"]) for part in body["agents"]}
        charged: dict[int, Counter[Charge]] = {agent: Counter() for agent in reserved}
        run = ReservedRun(body["run"], body, reserved, charged)
        self._require_protection(run)
        self.runs[run.run] = run

    def _require_protection(self, run: ReservedRun) -> None:
        """Refuse a run whose cost is not the cost of what the grant protects."""
        granted = self.protection(run.body["dataset"])
        if run.protection != granted:
            raise EntryRefused(f"it is a run of {run.protection}, and what is granted is {granted}")
        if not granted.covers(run.tallies):
            raise EntryRefused(f"its events are not those of {granted}")

    def _charge(self, body: Body) -> None:
        run, place = self._going(body), (body["agent"], body["round"])
        charge = charge_from_plain(body["events"])
        if place in run.releases:
            raise EntryRefused(f"agent {place[0]} has released for round {place[1]} already")
        so_far, most = run.charged[body["agent"]][charge], run.reserved[body["agent"]][charge]
        if charge.events and so_far >= most:
            raise EntryRefused(f"all {most} releases reserved for run {run.run} are spent")
        run.charged[body["agent"]][charge] += 1
        run.booked.setdefault(place, Counter())[charge] += 1
        run.charges += 1
        run.open_charges.setdefault(place, []).append(body["seq"])

    def _kept(self, body: Body) -> None:
        run, name = self._going(body), (body["agent"], body["name"])
        if name in run.kept:
            raise EntryRefused(f"agent {name[0]} has kept a secret {name[1]!r} already")
        run.kept[name] = body

    def _release(self, body: Body) -> None:
        run, place = self._going(body), (body["agent"], body["round"])
        if place in run.releases:
            raise EntryRefused(f"agent {place[0]} has released for round {place[1]} already")
        if body["charges"] != run.open_charges.get(place, []):
            raise EntryRefused("it does not name the charges of its round")
        run.releases[place] = body

    def _end(self, body: Body) -> None:
        run = self._going(body)
        if body["outcome"] not in OUTCOMES:
            raise EntryRefused(f"{body['outcome']!r} is no outcome")
        run.outcome = body["outcome"]

    def _going(self, body: Body) -> ReservedRun:
        run = self.runs.get(body["run"])
        if run is None:
            raise EntryRefused(f"run {body['run']} is not reserved")
        if run.outcome is not None:
            raise EntryRefused(f"run {body['run']} is {run.outcome}")
        if "agent" in body and body["agent"] not in run.reserved:
            raise EntryRefused(f"run {body['run']} has no agent {body['agent']}")
        return run


def charge_to_plain(charge: Charge) -> list[dict[str, Any]]:
    """Return a charge's events as plain data."""
    return [event_to_plain(event) for event in charge.events]


def charge_from_plain(events: Sequence[dict[str, Any]]) -> Charge:
    """Read what `charge_to_plain` wrote."""
    return _charge_of(canonical.dumps(events))


@lru_cache(maxsize=256)
def _charge_of(events: bytes) -> Charge:
    """Read a charge; a run has few, and books them in every round."""
    return Charge(tuple(event_from_plain(event) for event in canonical.loads(events)))


def reserved_to_plain(run: Iterable[tuple[Charge, int]]) -> list[dict[str, Any]]:
    """Return what an agent reserves as plain data."""
    return [{"events": charge_to_plain(charge), "times": times} for charge, times in run]


def reserved_by(run: Iterable[tuple[Charge, int]]) -> Counter[Charge]:
    """Add up what an agent reserves; a charge may be there more than once, never less than 0."""
    counter: Counter[Charge] = Counter()
    for charge, times in run:
        counter[charge] += checks.count("times of a charge", times, at_least=0)
    return counter


def reserved_of(charges: Sequence[dict[str, Any]]) -> Counter[Charge]:
    """Read what `reserved_to_plain` wrote."""
    return reserved_by((charge_from_plain(e["events"]), e["times"]) for e in charges)


def tally_of(charges: Counter[Charge]) -> Tally:
    """Add up charges."""
    tally = Tally()
    for charge, times in charges.items():
        if times > 0:
            tally = tally.plus(charge, times)
    return tally
