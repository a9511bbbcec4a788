"""Noise only against payment: the one way to draw noise for a release is to book its cost first."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppadmm.accounting.events import Charge
from ppadmm.arrays import Array, Rows
from ppadmm.ledger.protocol import Ledger
from ppadmm.noise import NoiseSource


@dataclass(frozen=True)
class ChargedNoise:
    """The noise that an agent draws from, and the ledger of each replicate that it pays into."""

    ledgers: tuple[Ledger, ...]
    source: NoiseSource

    def charge(self, charges: Sequence[Charge]) -> NoiseSource:
        """Book one charge per replicate, then hand out the noise.

        A durable ledger also books what costs nothing more (a comparison with a threshold that is
        paid for): after a crash it shows that noise was drawn.
        """
        for ledger, charge in zip(self.ledgers, charges, strict=True):
            if charge.events or ledger.durable:
                ledger.charge(charge)
        return self.source

    def paid(self, charges: Sequence[Charge]) -> bool:
        """Say whether an earlier process booked any of these, one per replicate."""
        pairs = zip(self.ledgers, charges, strict=True)
        return any(set(c.events) & set(dict(ledger.spent.counts)) for ledger, c in pairs)

    @property
    def durable(self) -> bool:
        """Whether a ledger outlives the process."""
        return any(ledger.durable for ledger in self.ledgers)

    def settle(self) -> None:
        """Bring to the disk what was booked: a failure is about to be seen."""
        for ledger in self.ledgers:
            ledger.settle()

    def keep(self, name: str, values: Array) -> None:
        """Keep one secret per replicate (R,) that must not be drawn again."""
        for ledger, value in zip(self.ledgers, values, strict=True):
            ledger.keep(name, np.atleast_1d(value))

    def kept(self, name: str) -> Array | None:
        """Return what was kept (R,), or None unless every ledger has it."""
        found = [value for ledger in self.ledgers if (value := ledger.kept(name)) is not None]
        return np.concatenate(found) if len(found) == len(self.ledgers) else None

    def restricted(self, rows: Rows) -> "ChargedNoise":
        """Return the same for some of the replicates."""
        return ChargedNoise(tuple(self.ledgers[k] for k in rows), self.source.restricted(rows))
