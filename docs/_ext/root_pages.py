"""Put README.md and its like, with links as seen from docs, where a page asks for one."""

import re
from pathlib import Path

from sphinx.application import Sphinx

PLACE = re.compile(r"<!-- ([A-Z]+\.md) -->")
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)\s]+)\)")
PAGES = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}


def seen_from_docs(text: str) -> str:
    """Return Markdown whose links to pages work in docs; other files are named, not linked."""
    return LINK.sub(_moved, text)


def _moved(link: re.Match[str]) -> str:
    words, target = link[1], link[2]
    if re.match(r"docs/.+\.md(#.*)?$", target):
        return f"[{words}]({target.removeprefix('docs/')})"
    return f"[{words}]({PAGES[target]})" if target in PAGES else words


def fill(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace the mark in a page that is about to be read; the page has its own title."""
    found = PLACE.search(source[0])
    if found:
        text = (Path(app.srcdir).parent / found[1]).read_text("utf-8")
        text = re.sub(r"\A# .*\n", "", text)
        source[0] = source[0].replace(found[0], seen_from_docs(text))


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen for pages that are read."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
