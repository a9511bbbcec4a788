"""Decentralised training of linear classifiers with proven differential privacy.

from ppadmm import RunSpec, train
result = train(RunSpec(data="synthetic", epsilon=1.0))
print(result.statement.text())
"""

from typing import TYPE_CHECKING, Any

from ppadmm.errors import InputError, PpadmmError, PrivacyWarning

if TYPE_CHECKING:
    from ppadmm.estimator import (
        PrivateAdditiveClassifier,
        PrivateLinearSVC,
        PrivateLogisticRegression,
    )
    from ppadmm.runs.run import Result, train
    from ppadmm.runs.specification import RunSpec

__version__ = "0.2.0"

_HOMES = {
    "PrivateAdditiveClassifier": "ppadmm.estimator",
    "PrivateLinearSVC": "ppadmm.estimator",
    "PrivateLogisticRegression": "ppadmm.estimator",
    "RunSpec": "ppadmm.runs.specification",
    "Result": "ppadmm.runs.run",
    "train": "ppadmm.runs.run",
}

__all__ = [
    "PpadmmError",
    "PrivacyWarning",
    "PrivateAdditiveClassifier",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "Result",
    "RunSpec",
    "__version__",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so that `import ppadmm` stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'ppadmm' has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "sklearn":
            raise
        raise InputError(
            f"{name} needs scikit-learn; install it with: pip install 'ppadmm[sklearn]'."
        ) from None


def __dir__() -> list[str]:
    return sorted(__all__)
