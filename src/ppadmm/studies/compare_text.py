"""A comparison as Markdown that also reads well on a terminal."""

from collections.abc import Sequence

from ppadmm.runs.tables import table
from ppadmm.studies.compare import ComparisonRow

HEAD = ("algorithm", "ε", "test error", "train loss", "messages", "rounds", "η", "proven ε")


def comparison(rows: Sequence[ComparisonRow]) -> str:
    """Return one line per algorithm and ε: mean ± standard deviation over seeds."""
    return table(HEAD, [_cells(row) for row in rows], right=False)


def _cells(row: ComparisonRow) -> tuple[str, ...]:
    figures = row.to_dict()
    return (
        row.algorithm,
        "∞" if row.epsilon is None else f"{row.epsilon:g}",
        f"{figures['test_error_mean']:.4f} ± {figures['test_error_std']:.4f}",
        f"{figures['train_loss_mean']:.4f} ± {figures['train_loss_std']:.4f}",
        f"{row.messages:.1f}",
        f"{row.rounds}",
        f"{row.eta:.2g}",
        "none" if row.epsilon_proven is None else f"{row.epsilon_proven:.3g}",
    )
