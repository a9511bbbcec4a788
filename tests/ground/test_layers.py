"""The arrows point one way: nothing upstream imports anything downstream, and siblings know nothing
of one another. What is imported for its types only counts, too."""

import ast
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import ppadmm

ROOT = Path(ppadmm.__file__).parent
LAYERS = [
    {"__init__", "errors", "arrays"},
    {"checks", "registry", "canonical", "files", "records"},
    {"noise"},
    {"data"},
    {"datasets"},
    {"problem"},
    {"solvers"},
    {"accounting"},
    {"ledger"},
    {"mechanisms"},
    {"algorithms"},
    {"agent"},
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
