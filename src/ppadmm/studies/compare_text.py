"""A comparison as Markdown that also reads well on a terminal."""

from collections.abc import Sequence

from ppadmm.data import Partition
from ppadmm.runs.tables import fill, table
from ppadmm.runs.text import MOST_NAMED
from ppadmm.studies.compare import ComparisonRow
from ppadmm.summing.trust import LOCAL

HEAD = ("algorithm", "ε", "test error", "train loss", "messages", "rounds", "η", "proven ε")


def comparison(rows: Sequence[ComparisonRow]) -> str:
    """Return who holds what and one line per algorithm and ε: mean ± deviation over seeds."""
    figures = table(HEAD, [_cells(row) for row in rows], right=False)
    return "\n\n".join(filter(None, [fill(_sites(rows[0])), figures, fill(_alone(rows))]))


def _sites(row: ComparisonRow) -> str:
    """Name the partition and the agents; of a deal that differs from split to split, its range."""
    names, sizes = row.agent_names, [n for records in row.records for n in records]
    if Partition.parse(row.partition).names_agents:
        pairs = list(zip(names, row.records[0], strict=True))
        who = [f"{name} ({n:,})" for name, n in pairs[:MOST_NAMED]]
        more = [f"and {len(pairs) - MOST_NAMED} more"] if len(pairs) > MOST_NAMED else []
        each = ", ".join([*who, *more])
    else:
        each = f"{min(sizes):,}" + (f" to {max(sizes):,}" if min(sizes) < max(sizes) else "")
    agents = f"{len(names)} agent{'' if len(names) == 1 else 's'}"
    return f"Partition {row.partition}: {agents}, training records: {each}."


def _alone(rows: Sequence[ComparisonRow]) -> str:
    """Say what a single site ran in place of what was asked for."""
    others = dict.fromkeys(row.algorithm for row in rows if row.ran != row.algorithm)
    if not others:
        return ""
    ran = next(row.ran for row in rows if row.ran != row.algorithm)
    return f"One site has nobody to exchange with: {ran} ran in place of {', '.join(others)}."


def _cells(row: ComparisonRow) -> tuple[str, ...]:
    figures = row.to_dict()
    return (
        row.algorithm if row.trust == LOCAL else f"{row.algorithm} ({row.trust})",
        "∞" if row.epsilon is None else f"{row.epsilon:g}",
        f"{figures['test_error_mean']:.4f} ± {figures['test_error_std']:.4f}",
        f"{figures['train_loss_mean']:.4f} ± {figures['train_loss_std']:.4f}",
        f"{row.messages:.1f}",
        f"{row.rounds}",
        f"{row.eta:.2g}",
        "none" if row.epsilon_proven is None else f"{row.epsilon_proven:.3g}",
    )
