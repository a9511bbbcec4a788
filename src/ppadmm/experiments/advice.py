"""What would help, told from public sizes and budgets alone."""

from typing import TYPE_CHECKING

from ppadmm.algorithms import recipe_named
from ppadmm.algorithms.defaults import Sizes, loudest

if TYPE_CHECKING:
    from ppadmm.experiments.train import Prepared

WORTH_SAYING = 1.5
"""Sites are named where the noise left without them is so many times less."""
MOST_NAMED = 5


def hints(prepared: "Prepared") -> tuple[str, ...]:
    """Name the sites whose noise drowns what the others learn."""
    spec, scene = prepared.spec, prepared.scene
    if recipe_named(spec.algorithm).pooled or spec.algorithm == "non-private":
        return ()
    held = [i for i, n in enumerate(scene.records) if n]
    budgets = [spec.budgets[i] for i in held]
    sizes = Sizes(tuple(scene.records[i] for i in held), scene.features, (1,) * len(held))
    loud, times = loudest(sizes, budgets)
    if times < WORTH_SAYING:
        return ()
    named = [f"{scene.names[held[k]]} ({sizes.records[k]:,} records)" for k in loud[:MOST_NAMED]]
    more = len(loud) - len(named)
    who = ", ".join(named) + (f" and {more} more" if more else "")
    return (
        f"The noise of {who} drowns what the others learn: without these records there would be "
        f"{times:.{0 if times >= 10 else 1}f} times less noise in the model (docs/data.md, small "
        "sites).",
    )
