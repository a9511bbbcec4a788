"""Who knows what: a thing is declared in one place, and asked for everywhere else."""

import ast
from pathlib import Path

import pytest

import ppadmm
from ppadmm.algorithms import ALGORITHMS

ROOT = Path(ppadmm.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
OUTSIDE = [path for path in FILES if path.parent.name != "algorithms"]


def literals(node):
    """Yield the texts that an expression consists of."""
    for part in node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]:
        if isinstance(part, ast.Constant):
            yield part.value


def compared_names(path):
    """Yield names of algorithms that something is compared with, or looked up in."""
    tree = ast.parse(path.read_text())
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        for side in (node.left, *node.comparators):
            found = constants.get(side.id, side) if isinstance(side, ast.Name) else side
            yield from (name for name in literals(found) if name in ALGORITHMS)


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_nobody_outside_compares_with_an_algorithms_name(path):
    statistics = {"gradient"} if path.name == "figures.py" else set()  # a statistic's name, too
    assert set(compared_names(path)) <= statistics


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
