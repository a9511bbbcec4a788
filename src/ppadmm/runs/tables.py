"""Tables as Markdown that also reads well on a terminal."""

import textwrap
from collections.abc import Sequence
from unicodedata import combining

WIDTH = 100


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: bool = True) -> str:
    """Return Markdown with the first column to the left and the others to the `right`, or not."""
    widths = [max(_length(line[k]) for line in (head, *rows)) for k in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(_pad(line, widths, right)) + " |" for line in lines)


def _pad(line: Sequence[str], widths: Sequence[int], right: bool) -> list[str]:
    gaps = [" " * (width - _length(cell)) for cell, width in zip(line, widths, strict=True)]
    pairs = enumerate(zip(line, gaps, strict=True))
    return [gap + cell if right and k else cell + gap for k, (cell, gap) in pairs]


def _length(cell: str) -> int:
    """Return how many columns the text takes: the hat of λ̂ takes none."""
    return sum(not combining(letter) for letter in cell)


def fill(text: str) -> str:
    """Break a paragraph into lines."""
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False)
