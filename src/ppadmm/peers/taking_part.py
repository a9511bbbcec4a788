"""A site's part in a run over a network, from its records to what it writes down.

The site's own ledger is charged before noise is drawn and keeps every release before it is sent; a
process that is started again finds its run there and goes on without paying twice.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppadmm.accounting import Budget, Tally, accountant
from ppadmm.accounting.protection import Protection
from ppadmm.arrays import Array
from ppadmm.errors import BudgetError
from ppadmm.ledger import Ledger, MemoryLedger
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.peers.facts import facts_of
from ppadmm.peers.outcome import PeerOutcome, RetrySchedule
from ppadmm.peers.peer import Peer
from ppadmm.peers.pki.revocations import Revocations
from ppadmm.peers.site import Participant, PublicPart
from ppadmm.peers.status import EventLog
from ppadmm.peers.store import PeerStore
from ppadmm.peers.sum_peer import make_peer
from ppadmm.peers.transport import Transport
from ppadmm.records import HoldsRecords
from ppadmm.runs.benefit import SiteBenefit
from ppadmm.runs.ledger_session import LedgerSession
from ppadmm.statements.claims import Statement
from ppadmm.statements.facts import RunFacts, disclosure_of, statement_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SIMULATION = "simulation, not private"


@dataclass(frozen=True)
class SiteSettings(HoldsRecords):
    """What a site brings to a run: its part, its keys, and where it keeps books and state.

    `ledger` is the owner's; a simulation (`party.seed`) has none and keeps a book of its own in
    `state`, so that it too can be started again. `revocations` returns the newest list.
    """

    party: Participant
    key: "Ed25519PrivateKey"
    signature: bytes
    state: Path
    ledger: Path | None = None
    dataset: str | None = None
    revocations: Callable[[], Revocations] = Revocations


@dataclass(frozen=True)
class SiteResult:
    """A part that is finished, or goes on: its outcome, what each neighbour released, the facts.

    `own` is how the model does on this site's own test records, which no ε covers.
    """

    part: PublicPart
    outcome: PeerOutcome
    neighbours: dict[int, dict[int, Array]]
    facts: RunFacts
    own: SiteBenefit | None = None

    @property
    def started(self) -> str:
        """When it began (UTC)."""
        return self.facts.started

    @property
    def releases(self) -> int:
        """In how many rounds this site spoke."""
        return self.facts.agents[0].releases

    @property
    def reserved(self) -> Tally:
        """The most that it may cost these records."""
        return self.facts.agents[0].reserved

    @property
    def spent(self) -> Tally:
        """What was charged for it."""
        return self.facts.agents[0].spent

    @cached_property
    def statement(self) -> Statement:
        """What may be claimed."""
        return statement_of(self.facts)

    @cached_property
    def disclosure(self) -> dict[str, Any]:
        """The same as plain data."""
        return disclosure_of(self.facts, self.statement)


def take_part(
    setting: SiteSettings,
    transport: Transport,
    pace: RetrySchedule | None = None,
    tell: EventLog | None = None,
    watch: Callable[[Peer], None] | None = None,
) -> SiteResult:
    """Run a site's part to the end; `watch` gets the peer before it starts, to show it."""
    party, started = setting.party, datetime.now(UTC).isoformat(timespec="seconds")
    rule, tell = party.rule(), tell or EventLog()
    if party.public.not_private_because:
        tell("not private", because=list(party.public.not_private_because))
    booked = _open_book(setting)
    with booked or nullcontext():
        ledger: Ledger = MemoryLedger()
        if booked is not None:
            (ledger,) = booked.book([(party.number, rule.reserved[0])])
        peer = make_peer(
            party.agent(rule, ledger), party.agreement, setting.key, setting.signature, transport,
            PeerStore(setting.state), pace, tell, setting.revocations,
        )  # fmt: skip
        outcome = _run(peer, booked, watch)
        entry = None if booked is None else booked.finish(outcome.reason)
        simulated = setting.ledger is None
        return result_of(party.public, peer, outcome, started, None if simulated else entry)


def _run(
    peer: Peer, booked: LedgerSession | None, watch: Callable[[Peer], None] | None
) -> PeerOutcome:
    if booked is not None and booked.run is not None and booked.run.state.outcome:
        return peer.recover()
    if watch is not None:
        watch(peer)
    return peer.run()


def result_of(
    part: PublicPart,
    peer: Peer,
    outcome: PeerOutcome,
    started: str,
    entry: dict[str, Any] | None = None,
) -> SiteResult:
    """Return a part as it is now; `entry` is what the ledger says of it."""
    spoken = int(outcome.spoke.sum())
    facts = facts_of(part, *peer.tallies, spoken, outcome.reason, started, entry)
    return SiteResult(part, outcome, peer.tally.heard_so_far(), facts)


# The book


def _open_book(setting: SiteSettings) -> LedgerSession | None:
    """Open the owner's ledger, or a simulation's own; None where no price exists."""
    party = setting.party
    if party.public.not_private_because:
        _require_simulation(setting)
    elif setting.ledger is None:
        raise BudgetError(
            "A private run is charged to the site's ledger; make one with `ppadmm ledger new`, "
            "grant it a budget with `ppadmm ledger grant`, and name it in peer.toml (ledger = …)."
        )
    else:
        ledger = OwnerLedger.open(setting.ledger)
        return _booked(setting, ledger, setting.dataset or _name(setting, ledger))
    bound = accountant.epsilon(party.public.reserved[party.number], party.agreement.delta)
    if not bound.epsilon < float("inf"):
        return None
    return _booked(setting, _simulation(setting), SIMULATION)


def _require_simulation(setting: SiteSettings) -> None:
    """Refuse to send what nothing protects, unless a person said that it is a test."""
    reasons = "; ".join(setting.party.public.not_private_because)
    if setting.party.seed is None:
        raise BudgetError(
            f"This run is not private ({reasons}), so nothing may leave this site; with made-up "
            "records it can be simulated with --test-seed."
        )
    if setting.ledger is not None:
        raise BudgetError(
            f"This run is not private ({reasons}), so no charge would be true; a simulation takes "
            "no ledger."
        )


def _booked(setting: SiteSettings, ledger: OwnerLedger, name: str) -> LedgerSession:
    """Find this agreement's run: a new one, one to go on with, or one that is over."""
    party = setting.party
    digest, protection = party.agreement.digest, Protection(party.agreement.adjacency)
    runs = [run for run in ledger.books.counted(name) if run.body["spec"] == digest]
    return LedgerSession(ledger, name, party.records.fingerprint, digest, bool(runs), protection)


def _name(setting: SiteSettings, ledger: OwnerLedger) -> str:
    records = setting.party.records
    name = records.data.name if records.data else "none"
    return ledger.name_of(records.fingerprint) or Path(name).stem


def _simulation(setting: SiteSettings) -> OwnerLedger:
    path, terms = setting.state / "simulation.ledger", setting.party.agreement
    if path.exists():
        return OwnerLedger.open(path)
    setting.state.mkdir(parents=True, exist_ok=True)
    ledger = OwnerLedger.create(path, SIMULATION)
    ledger.grant(
        SIMULATION, Budget(1e6, terms.delta), note="a simulation spends nothing",
        protection=Protection(terms.adjacency),
    )  # fmt: skip
    return ledger
