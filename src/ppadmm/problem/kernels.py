"""Which gradient kernel is in use.

`PPADMM_KERNEL` is `auto` (default: compiled for records of some size if numba is installed),
`numba` or `numpy`. All give the same gradients to rounding.
"""

import importlib
import importlib.util
import logging
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ppadmm import checks
from ppadmm.arrays import Array
from ppadmm.data.coded import Coded
from ppadmm.errors import InputError
from ppadmm.problem.losses import HuberHinge, Logistic, Loss, MarginLoss

LOG = logging.getLogger(__name__)
VARIABLE = "PPADMM_KERNEL"
CHOICES = ("auto", "numba", "numpy")
WORTHWHILE = 500_000
"""From this many numbers (n·d) in all shards on, `auto` loads numba: that takes about half a
second, as much as two or three trainings on smaller ones save."""

WRITTEN_OUT_UP_TO = 200
"""Records with more features are not written out: sums over categories take less time."""

WRITTEN_OUT = 25_000
"""Numbers in a block of records that a weighted Gram matrix writes out."""


def use_compiled(records: Any, loss: Loss, beside: int = 0) -> bool:
    """Whether the gradient of one point runs in the compiled kernel, by the records' shape.

    `beside` counts the numbers in other shards of this process.
    """
    choice = checks.one_of(VARIABLE, os.environ.get(VARIABLE, "auto"), CHOICES)
    if choice == "numpy" or not _fits(records, loss):
        return False
    if choice == "numba":
        _require_numba()
        return True
    return records.shape[0] * records.shape[1] + beside >= WORTHWHILE and has_numba()


def _fits(records: Any, loss: Loss) -> bool:
    """Whether there is a kernel: for a loss of one margin and coded records."""
    return type(loss) in (Logistic, HuberHinge) and isinstance(records, Coded)


def _require_numba() -> None:
    if not has_numba():
        raise InputError(
            f"{VARIABLE} is 'numba', but numba is not installed; install ppadmm[fast] or unset it."
        )


@cache
def has_numba() -> bool:
    """Whether numba can be imported; does not import it."""
    return importlib.util.find_spec("numba") is not None


@cache
def compiled() -> Any:
    """Import the compiled kernels, and say so if they must be compiled first."""
    module = importlib.import_module("ppadmm.problem.compiled")
    if not _is_on_disk(module.advance):
        LOG.warning("Compiling for this machine: half a minute, at the first use only.")
    return module


def _is_on_disk(function: Any) -> bool:
    """Whether numba has kept machine code of a function."""
    folder = getattr(getattr(function, "_cache", None), "cache_path", None)
    return folder is not None and any(Path(folder).glob(f"*.{function.__name__}-*.nbi"))


@cache
def layout() -> Any:
    """Import what lays records out for them."""
    return importlib.import_module("ppadmm.problem.layout")


def width_of(loss: Loss) -> float:
    """Return the width of a Huber hinge; 0 stands for the logistic loss."""
    return loss.width if isinstance(loss, HuberHinge) else 0.0


def hessian(X: Coded, y: Array, theta: Array, loss: MarginLoss, single: bool, every: int) -> Array:
    """(1/n) Σ ℓ''(θᵀv)·vvᵀ over every k-th record; (d,) → (d, d)."""
    factors = (y * X.scale)[::every]
    margins = np.empty(len(factors))
    layout().margins(_rows(X), factors, np.append(theta, 0.0), every, margins)
    return weighted_gram(X, loss.curvature(margins), single, every) / len(factors)


def weighted_gram(X: Coded, weights: Array, single: bool = False, every: int = 1) -> Array:
    """Xᵀ diag(w) X for w ≥ 0 over every k-th record, (d, d): a few are written out at once."""
    if X.d > WRITTEN_OUT_UP_TO:
        return X[::every].weighted_gram(weights).astype(np.float64)
    factors = np.sqrt(weights) * X.scale[::every]
    gram = np.zeros((X.d, X.d))
    rows = max(WRITTEN_OUT // X.d, 16)
    block = np.empty((rows, X.d), np.float32 if single else np.float64)
    for start in range(0, len(factors), rows):
        some = block[: len(factors) - start]
        layout().write_out(_rows(X), factors, start, every, some)
        gram += some.T @ some  # of a matrix with itself: half the work
    return gram


def _rows(X: Coded) -> tuple[Any, ...]:
    """Return the records as the compiled functions of `layout` take them."""
    return X.numeric, X.codes, X.knots, X.weights
