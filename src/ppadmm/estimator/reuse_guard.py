"""What else is done with the records of a fit, as far as this process can see it.

None of that is covered by the ε of one fit, so it is refused or named (docs/scikit-learn.md): who
called `fit`, from the call stack; what pipelines did before (`ppadmm.estimator.steps`); and which
records were trained on before in this process, from keyed hashes of the rows.
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
from sklearn.pipeline import Pipeline

from ppadmm.accounting import Budget, Tally
from ppadmm.accounting.filters import best_order, odometer
from ppadmm.accounting.protection import Protection
from ppadmm.errors import BudgetError
from ppadmm.estimator.steps import reasons_of
from ppadmm.records import HoldsRecords

Prints = NDArray[np.uint64]
MAY_CALL = ("sklearn.base", "sklearn.pipeline", "sklearn.utils")
SEARCH = (
    "fit was called by {module}: a search or a cross-validation trains on the same records many "
    "times and scores on them without noise, which no ε of one fit covers. Choose settings with "
    "ppadmm tune (ppadmm.studies.tune), which keeps the whole search in one budget; or search "
    "on public or made-up records with random_state set; or keep the defaults, which come from "
    "public sizes."
)
OTHERS = (
    "fit was called by {module}, which may train on the same records several times or use them "
    "without noise; the ε of one fit does not cover that. Give accept_composition=True to go on, "
    "marked NOT private, or random_state to simulate."
)
CHOSEN = (
    "fit was called by {module}, which may choose or make the rows of a fit from all records (fit "
    "the classifier by itself)"
)


def _frames(package: str = "sklearn.") -> Iterator[tuple[str, FrameType]]:
    """Return the callers that belong to scikit-learn, nearest first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(package):
            yield module, frame
        frame = frame.f_back


def refuse_callers(accept_composition: bool) -> None:
    """Raise `BudgetError` if a search, or another meta-estimator, called `fit`."""
    for module, _ in _frames():
        if module.startswith("sklearn.model_selection"):
            raise BudgetError(SEARCH.format(module=module))
        if _is_other(module) and not accept_composition:
            raise BudgetError(OTHERS.format(module=module))


def not_private_because(secret: bool) -> list[str]:
    """Return what the callers did to the records, or may have done, that no noise covers.

    Of a simulation, which is not `secret`, only what pipelines did: it may be called by anyone.
    """
    owners = [frame.f_locals.get("self") for _, frame in _frames("")]
    around = [owner for owner in owners if isinstance(owner, Pipeline)]
    reasons = [why for pipeline in around for why in reasons_of(pipeline)]
    if secret:
        reasons += [CHOSEN.format(module=module) for module, _ in _frames() if _is_other(module)]
    return list(dict.fromkeys(reasons))


def _is_other(module: str) -> bool:
    return not module.startswith(MAY_CALL)


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
        hashes = (blake2b(row, digest_size=8, key=self.key).digest() for row in _rows(X))
        return np.frombuffer(b"".join(hashes), dtype="<u8")

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


def _among(prints: Prints, fits: Sequence[Fit]) -> Earlier:
    hit = tuple(fit for fit in fits if np.isin(prints, fit.prints).any())
    seen = np.concatenate([fit.prints for fit in hit] or [prints[:0]])
    return Earlier(int(np.isin(prints, seen).sum()), hit)


def _rows(X: Any) -> Iterator[bytes]:
    if not hasattr(X, "indptr"):
        yield from (row.tobytes() for row in np.ascontiguousarray(X))
        return
    for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        at, values = X.indices[start:end], X.data[start:end]
        yield at.astype(np.int64).tobytes() + values.tobytes()


REGISTER = Register()
