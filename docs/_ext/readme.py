"""Put README.md, without its title and with links as seen from docs, where a page asks for it."""

import re
from pathlib import Path

from sphinx.application import Sphinx

PLACE = "<!-- README.md -->"
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)\s]+)\)")


def seen_from_docs(text: str) -> str:
    """Return Markdown whose links to pages work in docs; other files are named, not linked."""
    return LINK.sub(_moved, text)


def _moved(link: re.Match[str]) -> str:
    words, target = link[1], link[2]
    if re.match(r"docs/.+\.md(#.*)?$", target):
        return f"[{words}]({target.removeprefix('docs/')})"
    return words


def fill(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace the mark in a page that is about to be read."""
    if PLACE in source[0]:
        text = (Path(app.srcdir).parent / "README.md").read_text("utf-8")
        text = re.sub(r"\A# .*\n", "", text)
        source[0] = source[0].replace(PLACE, seen_from_docs(text))


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen for pages that are read."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
