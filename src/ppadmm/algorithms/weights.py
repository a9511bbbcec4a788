"""How much each site counts: the wᵢ of the common objective Σᵢ wᵢfᵢ(θ) + λ̂·R(θ).

fᵢ is the mean loss over the nᵢ records of site i. With wᵢ = H·nᵢ/n (H sites with records, n in
all) the objective is that of the pooled records, and a site of fifty records adds no more noise to
it than one of twenty thousand. With wᵢ = 1, the paper's choice, every site counts alike.

Weights are public: they follow from numbers of records.
"""

from collections.abc import Sequence

from ppadmm import checks
from ppadmm.errors import InputError

WEIGHED = {"records": "by their records", "equal": "all alike"}
"""Every way of weighing sites, in words."""
WEIGHTS = tuple(WEIGHED)


def site_weights(kind: str, records: Sequence[int]) -> tuple[float, ...]:
    """Return wᵢ for every agent; those of the agents with records add up to their number.

    One that only listens has no records to weigh: 0, or 1 where all count alike.
    """
    checks.one_of("weights", kind, WEIGHTS)
    if kind == "equal":
        return (1.0,) * len(records)
    holders, total = sum(n > 0 for n in records), sum(records)
    if not total:
        raise InputError("Sites are weighed by their records, and none has any; give them some.")
    return tuple(holders * n / total for n in records)
