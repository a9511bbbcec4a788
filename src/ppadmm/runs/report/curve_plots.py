"""Curves and categories with their bands, drawn on one common scale so that they compare."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from markupsafe import Markup

from ppadmm.runs.curves import PERCENT, FittedCurve, FittedCurves
from ppadmm.runs.report.svg import Axis, picture, short, tag, text

WIDTH, HEIGHT = 420.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 20.0, 10.0, 40.0
NAMES, STEP = 150.0, 22.0
"""Room for the names of categories, and for each of them."""
MOST_NAMES, MOST_LETTERS = 40, 22
MOST_TICKS = 7


@dataclass(frozen=True)
class CurvePlot:
    """The picture of one column for one class, and what is said below it."""

    caption: str
    told_apart: bool
    picture: Markup
    below: str


@dataclass(frozen=True)
class PlotPoint:
    """A place with its effect; without a band low and high are the effect itself."""

    place: str
    value: float
    low: float
    high: float


def curve_plots(curves: FittedCurves) -> list[tuple[str, list[CurvePlot]]]:
    """Return the plots of every class, (class, plots); a model of two classes has one list."""
    found = []
    for k, name in enumerate(curves.classes):
        every = [_points(curve, k) for curve in curves.curves]
        ends = [end for points in every for p in points for end in (p.low, p.high)]
        size = max(max(map(abs, ends)), 1e-9) * 1.05
        pairs = enumerate(zip(curves.curves, every, strict=True))
        plots = [_plot(f"plot-column-{k}-{j}", c, points, size, k) for j, (c, points) in pairs]
        found.append((name, plots))
    return found


def _points(curve: FittedCurve, k: int) -> list[PlotPoint]:
    values = curve.values[k].tolist()
    halves = [0.0] * len(values) if curve.half is None else curve.half[k].tolist()
    rows = zip(curve.places, values, halves, strict=True)
    return [PlotPoint(place, v, v - half, v + half) for place, v, half in rows]


def _plot(name: str, curve: FittedCurve, points: list[PlotPoint], size: float, k: int) -> CurvePlot:
    drawn = _categories if curve.is_listed else _curve
    told = curve.half is None or any(p.low > 0.0 or p.high < 0.0 for p in points)
    return CurvePlot(curve.name, told, drawn(name, curve, points, size), _missing(curve, k))


def _missing(curve: FittedCurve, k: int) -> str:
    """Say what a missing cell adds, where the column has a place for it."""
    if curve.effect.kind == "line":
        return ""
    value = float(curve.missing[k])
    half = None if curve.half_missing is None else float(curve.half_missing[k])
    band = "" if half is None else f" (band {spelt(value - half)} to {spelt(value + half)})"
    left_out = len(curve.values[k]) - MOST_NAMES
    more = f" {left_out} more are in curves.csv." if _is_long(curve) else ""
    return f"Missing: {spelt(value)}{band}.{more}"


def _is_long(curve: FittedCurve) -> bool:
    return curve.is_listed and curve.values.shape[1] > MOST_NAMES


def spelt(value: float) -> str:
    """Spell a log-odds with its sign and two decimals."""
    return f"{value:+.2f}".replace("-", "−")


def said(point: PlotPoint) -> str:
    """Say a place's effect, what it does to the odds, and its band."""
    words = f"{point.place}: {spelt(point.value)} (odds × {short(_odds(point.value))})"
    if point.low == point.high:
        return words
    return f"{words}, band {spelt(point.low)} to {spelt(point.high)}"


def _odds(value: float) -> float:
    return float(f"{math.exp(min(max(value, -50.0), 50.0)):.2g}")


def _described(points: list[PlotPoint]) -> str:
    return "; ".join(map(said, points)) + f". Bands: {PERCENT}, of the noise alone."


def _ends(curve: FittedCurve) -> list[float]:
    """Return the knots of a curve, the ends of a line or those of steps."""
    return [float(place) for place in cast(tuple[float, ...], curve.effect.places)]


def _scaled(curve: FittedCurve, place: float) -> float:
    """Return where a place is on the column's scale: between knots the effect is straight there."""
    low = _ends(curve)[0]
    return math.log1p(place - low) if curve.effect.scale == "log" else place


def _curve(name: str, curve: FittedCurve, points: list[PlotPoint], size: float) -> Markup:
    """Draw a line, a curve or steps."""
    ends = [_scaled(curve, place) for place in _ends(curve)]
    flat = ends[0] == ends[-1]
    x = Axis(ends[0] - flat, ends[-1] + flat, LEFT, WIDTH - RIGHT)
    y = Axis(-size, size, HEIGHT - BOTTOM, TOP)
    steps = curve.effect.kind == "steps"
    at = [end for pair in pairwise(ends) for end in pair] if steps else ends
    shown = [p for p in points for _ in range(2)] if steps else points
    band = [f"{x(a):.1f},{y(p.low):.1f}" for a, p in zip(at, shown, strict=True)]
    band += [f"{x(a):.1f},{y(p.high):.1f}" for a, p in zip(at[::-1], shown[::-1], strict=True)]
    line = [f"{x(a):.1f},{y(p.value):.1f}" for a, p in zip(at, shown, strict=True)]
    middles = [(a + b) / 2.0 for a, b in pairwise(ends)] if steps else ends
    return picture(
        name,
        f"Effect of {curve.name}",
        _described(points),
        (WIDTH, HEIGHT),
        tag("polygon", points=" ".join(band), class_="band"),
        *_heights(y),
        *_ticks(curve, x),
        tag("polyline", points=" ".join(line), class_="line s1"),
        *_dots(curve, points, middles, x, y),
    )


def _heights(y: Axis) -> list[Markup]:
    """Return the levels of log-odds, the one of no effect strongest."""
    found = []
    for v in y.ticks(4):
        kind = "axis" if v == 0.0 else "grid"
        found.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(v), y2=y(v), class_=kind))
        found.append(text(_level(v), LEFT - 6, y(v) + 4, "tick end"))
    return found


def _level(value: float) -> str:
    return "0" if value == 0.0 else f"{value:+g}".replace("-", "−")


def _ticks(curve: FittedCurve, x: Axis) -> list[Markup]:
    """Return the units below: round numbers, or knots where the scale is not that of the units."""
    ends = _ends(curve)
    if curve.effect.scale == "log":
        some = ends[:: max(1, math.ceil(len(ends) / MOST_TICKS))]
        pairs = [(_scaled(curve, v), _units(float(f"{v:.2g}"))) for v in some]
    else:
        pairs = [(v, _units(v)) for v in ([ends[0]] if ends[0] == ends[-1] else x.ticks())]
    bottom = HEIGHT - BOTTOM
    rule = tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=bottom, y2=bottom, class_="axis")
    names = [text(words, x(v), bottom + 17, "tick mid") for v, words in pairs]
    return [rule, *names]


def _units(value: float) -> str:
    """Spell a number of the column in few letters: 15k, 1.2M."""
    if 1e4 <= abs(value) < 1e6:
        return f"{value / 1e3:.3g}k"
    return f"{value / 1e6:.3g}M" if 1e6 <= abs(value) < 1e9 else short(value)


def _dots(
    curve: FittedCurve, points: list[PlotPoint], at: list[float], x: Axis, y: Axis
) -> list[Markup]:
    """Return a dot at every place, and its numbers while the pointer is over it."""
    places, found = [x(a) for a in at], []
    edges = [LEFT, *((a + b) / 2.0 for a, b in pairwise(places)), WIDTH - RIGHT]
    for p, (left, right), a in zip(points, pairwise(edges), places, strict=True):
        area = tag(
            "rect", x=left, y=TOP, width=right - left, height=HEIGHT - BOTTOM - TOP, class_="area"
        )
        told = text(said(p), (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8, "tip mid")
        dot = "" if curve.effect.kind == "steps" else _dot(a, y(p.value))
        found.append(tag("g", dot, area, tag("g", told, class_="shown"), class_="hover"))
    return found


def _dot(x: float, y: float) -> Markup:
    return tag("circle", cx=x, cy=y, r=3.5, class_="dot")


def _categories(name: str, curve: FittedCurve, points: list[PlotPoint], size: float) -> Markup:
    """Draw a dot and a bar per category, one below the other."""
    shown = sorted(points, key=lambda p: -abs(p.value))[:MOST_NAMES]
    shown = [p for p in points if p in shown]
    x = Axis(-size, size, NAMES, WIDTH - RIGHT)
    bottom = TOP + STEP * len(shown)
    grid = [
        tag("line", x1=x(v), x2=x(v), y1=TOP, y2=bottom, class_="grid" if v else "axis")
        for v in x.ticks(4)
    ]
    return picture(
        name,
        f"Effect of {curve.name}",
        _described(points),
        (WIDTH, bottom + BOTTOM),
        *grid,
        *(text(_level(v), x(v), bottom + 17, "tick mid") for v in x.ticks(4)),
        *(_row(p, TOP + STEP * (j + 0.5), x, bottom) for j, p in enumerate(shown)),
    )


def _row(point: PlotPoint, y: float, x: Axis, bottom: float) -> Markup:
    words = point.place
    named = words if len(words) <= MOST_LETTERS else words[: MOST_LETTERS - 1] + "…"
    low, high = x(point.low), x(point.high)
    return tag(
        "g",
        tag("rect", x=low, y=y - 6, width=high - low, height=12, rx=3, class_="band"),
        text(named, NAMES - 8, y + 4, "tick end"),
        _dot(x(point.value), y),
        tag("rect", x=0, y=y - STEP / 2, width=WIDTH, height=STEP, class_="area"),
        tag("g", text(said(point), WIDTH / 2, bottom + 34, "tip mid"), class_="shown"),
        class_="hover",
    )
