"""Tables as Markdown that also reads well on a terminal."""

import textwrap
from collections.abc import Sequence
from unicodedata import combining

from ppadmm.experiments.compare import Row

WIDTH = 100
HEAD = ("algorithm", "ε", "test error", "train loss", "messages", "rounds", "η", "proven ε")


def comparison(rows: Sequence[Row]) -> str:
    """Return one line per algorithm and ε: mean ± standard deviation over seeds."""
    cells = [HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(HEAD))]
    lines = [_line(line, widths) for line in cells]
    return "\n".join([lines[0], _line(["-" * width for width in widths], widths), *lines[1:]])


def _cells(row: Row) -> tuple[str, ...]:
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


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return Markdown with the first column to the left and the others to the right."""
    widths = [max(_length(line[k]) for line in (head, *rows)) for k in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(_pad(line, widths)) + " |" for line in lines)


def _pad(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    gaps = [" " * (width - _length(cell)) for cell, width in zip(line, widths, strict=True)]
    return [line[0] + gaps[0], *(gap + cell for cell, gap in zip(line[1:], gaps[1:], strict=True))]


def _length(cell: str) -> int:
    """Return how many columns the text takes: the hat of λ̂ takes none."""
    return sum(not combining(letter) for letter in cell)


def fill(text: str) -> str:
    """Break a paragraph into lines."""
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False)
