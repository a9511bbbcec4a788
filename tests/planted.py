"""Records that are known again wherever they turn up: in a text, in bytes, within an object."""

import contextlib
import gc
import pickle
import re
import sys
from collections import deque
from functools import cached_property, partial
from pprint import pformat
from types import FunctionType, MethodType

import numpy as np
import pyarrow as pa
from rich.pretty import pretty_repr

from ppadmm.data import Categorical, Label, Numeric, Schema
from ppadmm.data.coded import Coded
from ppadmm.datasets import load

try:
    from IPython.lib.pretty import pretty
except ImportError:
    pretty = None

NAME = "Zebulon"
"""Everybody's first name, in a column that no schema lists."""
SCHEMA = Schema(
    columns=(
        Numeric("age", 0, 130, shape="line"),
        Numeric("dose", 0, 2),
        Categorical("sex", ("f", "m")),
    ),
    label=Label("ill", ("yes",), ("no",)),
)
CONTAINERS = (dict, list, tuple, set, frozenset, deque, partial)
NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?")


def planted_table(n=90, seed=0):
    """Cells with all the digits that a double has."""
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(20, 90, n), rng.uniform(0.3, 1.7, n)
    return pa.table(
        {
            "name": [f"{NAME}-{i}" for i in range(n)],
            "age": age,
            "dose": dose,
            "sex": rng.choice(["f", "m"], n),
            "ill": np.where(age + 40 * dose > 95 + rng.normal(0, 10, n), "yes", "no"),
        }
    )


def planted(n=90, seed=0):
    """Return the same as a data set."""
    return load(planted_table(n, seed), schema=SCHEMA)


class Secrets:
    """Numbers, sequences of labels and texts that must not be seen."""

    def __init__(self, numbers=(), labels=(), texts=(NAME,)):
        self.numbers = [np.ravel(np.asarray(part, dtype=np.float64)) for part in numbers]
        self.labels = [np.asarray(part, dtype=np.float64) for part in labels]
        self.texts = list(texts)

    @classmethod
    def of(cls, *datasets):
        found = cls()
        for data in datasets:
            found.add(data.X, data.y)
            if data.table is not None:
                found.numbers += [np.asarray(data.table["age"]), np.asarray(data.table["dose"])]
        return found

    def add(self, X, y=None):
        """Hide these rows, too."""
        if isinstance(X, Coded):
            self.numbers += [X.numeric.ravel(), X.scale.ravel()]
        self.numbers.append(np.ravel(X.toarray() if hasattr(X, "toarray") else np.asarray(X)))
        if y is not None and len(y) >= 16:
            self.labels.append(np.asarray(y, dtype=np.float64))

    @cached_property
    def _known(self):
        """Every number with both signs, but for those that anything may hold."""
        some = np.abs(np.concatenate(self.numbers))
        some = some[(some > 1e-9) & (some * 64 != np.round(some * 64))]
        return np.unique(np.concatenate([some, -some]))

    def in_text(self, text):
        """Return what of it a text shows."""
        found = [secret for secret in self.texts if secret in text]
        tokens = NUMBER.findall(text)
        seen = np.array([float(token) for token in tokens if len(token) > 6])
        found += [str(value) for value in seen[np.isfinite(seen)] if self._is_near(value)]
        spelt = "".join(f" {float(token):g}" for token in tokens if len(token) < 6)
        return found + [f"labels{run}" for run in self._runs() if run in spelt]

    def in_bytes(self, data):
        """Return what of it bytes hold, as doubles or singles at any place, or as text."""
        found = [secret for secret in self.texts if secret.encode() in data]
        for kind, width, least in (("<f8", 8, 1), (">f8", 8, 1), ("<f4", 4, 3)):
            known = np.unique(self._known.astype(kind))
            hits = set()
            for k in range(width):
                words = np.frombuffer(data, kind, (len(data) - k) // width, k)
                hits |= set(words[np.isin(words, known)].tolist())
            found += [str(hit) for hit in hits] if len(hits) >= least else []
        whole = [(y, kind) for y in self.labels for kind in ("<f8", "<f4", "<i8", "<i4", "i1")]
        return found + [f"labels as {k}" for y, k in whole if y[:24].astype(k).tobytes() in data]

    def _runs(self):
        return ["".join(f" {value:g}" for value in y[:24]) for y in self.labels]

    def _is_near(self, value):
        at = np.searchsorted(self._known, value)
        near = self._known[max(at - 1, 0) : at + 1]
        return bool((np.abs(near - value) <= 1e-12 * abs(value)).any())


def texts_of(thing):
    """Return all that Python, a log or a notebook would show of a thing."""
    with np.printoptions(precision=17, threshold=sys.maxsize):
        shown = [repr(thing), str(thing), f"{thing}", pformat(thing), pretty_repr(thing)]
        shown += [pretty(thing)] if pretty else []
        for name in ("_repr_html_", "_repr_markdown_", "_repr_mimebundle_"):
            method = getattr(thing, name, None)
            shown += [str(method())] if callable(method) else []
    return "\n".join(shown)


def pickled(thing):
    """Return the bytes of a careless pickle, or None if there is none."""
    with contextlib.suppress(TypeError, AttributeError, pickle.PicklingError):
        return pickle.dumps(thing)
    return None


def within(*roots):
    """Return every object of ours that can be reached from `roots`."""
    seen, left, found = {}, list(roots), []
    while left:
        thing = left.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen[id(thing)] = thing
        if type(thing).__module__.startswith("ppadmm"):
            found.append(thing)
            left += gc.get_referents(thing)
        else:
            left += _parts(thing)
    return found


def _parts(thing):
    if isinstance(thing, FunctionType):
        return [cell.cell_contents for cell in thing.__closure__ or () if _is_full(cell)]
    if isinstance(thing, MethodType):
        return [thing.__self__]
    return gc.get_referents(thing) if isinstance(thing, CONTAINERS) else []


def _is_full(cell):
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
