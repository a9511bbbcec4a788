"""The arrows point one way: nothing upstream imports anything downstream."""

import ast
from pathlib import Path

import pytest

import ppadmm

ROOT = Path(ppadmm.__file__).parent
ORDER = [
    {"errors", "typing", "__init__"},
    {"checks", "records", "registry"},
    {"noise"},
    {"data"},
    {"problem"},
    {"solvers"},
    {"privacy"},
    {"mechanisms"},
    {"algorithms"},
    {"agent"},
    {"wire", "agreement"},
    {"engines"},
    {"experiments"},
    {"estimator"},
    {"reports"},
    {"cli"},
]
LEVEL = {name: k for k, names in enumerate(ORDER) for name in names}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ppadmm"):
            parts = node.module.split(".")
            names = [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
            yield from ("__init__" if name.startswith("__") else name for name in names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("ppadmm"):
                    yield ([*alias.name.split("."), "__init__"])[1]


@pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_imports_point_upstream(path):
    relative = path.relative_to(ROOT)
    layer = relative.parts[0].removesuffix(".py")
    if relative == Path("__init__.py"):
        return
    for name in imports(path):
        assert LEVEL[name] <= LEVEL[layer], f"{relative} imports {name}, which is downstream"


def test_every_layer_is_listed():
    found = {p.name.removesuffix(".py") for p in ROOT.iterdir() if p.suffix == ".py" or p.is_dir()}
    assert found - {"__pycache__", "py.typed"} == set(LEVEL)


def test_plotting_networking_and_heavy_imports_stay_out_of_the_base():
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text())
        top = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
        modules = {(getattr(n, "module", None) or n.names[0].name).split(".")[0] for n in top}
        if path.parent.name == "estimator":
            modules -= {"sklearn"}  # it is scikit-learn's; `import ppadmm` does not import it
        assert not modules & {"opendp", "networkx", "sklearn", "pandas", "matplotlib", "ray"}, path
