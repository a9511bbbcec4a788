"""A schema file to correct and confirm, suggested from a table: comments for a person to read.

Bounds are rounded outwards, and remarks quote no measurement of a record, since a schema is made
to be shared. The suggestion is not public all the same: it comes from the records.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppadmm.data.columns import column as cells_of
from ppadmm.data.columns import (
    decoded,
    distinct_texts,
    has_decimal_comma,
    is_number,
    is_text,
    numbers,
    parses,
    texts,
    whole,
)
from ppadmm.data.features import Categorical, Column, Numeric
from ppadmm.data.infer import (
    FEWEST_NUMBERS,
    draft_label,
    inferred,
    is_called_identifier,
    is_numeric,
    words_of,
)
from ppadmm.data.schema import FORMAT, MISSING, spelt, toml_table
from ppadmm.data.shard import Vector
from ppadmm.data.tables import as_table, is_csv, read_table
from ppadmm.errors import DataError, InputError

MOST_CATEGORIES, MOST_CODES, FEWEST_RECORDS = 50, 10, 20
RARE, MANY_RARE = 0.01, 5
"""A category with a smaller share of the records is rare; so many of them are pointed out."""
_MARKERS = ("NA", "N/A", "n/a", "na", "#N/A", "NaN", "nan", "NULL", "Null", "null")
_MARKERS_OF_NUMBERS = ("None", "none", "-", "--", ".", "missing", "unknown")
_CODES = (-1, -7, -8, -9, -99, -999, -9999, 99, 999, 9999, 99_999, 999_999)
_KEYS = {"id", "key", "index", "number", "nr", "no", "uuid", "ssn"}
_FEW_KNOTS = "Whole numbers: a knot for every second one, a line if that makes fewer than three."
_CALLED_SO = (
    "looks like an identifier, by its name; if it holds public codes, list them as categories"
)

_HEAD = """\
# A draft of a schema for {source}: read it, correct it, confirm it.
#
# The bounds, categories and classes below were suggested from the records of the file. Bounds
# drafted from data are not public until a person confirms them: an outlier moves a bound, and a
# rare category may be one person. So replace them by what is known without the records, from a code
# book, a law or common sense, and agree on them with the other organisations.
#
# Then set confirmed = true. Until a person has done so, every run that uses this file is marked
# NOT PRIVATE (private: false).
#
# Numbers beyond their bounds are clipped; a category that is not listed is refused. A column that
# is not listed is not used.
"""
_FURTHER = """\
# To give every value of a column an agent of its own (--partition column:NAME), list its public
# values; the column is then not a feature:
# [[agents]]
# name = "hospital"
# categories = ["north", "south"]
#
# Where one column counts otherwise for some values of another, list the two:
# [[interactions]]
# columns = ["age", "sex"]
"""


@dataclass(frozen=True)
class _Suggestion:
    """A column with remarks for the person, or no column and the reason why it is left out."""

    column: Column | None
    remarks: tuple[str, ...] = ()


def suggest_schema(source: str | Path, label: str | None = None) -> str:
    """Return the text of a schema file for a CSV or Parquet file, with `confirmed = false`.

    Guarantee: none, until a person has replaced what was read off the records.
    """
    path = Path(source)
    table = read_table(path, missing=())
    missing = (*MISSING, *_markers(table))
    typed = inferred(table, missing) if is_csv(path) else table
    return suggest_toml(table, label, path.name, missing, typed)


def suggest_toml(
    table: object,
    label: str | None,
    source: str,
    missing: tuple[str, ...] = MISSING,
    typed: object = None,
) -> str:
    """As `suggest_schema`, for a table that has been read, with its missing markers.

    `typed` is the same table with numbers and dates where all cells of a column are such texts.
    """
    arrow = as_table(table)
    kinds = arrow if typed is None else as_table(typed)
    if label is None:
        raise InputError(_which_label(arrow, source, missing))
    cells_of(arrow, label)  # refuses a column that is not there
    numeric = is_numeric(kinds, label)
    lines = [
        _HEAD.format(source=spelt(source)),
        f"format = {FORMAT}",
        "confirmed = false  # true, once everything below is public knowledge\n",
        f"# Cells that count as missing{_found(missing)}; they encode as zero.",
        f"missing = {spelt(list(missing))}\n",
        "# What to predict: the texts of each class.",
        *toml_table("[label]", draft_label(cells_of(arrow, label), label, missing, numeric))[1:],
    ]
    names = [name for name in arrow.column_names if name != label]
    suggestions = {name: _suggest(arrow, kinds, name, missing) for name in names}
    if not any(s.column for s in suggestions.values()):
        why = "; ".join(f"{name!r}: {s.remarks[0]}" for name, s in suggestions.items())
        because = f" ({why})" if why else ""
        raise DataError(f"No column of {source!r} besides the label can be a feature{because}.")
    return "\n".join([*lines, *_columns(suggestions), *_left_out(suggestions), "", _FURTHER])


def _columns(suggestions: dict[str, _Suggestion]) -> list[str]:
    lines = []
    for s in suggestions.values():
        if s.column is not None:
            _, header, *body = toml_table("[[columns]]", s.column)
            body = [line for line in body if line != 'scale = "linear"']
            lines += ["", header, body[0], *(f"# {remark}" for remark in s.remarks), *body[1:]]
    return lines


def _left_out(suggestions: dict[str, _Suggestion]) -> list[str]:
    left = {name: s.remarks[0] for name, s in suggestions.items() if s.column is None}
    if not left:
        return []
    return ["", "# Left out:", *(f"# - {spelt(name)}: {why}" for name, why in left.items())]


def _suggest(table: Any, kinds: Any, name: str, missing: tuple[str, ...]) -> _Suggestion:
    if (many := table.column_names.count(name)) > 1:
        return _Suggestion(None, (f"{many} columns have this name; rename them",))
    type_ = decoded(kinds.column(name).chunk(0)).type
    if pa.types.is_boolean(type_):
        return _Suggestion(Categorical(name, ("false", "true")))
    if not (is_text(type_) or is_number(type_) or pa.types.is_null(type_)):
        return _Suggestion(None, (f"it holds {type_}; make it numbers or categories first",))
    text, present = texts(cells_of(table, name), missing)
    counted = pc.value_counts(text.filter(pa.array(present))).to_pylist()
    counts = {pair["values"]: pair["counts"] for pair in counted}
    if len(counts) < 2:
        why = "the same value in every record" if counts else "it holds no values"
        return _Suggestion(None, (f"{why}, so it cannot tell records apart",))
    if is_text(type_) and not (len(counts) > MOST_CODES and all(map(parses, counts))):
        return _suggest_categories(name, counts)
    return _suggest_bounds(cells_of(kinds, name), name, missing, list(counts))


def _suggest_categories(name: str, counts: dict[str, int]) -> _Suggestion:
    values = list(counts)
    if (why := _no_categories(name, values, sum(counts.values()))) is not None:
        return _Suggestion(None, (why,))
    spellings = _spellings(values)
    if len(spellings) > MOST_CATEGORIES:
        why = (
            f"more than {MOST_CATEGORIES} different texts; group them first, or list the common "
            "ones and write other = true"
        )
        return _Suggestion(None, (why,))
    synonyms = {kept: also for kept, also in spellings.items() if also}
    records = {
        kept: sum(counts[text] for text in (kept, *also)) for kept, also in spellings.items()
    }
    remarks = {
        "Read off the records, not public until confirmed: put the whole public list here.": True,
        "Texts that differ by capitals or blanks only are taken for one: check synonyms.": bool(
            synonyms
        ),
        "Many are rare: list the common ones and write other = true for the rest.": _many_rare(
            records
        ),
    }
    applying = tuple(remark for remark, applies in remarks.items() if applies)
    return _Suggestion(Categorical(name, tuple(spellings), synonyms), applying)


def _spellings(values: list[str]) -> dict[str, tuple[str, ...]]:
    """Return one text of those that differ by capitals or blanks only, and the others."""
    alike: dict[str, list[str]] = {}
    for value in sorted(values):
        alike.setdefault("".join(value.casefold().split()), []).append(value)
    return {same[-1]: tuple(same[:-1]) for same in sorted(alike.values(), key=lambda s: s[-1])}


def _many_rare(records: dict[str, int]) -> bool:
    few = RARE * sum(records.values())
    return sum(count < few for count in records.values()) >= MANY_RARE


def _no_categories(name: str, values: list[str], records: int) -> str | None:
    """Say why texts are no categories; None if they may be."""
    commas = sum(map(has_decimal_comma, values))
    if commas >= FEWEST_NUMBERS and 2 * commas > len(values):
        return "numbers with a decimal comma; write a point in its place"
    numeric = sum(map(parses, values))
    if numeric >= FEWEST_NUMBERS and numeric > len(values) - numeric:
        return "mostly numbers, but some cells are other texts; correct them or add them to missing"
    if len(values) == records >= FEWEST_RECORDS:
        return "another text in every record: an identifier or a free text"
    return _CALLED_SO if is_called_identifier(name) else None


def _suggest_bounds(
    cells: Any, name: str, missing: tuple[str, ...], texts_seen: list[str]
) -> _Suggestion:
    values, present = numbers(cells, name, missing)
    values = values[present]
    seen = np.unique(values)
    all_whole = bool((seen == np.round(seen)).all())
    if all_whole and (why := _identifies(name, seen, len(values))):
        return _Suggestion(None, (why,))
    apart = _stands_apart(seen)
    values, seen = values[values != apart], seen[seen != apart]
    few = all_whole and len(seen) <= MOST_CODES
    low, high = (float(seen[0]), float(seen[-1])) if few else round_out(seen[0], seen[-1])
    form, why_so = _form(seen, few, gaps=apart is not None or not present.all())
    marker = () if apart is None else (f"{apart:.0f}",)
    remarks = {
        "Read off the records, not public until confirmed.": few,
        "Rounded outwards from the records, not public until confirmed.": not few,
        _may_be_codes(texts_seen, seen): few and bool(set(seen) - {0.0, 1.0}),
        why_so: bool(why_so),
        _taken_for_missing(marker): bool(marker),
        "Another value in every record: if it is an identifier, remove the column.": all_whole
        and _once_each(seen, len(values)),
        'Most values are far below the highest: perhaps add scale = "log".': _has_long_tail(
            values - low
        ),
    }
    applying = tuple(remark for remark, applies in remarks.items() if applies)
    return _Suggestion(Numeric(name, low, high, missing=marker, **form), applying)


def _form(seen: Vector, few: bool, gaps: bool) -> tuple[dict[str, Any], str]:
    """Return shape and knots where the usual ones are too many, and why; by the bounds alone."""
    if len(seen) == 2 and not gaps:
        return {"shape": "line"}, "Two values: a line says all that there is to say."
    if len(seen) == 2:
        why = "Two values and missing ones: a curve, where missing has a place of its own."
        return {"shape": "curve", "knots": 2}, why
    return ({"whole": True}, _FEW_KNOTS) if few else ({}, "")


def _may_be_codes(texts_seen: list[str], seen: Vector) -> str:
    """Spell codes as the file does, since it is texts that are compared: 01 stays 01."""
    if len(seen) > MOST_CODES:
        return ""
    spelt_so = set(whole(pa.array(texts_seen, pa.string())).to_pylist())
    codes = [code for code in spelt_so if float(code) in seen]
    codes.sort(key=lambda code: (float(code), code))
    return f"If these are codes, write in place of low and high: categories = {spelt(codes)}"


def _taken_for_missing(marker: tuple[str, ...]) -> str:
    return f"{''.join(marker)} stands apart, so it is taken for missing in this column: check it."


def round_out(low: float, high: float) -> tuple[float, float]:
    """Return round numbers at or beyond both ends; the low end is 0 where that is not far off."""
    span = high - low
    step = 10.0 ** math.floor(math.log10(span)) if 1e-300 < span < 1e300 else 0.0
    if step == 0.0:
        return float(low), float(high)
    bottom = 0.0 if 0 <= low <= span else _tidy(math.floor(low / step) * step)
    top = _tidy(math.ceil(high / step) * step)
    if bottom == 0.0 and high > 0:
        top = _round_up(high)
    return min(bottom, float(low)), max(top, float(high))


def _round_up(x: float) -> float:
    power = 10.0 ** math.floor(math.log10(x))
    return next(_tidy(m * power) for m in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 20) if m * power >= x)


def _tidy(x: float) -> float:
    return float(f"{x:.12g}")


def _identifies(name: str, seen: Vector, records: int) -> str | None:
    """Say why whole numbers are an identifier, even one that repeats; None if they are not."""
    in_a_row = seen[-1] - seen[0] == len(seen) - 1
    if _once_each(seen, records) and (in_a_row or set(words_of(name)) & _KEYS):
        return "another whole number in every record: an identifier"
    if is_called_identifier(name):
        return _CALLED_SO
    if in_a_row and FEWEST_RECORDS <= records < 2 * len(seen):
        return "looks like an identifier: numbers in a row, most of them in one record or two"
    return None


def _once_each(seen: Vector, records: int) -> bool:
    return len(seen) == records >= FEWEST_RECORDS


def _stands_apart(seen: Vector) -> float | None:
    """Return −9, 999 or the like where it is the only negative value, or far above the others."""
    if len(seen) < 3:
        return None
    if seen[0] in _CODES and seen[0] < 0 <= seen[1]:
        return float(seen[0])
    if seen[-1] in _CODES and seen[-1] > 3 * max(seen[-2], 0):
        return float(seen[-1])
    return None


def _has_long_tail(above: Vector) -> bool:
    """Whether nine in ten values lie in the lowest tenth of the range."""
    return bool(np.quantile(above, 0.9) < 0.1 * above.max())


def _markers(table: Any) -> list[str]:
    """Return the texts that mean missing in some column."""
    found = {
        marker
        for name in dict.fromkeys(table.column_names)
        if table.column_names.count(name) == 1
        for marker in _markers_of(table.column(name))
    }
    return [m for m in (*_MARKERS, *_MARKERS_OF_NUMBERS) if m in found]


def _markers_of(chunks: Any) -> set[str]:
    cells = pa.concat_arrays([decoded(chunk) for chunk in chunks.chunks])
    if pa.types.is_floating(cells.type):
        return {"nan"} if pc.any(pc.is_nan(cells)).as_py() else set()
    if not is_text(cells.type):
        return set()
    values = {value.strip() for value in pc.unique(cells).to_pylist() if value is not None}
    sure, perhaps = values & set(_MARKERS), values & set(_MARKERS_OF_NUMBERS)
    if not perhaps:
        return sure
    rest = values - sure - perhaps - set(MISSING)
    return sure | perhaps if rest and all(map(parses, rest)) else sure


def _found(missing: Sequence[str]) -> str:
    more = [json.dumps(marker) for marker in missing if marker not in MISSING]
    were = "was" if len(more) == 1 else "were"
    return f" ({', '.join(more)} {were} found in the file)" if more else ""


def _which_label(table: Any, source: str, missing: tuple[str, ...]) -> str:
    two = [name for name in table.column_names if _is_two_valued(table, name, missing)]
    some = f"two-valued are: {', '.join(two[:8])}" if two else "none has two values"
    return f"Which column of {source!r} is the label? Name it with --label; {some}."


def _is_two_valued(table: Any, name: str, missing: tuple[str, ...]) -> bool:
    try:
        return len(distinct_texts(cells_of(table, name), missing)) == 2
    except DataError:
        return False
