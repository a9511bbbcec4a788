"""What would help, told from public sizes and budgets alone: before anything is spent."""

import math
from itertools import compress

from ppadmm.accounting import Budget
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.algorithms.defaults import Sizes, loudest, remaining_noise, usable
from ppadmm.algorithms.method import weigh
from ppadmm.problem import Loss
from ppadmm.runs.federation import FederationFacts
from ppadmm.runs.specification import RunSpec
from ppadmm.summing.trust import SUM, Trust

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


HEARD, QUIETER = 0.01, 3.0
"""√d·σ̄ from which noise costs accuracy, and how many times less a sum must have to be named."""


def hints(spec: RunSpec, setup: FederationFacts) -> tuple[str, ...]:
    """Say whether the noise drowns what can be learnt, whose it is, and whether sums would help."""
    if spec.recipe.pooled or spec.recipe.noiseless:
        return ()
    sizes, budgets = _public(spec, setup)
    share = noise_share(sizes, budgets, setup.loss, spec.trusting)
    return (
        *_drowned(sizes, share),
        *loud_sites(spec, setup),
        *_many_small(spec, sizes, budgets, setup.loss),
    )


def noise_share(sizes: Sizes, budgets: list[Budget], loss: Loss, trust: Trust) -> float:
    """Return √d·σ̄/G: the noise that is left in the mean gradient, against what one can be."""
    budgets = usable(sizes, budgets, loss, 1)
    noise = remaining_noise(sizes, budgets, loss.lipschitz)
    if trust.by_sum:
        ratio = min(gdp_ratio(b.epsilon, b.delta) for b in budgets)
        shares = math.sqrt(sizes.agents / trust.honest(sizes.agents))
        noise = 2.0 * loss.lipschitz * shares / (sum(sizes.records) * ratio)
    return math.sqrt(sizes.features) * noise / loss.lipschitz


def _many_small(spec: RunSpec, sizes: Sizes, budgets: list[Budget], loss: Loss) -> list[str]:
    """Say that sums would help where noise is heard and theirs is much less, by sizes alone."""
    if spec.trusting.by_sum or spec.calibration == "paper" or sizes.agents < 2:
        return []
    own = noise_share(sizes, budgets, loss, spec.trusting)
    times = own / noise_share(sizes, budgets, loss, Trust(SUM))
    if own < HEARD or times < QUIETER:
        return []
    spelt = f"{times:.0f}" if times >= 10 else f"{times:.1f}"
    return [
        f"With --trust sum these {sizes.agents} sites would have {spelt} times less noise in the "
        "model, if no two of them put their knowledge together and all follow the protocol "
        "(docs/choosing-trust.md)."
    ]


def loud_sites(spec: RunSpec, setup: FederationFacts) -> list[str]:
    """Name the sites whose noise drowns what the others learn; in sums all add the same."""
    if spec.recipe.pooled or spec.recipe.noiseless or spec.trusting.by_sum:
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


def _drowned(sizes: Sizes, share: float) -> list[str]:
    """Compare the noise that is left in the mean gradient with what a gradient can be."""
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
