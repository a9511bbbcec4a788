"""The API reference: public names of a module, read off the module, where a page asks for them.

<!-- api: ppadmm.data -->    every name of its `__all__` or, without one, all that it defines
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx

import ppadmm

PLACE = re.compile(r"<!-- api: ([\w.]+) -->")
CODE = re.compile(r"(`[^`]*`)|[^`]+")
MARKUP = re.compile(r"[|*]|(?<=\w)_(?!\w)")
AS_DOCUMENTED = {"class": "autoclass", "exception": "autoexception", "function": "autofunction"}


def public_names(module: ModuleType) -> list[str]:
    """Return the names to document, in the order of the alphabet, classes and functions mixed."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=str.lower)
    found = (name for name in vars(module) if not name.startswith("_"))
    return sorted((n for n in found if _is_own(vars(module)[n], module)), key=str.lower)


def _is_own(value: Any, module: ModuleType) -> bool:
    return kind(value) != "data" and value.__module__ == module.__name__


def kind(value: Any) -> str:
    """Return class, exception, function or data."""
    if inspect.isclass(value):
        return "exception" if issubclass(value, Exception) else "class"
    return "function" if inspect.isroutine(value) else "data"


def restructured(name: str) -> str:
    """Return the section of one module: a table of its names, then each of them."""
    module = import_module(name)
    names = [n for n in public_names(module) if n != "__version__"]
    return "\n".join(
        ["```{eval-rst}", *_table(name, module, names), *_entries(module, names), "```"]
    )


def _table(name: str, module: ModuleType, names: list[str]) -> Iterator[str]:
    shown = [n for n in names if kind(getattr(module, n)) != "data"]
    yield from (f".. currentmodule:: {name}", "")
    yield from (".. autosummary::", "   :nosignatures:", "", *(f"   {n}" for n in shown), "")


def _entries(module: ModuleType, names: list[str]) -> Iterator[str]:
    for name in names:
        what = kind(getattr(module, name))
        if what != "data":
            known = module is not ppadmm and name in ppadmm.__all__  # has its place on that page
            options = ["   :no-index:"] if known else []
            yield from (f".. {AS_DOCUMENTED[what]}:: {name}", *options, "")


def escape(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Take |x|, x_ and * for what they are, outside of `code` and examples."""
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "..")):
            lines[k] = CODE.sub(
                lambda found: found[0] if found[1] else MARKUP.sub(r"\\\g<0>", found[0]), line
            )


def skip(app: Sphinx, what: str, name: str, value: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every class for its routing of metadata."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def fill(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace the marks in a page that is about to be read."""
    source[0] = PLACE.sub(lambda mark: restructured(mark[1]), source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen for pages that are read."""
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", escape, priority=400)  # before napoleon
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
