"""The wheel holds all that is needed; scripts/check-wheel installs it into a clean environment."""

import json
import re
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The wheel as pip would lay it out."""
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_ships_every_module_and_template(unpacked):
    shipped = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    source = ROOT / "src"
    for path in (source / "ppadmm").rglob("*.py"):
        assert str(path.relative_to(source)) in shipped
    for name in ("report.html", "report.css", "report.js", "plan.html"):
        assert f"ppadmm/runs/report/templates/{name}" in shipped
    for name in ("statement", "certificate"):
        assert f"ppadmm/statements/schemas/{name}.schema.json" in shipped
    assert "ppadmm/py.typed" in shipped
    assert not [name for name in shipped if name.startswith(("tests", "examples", "benchmarks"))]


@pytest.fixture(scope="module")
def base_packages(tmp_path_factory):
    """A folder with what the base lock file names and nothing else, as links."""
    folder = tmp_path_factory.mktemp("base")
    lock = (ROOT / "requirements" / "base.lock").read_text()
    for name in re.findall(r"^([\w.-]+)==", lock, re.M):
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:  # for another system or Python
            continue
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            link = folder / top
            if not link.exists():
                link.symlink_to(distribution(name).locate_file(top))
    return folder


def test_training_works_from_the_wheel_without_extras(unpacked, base_packages, tmp_path):
    code = (
        f"import sys; sys.path[:0] = [{str(unpacked)!r}, {str(base_packages)!r}]\n"
        "from importlib.util import find_spec\n"
        "assert not any(map(find_spec, ['matplotlib', 'numba', 'pandas', 'ray', 'sklearn']))\n"
        "import ppadmm.cli; assert ppadmm.__path__[0].startswith(sys.path[0])\n"
        "ppadmm.cli.main()"
    )
    train = ["train", "--rounds", "2", "--json", "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, *train], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["private"]
    assert (tmp_path / "run" / "report.html").is_file()
