"""A noisy picture of which rows some records have: enough to know many of them again, not one.

There are at least 4 cells per row. Each row sets one; which one follows from its hash and the
ledger's key. Then every cell is flipped with probability ¼, by secure random bits, once and for
all. A row that is in the records finds its cell set with probability ¾, any other with the share of
cells that are set: over many rows the difference shows, for one row it is a likelihood ratio of 3
at most. So much a thief of the ledger gets, who has the key, too: replacing a record changes two
cells at most, and all else follows from public numbers, so a picture is differentially private with
ε = 2·log 3 and δ = 0, whatever else is known.
"""

import math
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ppadmm.records import HoldsRecords

FLIPPED = 0.25
CELLS = 4
"""Cells for each row, at least."""
CERTAIN = 6.0
"""Standard deviations from chance at which rows count as known: less than once in 10⁹."""
LARGE = 0.1
"""Share of the smaller of two sets of records from which on an overlap is told."""
HEAD = struct.Struct("<QdQ")


class RowCounts(Protocol):
    """What records are known by (`ppadmm.data.fingerprint`)."""

    @property
    def digest(self) -> bytes:
        """A hash of the multiset of rows."""

    @property
    def rows(self) -> int:
        """How many rows there are."""

    @property
    def rate(self) -> float:
        """The share of all possible rows that is looked at, a function of `rows`."""

    def pieces(self) -> Iterator[bytes]:
        """Return hashes of the distinct rows that are looked at; 64 bits are below the rate."""


@dataclass(frozen=True)
class Places(HoldsRecords):
    """For each row that is looked at: the beginning of its hash, and its keyed hash (64 bits)."""

    rows: int
    rate: float
    begins: NDArray[np.uint64]
    keyed: NDArray[np.uint64]

    @classmethod
    def of(cls, records: RowCounts, key: bytes) -> "Places":
        """Hash every row that is looked at."""
        begins = (piece[:8] for piece in records.pieces())
        keyed = (blake2b(each, digest_size=8, key=key).digest() for each in records.pieces())
        return cls(records.rows, records.rate, _numbers(begins), _numbers(keyed))

    def below(self, rate: float) -> NDArray[np.uint64]:
        """Return the keyed hashes of the rows that a sample of this rate looks at, too."""
        return self.keyed if rate == 1.0 else self.keyed[self.begins < np.uint64(rate * 2.0**64)]


@dataclass(frozen=True)
class Sketch:
    """The picture: cells (m,), of which m is a power of two that follows from `rows` and `rate`."""

    rows: int
    rate: float
    cells: NDArray[np.bool_]

    @classmethod
    def of(cls, places: Places) -> "Sketch":
        """Draw it; another one each time."""
        size = 8 * 2 ** math.ceil(math.log2(max(places.rows * places.rate, 1.0) * CELLS / 8.0))
        cells = np.zeros(max(size, 8), dtype=np.bool_)
        cells[_cell(places.keyed, len(cells))] = True
        quarter = np.frombuffer(secrets.token_bytes(len(cells) // 8), np.uint8) & np.frombuffer(
            secrets.token_bytes(len(cells) // 8), np.uint8
        )
        return cls(places.rows, places.rate, cells ^ np.unpackbits(quarter).astype(np.bool_))

    def overlap(self, places: Places) -> "Overlap | None":
        """Return how many rows of other records are in these, if many are, and certainly."""
        looked_at = places.below(self.rate)
        tested = len(looked_at)
        if not tested:
            return None
        chance = float(self.cells.mean())
        found = float(self.cells[_cell(looked_at, len(self.cells))].mean())
        spread = math.sqrt(chance * (1.0 - chance) / tested)
        room = 1.0 - FLIPPED - chance
        if room <= 0.0 or found - chance <= CERTAIN * spread:
            return None
        share = min((found - chance) / room, 1.0)
        if share * places.rows < LARGE * min(places.rows, self.rows):
            return None
        return Overlap(share, 2.0 * spread / room)

    def to_bytes(self) -> bytes:
        """Return it as bytes."""
        head = HEAD.pack(self.rows, self.rate, len(self.cells))
        return head + np.packbits(self.cells).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Sketch":
        """Read what `to_bytes` wrote."""
        rows, rate, _ = HEAD.unpack_from(data)
        cells = np.unpackbits(np.frombuffer(data, np.uint8, offset=HEAD.size))
        return cls(rows, rate, cells.astype(np.bool_))


@dataclass(frozen=True)
class Overlap:
    """An estimate of the share of some records that are in others, and twice its standard error."""

    share: float
    error: float

    def __str__(self) -> str:
        return f"about {100 * self.share:.0f} % (± {100 * self.error:.0f})"


def _numbers(each: Iterator[bytes]) -> NDArray[np.uint64]:
    return np.fromiter((int.from_bytes(eight, "big") for eight in each), dtype=np.uint64)


def _cell(keyed: NDArray[np.uint64], size: int) -> NDArray[np.intp]:
    return (keyed & np.uint64(size - 1)).astype(np.intp)
