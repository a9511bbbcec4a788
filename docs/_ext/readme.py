"""The directive `readme`: README.md without its title, its links as seen from docs."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)\s]+)\)")


def seen_from_docs(text: str) -> str:
    """Return Markdown whose links to pages work in docs; other files are named, not linked."""
    return LINK.sub(_moved, text)


def _moved(link: re.Match[str]) -> str:
    words, target = link[1], link[2]
    if re.match(r"docs/.+\.md(#.*)?$", target):
        return f"[{words}]({target.removeprefix('docs/')})"
    return words


class Readme(SphinxDirective):
    """Put the README here."""

    def run(self) -> list[nodes.Node]:
        """Return it as parsed Markdown."""
        file = Path(self.env.srcdir).parent / "README.md"
        self.env.note_dependency(str(file))
        text = re.sub(r"\A# .*\n", "", file.read_text("utf-8"))
        return self.parse_text_to_nodes(seen_from_docs(text), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("readme", Readme)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
