"""Who knows what: a thing is declared in one place, and asked for everywhere else."""

import ast
from pathlib import Path

import pytest

import ppadmm

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
