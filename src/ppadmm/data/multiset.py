"""Counts rows by their hashes, in whatever order and amount they come.

What comes out is sorted, so it says nothing of the order; and it is all that came, so whoever wants
another multiset with the same outcome must find two rows with the same hash. (Sums of hashes would
need no sorting, but hashes of 2 kB each to be as safe, which is slower: docs/decisions.)
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ppadmm.data.stream.store import BlockStore, Ticket
from ppadmm.records import HoldsRecords

WIDTH = 32
"""Bytes of a hash."""
CHUNK = 2**15
"""Hashes that are sorted at a time."""
PARTS = 256
"""Pieces that a chunk is cut into, by its hashes' first byte."""
Counted: TypeAlias = tuple[NDArray[Any], NDArray[np.int64]]
"""Distinct hashes in order, as `S32`, and how often each came."""


class Multiset(HoldsRecords):
    """Hashes with their counts: `room` bytes of them in memory, the rest in a file without name."""

    def __init__(self, room: int) -> None:
        self._store = BlockStore(room)
        self._parts: list[list[Ticket[Counted]]] = [[] for _ in range(PARTS)]
        self._pending: list[bytes] = []
        self._waiting = self.rows = 0

    def add(self, hashes: bytes) -> None:
        """Take hashes, one after the other."""
        count = len(hashes) // WIDTH
        self._pending.append(hashes)
        self._waiting += count
        self.rows += count
        if self._waiting >= CHUNK:
            self._put()

    def counted(self) -> Iterator[Counted]:
        """Yield all of them in order, piece by piece; then nothing is left."""
        try:
            self._put()
            for part in self._parts:
                pieces = [self._store.get(ticket) for ticket in part]
                if pieces:
                    yield _merged(pieces)
        finally:
            self._store.close()

    def _put(self) -> None:
        data = b"".join(self._pending)
        self._pending, self._waiting = [], 0
        values, counts = np.unique(np.frombuffer(data, f"S{WIDTH}"), return_counts=True)
        first = np.ascontiguousarray(values).view(np.uint8)[::WIDTH]
        ends = np.searchsorted(first, np.arange(PARTS + 1))
        for part, start, end in zip(self._parts, ends[:-1], ends[1:], strict=True):
            if start < end:
                piece = values[start:end].copy(), counts[start:end].astype(np.int64)
                part.append(self._store.put(piece))


def _merged(pieces: list[Counted]) -> Counted:
    if len(pieces) == 1:
        return pieces[0]
    values, where = np.unique(np.concatenate([v for v, _ in pieces]), return_inverse=True)
    counts = np.zeros(len(values), dtype=np.int64)
    np.add.at(counts, where, np.concatenate([c for _, c in pieces]))
    return values, counts
