"""What else is done with the records of a fit, as far as this process can see it.

One fit with secure noise costs its ε. A search or a cross-validation fits again and again and
scores without noise; an ensemble fits again and again; a scaler before the classifier is fitted
without noise. None of that is covered by the ε of one fit, so it is refused or named:

- who called `fit`, from the call stack: scikit-learn's own modules, in this process or a worker;
- which records were trained on before in this process, from keyed hashes of the rows.
"""

import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import Lock
from types import FrameType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags

from ppadmm.errors import BudgetError
from ppadmm.privacy import Tally

Prints = NDArray[np.uint64]
Cost: TypeAlias = tuple[Tally, ...]
Earlier: TypeAlias = tuple[int, list[Cost]]
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


@dataclass
class Register:
    """The fits with secure noise of this process: hashes of their rows, and what each cost.

    The hashes are keyed with a secret of the process, so they say nothing outside it.
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    fits: list[tuple[Prints, Cost]] = field(default_factory=list)
    lock: Any = field(default_factory=Lock, repr=False)

    def prints(self, X: Any) -> Prints:
        """Return 64 bits for every row (n,)."""
        return np.array([self._print(row) for row in _rows(X)], dtype=np.uint64)

    def earlier(self, prints: Prints) -> Earlier:
        """Return how many of the records were seen before, and what the fits on them cost."""
        with self.lock:
            fits = list(self.fits)
        return _among(prints, fits)

    def enter(self, prints: Prints, cost: Sequence[Tally]) -> Earlier:
        """Remember a fit, and return the `earlier` ones: another thread's may have ended by now."""
        with self.lock:
            fits = list(self.fits)
            self.fits.append((np.unique(prints), tuple(cost)))
        return _among(prints, fits)

    def _print(self, row: bytes) -> int:
        return int.from_bytes(blake2b(row, digest_size=8, key=self.key).digest(), "little")


def _among(prints: Prints, fits: Sequence[tuple[Prints, Cost]]) -> Earlier:
    found = [(np.isin(prints, seen), cost) for seen, cost in fits]
    hit = [(rows, cost) for rows, cost in found if rows.any()]
    count = int(np.logical_or.reduce([rows for rows, _ in hit]).sum()) if hit else 0
    return count, [cost for _, cost in hit]


def _rows(X: Any) -> Iterator[bytes]:
    if not hasattr(X, "indptr"):
        yield from (row.tobytes() for row in np.ascontiguousarray(X))
        return
    for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        at, values = X.indices[start:end], X.data[start:end]
        yield at.astype(np.int64).tobytes() + values.tobytes()


REGISTER = Register()
