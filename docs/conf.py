"""The site: `python -m sphinx -W -b html docs OUT` builds it, offline."""

import sys
from pathlib import Path

from ppadmm import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "ppadmm"
version = release = __version__
author = "the ppadmm developers"
project_copyright = "the ppadmm developers, Apache-2.0"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "api",
    "commands",
    "formulas",
    "root_pages",
]
exclude_patterns = ["_build", "_ext"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types of NumPy and other packages: no network, no links
suppress_warnings = ["ref.python"]  # the letter d in a shape is no link
default_role = "code"  # docstrings have `names` in single backticks

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autosummary_generate = False
napoleon_google_docstring = False
napoleon_custom_sections = ["Guarantees"]
maximum_signature_line_length = 80
python_use_unqualified_type_names = True

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

smartquotes = False  # options begin with two hyphens
highlight_language = "none"  # indented blocks are formulas, not programs
html_theme = "furo"
MONOSPACE = '"hats", "DejaVu Sans Mono", Menlo, Consolas, monospace'
html_theme_options = {"light_css_variables": {"font-stack--monospace": MONOSPACE}}
html_title = f"ppadmm {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
