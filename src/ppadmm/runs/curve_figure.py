"""Curves with their bands as a matplotlib figure, for papers and notebooks."""

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from ppadmm.errors import InputError
from ppadmm.runs.curves import PERCENT, FittedCurve, FittedCurves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS, WIDTH, ROW = 3, 3.2, 2.4
"""Panels in a row, and inches of each."""


def draw_curves(curves: FittedCurves) -> "Figure":
    """Return a panel for every column and class, the column that matters most first."""
    if find_spec("matplotlib") is None:
        raise InputError("Plots need matplotlib; run: pip install 'ppadmm[figures]'.")
    from matplotlib.figure import Figure as Canvas

    panels = [(c, k) for k in range(len(curves.classes)) for c in curves.curves]
    down = math.ceil(len(panels) / ACROSS)
    canvas = Canvas(figsize=(WIDTH * ACROSS, ROW * down + 0.5), layout="constrained")
    axes = canvas.subplots(down, ACROSS, squeeze=False).ravel()
    for axis, (curve, k) in zip(axes, panels, strict=False):
        _fill(axis, curve, k)
        axis.set_title(_title(curve, curves.classes[k], len(curves.classes) > 1), fontsize=9)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    band = curves.no_band or f"Bands: {PERCENT}, of the noise alone."
    canvas.supylabel("log-odds, centred by column", fontsize=9)
    canvas.supxlabel(band, fontsize=8)
    return canvas


def _title(curve: FittedCurve, name: str, several: bool) -> str:
    told = "" if curve.is_told_apart else ", not told apart from noise"
    return f"{curve.name}{f' for {name}' if several else ''}{told}"


def _fill(axis: Any, curve: FittedCurve, k: int) -> None:
    """Draw one column for one class, in its units."""
    values = curve.values[k]
    half = None if curve.half is None else curve.half[k]
    colour = "C0" if curve.is_told_apart else "0.6"
    axis.axhline(0.0, color="0.4", linewidth=0.8)
    if curve.is_listed or curve.effect.kind == "steps":
        at = range(len(values))
        axis.errorbar(at, values, yerr=half, fmt="o", color=colour, markersize=4)
        axis.set_xticks(at, curve.places, rotation=40, ha="right", fontsize=7)
        return
    places = [float(place) for place in cast(tuple[float, ...], curve.effect.places)]
    if half is not None:
        axis.fill_between(places, values - half, values + half, color=colour, alpha=0.2)
    axis.plot(places, values, "o-", color=colour, markersize=4)
    if curve.effect.scale == "log":
        axis.set_xscale("function", functions=_log_scale(places[0]))
        axis.set_xticks(places, [f"{float(f'{place:.2g}'):,g}" for place in places], fontsize=7)


def _log_scale(low: float) -> tuple[Any, Any]:
    """Return log1p(x − low) and its inverse: between knots the effect is straight there."""
    import numpy as np

    def there(x: Any) -> Any:
        return np.log1p(np.maximum(np.asarray(x) - low, -0.999))

    def back(u: Any) -> Any:
        return low + np.expm1(u)

    return there, back
