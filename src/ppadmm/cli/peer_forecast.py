"""What an agreement is likely to bring each of its sites, before anybody signs it."""

from typing import TYPE_CHECKING, Annotated

import typer

from ppadmm.cli.common import InterruptedRunError, interruptible
from ppadmm.errors import PpadmmError

if TYPE_CHECKING:
    from ppadmm.peers.agreement import Agreement

MOST_STEPS, FEWEST_ROUNDS, MOST_FEATURES = 10_000, 50, 500
"""Sites times rounds (counted as this many at least), and features, that take a few seconds."""
SEEDS = 6

ShowForecast = Annotated[
    bool,
    typer.Option(
        "--forecast/--no-forecast",
        help="Simulate what the run would bring each site, on made-up records of these sizes.",
    ),
]


def forecast_lines(terms: "Agreement", features: int, classes: int, kept: str) -> list[str]:
    """Return each site alone and with all, or one line that says why nothing can be said.

    It follows from the agreement and public sizes alone. `kept` says what Ctrl-C leaves.
    """
    from ppadmm.planning.page import short_text
    from ppadmm.planning.plan import PlanSpec, plan

    steps = len(terms.parties) * max(FEWEST_ROUNDS, terms.rounds or 0)
    if steps > MOST_STEPS or features > MOST_FEATURES:
        size = f"{len(terms.parties)} sites, {terms.rounds} rounds and {features} features"
        return [f"No forecast: {size} take long to simulate; ppadmm plan does it."]
    epsilons = tuple(party.epsilon for party in terms.parties)
    try:
        spec = PlanSpec.from_method(
            terms,
            records=tuple(party.records for party in terms.parties),
            names=tuple(party.name for party in terms.parties),
            agents=len(terms.parties), epsilons_per_agent=epsilons, epsilons=(max(epsilons),),
            graph=terms.graph, features=features, classes=classes, seeds=SEEDS, changes=False,
            absences=False,
        )  # fmt: skip
        with interruptible(kept):
            return short_text(plan(spec))
    except InterruptedRunError:
        raise
    except PpadmmError as error:
        return [f"No forecast: {error}"]
