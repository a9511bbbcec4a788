"""What a run's model says of every column, and how much of it noise may be.

All of it follows from what was released, the schema and the public settings: no record is read.
"""

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ppadmm.algorithms import ALGORITHMS
from ppadmm.arrays import Array
from ppadmm.data import Schema
from ppadmm.data.effects import (
    ColumnEffect,
    column_effects,
    effect_sizes,
    length_range,
    reference_length,
)
from ppadmm.engines.local import Trace
from ppadmm.problem import loss_for
from ppadmm.runs.bands import DEVIATIONS, LEVEL, NoisyWalk, half_widths

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ppadmm.runs.federation import FederationFacts

LEAST_ROUNDS = 20
"""Bands of shorter runs were not measured."""
LEAST_PLACES = 36
"""With fewer places the paths tell too little of the damping: bands of 20 held in 85 % of cases."""
MEASURED = ("logistic", "multinomial")
"""Losses whose bands were."""
NAMED = 3
"""Columns that the summary names."""
HEADINGS = ("column", "kind", "class", "place", "effect", "low", "high", "private")


@dataclass(frozen=True, eq=False)
class FittedCurve:
    """A column's effect, a row for each class that has one, with the band that noise leaves.

    values, half (K, P) and missing, half_missing (K,): a band is values ± half, both None where
    there is none. A model of two classes has one row, which speaks for the second class.
    """

    effect: ColumnEffect
    values: Array
    missing: Array
    half: Array | None = None
    half_missing: Array | None = None

    @property
    def name(self) -> str:
        """The column."""
        return self.effect.name

    @property
    def places(self) -> tuple[str, ...]:
        """What the P places are called, in the units of the column."""
        found: tuple[Any, ...] = self.effect.places
        if self.effect.kind == "interaction":
            return tuple(" and ".join(map(_named, pair)) for pair in found)
        spelt = [_named(place) for place in found]
        if self.effect.kind == "steps":
            return tuple(f"{a} to {b}" for a, b in pairwise(spelt))
        return tuple(spelt)

    @property
    def is_listed(self) -> bool:
        """Whether its places are names, one after another, rather than numbers on an axis."""
        return self.effect.kind in ("category", "interaction")

    @property
    def importance(self) -> float:
        """The root mean square of the centred effect over places, less what the noise adds to it.

        Without a band the noise stays in. A public measure: places count alike, not by records.
        """
        noise = 0.0 if self.half is None else float(((self.half / DEVIATIONS) ** 2).mean())
        return math.sqrt(max(float((self.values**2).mean()) - noise, 0.0))

    @property
    def rank(self) -> tuple[bool, float, float]:
        """By what columns are ordered: those told apart from noise first, then by importance."""
        return not self.is_told_apart, -self.importance, -float(np.abs(self.values).max())

    @property
    def is_told_apart(self) -> bool:
        """Whether some place's band leaves out 0; without bands nobody can say, and it is True."""
        return self.half is None or bool((np.abs(self.values) > self.half).any())


@dataclass(frozen=True)
class FittedCurves:
    """All columns, the one that matters most first, in log-odds at the reference row length.

    `no_band` says why there are no bands, empty where there are. `factors` are the least and the
    largest number that a record's own effects are of these.
    """

    curves: tuple[FittedCurve, ...]
    classes: tuple[str, ...]
    factors: tuple[float, float]
    no_band: str
    private: bool

    @property
    def summary(self) -> str:
        """One line: which columns matter most, and how many are not told apart from noise."""
        told = [curve.name for curve in self.curves if curve.is_told_apart]
        away = len(self.curves) - len(told)
        lost = f"{away} of {len(self.curves)} columns" if away else ""
        if not told:
            return "No column is told apart from noise."
        line = f"What matters most: {', '.join(told[:NAMED])}"
        return f"{line}; {lost} not told apart from noise." if lost else f"{line}."

    def to_rows(self) -> list[tuple[str, ...]]:
        """Return a row of texts for every column, class and place, as `HEADINGS` has them."""
        return [
            (c.name, c.effect.kind, name, *_spelt(place, value, half), str(self.private).lower())
            for c in self.curves
            for k, name in enumerate(self.classes)
            for place, value, half in _places(c, k)
        ]

    def to_csv(self) -> str:
        """Return the same as CSV, with headings; `low` and `high` are empty without a band."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([HEADINGS, *self.to_rows()])
        return text.getvalue()


class DrawsCurves:
    """A finished run whose model can be shown by column."""

    if TYPE_CHECKING:
        setup: "FederationFacts"
        model: Array
        trace: Trace

        def to_dict(self) -> dict[str, Any]: ...  # noqa: D102

    def curves(self) -> FittedCurves:
        """Return what the model says of every column, with 90 % bands for the noise.

        See docs/curves.md for how to read them. `result.curves().to_csv()` is a table.
        """
        return fitted_curves(self.to_dict(), self.setup.schema, self.model, self.trace)

    def plot_curves(self) -> "Figure":
        """Return them as a matplotlib figure; it needs the extra `figures`."""
        from ppadmm.runs.curve_figure import draw_curves

        return draw_curves(self.curves())


def fitted_curves(
    figures: Mapping[str, Any], schema: Schema, model: Array, trace: Trace
) -> FittedCurves:
    """Return the curves of a run from result.json's content, its schema, model and releases."""
    K = len(model.ravel()) // schema.dimension
    effects = column_effects(schema, model.reshape(K, -1))
    no_band = no_band_because(figures, sum(effect.values.shape[1] for effect in effects))
    if not no_band and schema.interactions:
        no_band = "There is no band: none has been measured with interactions."
    halves = _halves(figures, schema, trace, K) if not no_band else [None] * len(effects)
    found = [_curve(effect, half) for effect, half in zip(effects, halves, strict=True)]
    names, length = schema.label.names, reference_length(schema)
    least, most = length_range(schema)
    return FittedCurves(
        curves=tuple(sorted(found, key=lambda curve: curve.rank)),
        classes=names if K > 1 else names[1:],
        factors=(length / most, length / least),
        no_band=no_band,
        private=bool(figures["private"]),
    )


def no_band_because(figures: Mapping[str, Any], places: int) -> str:
    """Say why a run whose columns have so many places has no bands; empty if it has."""
    recipe, spec = ALGORITHMS.get(figures["algorithm"]), figures["spec"]
    if recipe is not None and recipe.noiseless:
        return "No noise was drawn, so there is no band."
    if "own" in figures:
        return "There is no band: it needs the releases of all sites, and a site hears some only."
    if figures["rounds"] == 1:
        return "There is no band: one release does not tell how far noise has moved it."
    if recipe is None or recipe.descends is None or figures["calibration"] != "proven":
        return "There is no band: none has been measured for this algorithm and calibration."
    if figures["rounds"] < LEAST_ROUNDS:
        return f"There is no band: it takes {LEAST_ROUNDS} rounds, there were {figures['rounds']}."
    if places < LEAST_PLACES:
        return (
            f"There is no band: it takes {LEAST_PLACES} knots and categories, there are {places}."
        )
    if figures["loss"] not in MEASURED or spec["regularisation"] or figures.get("search"):
        return "There is no band: none has been measured with this loss, regulariser or search."
    return ""


def noisy_walk(figures: Mapping[str, Any], schema: Schema) -> tuple[NoisyWalk, Array]:
    """Return the public numbers of the path of the agents' mean, and the weights (N,) of it."""
    N, T, eta = figures["agents"], figures["rounds"], figures["eta"]
    ends = [end for edge in figures["graph"]["edges"] for end in edge]
    counts, records = np.bincount(ends, minlength=N).astype(float), np.array(figures["records"])
    weights = np.where(records > 0, figures["site_weights"], 0.0)
    sigma1, sigma2 = (
        np.array([noise.get(name, 0.0) for noise in figures["noise"]])
        for name in ("sigma1", "sigma2")
    )
    implicit = ALGORITHMS[figures["algorithm"]].descends == "implicit"
    mean = counts / counts.sum() if implicit else np.full(N, 1.0 / N)
    step = 1.0 / (2.0 * eta * counts.sum()) if implicit else eta / N
    kick = float(step**2 * (weights**2 @ sigma1**2))
    length, spec = reference_length(schema), figures["spec"]
    bend = loss_for(spec["loss"], schema.classes, spec["multiclass"]).smoothness
    return NoisyWalk(
        rounds=T,
        push=kick if implicit else 0.0,
        shift=float(mean**2 @ sigma2**2) if implicit else kick,
        most=float(step * weights.sum() * bend / length**2),
        reach=length,
    ), mean


def _halves(
    figures: Mapping[str, Any], schema: Schema, trace: Trace, K: int
) -> list[tuple[Array, Array]]:
    """Return half the bands of every column in the schema's order, (K, P) and (K,)."""
    walk, mean = noisy_walk(figures, schema)
    seen = np.einsum("n,tnd->td", mean, trace.releases[walk.looks - 1, :, 0])
    told = column_effects(schema, seen.reshape(len(seen) * K, -1))
    path = np.concatenate([_stacked(effect, K) for effect in told], axis=2)
    norms = [np.append(size.values, size.missing) for size in effect_sizes(schema)]
    sizes = np.concatenate(norms) * (np.sqrt(1.0 - 1.0 / K) if K > 1 else 1.0)
    free = np.concatenate([np.arange(len(each)) == len(each) - 1 for each in norms])
    column = np.repeat(np.arange(len(norms)), [len(each) for each in norms])
    group = (np.arange(K)[:, None] * len(norms) + column).ravel()
    flat = path.reshape(len(seen), -1)
    widths = half_widths(walk, flat, np.tile(sizes, K), np.tile(free, K), group)
    found = widths.reshape(K, -1)
    parts = np.split(found, np.cumsum([len(each) for each in norms])[:-1], axis=1)
    return [(part[:, :-1], part[:, -1]) for part in parts]


def _named(place: Any) -> str:
    return place if isinstance(place, str) else f"{place:.6g}"


def _stacked(effect: ColumnEffect, K: int) -> Array:
    """Return a column's path with missing last, (t, K, P + 1), centred over classes."""
    both = np.concatenate([effect.values, effect.missing[:, None]], axis=1)
    return _centred(both.reshape(-1, K, both.shape[1]))


def _centred(values: Array) -> Array:
    """Take the mean over classes off: scores of all classes say the same with a constant more."""
    return values - values.mean(axis=-2, keepdims=True) if values.shape[-2] > 1 else values


def _curve(effect: ColumnEffect, half: tuple[Array, Array] | None) -> FittedCurve:
    missing = _centred(effect.missing[:, None])[:, 0]
    return FittedCurve(effect, _centred(effect.values), missing, *(half or (None, None)))


def _places(curve: FittedCurve, k: int) -> list[tuple[str, float, float | None]]:
    """Return (place, value, half) of a class, the missing value last."""
    values = [*curve.values[k].tolist(), float(curve.missing[k])]
    halves: list[Any] = [None] * len(values)
    if curve.half is not None and curve.half_missing is not None:
        halves = [*curve.half[k].tolist(), float(curve.half_missing[k])]
    return list(zip((*curve.places, "missing"), values, halves, strict=True))


def _spelt(place: str, value: float, half: float | None) -> tuple[str, ...]:
    ends = ("", "") if half is None else (f"{value - half:.6g}", f"{value + half:.6g}")
    return (place, f"{value:.6g}", *ends)


PERCENT = f"{100.0 * LEVEL:.0f} %"
"""How the level of a band is spelt."""
