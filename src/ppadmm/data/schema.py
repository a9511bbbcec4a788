"""What the organisations agree on before they look at their data: columns, bounds, classes.

A schema is public. Encoding a record uses the record and the schema and nothing else, so bounds
and categories leak nothing as long as they were not read off private data (`confirmed`).
"""

import json
import math
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ppadmm import canonical
from ppadmm.data.coded import Coded
from ppadmm.data.columns import column, numbers
from ppadmm.data.encode import (
    SHRINK,
    assemble,
    category_codes,
    label_codes,
    normalise_rows,
    unit_interval,
)
from ppadmm.data.shard import Matrix, Vector
from ppadmm.data.tables import as_table
from ppadmm.errors import DataError
from ppadmm.files import require_format

FORMAT = 1
"""Of schema files; the digest is of what a schema says, not of how the file spells it."""
INTERCEPT = "intercept"
MISSING = ("", "?")
SPARSE_BELOW, SPARSE_ABOVE = 0.1, 200

Slot: TypeAlias = tuple[NDArray[np.int64], Vector]
"""Where a column's one entry of each row stands within its group (n,), and its value (n,)."""


@dataclass(frozen=True)
class Numeric:
    """A number with public bounds: clipped to [low, high], then mapped to [0, 1].

    linear: (x − low)/(high − low);  log: log1p(x − low)/log1p(high − low);  signed: to [−1, 1],
    x/max(|low|, |high|), or the distance from the bound next to 0 over the span.  Missing is 0.
    """

    name: str
    low: float
    high: float
    scale: Literal["linear", "log", "signed"] = "linear"

    def __post_init__(self) -> None:
        _check_name(self.name)
        object.__setattr__(self, "low", _bound(self.name, "low", self.low))
        object.__setattr__(self, "high", _bound(self.name, "high", self.high))
        if self.low > self.high:
            raise DataError(
                f"Column {self.name!r}: expected low ≤ high, got {self.low} and {self.high}."
            )
        if not math.isfinite(self.high - self.low):
            raise DataError(
                f"Column {self.name!r}: the bounds {self.low} and {self.high} are too far apart "
                "for a computer's numbers; give closer ones."
            )
        if self.scale not in ("linear", "log", "signed"):
            raise DataError(
                f"Column {self.name!r}: unknown scale {self.scale!r}; choose linear, log or signed."
            )

    width = 1

    @property
    def features(self) -> tuple[str, ...]:
        """The one feature's name."""
        return (self.name,)

    def slot(self, table: Any, missing: tuple[str, ...]) -> Slot:
        """Place 0 and the value in [0, 1]."""
        x, present = numbers(column(table, self.name), self.name, missing)
        values = np.where(present, unit_interval(x, self.low, self.high, self.scale), 0.0)
        return np.zeros(len(x), dtype=np.int64), values


@dataclass(frozen=True)
class Categorical:
    """One of a public list of categories, one-hot; missing is all zeros."""

    name: str
    categories: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_name(self.name)
        categories = _strings(f"Column {self.name!r}: categories", self.categories)
        object.__setattr__(self, "categories", categories)

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.categories)

    @property
    def features(self) -> tuple[str, ...]:
        """One name per category: column=category."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    def slot(self, table: Any, missing: tuple[str, ...]) -> Slot:
        """Return the place of the category, and 1 (0 if missing)."""
        codes, present = category_codes(
            column(table, self.name), self.name, self.categories, missing
        )
        return codes, present.astype(np.float64)


Column: TypeAlias = Numeric | Categorical


@dataclass(frozen=True)
class Label:
    """The column to predict: +1 for the texts in `positive`, −1 for those in `negative`."""

    name: str
    positive: tuple[str, ...]
    negative: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_name(self.name)
        for side in ("positive", "negative"):
            values = _strings(f"Label {self.name!r}: {side}", getattr(self, side))
            object.__setattr__(self, side, values)
        if both := set(self.positive) & set(self.negative):
            raise DataError(f"Label {self.name!r}: {min(both)!r} is both positive and negative.")

    @property
    def names(self) -> tuple[str, ...]:
        """What the two classes are called, the negative one first."""
        return (" or ".join(self.negative), " or ".join(self.positive))

    def encode(self, cells: Any, missing: tuple[str, ...]) -> Vector:
        """Return y (n,) in {−1, +1}."""
        texts, signs = self.negative + self.positive, [-1] * len(self.negative)
        signs += [1] * len(self.positive)
        return np.array(signs, dtype=np.float64)[
            label_codes(cells, self.name, texts, missing, alike=signs)
        ]


@dataclass(frozen=True)
class Classes:
    """The column to predict, with three or more classes: class k is the text `classes[k]`."""

    name: str
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_name(self.name)
        values = _strings(f"Label {self.name!r}: classes", self.classes)
        if len(values) < 3:
            raise DataError(
                f"Label {self.name!r}: expected three or more classes, got {len(values)}; say "
                "which of two is positive and which negative instead."
            )
        object.__setattr__(self, "classes", values)

    @property
    def names(self) -> tuple[str, ...]:
        """What the classes are called."""
        return self.classes

    def encode(self, cells: Any, missing: tuple[str, ...]) -> Vector:
        """Return y (n,) in {0, …, K−1}."""
        return label_codes(cells, self.name, self.classes, missing).astype(np.float64)


Target: TypeAlias = Label | Classes


@dataclass(frozen=True)
class Schema:
    """Columns, label and missing markers that all organisations share.

    Rows are laid out as numeric columns, then one-hot groups, then the intercept, and scaled to
    unit norm.

    Guarantees
    ----------
    Row i of `encode` depends on record i and this schema alone, and has norm ≤ 1. `confirmed`
    says that a person declared the bounds and categories to be public; where it is False they
    were read off the data, and no run that uses them is private.

    Parameters
    ----------
    columns : tuple of Numeric or Categorical
        The features; other columns of a table are ignored.
    label : Label or Classes
        The column to predict, with two classes or more.
    missing : tuple of str
        Cells that count as missing, in every column. They encode as zero.
    confirmed : bool
        Whether a person declared all of this to be public.
    agents : tuple of Categorical
        Columns that are no features, but whose public values may name the agents: the hospital,
        state or year that a record belongs to.

    Examples
    --------
    >>> schema = Schema((Numeric("age", 0, 100),), Label("ill", ("yes",), ("no",)))
    >>> X, y = schema.encode({"age": [50, 75], "ill": ["no", "yes"]})
    >>> X.shape, y.tolist(), schema.feature_names
    ((2, 2), [-1.0, 1.0], ('age', 'intercept'))
    """

    columns: tuple[Column, ...]
    label: Target
    missing: tuple[str, ...] = MISSING
    confirmed: bool = True
    agents: tuple[Categorical, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "missing", _strings("missing", self.missing, at_least=0))
        if not self.columns:
            raise DataError("Expected at least one column besides the label.")
        object.__setattr__(self, "agents", tuple(self.agents))
        names = [c.name for c in (*self.columns, *self.agents)] + [self.label.name]
        if (twice := _repeated(names)) is not None:
            raise DataError(f"Column {twice!r} is listed twice (the label counts); remove one.")
        if not isinstance(self.confirmed, bool):
            raise DataError(f"Expected confirmed to be true or false, got {self.confirmed!r}.")

    @property
    def layout(self) -> tuple[Column, ...]:
        """Columns in the order of the features: numeric ones first."""
        return tuple(sorted(self.columns, key=lambda c: isinstance(c, Categorical)))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the d features, the intercept last."""
        return (*(name for c in self.layout for name in c.features), INTERCEPT)

    @property
    def dimension(self) -> int:
        """Number of features d, the intercept included."""
        return sum(c.width for c in self.columns) + 1

    def public_values(self, name: str) -> tuple[str, ...] | None:
        """Return the public list of a column's values, or None where the schema has none."""
        lists = {c.name: c.categories for c in self.columns if isinstance(c, Categorical)}
        return (lists | {c.name: c.categories for c in self.agents}).get(name)

    def is_sparse(self) -> bool:
        """Whether `auto` means CSR; from the schema alone, so that all organisations agree."""
        density = (len(self.columns) + 1) / self.dimension
        return density < SPARSE_BELOW and self.dimension > SPARSE_ABOVE

    def encode(
        self, table: object, *, sparse: bool | Literal["auto"] = "auto"
    ) -> tuple[Matrix, Vector]:
        """Return X (n, d) with ‖xᵢ‖ ≤ 1 and y (n,); other columns are ignored."""
        arrow = as_table(table)
        return self.encode_features(arrow, sparse=sparse), self.encode_label(arrow)

    def encode_features(self, table: object, *, sparse: bool | Literal["auto"] = "auto") -> Matrix:
        """Return X (n, d) with ‖xᵢ‖ ≤ 1; the table needs no label."""
        arrow = as_table(table)
        slots = [c.slot(arrow, self.missing) for c in self.layout]
        ones = np.ones(arrow.num_rows)
        starts = np.cumsum([0] + [c.width for c in self.layout])
        places = np.column_stack([p for p, _ in slots] + [np.zeros(len(ones), dtype=np.int64)])
        values = np.column_stack([v for _, v in slots] + [ones])
        as_csr = self.is_sparse() if sparse == "auto" else sparse
        return normalise_rows(assemble(places + starts, values, self.dimension, as_csr))

    def encode_coded(self, table: object) -> Coded:
        """Return the same X with one-hot groups kept as codes; equal to rounding."""
        arrow = as_table(table)
        n, d, layout = arrow.num_rows, self.dimension, self.layout
        slots = [c.slot(arrow, self.missing) for c in layout]
        numeric = [value for c, (_, value) in zip(layout, slots, strict=True) if _is_numeric(c)]
        starts = np.cumsum([0] + [c.width for c in layout])
        codes = [
            np.where(value > 0.0, place + start, d)
            for c, (place, value), start in zip(layout, slots, starts, strict=False)
            if not _is_numeric(c)
        ]
        return Coded.of(_columns(numeric, n, float), _columns(codes, n, int), d, SHRINK)

    def encode_label(self, table: object) -> Vector:
        """Return y (n,): −1 and +1 for two classes, 0 … K−1 for more."""
        return self.label.encode(column(as_table(table), self.label.name), self.missing)

    @property
    def classes(self) -> int:
        """The number of classes K."""
        return len(self.label.names)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `from_dict` reads them and TOML spells them."""
        return {
            "confirmed": self.confirmed,
            "missing": list(self.missing),
            "label": _plain(self.label),
            "columns": [_plain(c) for c in self.columns],
            **({"agents": [_plain(c) for c in self.agents]} if self.agents else {}),
        }

    def to_toml(self) -> str:
        """Return the text of a schema file, for a person to check and confirm."""
        # Strings, numbers, truth values and lists of strings are spelt alike in JSON and TOML.
        lines = [
            f"format = {FORMAT}",
            f"confirmed = {spelt(self.confirmed)}",
            f"missing = {spelt(self.missing)}",
            *toml_table("[label]", self.label),
        ]
        for c in self.columns:
            lines += toml_table("[[columns]]", c)
        for c in self.agents:
            lines += toml_table("[[agents]]", c)
        return "\n".join(lines) + "\n"

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Schema":
        """Read what `to_dict` wrote; what is malformed is named.

        Where nothing is said about `confirmed`, nobody has confirmed it.
        """
        _check_keys("the schema", content, {"columns", "label"},
                    {"format", "missing", "confirmed", "agents"})  # fmt: skip
        columns = tuple(_column(entry) for entry in _tables(content, "columns"))
        agents = tuple(_agents(entry) for entry in _tables(content, "agents"))
        options = {"missing": content["missing"]} if "missing" in content else {}
        confirmed = content.get("confirmed", False)
        label = _target(content["label"])
        return cls(columns, label, agents=agents, confirmed=confirmed, **options)

    @classmethod
    def from_toml(cls, path: str | Path) -> "Schema":
        """Read a schema file."""
        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(f"There is no schema file {str(path)!r}.") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise DataError(f"Cannot read the schema file {str(path)!r}: {error}.") from None
        way = f"write format = {FORMAT} in its first line, or draft it anew with ppadmm schema"
        require_format(
            f"The schema file {str(path)!r}", content.get("format"), FORMAT, way, DataError
        )
        try:
            return cls.from_dict(content)
        except DataError as error:
            raise DataError(f"Schema file {str(path)!r}: {error}") from None

    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON: organisations compare it before they start."""
        return canonical.digest(canonical.dumps_ascii(self.to_dict()))


def _is_numeric(column: Column) -> bool:
    return isinstance(column, Numeric)


def _columns(parts: list[Any], n: int, dtype: type) -> Any:
    """(n,) each → (n, parts), also for none."""
    return np.column_stack(parts) if parts else np.empty((n, 0), dtype=dtype)


def _tables(content: Mapping[str, Any], key: str) -> Sequence[object]:
    entries = content.get(key, ())
    if not isinstance(entries, list | tuple):
        raise DataError(f"Expected {key} to be a list of tables ([[{key}]]).")
    return entries


def _agents(entry: object) -> Categorical:
    _check_keys("an agents column", entry, {"name", "categories"}, set())
    return Categorical(**entry)  # type: ignore[arg-type]


def _column(entry: object) -> Column:
    if isinstance(entry, Mapping) and "categories" in entry:
        _check_keys("a categorical column", entry, {"name", "categories"}, set())
        return Categorical(**entry)
    _check_keys("a numeric column", entry, {"name", "low", "high"}, {"scale"})
    return Numeric(**entry)  # type: ignore[arg-type]


def _target(entry: object) -> Target:
    if isinstance(entry, Mapping) and "classes" in entry:
        _check_keys("the label", entry, {"name", "classes"}, set())
        return Classes(**entry)
    _check_keys("the label", entry, {"name", "positive", "negative"}, set())
    return Label(**entry)  # type: ignore[arg-type]


def _check_keys(what: str, entry: object, required: set[str], optional: set[str]) -> None:
    if not isinstance(entry, Mapping):
        raise DataError(f"Expected {what} to be a table with {', '.join(sorted(required))}.")
    name = f" {entry['name']!r}" if "name" in entry else ""
    if lacking := sorted(required - set(entry)):
        raise DataError(f"In {what}{name}, {', '.join(lacking)} is missing.")
    if unknown := sorted(set(map(str, entry)) - required - optional):
        known = ", ".join(sorted(required | optional))
        raise DataError(f"In {what}{name}, {unknown[0]!r} is unknown; known are: {known}.")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise DataError(
            f"Expected a column name, got {name!r}; name the column, or remove it from the table "
            "(exported row numbers often have no name)."
        )


def _bound(name: str, which: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise DataError(f"Column {name!r}: expected {which} to be a number, got {value!r}.")
    if not math.isfinite(value):
        raise DataError(f"Column {name!r}: expected {which} to be finite, got {value!r}.")
    return float(value)


def _strings(what: str, values: object, at_least: int = 1) -> tuple[str, ...]:
    """Check a list of texts and trim them, as cells are trimmed."""
    if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
        raise DataError(f"{what}: expected a list of texts, got {values!r}.")
    if len(values) < at_least:
        raise DataError(f"{what}: expected at least {at_least} value, got none.")
    trimmed = tuple(v.strip() for v in values)
    if (twice := _repeated(trimmed)) is not None:
        raise DataError(f"{what}: {twice!r} is listed twice; remove one.")
    return trimmed


def _repeated(values: Sequence[str]) -> str | None:
    return next((value for value, times in Counter(values).items() if times > 1), None)


def _plain(part: Column | Target) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in vars(part).items()}


def spelt(value: object) -> str:
    """Return a text, number, truth value or list of texts as JSON and TOML both spell it."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    # TOML refuses a bare DEL, which JSON allows.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_table(header: str, part: Column | Target) -> list[str]:
    """Return the lines of a column or a label in a schema file."""
    return ["", header, *(f"{key} = {spelt(value)}" for key, value in _plain(part).items())]
