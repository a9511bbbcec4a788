"""Who knows what: a thing is declared in one place, and asked for everywhere else."""

import ast
import re
from pathlib import Path

import pytest

import ppadmm
from ppadmm.algorithms import ALGORITHMS

ROOT = Path(ppadmm.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def declares(path, name):
    """Whether a class of this file has a field of this name."""
    return any(
        isinstance(line, ast.AnnAssign) and getattr(line.target, "id", "") == name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        for line in node.body
    )


@pytest.mark.parametrize("name", ["beta", "calibration", "adjacency", "multiclass", "speaking"])
def test_an_option_of_the_method_is_declared_in_few_places(name):
    found = [str(path.relative_to(ROOT)) for path in FILES if declares(path, name)]
    assert len(found) <= (5 if name == "beta" else 6), found


def compared(path):
    """The names of algorithms that a module or a template compares something with."""
    text = path.read_text()
    if path.suffix != ".py":
        return set(re.findall(r"""[!=]= *["']([\w-]+)["']""", text)) & set(ALGORITHMS)
    pairs = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Compare | ast.MatchValue)]
    values = [c.value for n in pairs for c in ast.walk(n) if isinstance(c, ast.Constant)]
    return {value for value in values if value in set(ALGORITHMS)}


def test_only_the_room_of_the_algorithms_asks_for_a_name(tmp_path):
    templates = [p for p in ROOT.rglob("*") if p.suffix in {".html", ".js"}]
    found = {p: compared(p) for p in FILES + templates if p.parent.name != "algorithms"}
    assert templates
    assert not {p: names for p, names in found.items() if names}
    for name, text in (("a.py", 'x = y in ("pp", "ipp")'), ("a.html", '{% if a == "ipp" %}')):
        (tmp_path / name).write_text(text)
        assert "ipp" in compared(tmp_path / name)
