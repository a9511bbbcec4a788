import subprocess
import sys

import pytest

import ppadmm


def test_the_public_names_are_fixed():
    assert set(ppadmm.__all__) == {
        "PpadmmError",
        "PrivacyWarning",
        "PrivateAdditiveClassifier",
        "PrivateLinearSVC",
        "PrivateLogisticRegression",
        "Result",
        "RunSpec",
        "__version__",
        "train",
    }
    for name in ppadmm.__all__:
        assert getattr(ppadmm, name) is not None
    assert dir(ppadmm) == sorted(ppadmm.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ppadmm.nothing


HEAVY = (
    "cryptography", "dp_accounting", "matplotlib", "mlflow", "networkx", "numba", "numpy", "opendp",
    "pandas", "polars", "pyarrow", "ray", "rich", "scipy", "sklearn", "typer", "zenoh",
)  # fmt: skip


def imported_by(code):
    """Return which of the packages that take their time are imported after `code`."""
    code = f"{code}; import sys; print(*[m for m in {HEAVY} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(found.stdout.split())


def test_importing_the_package_imports_nothing_heavy():
    assert imported_by("import ppadmm") == set()
    assert imported_by("import ppadmm; dir(ppadmm)") == set()


def test_the_names_import_no_extra_but_their_own():
    extras = {"matplotlib", "mlflow", "numba", "ray", "zenoh"}
    assert not imported_by("from ppadmm import RunSpec, train") & {*extras, "pandas", "sklearn"}
    assert not imported_by("from ppadmm import PrivateLinearSVC") & extras


def test_the_help_of_the_command_line_imports_nothing_of_a_run():
    assert imported_by("import ppadmm.cli") <= {"typer", "rich"}


def test_a_run_in_three_lines():
    result = ppadmm.train(ppadmm.RunSpec(rounds=2, agents=3, epsilon=2.0))
    assert result.statement.private
    assert result.statement.epsilon <= 2.0
