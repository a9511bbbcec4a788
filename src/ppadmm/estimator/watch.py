"""What else is done with the records of a fit, as far as this process can see it.

One fit with secure noise costs its ε. A search or a cross-validation fits again and again and
scores without noise; an ensemble fits again and again; a scaler before the classifier is fitted
without noise. None of that is covered by the ε of one fit, so it is refused or named:

- who called `fit`, from the call stack: scikit-learn's own modules, in this process or a worker;
- which records were trained on before in this process, from keyed hashes of the rows.
"""

import math
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import Lock
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags

from ppadmm.errors import BudgetError
from ppadmm.privacy import Budget, Tally
from ppadmm.privacy.filters import best_order, odometer
from ppadmm.privacy.protection import Protection
from ppadmm.records import HoldsRecords

Prints = NDArray[np.uint64]
MAY_CALL = ("sklearn.base", "sklearn.pipeline", "sklearn.utils")
SEARCH = (
    "fit was called by {module}: a search or a cross-validation trains on the same records many "
    "times and scores on them without noise, which no ε of one fit covers. Choose settings with "
    "ppadmm tune (ppadmm.experiments.tune), which keeps the whole search in one budget; or search "
    "on public or made-up records with random_state set; or keep the defaults, which come from "
    "public sizes."
)
OTHERS = (
    "fit was called by {module}, which may train on the same records several times or use them "
    "without noise; the ε of one fit does not cover that. Give accept_composition=True if you "
    "account for it yourself, or random_state to simulate."
)


def _frames() -> Iterator[tuple[str, FrameType]]:
    """Return the callers that belong to scikit-learn, nearest first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("sklearn."):
            yield module, frame
        frame = frame.f_back


def refuse_callers(accept_composition: bool) -> None:
    """Raise `BudgetError` if a search, or another meta-estimator, called `fit`."""
    for module, _ in _frames():
        if module.startswith("sklearn.model_selection"):
            raise BudgetError(SEARCH.format(module=module))
        if not module.startswith(MAY_CALL) and not accept_composition:
            raise BudgetError(OTHERS.format(module=module))


def fitted_steps() -> list[str]:
    """Return the names of earlier steps of the pipelines around, that learn from the records."""
    pipelines = [
        frame.f_locals["self"]
        for module, frame in _frames()
        if module == "sklearn.pipeline" and hasattr(frame.f_locals.get("self"), "steps")
    ]
    steps = [step for pipeline in pipelines for step in pipeline.steps[:-1]]
    return list(dict.fromkeys(name for name, step in steps if _learns(step)))


def _learns(step: Any) -> bool:
    """Whether a step takes anything from the records; one frozen before does not."""
    if step is None or isinstance(step, str | FrozenEstimator):
        return False
    return bool(get_tags(step).requires_fit)


@dataclass(frozen=True)
class Fit(HoldsRecords):
    """One fit with secure noise: hashes of its rows, what it cost each agent, and of what."""

    prints: Prints
    cost: tuple[Tally, ...]
    budget: Budget
    protection: Protection


@dataclass(frozen=True)
class Earlier(HoldsRecords):
    """How many of some records were trained on before, and the fits that did."""

    count: int
    fits: tuple[Fit, ...]


@dataclass
class Register(HoldsRecords):
    """The fits with secure noise of this process.

    The hashes are keyed with a secret of the process, so they say nothing outside it. Fits may
    follow from what earlier ones showed: they add up at one order, which the budget of the first
    fixes, for a total of twice its ε (docs/privacy.md, section 14).
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    fits: list[Fit] = field(default_factory=list, repr=False)
    lock: Any = field(default_factory=Lock, repr=False)

    def prints(self, X: Any) -> Prints:
        """Return 64 bits for every row (n,)."""
        return np.array([self._print(row) for row in _rows(X)], dtype=np.uint64)

    def earlier(self, prints: Prints) -> Earlier:
        """Return how many of the records were seen before, and what the fits on them cost."""
        with self.lock:
            fits = list(self.fits)
        return _among(prints, fits)

    def enter(self, fit: Fit) -> Earlier:
        """Remember a fit, and return the `earlier` ones: another thread's may have ended by now."""
        with self.lock:
            fits = list(self.fits)
            self.fits.append(fit)
        return _among(fit.prints, fits)

    def total(self, fits: Sequence[Fit]) -> Budget | None:
        """Return the ε that the loss of all fits exceeds with probability δ at most, and that δ."""
        first = self.fits[0].budget
        order = best_order(Budget(2.0 * first.epsilon, first.delta))
        found = odometer([fit.cost for fit in fits], first.delta, order)
        return Budget(found, first.delta) if math.isfinite(found) else None

    def _print(self, row: bytes) -> int:
        return int.from_bytes(blake2b(row, digest_size=8, key=self.key).digest(), "little")


def _among(prints: Prints, fits: Sequence[Fit]) -> Earlier:
    found = [(np.isin(prints, fit.prints), fit) for fit in fits]
    hit = [(rows, fit) for rows, fit in found if rows.any()]
    count = int(np.logical_or.reduce([rows for rows, _ in hit]).sum()) if hit else 0
    return Earlier(count, tuple(fit for _, fit in hit))


def _rows(X: Any) -> Iterator[bytes]:
    if not hasattr(X, "indptr"):
        yield from (row.tobytes() for row in np.ascontiguousarray(X))
        return
    for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        at, values = X.indices[start:end], X.data[start:end]
        yield at.astype(np.int64).tobytes() + values.tobytes()


REGISTER = Register()
