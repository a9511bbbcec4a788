import subprocess
import sys

import pytest

import ppadmm


def test_the_public_names_are_fixed():
    assert set(ppadmm.__all__) == {
        "PpadmmError",
        "PrivacyWarning",
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


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys, ppadmm; print([m for m in ('numpy', 'scipy', 'opendp') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_run_in_three_lines():
    result = ppadmm.train(ppadmm.RunSpec(rounds=2, agents=3, epsilon=2.0))
    assert result.statement.private
    assert result.statement.epsilon <= 2.0
