"""Noise only against payment: the one way to draw noise for a release is to book its cost first."""

from collections.abc import Sequence
from dataclasses import dataclass

from ppadmm.noise import NoiseSource
from ppadmm.privacy.events import Charge
from ppadmm.privacy.ledger import Ledger
from ppadmm.typing import Rows


@dataclass(frozen=True)
class Desk:
    """Where an agent pays: one ledger per replicate, and the noise source behind the counter."""

    ledgers: tuple[Ledger, ...]
    source: NoiseSource

    def pay(self, charges: Sequence[Charge]) -> NoiseSource:
        """Book one charge per replicate, then hand out the noise."""
        for ledger, charge in zip(self.ledgers, charges, strict=True):
            if charge.events:
                ledger.charge(charge)
        return self.source

    def restricted(self, rows: Rows) -> "Desk":
        """Return the desk of some of the replicates."""
        return Desk(tuple(self.ledgers[k] for k in rows), self.source.restricted(rows))
