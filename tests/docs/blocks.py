"""The blocks of code in README.md and docs, and what a comment before one says of it.

<!-- not run: REASON -->          this Python block is not run
<!-- run -->                      this shell block is run; others are only parsed
<!-- file: NAME -->               this block is written to NAME
<!-- output -->                   what the block before it printed
<!-- output, numbers vary -->     the same, with other numbers, hashes and user
"""

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")))
COMMENT = re.compile(r"<!-- (not run: .+|run|file: \S+|output|output, numbers vary) -->\s*\Z")
KNOWN = ("not run", "run", "file", "output")


@dataclass(frozen=True)
class Block:
    """One block: its page, line, language (empty if indented) and the comment before it."""

    page: str
    line: int
    language: str
    text: str
    note: str

    @property
    def is_run(self):
        if self.language == "python":
            return not self.note.startswith(("not run", "file"))
        return self.note == "run"


def tokens(page):
    return MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text("utf-8"))


def blocks(page):
    """Return the blocks of a page in their order."""
    found, note = [], ""
    for token in tokens(page):
        if token.type in ("fence", "code_block"):
            found.append(Block(page, token.map[0] + 1, token.info.strip(), token.content, note))
        note = note_of(token, page)
    return found


def note_of(token, page):
    """Return what a comment says; one that looks like ours and is not is an error."""
    if token.type != "html_block":
        return ""
    said = COMMENT.search(token.content)
    if said is None and token.content.startswith(tuple(f"<!-- {word}" for word in KNOWN)):
        raise ValueError(
            f"{page}:{token.map[0] + 1}: {token.content.strip()!r} is no known comment."
        )
    return said[1] if said else ""


def spans(page):
    """Yield (line, text) of every inline code."""
    for token in tokens(page):
        for child in token.children or ():
            if child.type == "code_inline":
                yield token.map[0] + 1, child.content


def masked(text):
    """Return text in which every number and hash, and the user's name, is the same letter."""
    text = re.sub(r"\bby \w+(?= on |$)", "by #", text, flags=re.MULTILINE)
    text = re.sub(r"\b[0-9a-f]{8,}\b", "#", text)
    text = re.sub(r"\d[\d.,]*(e[-+]?\d+)?", "#", text)
    return re.sub(r"[ \t─-]+", " ", text)
