"""What would help, told from public sizes and budgets alone."""

from ppadmm.algorithms.defaults import Sizes, loudest
from ppadmm.algorithms.method import weigh
from ppadmm.runs.federation import FederationFacts
from ppadmm.runs.specification import RunSpec

WORTH_SAYING = 1.5
"""Sites are named where the noise left without them is so many times less."""
MOST_NAMED = 5


def hints(spec: RunSpec, setup: FederationFacts) -> tuple[str, ...]:
    """Name the sites whose noise drowns what the others learn."""
    if spec.recipe.pooled or spec.recipe.noiseless:
        return ()
    held = [i for i, n in enumerate(setup.records) if n]
    budgets = [spec.budgets[i] for i in held]
    records = tuple(setup.records[i] for i in held)
    weights = weigh(spec, records, budgets, setup.parameters)
    sizes = Sizes(records, setup.features, (1,) * len(held), weights)
    loud, times = loudest(sizes, budgets)
    if times < WORTH_SAYING:
        return ()
    named = [f"{setup.names[held[k]]} ({sizes.records[k]:,} records)" for k in loud[:MOST_NAMED]]
    more = len(loud) - len(named)
    who = ", ".join(named) + (f" and {more} more" if more else "")
    return (
        f"The noise of {who} drowns what the others learn: without these records there would be "
        f"{times:.{0 if times >= 10 else 1}f} times less noise in the model (docs/data.md, small "
        "sites).",
    )
