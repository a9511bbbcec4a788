"""A budget for runs that are chosen one after the other, each because of what was released before.

Adding up events and then taking the best order and the best theorem is proven for a plan that was
fixed before the first run; for settings that follow from releases it is not, and can be wrong
(tests/accounting/test_filters.py). A Rényi filter is proven for both (docs/privacy.md, section 14):
one order α is fixed with the grant of (ε, δ), and a run is let in only if

    c(α) + Σ over runs of max over agents of RDP(α) ≤ ε,
    c(α) = log(1 − 1/α) − (log δ' + log α)/(α − 1),   δ' = (1 − SLACK)·δ,

and the samplers' distances, added up likewise, are at most SLACK·δ/(1 + eᵉ).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ppadmm.accounting import accountant
from ppadmm.accounting.accountant import SLACK
from ppadmm.accounting.calibration import Budget
from ppadmm.accounting.events import Tally
from ppadmm.arrays import Array

RULES = ("adaptive", "planned")


@dataclass(frozen=True)
class Rule:
    """How runs add up against a grant: `adaptive` at one order, or `planned` (no order)."""

    name: str
    order: float | None = None

    def __post_init__(self) -> None:
        if self.name not in RULES or (self.order is not None) != (self.name == "adaptive"):
            raise ValueError(f"{self!r} is no rule")
        if self.order is not None and not 1.0 < self.order < math.inf:
            raise ValueError(f"order {self.order!r} is not above 1")

    def to_plain(self) -> dict[str, Any]:
        """Return what a grant's entry says."""
        return {"name": self.name, **({} if self.order is None else {"order": self.order})}


def rule_of(grant: Mapping[str, Any]) -> Rule:
    """Return the rule of a grant."""
    return Rule(**grant["rule"])


def rule_for(name: str, budget: Budget) -> Rule:
    """Return the rule that a new grant gets: the order follows from (ε, δ) alone."""
    return Rule(name, best_order(budget) if name == "adaptive" else None)


def best_order(budget: Budget) -> float:
    """Return the order, to six digits, at which the most Gaussian noise fits: max (ε − c(α))/α.

    Any order is valid; for Gaussian mechanisms, which runs are close to, RDP(α) ∝ α.
    """
    low, high = math.log(1e-4), math.log(1e9)
    for _ in range(6):
        grid = np.linspace(low, high, 101)
        orders = 1.0 + np.exp(grid)
        k = int(np.argmax((budget.epsilon - fixed_part(orders, budget.delta)) / orders))
        low, high = float(grid[max(k - 1, 0)]), float(grid[min(k + 1, 100)])
    return float(f"{orders[k]:.6g}")


def fixed_part(orders: Array, delta: float) -> Array:
    """c(α): what the conversion to (ε, δ) adds to the divergence, however small that is."""
    inner = delta * (1.0 - SLACK)
    return np.asarray(np.log1p(-1.0 / orders) - (math.log(inner) + np.log(orders)) / (orders - 1.0))


def filtered(runs: Sequence[Sequence[Tally]], budget: Budget, order: float) -> float:
    """Return what the filter compares with ε; infinity if the samplers are too coarse.

    `runs` has a tally per agent; a record may be dealt to any of them in each run.
    """
    if _distance(runs) * (1.0 + math.exp(min(budget.epsilon, 700.0))) > SLACK * budget.delta:
        return math.inf
    return max(float(fixed_part(np.array(order), budget.delta)) + _total(runs, order), 0.0)


def odometer(runs: Sequence[Sequence[Tally]], delta: float, order: float) -> float:
    """Return what the privacy loss of all runs exceeds with probability δ at most.

    However each run was chosen, and whenever this is read off, if the order and δ were fixed before
    the first (docs/privacy.md, section 14); infinity if the samplers are too coarse.
    """
    if _distance(runs) > SLACK * delta:
        return math.inf
    return _total(runs, order) - math.log(delta * (1.0 - SLACK)) / (order - 1.0)


def _distance(runs: Sequence[Sequence[Tally]]) -> float:
    return math.fsum(max(map(accountant.distance, agents)) for agents in runs)


def _total(runs: Sequence[Sequence[Tally]], order: float) -> float:
    return math.fsum(max(_divergence(t, order) for t in agents) for agents in runs)


@lru_cache(maxsize=4096)
def _divergence(tally: Tally, order: float) -> float:
    return float(accountant.total_rdp(tally, np.array([order]))[0])
