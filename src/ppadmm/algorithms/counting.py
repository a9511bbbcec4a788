"""How many records of all sites fall into each of some public cells: one noisy sum.

Every record is in one cell, so that replacing it moves the counts by at most √2, and leaving it out
by 1. What is exchanged is counts over all records; nothing follows from it that the cells do not
say. Held-out records that are counted have a budget of their own (`ppadmm.runs.joint_evaluation`).
"""

import math
from dataclasses import dataclass

import numpy as np

from ppadmm.accounting import accountant
from ppadmm.accounting.calibration import Budget, largest_private
from ppadmm.accounting.events import Approximate, Charge, Gaussian, Tally
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.accounting.sensitivity import MARGIN
from ppadmm.algorithms.base import Site
from ppadmm.algorithms.sums import KEYS, SumAlgorithm, require_by_records
from ppadmm.arrays import Array
from ppadmm.errors import InfeasibleError
from ppadmm.noise import FINENESS, total_variation
from ppadmm.summing.fixed_point import distance, fixed_point
from ppadmm.summing.trust import Trust

COUNTS = "counts"


@dataclass(frozen=True)
class Counting(SumAlgorithm):
    """One site that counts its records: `counts` (cells,) are its own, without noise."""

    counts: Array
    cost: tuple[float, Charge]
    moved: float

    def size(self, stage: str) -> int:
        """Return the number of cells."""
        return len(self.counts)

    def bound(self, stage: str) -> float:
        """Return 1: shares of a site's records add up to one."""
        return 1.0

    def sensitivity(self, stage: str) -> float:
        """Return how far one record moves the shares."""
        return self.moved

    def price(self, stage: str, replicate: int) -> tuple[float, Charge]:
        """Return Δ/σ and what is booked."""
        return self.cost

    def values(self, held: Array, stage: str) -> Array:
        """Return the shares of this site's records."""
        return self.counts[None] / max(self.site.risk.n, 1)

    def first(self) -> Array:
        """Nothing is known."""
        return np.zeros((1, len(self.counts)))

    def gained(self, held: Array, stage: str, total: Array, round_: int) -> Array:
        """Return the counts of all records."""
        return total * self.site.records

    def shown(self, held: Array) -> Array:
        """Return the counts of all records, with noise."""
        return held

    @property
    def noise_of_sum(self) -> float:
        """The standard deviation of a count of all records."""
        n, shares, own = self.site.records, np.array(self.site.shares), float(self.sigma(COUNTS)[0])
        if self.trust.by_sum:
            return n * own * math.sqrt(self.site.agents)
        # σᵢ = √2/(nᵢm), and site i counts nᵢ/n: every site adds the same to the sum.
        return n * self.site.share * own * math.sqrt(int((shares > 0.0).sum()))


def build_counting(
    site: Site, counts: Array, budget: Budget, trust: Trust, adjacency: str, run: bytes = b""
) -> Counting:
    """Return the rule by which a site counts, for the whole of `budget`."""
    if trust.by_sum:
        require_by_records(site)
    n = max(site.records if trust.by_sum else site.risk.n, 1)
    moved = (math.sqrt(2.0) if adjacency == "replace-one" else 1.0) / n * (1.0 + MARGIN)
    times = 1 + trust.repeats
    if trust.by_sum:
        cost = _summed(site, len(counts), moved, budget, trust)
    else:
        cost = _cost(budget, times, total_variation(len(counts), 1.0, FINENESS))
    stages = (KEYS, COUNTS) if trust.by_sum else (COUNTS,)
    return Counting(site, "counting", stages, 1, trust, run, counts.astype(float), cost, moved)


def _summed(
    site: Site, cells: int, moved: float, budget: Budget, trust: Trust
) -> tuple[float, Charge]:
    """Assume the distance of half the noise; the noise that comes out is above that."""
    honest, times = trust.honest(site.agents), 1 + trust.repeats

    def far(ratio: float, part: float) -> float:
        scale = fixed_point(moved, ratio, 1.0 + MARGIN, cells, honest).scale
        return distance(cells, part * scale, site.agents)

    assumed = far(_cost(budget, times, 0.0)[0], 0.5)
    cost = _cost(budget, times, assumed)
    if far(cost[0], 1.0) > assumed:
        raise InfeasibleError("The noise of a sum is too coarse for so small a δ; choose a larger.")
    return cost


def _cost(budget: Budget, times: int, far: float) -> tuple[float, Charge]:
    """Return the largest Δ/σ of which so many releases fit into the budget, and its charge."""

    def charge(ratio: float) -> Charge:
        return Charge((Gaussian(ratio), Approximate(far)))

    def spent(ratio: float) -> float:
        return accountant.epsilon(Tally.of([charge(ratio)], times), budget.delta).epsilon

    guess = gdp_ratio(budget.epsilon, budget.delta) / math.sqrt(times)
    ratio = largest_private(spent, budget.epsilon, guess)
    return ratio, charge(ratio)
