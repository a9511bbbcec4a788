"""Which gradient kernel is in use, and records laid out for the compiled one.

`PPADMM_KERNEL` is `auto` (default: compiled for records of some size if numba is installed),
`numba` or `numpy`. All give the same gradients to rounding.
"""

import importlib
import importlib.util
import os
from dataclasses import dataclass, fields
from functools import cache, cached_property
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np

from ppadmm import checks
from ppadmm.data.coded import Coded
from ppadmm.data.shard import Shard
from ppadmm.errors import InputError
from ppadmm.problem.losses import HuberHinge, Logistic, Loss
from ppadmm.typing import Array

VARIABLE = "PPADMM_KERNEL"
CHOICES = ("auto", "numba", "numpy")
WORTHWHILE = 500_000
"""From this many numbers (n·d) in a shard on, `auto` loads numba: that takes about half a second,
as much as two or three trainings on smaller ones save."""

ROWS = 128
"""Records in a block: their margins, and a few dozen columns, stay in the first-level cache."""

CHOICES_AT_MOST = 16
"""A number with no more different values than this is looked up, not multiplied."""

ENTRIES_AT_MOST = 512
"""Size of one table: four kilobytes, so that a few of them stay in the first-level cache."""


def use_compiled(records: Any, loss: Loss) -> bool:
    """Whether the gradient of one point runs in the compiled kernel, by the records' shape."""
    choice = checks.one_of(VARIABLE, os.environ.get(VARIABLE, "auto"), CHOICES)
    if choice == "numpy" or not _fits(records, loss):
        return False
    if choice == "numba":
        _require_numba()
        return True
    return records.shape[0] * records.shape[1] >= WORTHWHILE and has_numba()


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
    """Import the compiled kernels."""
    return importlib.import_module("ppadmm.problem.compiled")


@dataclass(frozen=True)
class Packed:
    """Coded records v = scale·z in blocks of `ROWS`, column by column within a block.

    A column with few different values (a one-hot group, a number that is 0 or 1) is a digit, and
    several digits make up one code: what they add to a margin is looked up in a table that is
    filled once per point, and their gradient is read off sums per code. The other columns stay
    numbers. Nothing is rounded: z is the same to the last bit. The label's sign is part of `scale`;
    the last block is filled up with scale = 0.

    numeric (b, p, B), codes (b, G, B), scale (b, B); `places` (p,) says which features the
    numbers are, `digits`, `features` and `values` what a code stands for (see `compiled.filled`).
    """

    numeric: Any
    codes: Any
    scale: Any
    digits: Any
    features: Any
    values: Any
    entries: int
    places: Any

    @classmethod
    def of(cls, X: Coded, factors: Array) -> "Packed":
        """Lay out diag(factors)·X."""
        digits, rest = _digits(X)
        return cls(
            numeric=_blocks(X.numeric[:, rest]),
            scale=_blocks((factors * X.scale)[:, None])[:, 0],
            places=rest,
            **_joined(digits, len(X)),
        )

    @classmethod
    def kept(cls, shard: Shard) -> "Packed":
        """Lay out a shard's records once, for all runs that use it."""
        kept: Packed | None = vars(shard).get("_packed")
        if kept is None:
            kept = cls.of(cast(Coded, shard.X), shard.y)
            vars(shard)["_packed"] = kept
        return kept

    @property
    def nbytes(self) -> int:
        """Bytes that one gradient reads."""
        return int(self.numeric.nbytes + self.codes.nbytes + self.scale.nbytes)

    def gradient(self, theta: Array, loss: Loss) -> Array:
        """Σ ℓ'(θᵀv)·v over the records, reading them once; (d,) → (d,)."""
        gradient: Array = compiled().gradient(*self.records, theta, width_of(loss))
        return gradient

    @cached_property
    def records(self) -> tuple[Any, ...]:
        """All fields, in the order in which the compiled functions take them."""
        return tuple(getattr(self, field.name) for field in fields(self))


def width_of(loss: Loss) -> float:
    """Return the width of a Huber hinge; 0 stands for the logistic loss."""
    return loss.width if isinstance(loss, HuberHinge) else 0.0


def weighted_gram(X: Coded, weights: Array) -> Array:
    """Xᵀ diag(w) X for w ≥ 0, (n, d) → (d, d): products of numbers, and sums over categories."""
    p, d, w = X.numeric.shape[1], X.d, weights * X.scale * X.scale
    H = np.zeros((d + 1, d + 1))
    half = np.sqrt(np.maximum(w, 0.0))[:, None] * X.numeric
    H[:p, :p] = half.T @ half  # of a matrix with itself: half the work
    H[:p, d - 1], H[d - 1, d - 1] = w @ X.numeric, w.sum()
    compiled().add_category_gram(X.numeric, X.codes, w, H)
    upper = np.triu(H[:d, :d])
    return np.asarray(upper + np.triu(upper, 1).T)


class Digit(NamedTuple):
    """A column with few different values: which one each record has (n,).

    Choice v adds values[v] at feature features[v].
    """

    chosen: Any
    features: Any
    values: Any


def _digits(X: Coded) -> tuple[list[Digit], Any]:
    """Split columns into digits and those that stay numbers, by how many values they have."""
    digits, rest = [Digit(np.zeros(len(X), np.int64), np.array([X.d - 1]), np.ones(1))], []
    for j, column in enumerate(np.ascontiguousarray(X.numeric.T)):
        found, chosen = np.empty(CHOICES_AT_MOST), np.empty(len(X), np.int64)
        count = compiled().choices_of(column, found, chosen)
        if count < 0:
            rest.append(j)
        else:
            digits.append(Digit(chosen, np.full(count, j), found[:count]))
    digits += [_group(codes.astype(np.int64), X.d) for codes in X.codes.T]
    return digits, np.array(rest, dtype=np.intp)


def _group(codes: Any, d: int) -> Digit:
    """Return a one-hot group as a digit; a missing value, code d, is the last choice."""
    present = codes[codes < d]
    low, high = (int(present.min()), int(present.max())) if len(present) else (d, d - 1)
    features = np.append(np.arange(low, high + 1), d)
    return Digit(np.minimum(codes - low, high + 1 - low), features, (features < d) * 1.0)


def _joined(digits: list[Digit], n: int) -> dict[str, Any]:
    """Join digits to codes whose tables stay small next to the records: first fit decreasing."""
    limit = min(max(n // 8, 16), ENTRIES_AT_MOST)
    tables: list[list[Digit]] = []
    for digit in sorted(digits, key=lambda digit: -len(digit.values)):
        fits = (t for t in tables if prod(len(o.values) for o in (*t, digit)) <= limit)
        if (table := next(fits, None)) is None:
            tables.append([digit])
        else:
            table.append(digit)
    rows, codes, start, first = [], np.empty((n, len(tables)), np.uint32), 0, 0
    for k, table in enumerate(tables):
        code, size = np.full(n, start), 1
        for digit in table:
            rows.append((start, size, len(digit.values), first))
            code += digit.chosen * size
            size, first = size * len(digit.values), first + len(digit.values)
        codes[:, k] = code
        start += size
    ordered = [digit for table in tables for digit in table]
    small = np.uint16 if start <= 2**16 else np.uint32
    return {
        "codes": _blocks(codes.astype(small)),
        "digits": np.array(rows),
        "features": np.concatenate([digit.features for digit in ordered]),
        "values": np.concatenate([digit.values for digit in ordered]),
        "entries": start,
    }


def _blocks(columns: Any) -> Any:
    """(n, p) → (⌈n/B⌉, p, B), the last block filled up with 0."""
    n, p = columns.shape
    count = -(-n // ROWS)
    padded = np.zeros((count * ROWS, p), dtype=columns.dtype)
    padded[:n] = columns
    return np.ascontiguousarray(padded.reshape(count, ROWS, p).transpose(0, 2, 1))
