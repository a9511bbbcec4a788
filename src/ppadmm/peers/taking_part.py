"""A site's part in a run over a network, from its records to what it writes down.

The site's own ledger is charged before noise is drawn and keeps every release before it is sent; a
process that is started again finds its run there and goes on without paying twice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppadmm.accounting import Budget, Tally, accountant
from ppadmm.accounting.protection import Protection
from ppadmm.errors import BudgetError
from ppadmm.ledger import MemoryLedger
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.peers.facts import facts_of
from ppadmm.peers.outcome import PeerOutcome, RetrySchedule
from ppadmm.peers.peer import Peer
from ppadmm.peers.pki.revocations import Revocations
from ppadmm.peers.site import Participant, PublicPart
from ppadmm.peers.status import EventLog
from ppadmm.peers.store import PeerStore
from ppadmm.peers.transport import Transport
from ppadmm.records import HoldsRecords
from ppadmm.runs.ledger_session import LedgerSession
from ppadmm.statements.claims import Statement
from ppadmm.statements.facts import disclosure_of, statement_of

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
    """A finished part: the outcome, what was booked for it and what may be claimed."""

    part: PublicPart
    outcome: PeerOutcome
    neighbours: dict[int, dict[int, Any]]
    reserved: Tally
    spent: Tally
    statement: Statement
    disclosure: dict[str, Any]
    started: str

    @property
    def releases(self) -> int:
        """In how many rounds this site spoke."""
        return int(self.outcome.spoke.sum())


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
    if booked is None:
        agent = party.agent(rule, MemoryLedger())
        peer = _peer(setting, agent, transport, pace, tell)
        return _result(setting, peer, _run(peer, None, watch), started, None)
    with booked:
        (ledger,) = booked.book([(party.number, rule.reserved[0])])
        peer = _peer(setting, party.agent(rule, ledger), transport, pace, tell)
        outcome = _run(peer, booked, watch)
        entry = booked.finish(outcome.reason)
        simulated = setting.ledger is None
        return _result(setting, peer, outcome, started, None if simulated else entry)


def _peer(
    setting: SiteSettings,
    agent: Any,
    transport: Transport,
    pace: RetrySchedule | None,
    tell: EventLog | None,
) -> Peer:
    terms, store = setting.party.agreement, PeerStore(setting.state)
    return Peer(
        agent, terms, setting.key, setting.signature, transport, store, pace, tell,
        setting.revocations,
    )  # fmt: skip


def _run(
    peer: Peer, booked: LedgerSession | None, watch: Callable[[Peer], None] | None
) -> PeerOutcome:
    if booked is not None and booked.run is not None and booked.run.state.outcome:
        return peer.recover()
    if watch is not None:
        watch(peer)
    return peer.run()


def _result(
    setting: SiteSettings,
    peer: Peer,
    outcome: PeerOutcome,
    started: str,
    entry: dict[str, Any] | None,
) -> SiteResult:
    ledger = peer.agent.ledgers[0]
    reserved, spent = ledger.reserved, ledger.spent
    part = setting.party.public
    spoken = int(outcome.spoke.sum())
    facts = facts_of(part, reserved, spent, spoken, outcome.reason, started, entry)
    statement = statement_of(facts)
    disclosed = disclosure_of(facts, statement)
    heard = peer.tally.values
    return SiteResult(part, outcome, heard, reserved, spent, statement, disclosed, started)


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
