"""Which simulated records a site gets, and what records of its own are like.

Dealt evenly, every site is like every other. Where sites differ, the test set falls into cells
(classes, or sites), and a site's own error is that of the cells weighed by its `mixes`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ppadmm.arrays import Array

Places: TypeAlias = NDArray[np.int64]
"""Numbers of records of a population, or of its test set."""
SWEEPS = 300


class Dealing(Protocol):
    """How records are dealt to sites."""

    @property
    def cells(self) -> list[Places]:
        """Parts of the test set; none where all sites are alike."""

    def mixes(self, records: Sequence[int]) -> Array:
        """Return each site's share of every cell (S, C), for sites of so many declared records."""

    def rows(self, counts: Sequence[int], mixes: Array) -> list[Places]:
        """Return the records of each site, `counts[i]` of them and no record twice if possible."""


@dataclass(frozen=True)
class Evenly:
    """In the order in which the records stand."""

    cells: list[Places]

    def mixes(self, records: Sequence[int]) -> Array:
        """Nothing to tell sites apart by."""
        return np.ones((len(records), 0))

    def rows(self, counts: Sequence[int], mixes: Array) -> list[Places]:
        """Cut one site after the other off."""
        return np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])


@dataclass(frozen=True)
class ByLabel:
    """Skewed labels at sites of given sizes, as `train --partition dirichlet:ALPHA` skews them.

    Site i's share of class c is in proportion to p_c·π_ci, π_c ~ Dirichlet(α, …, α) over sites,
    scaled by turns until the sites have their sizes and all of them together the class shares p.
    """

    codes: Places
    test_codes: Places
    alpha: float
    seed: tuple[int, ...]

    @property
    def cells(self) -> list[Places]:
        """The classes."""
        return [np.flatnonzero(self.test_codes == c) for c in np.unique(self.codes)]

    def mixes(self, records: Sequence[int]) -> Array:
        """Each site's share of every class (S, K)."""
        n, p = np.array(records, float), np.unique(self.codes, return_counts=True)[1]
        p, rng = p / p.sum(), np.random.default_rng(self.seed)
        drawn = rng.dirichlet([self.alpha] * len(n), size=len(p)).T
        table = np.maximum(np.nan_to_num(drawn), 1e-9) * p
        for _ in range(SWEEPS):
            table *= n.sum() * p / table.sum(axis=0)
            table *= (n / table.sum(axis=1))[:, None]
        return np.asarray(table / n[:, None])

    def rows(self, counts: Sequence[int], mixes: Array) -> list[Places]:
        """Take every site's part of each class."""
        pools = [np.flatnonzero(self.codes == c) for c in np.unique(self.codes)]
        return _taken(pools, [whole_parts(n, mix) for n, mix in zip(counts, mixes, strict=True)])


@dataclass(frozen=True)
class BySite:
    """Every record has a holder; twice as many sites are these and as many more like them."""

    holders: Places
    test_holders: Places

    @property
    def cells(self) -> list[Places]:
        """What each site holds of the test set."""
        return [np.flatnonzero(self.test_holders == k) for k in range(self._sites)]

    @property
    def _sites(self) -> int:
        return int(self.holders.max()) + 1

    def mixes(self, records: Sequence[int]) -> Array:
        """Each its own cell."""
        return np.eye(self._sites)[np.arange(len(records)) % self._sites]

    def rows(self, counts: Sequence[int], mixes: Array) -> list[Places]:
        """Take from what each of them holds."""
        pools = [np.flatnonzero(self.holders == k) for k in range(self._sites)]
        wanted = [[n * int(part) for part in mix] for n, mix in zip(counts, mixes, strict=True)]
        return _taken(pools, wanted)


def whole_parts(total: int, shares: Array) -> list[int]:
    """Return whole numbers in these shares that add up to `total`: largest remainders first."""
    exact = total * shares / shares.sum()
    parts = np.floor(exact + 1e-9).astype(int)
    for k in np.argsort(parts - exact, kind="stable")[: total - int(parts.sum())]:
        parts[k] += 1
    return [int(part) for part in parts]


def _taken(pools: Sequence[Places], wanted: Sequence[Sequence[int]]) -> list[Places]:
    """Take so many of every pool for each site, in order; a pool that runs out begins anew."""
    at, found = [0] * len(pools), []
    for counts in wanted:
        parts = []
        for k, (pool, count) in enumerate(zip(pools, counts, strict=True)):
            parts.append(pool[np.arange(at[k], at[k] + count) % len(pool)])
            at[k] += count
        found.append(np.concatenate(parts))
    return found
