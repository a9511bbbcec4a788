"""Which sampler is in use.

`PPADMM_NOISE` is `exact` (default) or `opendp`. `PPADMM_KERNEL` (see `ppadmm.problem.kernels`) says
whether the exact one is compiled; both ways give the same numbers from the same words.
"""

import importlib
import importlib.util
import os
import sys
from functools import cache
from typing import Any

from ppadmm import checks
from ppadmm.sampling import vectorised

VARIABLE = "PPADMM_NOISE"
CHOICES = ("exact", "opendp")
KERNEL = "PPADMM_KERNEL"
WORTHWHILE = 400_000
"""From this many numbers on, `auto` loads numba if nobody else did: it takes as long as NumPy takes
longer for these."""

WORDS = {"exact": "exact sampler, secure", "opendp": "OpenDP, secure"}
"""What statements say of each choice."""


def sampler() -> str:
    """Return the choice."""
    return checks.one_of(VARIABLE, os.environ.get(VARIABLE, "exact"), CHOICES)


def in_words() -> str:
    """Return where secure noise comes from, for statements."""
    return WORDS[sampler()]


def kernels(drawn: int) -> Any:
    """Return the module that draws, after so many numbers: `compiled` or `vectorised`."""
    return (_compiled() if _compile(drawn) else None) or vectorised


def loads(expected: int) -> bool:
    """Whether so many numbers will make `auto` load numba, which nobody else did."""
    return "numba" not in sys.modules and _compile(expected)


@cache
def _compiled() -> Any:
    try:
        return importlib.import_module("ppadmm.sampling.compiled")
    except ImportError:  # a numba that cannot be loaded must not end a run that was paid for
        return None


def _compile(drawn: int) -> bool:
    kernel = os.environ.get(KERNEL)
    if kernel == "numpy" or not _has_numba():
        return False
    return kernel == "numba" or drawn >= WORTHWHILE or "numba" in sys.modules


@cache
def _has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None
