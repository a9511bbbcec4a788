"""The arrows point one way: nothing upstream imports anything downstream, and siblings know nothing
of one another. What is imported for its types only counts, too."""

import ast
from collections import Counter
from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest

import ppadmm
from ppadmm.algorithms import ALGORITHMS

ROOT = Path(ppadmm.__file__).parent
LAYERS = [
    {"__init__", "errors", "arrays"},
    {"checks", "registry", "canonical", "files", "records"},
    {"sampling"},
    {"noise"},
    {"data"},
    {"datasets"},
    {"problem"},
    {"solvers"},
    {"accounting"},
    {"ledger"},
    {"mechanisms", "summing"},
    {"algorithms"},
    {"agent", "sum_agent"},
    {"statements"},
    {"engines"},
    {"runs"},
    {"peers", "planning", "studies", "auditing", "estimator", "integrations", "doctor"},
    {"cli"},
]
"""From upstream to downstream. Rooms of one layer do not import one another."""
INNER = {
    "data": ["stream"],
    "engines": ["ray"],
    "peers": ["pki", "zenoh"],
    "runs": ["report"],
}
"""Sub-packages: a room's own modules may import them, and they the room's."""
LEVEL = {name: k for k, names in enumerate(LAYERS) for name in names}
FILES = sorted(ROOT.rglob("*.py"))
named = {"ids": lambda path: str(path.relative_to(ROOT))}


def room(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path):
    """Yield every room that a file imports from, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ppadmm"):
            assert not node.level, f"{path}: a relative import"
            parts = node.module.split(".")
            names = [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
            yield from ("__init__" if name.startswith("__") else name for name in names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("ppadmm"):
                    yield ([*alias.name.split("."), "__init__"])[1]


@pytest.mark.parametrize("path", [path for path in FILES if path.parent != ROOT], **named)
def test_rooms_import_upstream_only(path):
    own = room(path)
    for name in set(imports(path)) - {own}:
        assert LEVEL[name] < LEVEL[own], f"{own} imports {name}, which is not upstream of it"


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.parent == ROOT and p.stem[0] != "_"], **named
)
def test_modules_of_the_ground_floor_import_upstream_only(path):
    for name in set(imports(path)) - {path.stem}:
        assert LEVEL[name] <= LEVEL[path.stem], f"{path.stem} imports {name}"


def test_every_room_is_listed():
    found = {p.name.removesuffix(".py") for p in ROOT.iterdir() if p.suffix == ".py" or p.is_dir()}
    assert found - {"__pycache__", "py.typed"} == set(LEVEL)
    inner = {
        p.name: sorted(q.name for q in p.iterdir() if (q / "__init__.py").exists())
        for p in ROOT.iterdir()
        if p.is_dir()
    }
    assert {name: rooms for name, rooms in inner.items() if rooms} == INNER


def test_one_class_one_name():
    names = Counter(
        node.name
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, times in names.items() if times > 1] == []


def test_plotting_networking_and_heavy_imports_stay_out_of_the_base():
    for path in FILES:
        tree = ast.parse(path.read_text())
        top = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
        modules = {(getattr(n, "module", None) or n.names[0].name).split(".")[0] for n in top}
        if path.parent.name == "estimator":
            modules -= {"sklearn"}  # it is scikit-learn's; `import ppadmm` does not import it
        assert not modules & {"opendp", "networkx", "sklearn", "pandas", "matplotlib", "ray"}, path


def test_the_order_is_strict():
    assert all(not a & b for a, b in pairwise(LAYERS))


# -- sub-packages --------------------------------------------------------------------------------


def module_of(path):
    parts = ("ppadmm", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def run_on_import(body):
    """Yield the imports that run when a module is imported, so none of a function or for types."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from run_on_import(node.orelse)
        elif not isinstance(node, ast.FunctionDef):
            inner = (getattr(node, name, []) for name in ("body", "orelse", "finalbody"))
            yield from run_on_import([each for block in inner for each in block])


def imported(path):
    """Yield the modules that importing a file imports by name."""
    for node in run_on_import(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif node.module in MODULES:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module


def test_no_module_is_imported_while_it_imports():
    """A sub-package may use its room's modules, but none that uses the sub-package, however far."""
    arrows = nx.DiGraph((name, other) for name, path in MODULES.items() for other in imported(path))
    circles = [sorted(part) for part in nx.strongly_connected_components(arrows) if len(part) > 1]
    assert circles == []


def test_imports_that_run_later_are_told_from_those_that_run_at_once():
    text = """
import a
if TYPE_CHECKING:
    import b
else:
    import c
try:
    import d
except ImportError:
    pass
class K:
    import e
def f():
    import g
"""
    found = [node.names[0].name for node in run_on_import(ast.parse(text).body)]
    assert found == ["a", "c", "d", "e"]


# -- algorithms ----------------------------------------------------------------------------------


def names_in(node):
    """Return the texts that a value is compared with: itself, or what a collection holds."""
    if isinstance(node, ast.Constant):
        return {node.value}
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return {name for each in node.elts for name in names_in(each)}
    return set()


def compared(tree):
    """Yield (line, texts) wherever a value is told apart by texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            yield node.lineno, {name for side in sides for name in names_in(side)}
        elif isinstance(node, ast.Dict):
            keys = {name for key in node.keys if key is not None for name in names_in(key)}
            yield node.lineno, keys
        elif isinstance(node, ast.MatchValue):
            yield node.lineno, names_in(node.value)


DRAWN = Path("studies/plots.py")
"""Draws the lines of the paper's figures, each in its colour: that is no question."""


def test_nobody_but_algorithms_asks_for_the_name_of_one():
    """A recipe says all that others need to know of an algorithm."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {', '.join(sorted(names & set(ALGORITHMS)))}"
        for path in FILES
        if room(path) != "algorithms" and path.relative_to(ROOT) != DRAWN
        for line, names in compared(ast.parse(path.read_text()))
        if names & set(ALGORITHMS)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        *('name == "pp"', '"ipp" != name', 'name in ("dvp", "pp")', '{"pp": 1}[name]'),
        'match name:\n    case "pp" | "ipp":\n        pass',
    ],
)
def test_names_of_algorithms_are_found(text):
    assert any(names & set(ALGORITHMS) for _, names in compared(ast.parse(text)))
