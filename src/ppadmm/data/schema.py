"""What the organisations agree on before they look at their data: columns, bounds, classes.

A schema is public. Encoding a record uses the record and the schema and nothing else, so bounds
and categories leak nothing as long as they were not read off private data (`confirmed`).
"""

import dataclasses
import json
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from ppadmm import canonical
from ppadmm.data.coded import Coded
from ppadmm.data.columns import column
from ppadmm.data.encode import SHRINK, assemble, label_codes, normalise_rows
from ppadmm.data.features import (
    Categorical,
    Column,
    Entries,
    Numeric,
    check_name,
    repeated,
    strings,
)
from ppadmm.data.interactions import Interaction, Product, products_of
from ppadmm.data.shard import Matrix, Vector
from ppadmm.data.tables import as_table
from ppadmm.errors import DataError
from ppadmm.files import require_format

FORMAT = 1
"""Of schema files; the digest is of what a schema says, not of how the file spells it."""
INTERCEPT = "intercept"
MISSING = ("", "?")
SPARSE_BELOW, SPARSE_ABOVE = 0.1, 200
OPTIONAL = ("shape", "knots", "missing", "whole", "synonyms", "other")
"""Entries of a column that are spelt where they differ from what is usual."""

T = TypeVar("T")


@dataclass(frozen=True)
class Label:
    """The column to predict: +1 for the texts in `positive`, −1 for those in `negative`."""

    name: str
    positive: tuple[str, ...]
    negative: tuple[str, ...]

    def __post_init__(self) -> None:
        check_name(self.name)
        for side in ("positive", "negative"):
            values = strings(f"Label {self.name!r}: {side}", getattr(self, side))
            object.__setattr__(self, side, values)
        if both := set(self.positive) & set(self.negative):
            raise DataError(f"Label {self.name!r}: {min(both)!r} is both positive and negative.")

    @property
    def names(self) -> tuple[str, ...]:
        """What the two classes are called, the negative one first."""
        return (" or ".join(self.negative), " or ".join(self.positive))

    def encode(self, cells: Any, missing: tuple[str, ...]) -> Vector:
        """Return y (n,) in {−1, +1}."""
        signs = [-1] * len(self.negative) + [1] * len(self.positive)
        codes = label_codes(cells, self.name, self.negative + self.positive, missing, signs)
        return np.array(signs, dtype=np.float64)[codes]


@dataclass(frozen=True)
class Classes:
    """The column to predict, with three or more classes: class k is the text `classes[k]`."""

    name: str
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        check_name(self.name)
        values = strings(f"Label {self.name!r}: classes", self.classes)
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


def target_of(name: str, classes: Sequence[str]) -> Target:
    """Return the label with these classes; of two the later one is positive."""
    if len(classes) > 2:
        return Classes(name, tuple(classes))
    return Label(name, positive=(classes[1],), negative=(classes[0],))


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
    interactions : tuple of Interaction
        Pairs of columns whose products are features, too.

    Examples
    --------
    >>> schema = Schema((Numeric("age", 0, 100, knots=3),), Label("ill", ("yes",), ("no",)))
    >>> X, y = schema.encode({"age": [50, 75], "ill": ["no", "yes"]})
    >>> X.shape, y.tolist(), schema.feature_names[:2]
    ((2, 5), [-1.0, 1.0], ('age@0', 'age@50'))
    """

    columns: tuple[Column, ...]
    label: Target
    missing: tuple[str, ...] = MISSING
    confirmed: bool = True
    agents: tuple[Categorical, ...] = ()
    interactions: tuple[Interaction, ...] = ()

    def __post_init__(self) -> None:
        for key in ("columns", "agents", "interactions"):
            object.__setattr__(self, key, tuple(getattr(self, key)))
        object.__setattr__(self, "missing", strings("missing", self.missing, at_least=0))
        if not self.columns:
            raise DataError("Expected at least one column besides the label.")
        names = [c.name for c in (*self.columns, *self.agents)] + [self.label.name]
        if (twice := repeated(names)) is not None:
            raise DataError(f"Column {twice!r} is listed twice (the label counts); remove one.")
        if not isinstance(self.confirmed, bool):
            raise DataError(f"Expected confirmed to be true or false, got {self.confirmed!r}.")
        parts = [part.name for part in self.layout] if self.products else []
        if (twice := repeated(parts) or repeated(self.feature_names if parts else [])) is not None:
            raise DataError(f"Two parts of a row would be called {twice!r}; rename a column.")

    def with_knots(self, count: int) -> "Schema":
        """Return the schema with so many knots for curves that name none; for 0 they are lines."""
        columns = (c.with_knots(count) if isinstance(c, Numeric) else c for c in self.columns)
        return replace(self, columns=tuple(columns))

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """What the interactions are in a row."""
        return products_of(self.interactions, {c.name: c for c in self.columns})

    @property
    def layout(self) -> tuple[Column | Product, ...]:
        """Columns and products as features come: lines, curves, then groups of 0 and 1."""
        parts: tuple[Column | Product, ...] = (*self.columns, *self.products)
        return tuple(sorted(parts, key=lambda part: part.group))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the d features, the intercept last."""
        return (*(name for c in self.layout for name in c.features), INTERCEPT)

    @property
    def dimension(self) -> int:
        """Number of features d, the intercept included."""
        return sum(part.width for part in (*self.columns, *self.products)) + 1

    def public_values(self, name: str) -> tuple[str, ...] | None:
        """Return the public list of a column's values, or None where the schema has none."""
        listed = (c for c in (*self.columns, *self.agents) if isinstance(c, Categorical))
        return next((c.categories for c in listed if c.name == name), None)

    @property
    def entries(self) -> int:
        """How many features of a row, besides the intercept, are not 0: two for a curve."""
        own = sum(2 if c.group == 1 else 1 for c in self.columns)
        return own + sum(made.count for made in self.products)

    def is_sparse(self) -> bool:
        """Whether `auto` means CSR; from the schema alone, so that all organisations agree."""
        density = (self.entries + 1) / self.dimension
        return density < SPARSE_BELOW and self.dimension > SPARSE_ABOVE

    def encode(
        self, table: object, *, sparse: bool | Literal["auto"] = "auto"
    ) -> tuple[Matrix, Vector]:
        """Return X (n, d) with ‖xᵢ‖ ≤ 1 and y (n,); other columns are ignored."""
        arrow = as_table(table)
        return self.encode_features(arrow, sparse=sparse), self.encode_label(arrow)

    def encode_features(self, table: object, *, sparse: bool | Literal["auto"] = "auto") -> Matrix:
        """Return X (n, d) with ‖xᵢ‖ ≤ 1; the table needs no label."""
        places, values = self._entries(as_table(table))
        as_csr = self.is_sparse() if sparse == "auto" else sparse
        return normalise_rows(assemble(places, values, self.dimension, as_csr))

    def encode_coded(self, table: object) -> Coded:
        """Return the same X with curves and one-hot groups kept as codes; equal to rounding."""
        lines, curves, groups = self._by_group(as_table(table))
        d, n = self.dimension, len(lines.values)
        codes = np.where(groups.values > 0.0, groups.places, d)
        knots, weights = (
            curves.places[:, ::2],
            curves.values.reshape(n, curves.values.shape[1] // 2, 2),
        )
        return Coded.of(lines.values, codes, d, SHRINK, knots, weights)

    def _entries(self, table: Any) -> Entries:
        """Return the features that a row is not 0 at, the intercept last, and their values."""
        lines, curves, groups = self._by_group(table)
        n = table.num_rows
        last = Entries(np.full((n, 1), self.dimension - 1), np.ones((n, 1)))
        parts = (lines, curves, groups, last)
        return Entries(
            np.hstack([part.places for part in parts]), np.hstack([part.values for part in parts])
        )

    def _by_group(self, table: Any) -> list[Entries]:
        """Return the entries of lines, of curves and of groups, counted within the whole row."""
        starts = np.cumsum([0, *(c.width for c in self.layout)])
        nothing = Entries(
            np.zeros((table.num_rows, 0), dtype=np.int64), np.zeros((table.num_rows, 0))
        )
        found = [[nothing], [nothing], [nothing]]
        columns = {c.name: c for c in self.columns}
        parse = cache(lambda name: columns[name].parse(table, self.missing))
        for part, start in zip(self.layout, starts, strict=False):
            places, values = part.spread(*map(parse, part.reads))
            found[part.group].append(Entries(places + start, values))
        return [Entries(*map(np.hstack, zip(*parts, strict=True))) for parts in found]

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
            **{key: [_plain(part) for part in more] for key, more in self._further if more},
        }

    @property
    def _further(self) -> tuple[tuple[str, Sequence[Any]], ...]:
        """What a file says where there is any."""
        return ("agents", self.agents), ("interactions", self.interactions)

    def to_toml(self) -> str:
        """Return the text of a schema file, for a person to check and confirm."""
        # Strings, numbers, truth values and lists of strings are spelt alike in JSON and TOML.
        head = {"format": FORMAT, "confirmed": self.confirmed, "missing": self.missing}
        lines = [f"{key} = {spelt(value)}" for key, value in head.items()]
        lines += toml_table("[label]", self.label)
        for key, parts in (("columns", self.columns), *self._further):
            for part in parts:
                lines += toml_table(f"[[{key}]]", part)
        return "\n".join(lines) + "\n"

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Schema":
        """Read what `to_dict` wrote; what is malformed is named.

        Where nothing is said about `confirmed`, nobody has confirmed it.
        """
        _check_keys("the schema", content, cls, also={"format"})
        columns = tuple(_column(entry) for entry in _tables(content, "columns"))
        made = partial(_made, Categorical, "an agents column")
        agents = tuple(made(entry) for entry in _tables(content, "agents"))
        pair = partial(_made, Interaction, "an interaction")
        pairs = tuple(pair(entry) for entry in _tables(content, "interactions"))
        missing, confirmed = content.get("missing", MISSING), content.get("confirmed", False)
        return cls(columns, _target(content["label"]), missing, confirmed, agents, pairs)

    @classmethod
    def from_toml(cls, path: str | Path) -> "Schema":
        """Read a schema file."""
        file = f"schema file {str(path)!r}"
        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(f"There is no {file}.") from None
        except (OSError, TypeError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise DataError(f"Cannot read the {file}: {error}.") from None
        way = f"write format = {FORMAT} in its first line, or draft it anew with ppadmm schema"
        require_format(f"The {file}", content.get("format"), FORMAT, way, DataError)
        try:
            return cls.from_dict(content)
        except DataError as error:
            raise DataError(f"Schema file {str(path)!r}: {error}") from None

    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON: organisations compare it before they start."""
        return canonical.digest(canonical.dumps_ascii(self.to_dict()))


def _tables(content: Mapping[str, Any], key: str) -> Sequence[object]:
    entries = content.get(key, ())
    if not isinstance(entries, list | tuple):
        raise DataError(f"Expected {key} to be a list of tables ([[{key}]]).")
    return entries


def _column(entry: object) -> Column:
    if isinstance(entry, Mapping) and "categories" in entry:
        return _made(Categorical, "a categorical column", entry)
    return _made(Numeric, "a numeric column", entry)


def _target(entry: object) -> Target:
    several = isinstance(entry, Mapping) and "classes" in entry
    return _made(Classes, "the label", entry) if several else _made(Label, "the label", entry)


def _made(kind: Callable[..., T], what: str, entry: Any) -> T:
    """Return what a table of a file spells."""
    _check_keys(what, entry, kind)
    return kind(**entry)


def _check_keys(what: str, entry: object, kind: Any, also: Collection[str] = ()) -> None:
    """Refuse what is no table with the fields of `kind`, those without a default at least."""
    fields = dataclasses.fields(kind)
    required = {field.name for field in fields if field.default is dataclasses.MISSING}
    if not isinstance(entry, Mapping):
        raise DataError(f"Expected {what} to be a table with {', '.join(sorted(required))}.")
    name = f" {entry['name']!r}" if "name" in entry else ""
    if lacking := sorted(required - set(entry)):
        raise DataError(f"In {what}{name}, {', '.join(lacking)} is missing.")
    known = {field.name for field in fields}.union(also)
    if unknown := sorted(set(map(str, entry)) - known):
        raise DataError(
            f"In {what}{name}, {unknown[0]!r} is unknown; known are: {', '.join(sorted(known))}."
        )


def _plain(part: Column | Target | Interaction) -> dict[str, Any]:
    """Return what a file says of a part; what is usual is left out."""
    kept = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    usual = {f.name: f.default for f in dataclasses.fields(part) if f.name in OPTIONAL}
    said = {k: v for k, v in kept.items() if k not in usual or v != usual[k]}
    if "synonyms" in said:
        said["synonyms"] = {name: list(words) for name, words in said["synonyms"]}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in said.items()}


def spelt(value: object) -> str:
    """Return a text, number, truth value, list or table as TOML spells it; JSON does but tables."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{spelt(k)} = {spelt(v)}" for k, v in value.items()) + "}"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    # TOML refuses a bare DEL, which JSON allows.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_table(header: str, part: Column | Target | Interaction) -> list[str]:
    """Return the lines of a column, a label or an interaction in a schema file."""
    return ["", header, *(f"{key} = {spelt(value)}" for key, value in _plain(part).items())]
