"""What would help, told from public sizes and budgets alone: before anything is spent."""

import math
from itertools import compress

from ppadmm.accounting import Budget
from ppadmm.algorithms.defaults import Sizes, loudest, remaining_noise, usable
from ppadmm.algorithms.method import weigh
from ppadmm.problem import Loss
from ppadmm.runs.federation import FederationFacts
from ppadmm.runs.specification import RunSpec

WORTH_SAYING = 1.3
"""Sites are named where the noise left without them is so many times less."""
MOST_NAMED = 5
AVOIDED = {
    "equal": "Weights by records avoid that.",
    "records": "Weights by noise avoid that where the records of all sites are of one kind.",
}
"""What else would help, by how sites are weighed."""
DROWNED, FAINT, CLEAR = 0.5, 0.2, 0.1
"""√d·σ̄ from which nothing is learnt, little is learnt, and up to which much is (docs/defaults.md).

The mean gradient of any records where training begins is at most ½G."""


def hints(spec: RunSpec, setup: FederationFacts) -> tuple[str, ...]:
    """Say whether the noise drowns what can be learnt, and whose noise drowns the others."""
    if spec.recipe.pooled or spec.recipe.noiseless:
        return ()
    return (*_drowned(*_public(spec, setup), setup.loss), *loud_sites(spec, setup))


def loud_sites(spec: RunSpec, setup: FederationFacts) -> list[str]:
    """Name the sites whose noise drowns what the others learn."""
    if spec.recipe.pooled or spec.recipe.noiseless:
        return []
    names = [name for name, n in zip(setup.names, setup.records, strict=True) if n]
    found = _loud(*_public(spec, setup), names)
    return [f"{hint} {AVOIDED.get(spec.weighting, '')}".rstrip() for hint in found]


def _public(spec: RunSpec, setup: FederationFacts) -> tuple[Sizes, list[Budget]]:
    """Return sizes and budgets of the sites with records."""
    held = [n > 0 for n in setup.records]
    records = tuple(compress(setup.records, held))
    budgets = list(compress(spec.budgets, held))
    weights = weigh(spec, records, budgets, setup.parameters)
    return Sizes(records, setup.features, (1,) * len(records), weights), budgets


def _drowned(sizes: Sizes, budgets: list[Budget], loss: Loss) -> list[str]:
    """Compare the noise that is left in the mean gradient with what a gradient can be."""
    noise = remaining_noise(sizes, usable(sizes, budgets, loss, 1), loss.lipschitz)
    share = math.sqrt(sizes.features) * noise / loss.lipschitz
    if share < FAINT:
        return []
    least = "no better" if share >= DROWNED else "little better"
    return [
        f"Expect a model {least} than always naming the commonest class: with "
        f"{sum(sizes.records):,} records, {sizes.features} features and these budgets the noise is "
        f"{share / DROWNED:.0%} of the most that records can say. About {share / CLEAR:.0f} times "
        "the records or the ε, or fewer features, would help (ppadmm plan)."
    ]


def _loud(sizes: Sizes, budgets: list[Budget], names: list[str]) -> list[str]:
    loud, times = loudest(sizes, budgets)
    if times < WORTH_SAYING:
        return []
    named = [f"{names[k]} ({sizes.records[k]:,} records)" for k in loud[:MOST_NAMED]]
    more = len(loud) - len(named)
    who = ", ".join(named) + (f" and {more} more" if more else "")
    return [
        f"The noise of {who} drowns what the others learn: without these records there would be "
        f"{times:.{0 if times >= 10 else 1}f} times less noise in the model (docs/data.md, small "
        "sites).",
    ]
