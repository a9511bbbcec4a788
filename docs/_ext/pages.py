"""The directive `pages`: a table of contents of those listed pages that this version has."""

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.directives.other import TocTree


class Pages(TocTree):
    """A toctree without the entries that are not there; a plain one would warn of them."""

    def run(self) -> list[nodes.Node]:
        """Return the toctree of what was found."""
        there = [line for line in self.content if line in self.env.found_docs]
        self.content = StringList(there, source=self.env.docname)
        return super().run()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("pages", Pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
