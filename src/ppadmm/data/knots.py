"""How many knots a curve has where nobody says: from public sizes.

More knots follow a curve more closely, and each of them has noise of its own. With n records, C
columns and a budget of ε for each record the rule is

    K = (0.8·n·ε/C)^(1/4),   between 5 and 10, ε counted up to 4.

It was fitted on made-up populations (`benchmarks/knots.py`, docs/defaults.md); no record is read.
"""

from ppadmm import checks
from ppadmm.data.schema import Schema

RATE, POWER = 0.8, 0.25
FEWEST, MOST = 5, 10
LARGEST_EPSILON = 4.0
"""Beyond it the error comes from the records, no longer from the noise."""


def knots_for(records: int, columns: int, epsilon: float) -> int:
    """Return the number of knots for so many records and columns and such a budget."""
    counted = min(checks.positive("epsilon", epsilon), LARGEST_EPSILON)
    wanted: float = (RATE * records * counted / max(columns, 1)) ** POWER
    return min(max(round(wanted), FEWEST), MOST)


def settle_knots(schema: Schema, records: int, epsilon: float, count: int | None = None) -> Schema:
    """Return the schema with the knots of all curves named: `count`, or as many as the rule says.

    With a count of 0 curves that name no knots become lines.
    """
    chosen = knots_for(records, len(schema.columns), epsilon) if count is None else count
    return schema.with_knots(chosen)
