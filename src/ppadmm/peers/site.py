"""One site of a run over a network: its records, its agent, and what is public of the others."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from ppadmm.accounting import Budget, Charge, Tally
from ppadmm.agent import Agent
from ppadmm.algorithms import Algorithm
from ppadmm.algorithms.base import site_in
from ppadmm.arrays import Array
from ppadmm.data import Dataset, Schema, StreamedData, open_stream, shards
from ppadmm.data.fingerprint import NO_RECORDS, Fingerprint, fingerprint
from ppadmm.data.sites import is_streamed
from ppadmm.datasets import load
from ppadmm.errors import DataError, InputError
from ppadmm.ledger import Ledger
from ppadmm.ledger.protocol import Lost, Past
from ppadmm.noise import SecureNoise, SeededNoise
from ppadmm.peers.agreement import Agreement
from ppadmm.problem import Loss, NoRecords, Risk, loss_for, risk_over
from ppadmm.records import HoldsRecords
from ppadmm.runs.benefit import SiteBenefit, alone_error, benefit
from ppadmm.runs.federation import agent_kind
from ppadmm.statements.facts import noise_source, reasons_against


@dataclass(frozen=True)
class SiteRecords(HoldsRecords):
    """A site's own records, or none at a site that only listens; `schema` is public."""

    schema: Schema
    data: Dataset | StreamedData | None

    @property
    def n(self) -> int:
        """How many there are; all are trained on."""
        return 0 if self.data is None else self.data.n

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What a ledger knows them by."""
        return NO_RECORDS if self.data is None else fingerprint(self.data)

    def risk(self, parameters: int, loss: Loss) -> Risk:
        """Return what reads them."""
        data = self.data
        if data is None:
            return NoRecords(parameters, loss)
        if isinstance(data, StreamedData):
            return risk_over(data.whole(), loss)
        whole = shards(data.X, data.y, [np.arange(data.n)], self.schema.classes)
        return risk_over(whole[0], loss)


def read_records(
    data: Path | None, schema: Path, memory: int | None = None, knots: int | None = None
) -> SiteRecords:
    """Read a site's records with their public schema, whose curves get the `knots` agreed on.

    With `memory`, the cap in bytes, or Parquet in a folder, they are streamed.
    """
    public = Schema.from_toml(schema)
    if knots is not None:
        public = public.with_knots(knots)
    if data is None:
        return SiteRecords(public, None)
    if not data.exists():
        raise DataError(f"There are no records at {str(data)!r}; give their file as data = …")
    if memory is not None or is_streamed(data):
        return SiteRecords(public, open_stream(str(data), public, memory))
    return SiteRecords(public, load(data, schema=public))


class _Counted(NoRecords):
    """Another party's records, known by their number alone: enough to work out its noise."""

    def __init__(self, n: int, d: int, loss: Loss) -> None:
        super().__init__(d, loss)
        self._n = n

    @property
    def n(self) -> int:
        """The number in the agreement."""
        return self._n


class Replayed:
    """A simulation's ledger: seeded noise is a function of the round, so it is made again.

    Where a process was killed between paying and keeping, the round is paid for already; with the
    same seed the same release comes out. A private run never does this: it falls silent.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._paid = False

    def past(self, round_: int) -> Past:
        """Begin a round; a lost one is made again."""
        found = self._ledger.past(round_)
        self._paid = isinstance(found, Lost)
        return None if self._paid else found

    def charge(self, charge: Charge) -> None:
        """Book a release, unless that was done before."""
        if not self._paid:
            self._ledger.charge(charge)

    def keep(self, name: str, value: Array) -> None:
        """Keep a secret of the run, once."""
        if self._ledger.kept(name) is None:
            self._ledger.keep(name, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


@dataclass(frozen=True)
class PublicPart:
    """What is public of one site's part in an agreement; `data` is what the site calls its records.

    Results and reports hold this, and no records.
    """

    agreement: Agreement
    number: int
    schema: Schema
    data: str
    seed: int | None = None

    @property
    def records(self) -> int:
        """How many there are; all are trained on."""
        return self.agreement.parties[self.number].records

    @cached_property
    def loss(self) -> Loss:
        """The loss of the agreement for the classes of the schema."""
        terms = self.agreement
        return loss_for(terms.loss, self.schema.classes, terms.multiclass)

    @property
    def parameters(self) -> int:
        """Length of a model."""
        return self.schema.dimension * self.loss.outputs

    def rule(self, number: int, risk: Risk | None = None) -> Algorithm[Any]:
        """Return a party's algorithm; without its records, as far as that is public: its noise."""
        terms = self.agreement
        own = risk or _Counted(terms.parties[number].records, self.parameters, self.loss)
        n = sum(party.records for party in terms.parties)
        site = site_in(terms.exchange(terms.graph), number, own, terms.site_weights, n)
        return self.agreement.recipe.build(site, self.agreement.settings(number))

    @cached_property
    def reserved(self) -> list[Tally]:
        """The most that the run may cost each party, from public numbers alone."""
        return [_tally(self.rule(i)) for i in range(len(self.agreement.parties))]

    @cached_property
    def scales(self) -> list[dict[str, float]]:
        """The sizes of every party's noise, public too."""
        rules = [self.rule(i) for i in range(len(self.agreement.parties))]
        return [{name: float(size[0]) for name, size in rule.scales.items()} for rule in rules]

    @property
    def not_private_because(self) -> tuple[str, ...]:
        """Why this site's run is not private; empty if it is."""
        return tuple(reasons_against(self.agreement, self.seed, self.schema.confirmed))

    @property
    def noise_source(self) -> str:
        """Where the noise comes from."""
        return noise_source(self.agreement, self.seed)


@dataclass(frozen=True)
class Participant(HoldsRecords):
    """One site's part in an agreement; with a `seed` its noise is a simulation's."""

    agreement: Agreement
    number: int
    records: SiteRecords
    seed: int | None = None

    def __post_init__(self) -> None:
        agreement, schema = self.agreement, self.records.schema
        if not 0 <= self.number < len(agreement.parties):
            raise InputError(
                f"The agreement has {len(agreement.parties)} parties, and none is {self.number}."
            )
        if agreement.recipe.pooled:
            raise InputError(f"{agreement.algorithm!r} pools all records; peers keep theirs.")
        if schema.digest() != agreement.schema:
            raise DataError(
                f"The schema of this site has the digest {schema.digest()[:12]}…, the agreement's "
                f"is {agreement.schema[:12]}…; take the schema file that all agreed on."
            )
        agreed = agreement.parties[self.number].records
        if self.records.n != agreed:
            raise DataError(
                f"This site has {self.records.n:,} records, the agreement says {agreed:,}; "
                "agree on the true number, or give the right file."
            )
        if self.public.parameters != agreement.parameters:
            raise DataError(
                f"The schema gives {self.public.parameters} parameters, the agreement says "
                f"{agreement.parameters}."
            )

    @cached_property
    def public(self) -> PublicPart:
        """All but the records."""
        records = self.records
        name = records.data.name if records.data else "none"
        return PublicPart(self.agreement, self.number, records.schema, name, self.seed)

    @cached_property
    def risk(self) -> Risk:
        """What reads this site's records."""
        return self.records.risk(self.public.parameters, self.public.loss)

    def rule(self) -> Algorithm[Any]:
        """Return this site's algorithm."""
        return self.public.rule(self.number, self.risk)

    def agent(self, rule: Algorithm[Any], ledger: Ledger) -> Agent:
        """Return this site's agent."""
        terms, seed = self.agreement, self.seed
        near, kind = terms.exchange(terms.graph).neighbours(self.number), agent_kind(terms.recipe)
        if seed is None:
            return kind(rule, self.number, near, [ledger], SecureNoise(self._numbers(rule)))
        return kind(rule, self.number, near, [cast(Ledger, Replayed(ledger))], SeededNoise((seed,)))

    def _numbers(self, rule: Algorithm[Any]) -> int:
        """Return how many numbers a run may draw: two noises a round, none without records."""
        return 2 * rule.rounds * self.public.parameters if self.records.n else 0


def site_benefit(party: Participant, test: SiteRecords, model: Array) -> SiteBenefit:
    """Judge the joint model (d,), and a private one of the site alone, on its test records.

    A local diagnostic: no ε covers it, and the model of its own is simulated and never leaves.
    """
    part, data = party.public, cast(Dataset, test.data)
    held, terms = (data.X, data.y), part.agreement
    own = terms.parties[party.number]
    row = benefit(own.name, held, model, part.schema.classes)
    budget = Budget(own.epsilon, terms.delta)
    alone = alone_error(party.risk, terms, budget, held) if part.records else None
    return replace(row, records=part.records, alone=alone)


def _tally(rule: Algorithm[Any]) -> Tally:
    tally = Tally()
    for charge, times in rule.reserved[0]:
        tally = tally.plus(charge, times)
    return tally
