"""How much each site counts: the wᵢ of the common objective Σᵢ wᵢfᵢ(θ) + λ̂·R(θ).

fᵢ is the mean loss over the nᵢ records of site i. With wᵢ = H·nᵢ/n (H sites with records, n in
all) the objective is that of the pooled records, and a site of fifty records adds no more noise to
it than one of twenty thousand. With wᵢ = 1, the paper's choice, every site counts alike.

Where the records of all sites are of one kind, weights may also look at the noise. The gradient of
site i varies by at most G²/(4nᵢ) with its records and by 4pG²/(nᵢmᵢ)² with its noise (p parameters,
mᵢ the Δ/σ of a Gaussian mechanism with the whole budget of the site). Their weighted mean varies
least with wᵢ ∝ 1/(1/(4nᵢ) + 4p/(nᵢmᵢ)²). Where sites differ it leans towards the large ones and
those with large budgets.

Weights are public: they follow from numbers of records, parameters and budgets.
"""

from collections.abc import Sequence

from ppadmm import checks
from ppadmm.accounting.calibration import Budget
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.errors import InputError

WEIGHED = {
    "records": "by their records",
    "equal": "all alike",
    "noise": "by their records and their noise",
}
"""Every way of weighing sites, in words."""
WEIGHTS = tuple(WEIGHED)


def site_weights(
    kind: str,
    records: Sequence[int],
    budgets: Sequence[Budget] | None = None,
    parameters: int = 1,
) -> tuple[float, ...]:
    """Return wᵢ for every agent; those of the agents with records add up to their number.

    One that only listens has no records to weigh: 0, or 1 where all count alike. `budgets` is None
    without noise: `noise` then weighs by records.
    """
    checks.one_of("weights", kind, WEIGHTS)
    if kind == "equal":
        return (1.0,) * len(records)
    if not any(records):
        raise InputError("Sites are weighed by their records, and none has any; give them some.")
    each = [None] * len(records) if budgets is None else budgets
    pairs = zip(records, each, strict=True)
    own = [share(kind, n, budget, parameters) for n, budget in pairs]
    holders, total = sum(n > 0 for n in records), sum(own)
    return tuple(holders * part / total for part in own)


def share(kind: str, n: int, budget: Budget | None, parameters: int) -> float:
    """Return what w of a site is in proportion to: n, or 1/(1/(4n) + 4p/(nm)²) by noise."""
    if kind != "noise" or budget is None:
        return n
    noise = 4.0 * parameters / gdp_ratio(budget.epsilon, budget.delta) ** 2
    return n**2 / (0.25 * n + noise)
