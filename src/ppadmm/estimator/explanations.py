"""What a fitted model says, column by column: of all records together, and of some.

Both explanations are frozen values with arrays, as everything here is. Their `data` gives the same
as plain lists in dicts, laid out as `interpret`'s explanations are (type, names, scores, extra), so
that it can be written as JSON and drawn by what draws those.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ppadmm.arrays import Array
from ppadmm.data import Schema
from ppadmm.data.effects import (
    ColumnEffect,
    centred_intercept,
    column_effects,
    length_range,
    reference_length,
    score_parts,
)
from ppadmm.data.schema import INTERCEPT
from ppadmm.errors import InputError
from ppadmm.records import HoldsRecords


@dataclass(frozen=True, eq=False)
class GlobalExplanation:
    """Every column's effect on the score, log-odds for the logistic loss; it costs no budget.

    effects : a `ColumnEffect` for every column. Its `values` are centred: the plain mean over a
    column's knots, steps or categories is part of the intercept.
    intercept : () for two classes, (K,) for K > 2; so are `values` (P,) or (K, P).
    classes : what the K rows stand for; of two, the class that a positive score speaks for.
    factors : effects are those of a record of reference length. Rows are divided by their length,
    so a record's own are these times a factor between the two numbers here.
    """

    effects: tuple[ColumnEffect, ...]
    intercept: Array
    classes: tuple[Any, ...]
    factors: tuple[float, float]

    @classmethod
    def of(cls, schema: Schema, theta: Array, classes: Sequence[Any]) -> "GlobalExplanation":
        """Explain θ (1, d) or (K, d)."""
        point = theta[0] if len(theta) == 1 else theta
        least, most = length_range(schema)
        length = reference_length(schema)
        return cls(
            column_effects(schema, point),
            centred_intercept(schema, point),
            tuple(classes[1:] if len(theta) == 1 else classes),
            (length / most, length / least),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(effect.name for effect in self.effects)

    def data(self, key: int | str | None = None) -> dict[str, Any]:
        """Return one column, by its number or name, or how far each can move a score.

        Examples
        --------
        >>> from ppadmm.data import Categorical, Label
        >>> schema = Schema((Categorical("sex", ("f", "m")),), Label("ill", ("yes",), ("no",)))
        >>> model = np.sqrt(2.0) * np.array([[0.0, 1.0, 0.25]])
        >>> explained = GlobalExplanation.of(schema, model, ("no", "yes"))
        >>> explained.data("sex")["names"], np.round(explained.data("sex")["scores"], 6).tolist()
        (['f', 'm'], [-0.5, 0.5])
        """
        if key is None:
            ranges = [effect.range for effect in self.effects]
            return _laid_out(self.names, ranges, self.intercept)
        effect = self.effects[self._number(key)]
        if effect.kind == "interaction":
            return _table(effect)
        return {
            "type": "univariate",
            "feature_type": "nominal" if effect.kind == "category" else "continuous",
            "shape": effect.kind,
            "scale": effect.scale,
            "names": list(effect.places),
            "scores": effect.values.T.tolist(),
            "missing": effect.missing.tolist(),
        }

    def _number(self, key: int | str) -> int:
        if isinstance(key, int) and -len(self.names) <= key < len(self.names):
            return key
        if key not in self.names:
            raise InputError(
                f"There is no column {key!r}; choose one of {', '.join(self.names)}, or a number "
                f"below {len(self.names)}."
            )
        return self.names.index(str(key))


@dataclass(frozen=True, eq=False)
class LocalExplanation(HoldsRecords):
    """What every column adds to the score of each of n records.

    scores : (n, C) for C columns, or (n, C, K) for K > 2 classes.
    intercept : (n,) or (n, K). Rows are divided by their length, so it differs by record.

    `intercept + scores.sum(axis=1)` is `decision_function` of the records, but for rounding.
    It follows from records without noise: show it to whom the records may be shown.
    """

    names: tuple[str, ...]
    scores: Array
    intercept: Array

    @classmethod
    def of(cls, schema: Schema, theta: Array, rows: Any) -> "LocalExplanation":
        """Explain the scores of encoded rows (n, d) by θ (1, d) or (K, d)."""
        parts = np.stack([np.asarray(rows @ part) for part in score_parts(schema, theta)], axis=2)
        found = parts[:, :, 0] if len(theta) == 1 else parts
        names = tuple(part.name for part in (*schema.columns, *schema.products))
        return cls(names, found[:, :-1], found[:, -1])

    def __len__(self) -> int:
        return len(self.scores)

    def data(self, key: int) -> dict[str, Any]:
        """Return what the columns add to the score of record `key`; cells are not repeated."""
        return _laid_out(self.names, self.scores[key].tolist(), self.intercept[key])


def _table(effect: ColumnEffect) -> dict[str, Any]:
    """Lay out an interaction: scores by the places of its first column, then of its second."""
    first, second = zip(*cast(tuple[tuple[Any, Any], ...], effect.places), strict=True)
    values = effect.values.reshape(*effect.values.shape[:-1], *effect.shape)
    return {
        "type": "interaction",
        "left_names": list(dict.fromkeys(first)),
        "right_names": list(dict.fromkeys(second)),
        "scores": (values if values.ndim == 2 else np.moveaxis(values, 0, -1)).tolist(),
        "missing": effect.missing.tolist(),
    }


def _laid_out(names: Sequence[str], scores: Sequence[Any], intercept: Array) -> dict[str, Any]:
    return {
        "type": "univariate",
        "names": list(names),
        "scores": scores,
        "extra": {"names": [INTERCEPT], "scores": [np.asarray(intercept).tolist()]},
    }
