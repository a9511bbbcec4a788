"""Who holds which record of a stream: labels in the order of the rows, a piece at a time.

Label k < N is agent k; N is the held-out set; N + 1 is nobody.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ppadmm.data.partition import (
    check_sizes,
    count_agents,
    even,
    held_out_by_site,
    sized,
    split_rows,
    split_site,
)
from ppadmm.errors import DataError

Labels = NDArray[np.int32]
AS_IN_MEMORY = 2**20
"""Up to so many records a stream is dealt exactly as a table in memory is, from the same seed."""
CHUNK = 2**16
MOST_RECORDS = 10**9 - 1
"""NumPy's hypergeometric draws go no further."""
LEAST_CHUNK = 64
_STREAM = 3


def held_out(n: int) -> int:
    """Return how many of n records are for testing: a fifth, as for a file in memory."""
    return n - max(1, n * 4 // 5)


def labels(n: int, agents: int, seed: int, sizes: Sequence[int] | None = None) -> Iterator[Labels]:
    """Deal n records evenly, or `sizes[i]` of them to agent i, at random.

    The sizes of all parts are exact, and every deal with these sizes is equally likely.
    """
    if n < 2:
        raise DataError(f"Expected at least 2 records, got {n}.")
    if n <= AS_IN_MEMORY:
        yield _as_in_memory(n, agents, seed, sizes)
        return
    test = held_out(n)
    train = n - test
    if sizes is None:
        least, more = divmod(train, count_agents(train, agents))
        sizes = [least + (agent < more) for agent in range(agents)]
    check_sizes(train, sizes)
    yield from _in_chunks([*sizes, test, train - sum(sizes)], [seed, _STREAM], CHUNK)


def site_labels(sizes: Sequence[int], test: int, seed: int) -> list[Iterator[Labels]]:
    """Return for every site labels of its own records, in their order: 0 to train, 1 held out."""
    shares, n = held_out_by_site(sizes, test), sum(sizes)
    chunk = max(LEAST_CHUNK, CHUNK // len(sizes))  # all sites' chunks are held side by side

    def own(site: int, size: int, out: int) -> Iterator[Labels]:
        if n <= AS_IN_MEMORY:
            label = np.zeros(size, dtype=np.int32)
            label[split_site(size, out, seed, site)[1]] = 1
            yield label
        else:
            yield from _in_chunks([size - out, out], [seed, _STREAM, site], chunk)

    return [own(k, *pair) for k, pair in enumerate(zip(sizes, shares, strict=True))]


def _as_in_memory(n: int, agents: int, seed: int, sizes: Sequence[int] | None) -> Labels:
    train, test = split_rows(n, n - held_out(n), seed)
    m = len(train)
    parts = even(m, agents, seed) if sizes is None else sized(m, sizes, seed)
    whose = np.full(n, agents + 1, dtype=np.int32)
    whose[test] = agents
    for agent, part in enumerate(parts):
        whose[train[part]] = agent
    return whose


def _in_chunks(counts: list[int], seed: list[int], chunk: int) -> Iterator[Labels]:
    """Draw without replacement, a chunk at a time: memory does not grow with n."""
    left = np.array(counts, dtype=np.int64)
    if left.sum() > MOST_RECORDS:
        raise DataError(f"Expected at most {MOST_RECORDS:,} records, got {left.sum():,}.")
    rng = np.random.Generator(np.random.PCG64(seed))
    while left.any():
        drawn = rng.multivariate_hypergeometric(left, min(chunk, int(left.sum())))
        left -= drawn
        yield rng.permutation(np.repeat(np.arange(len(left), dtype=np.int32), drawn))


class LabelReader:
    """Hands out labels in pieces of any length."""

    def __init__(self, pieces: Iterator[Labels]) -> None:
        self._pieces = pieces
        self._held = np.empty(0, dtype=np.int32)

    def next(self, count: int) -> Labels:
        """Return the labels of the next `count` records."""
        while len(self._held) < count:
            more = next(self._pieces)
            self._held = np.concatenate([self._held, more]) if len(self._held) else more
        taken, self._held = self._held[:count], self._held[count:]
        return taken
