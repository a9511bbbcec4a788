"""MathJax, copied into the site from the package that ships it: formulas need no network."""

import shutil
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

SCRIPT = "tex-chtml.js"
FONTS = "output/chtml/fonts/woff-v2"


def source() -> Path:
    """Return the folder of the installed MathJax."""
    spec = find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise ExtensionError("The site needs MathJax; install it with: pip install '.[docs]'.")
    return Path(spec.origin).parent / "static/mathjax"


def copy(app: Sphinx, error: Exception | None) -> None:
    """Copy the one script and its fonts; the rest, 20 MB, is of no use here."""
    if error is None and app.builder.format == "html":
        target = Path(app.outdir) / "_static/mathjax"
        shutil.copytree(source() / FONTS, target / FONTS, dirs_exist_ok=True)
        shutil.copy2(source() / SCRIPT, target / SCRIPT)


def setup(app: Sphinx) -> dict[str, bool]:
    """Use the copy in place of the one on the network."""
    app.setup_extension("sphinx.ext.mathjax")
    app.config.mathjax_path = f"mathjax/{SCRIPT}"
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
