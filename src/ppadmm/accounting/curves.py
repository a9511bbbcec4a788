"""A guarantee as curves: ε by δ, Rényi divergence by order, and the errors of any attacker."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ppadmm.accounting import accountant
from ppadmm.accounting.events import Approximate, Gaussian, ObjectivePerturbation, Tally
from ppadmm.arrays import Array

DELTAS: Array = np.concatenate([10.0 ** np.arange(-12.0, -1.0), [0.05, 0.1, 0.2, 0.4, 0.6, 0.8]])
ORDERS: Array = np.array([1.01, 1.1, 1.25, 1.5, 1.75, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96,
                          128, 192, 256, 512, 1024, 4096])  # fmt: skip
TYPE_ONE: Array = np.array([0.0, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8,
                            0.9, 1.0])  # fmt: skip


def curves(tallies: Sequence[Tally]) -> dict[str, Any]:
    """Return the curves of the worst agent at every point; None stands for infinity."""
    distinct = list(dict.fromkeys(tallies))
    pairs = [(max(accountant.epsilon(t, float(d)).epsilon for t in distinct), float(d))
             for d in DELTAS]  # fmt: skip
    rdp = np.max([accountant.total_rdp(tally, ORDERS) for tally in distinct], axis=0)
    return {
        "epsilon_by_delta": [[delta, _finite(epsilon)] for epsilon, delta in pairs],
        "divergence_by_order": [
            [float(o), _finite(float(d))] for o, d in zip(ORDERS, rdp, strict=True)
        ],
        "errors_of_an_attacker": [[float(a), type_two(float(a), pairs)] for a in TYPE_ONE],
        "gaussian": _gaussian(distinct),
    }


def type_two(type_one: float, pairs: Sequence[tuple[float, float]]) -> float:
    """Bound from below how often a test that is wrong about one record misses the other way.

    f(a) = max over (ε, δ) of 1 − δ − e^ε·a and e^{−ε}(1 − δ − a), at least 0: the trade-off
    function of Gaussian differential privacy (Dong, Roth & Su 2022), from the curve of ε by δ.
    """
    bounds = [0.0]
    for epsilon, delta in pairs:
        if epsilon < 700.0:
            factor = math.exp(epsilon)
            bounds += [1.0 - delta - factor * type_one, (1.0 - delta - type_one) / factor]
    return max(bounds)


def _gaussian(tallies: Sequence[Tally]) -> dict[str, Any] | None:
    """Return the ratio m of the Gaussian mechanism that a run is, or is close to."""
    kinds = {type(event) for tally in tallies for event, _ in tally.counts}
    if not kinds or kinds - {Gaussian, ObjectivePerturbation, Approximate}:
        return None
    squares = [
        sum(
            times * event.ratio**2
            for event, times in tally.counts
            if isinstance(event, Gaussian | ObjectivePerturbation)
        )
        for tally in tallies
    ]
    return {"ratio": math.sqrt(max(squares)), "exact": ObjectivePerturbation not in kinds}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
