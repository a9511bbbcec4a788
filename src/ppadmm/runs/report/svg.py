"""Small plots as inline SVG: no scripts, no style attributes, colours by CSS class.

Every text is escaped. A plot is `role="img"` with a title and a description for readers who do
not see it; values appear on hover by CSS alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from markupsafe import Markup, escape

WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 30, 48
MIDDLE = (LEFT + WIDTH - RIGHT) / 2


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element; `class_` and `stroke_width` become class and stroke-width."""
    head = "".join(
        f' {key.strip("_").replace("_", "-")}="{escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    body = "".join(map(escape, children))
    return Markup(f"<{name}{head}>{body}</{name}>")  # noqa: S704 - all parts are escaped


def _plain(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def picture(
    name: str, title: str, description: str, size: tuple[float, float], *children: object
) -> Markup:
    """Return the svg element called `name`, with its title and description."""
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", description, id=f"{name}-desc"),
        *children,
        id=name,
        class_="plot",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        viewBox=f"0 0 {size[0]:g} {size[1]:g}",
    )


def text(words: object, x: float, y: float, kind: str) -> Markup:
    """Return words at a place, of a CSS class."""
    return tag("text", words, x=x, y=y, class_=kind)


def _across(y: float, kind: str) -> Markup:
    return tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_=kind)


@dataclass(frozen=True)
class Axis:
    """Maps values from [low, high] to [start, end], linearly or by logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return where `value` is drawn."""
        low, high, at = (self._scaled(v) for v in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (at - low) / (high - low)

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value

    def ticks(self, about: int = 5) -> list[float]:
        """Return multiples of 1, 2 or 5 times a power of ten within the axis."""
        if self.log:
            return _log_ticks(self.low, self.high, about)
        rough = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = power * next(m for m in (1.0, 2.0, 5.0, 10.0) if rough <= 1.5 * m * power)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(k * step, 12) for k in range(first, last + 1)]


def _log_ticks(low: float, high: float, about: int) -> list[float]:
    """Return powers of ten, thinned to about so many; 1, 2 and 5 of each when there are few."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / about))
    powers = [10.0**k for k in range(first, last + 1, stride)]
    if len(powers) >= 3:
        return powers
    fine = (m * 10.0**k for k in range(first - 1, last + 1) for m in (1, 2, 5))
    return [v for v in fine if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]


@dataclass(frozen=True)
class Series:
    """A named line; points whose y is None are left out."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Mark:
    """A dashed level across the plot, or a point on it, with its words."""

    words: str
    y: float
    x: float | None = None


Spell = Callable[[float], str]


def short(value: float) -> str:
    """Spell a number with few digits."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.4g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    digits = mantissa.rstrip("0").rstrip(".")
    return f"{digits}e{int(exponent)}"


def line_chart(
    name: str,
    title: str,
    series: Sequence[Series],
    labels: tuple[str, str],
    *,
    marks: Sequence[Mark] = (),
    log: tuple[bool, bool] = (False, False),
    spell: tuple[Spell, Spell] = (short, short),
    band: tuple[Series, Series] | None = None,
) -> Markup:
    """Draw lines over a common x, and a `band` between two more; the pairs are for (x, y)."""
    x = _axis(series[0].x, LEFT, WIDTH - RIGHT, log[0], pad=0.0)
    told = (*series, *(band or ()))
    levels = [v for line in told for v in line.y] + [mark.y for mark in marks]
    y = _axis(levels, HEIGHT - BOTTOM, TOP, log[1], pad=0.06)
    return picture(
        name,
        title,
        _described(told, labels, spell),
        (WIDTH, HEIGHT),
        _band(*band, x, y) if band else "",
        _frame(x, y, labels, spell),
        *(_mark(mark, x, y, series) for mark in marks),
        *(
            tag("polyline", points=" ".join(_points(line, x, y)), class_=f"line s{k}")
            for k, line in enumerate(series, 1)
        ),
        _legend([line.name for line in series]) if len(series) > 1 else "",
        *_tips(told, x, y, labels, spell),
    )


def _band(low: Series, high: Series, x: Axis, y: Axis) -> Markup:
    around = [*_points(low, x, y), *reversed(_points(high, x, y))]
    return tag("polygon", points=" ".join(around), class_="band")


def _points(line: Series, x: Axis, y: Axis) -> list[str]:
    return [f"{x(a):.1f},{y(b):.1f}" for a, b in zip(line.x, line.y, strict=True)]


def _axis(values: Sequence[float], start: float, end: float, log: bool, pad: float) -> Axis:
    low, high = min(values), max(values)
    if log:
        low = max(low, 1e-300)
        stretch = (high / low) ** pad if high > low else 2.0
        return Axis(low / stretch, high * stretch, start, end, log)
    stretch = (high - low) * pad
    if high - low <= 1e-12 * max(abs(high), 1e-300):
        stretch = 0.05 * abs(high) or 1.0
    return Axis(low - stretch, high + stretch, start, end, log)


def _described(
    series: Sequence[Series], labels: tuple[str, str], spell: tuple[Spell, Spell]
) -> str:
    def one(line: Series) -> str:
        (a, b), (p, q) = (line.x[0], line.x[-1]), (line.y[0], line.y[-1])
        return (
            f"{line.name}: {labels[1]} {spell[1](p)} at {labels[0]} {spell[0](a)}, "
            f"{spell[1](q)} at {spell[0](b)}, lowest {spell[1](min(line.y))}, "
            f"highest {spell[1](max(line.y))}."
        )

    return " ".join(one(line) for line in series)


def _frame(x: Axis, y: Axis, labels: tuple[str, str], spell: tuple[Spell, Spell]) -> Markup:
    return tag(
        "g",
        *(_across(y(v), "grid") for v in y.ticks()),
        _across(HEIGHT - BOTTOM, "axis"),
        *(text(spell[1](v), LEFT - 6, y(v) + 4, "tick end") for v in y.ticks()),
        *_below(x, x.ticks(), HEIGHT - BOTTOM, spell[0]),
        text(labels[0], MIDDLE, HEIGHT - 8, "label mid"),
        text(labels[1], 4, 14, "label"),
    )


def _below(x: Axis, ticks: Sequence[float], bottom: float, spell: Spell) -> list[Markup]:
    return [text(spell(v), x(v), bottom + 17, "tick mid") for v in ticks]


def _mark(mark: Mark, x: Axis, y: Axis, series: Sequence[Series]) -> Markup:
    if mark.x is None:
        at = y(mark.y) + (14 if _runs_just_above(mark, x, y, series) else -5)
        words = text(mark.words, WIDTH - RIGHT, at, "note end")
        return tag("g", _across(y(mark.y), "level"), words)
    side = "end" if x(mark.x) > 0.8 * WIDTH else ""
    at = x(mark.x) + (-8 if side else 8)
    point = tag("circle", cx=x(mark.x), cy=y(mark.y), r=4.5, class_="point")
    return tag("g", point, text(mark.words, at, y(mark.y) - 8, f"note {side}"))


def _runs_just_above(mark: Mark, x: Axis, y: Axis, series: Sequence[Series]) -> bool:
    """Say whether a line would cross the words over a level, which stand at its right end."""
    end = WIDTH - RIGHT
    under = np.linspace(end - 6.5 * len(mark.words), end, 20)
    heights = [
        y(mark.y) - np.interp(under, [x(a) for a in line.x], [y(b) for b in line.y])
        for line in series
    ]
    return any(((h >= 0.0) & (h < 20.0)).any() for h in heights)


def _legend(names: Sequence[str]) -> Markup:
    parts, at = [], float(WIDTH - RIGHT)
    for k, name in reversed(list(enumerate(names, 1))):
        at -= 6.3 * len(name)
        parts.append(text(name, at, 14, "note"))
        parts.append(tag("line", x1=at - 24, x2=at - 5, y1=10, y2=10, class_=f"line s{k}"))
        at -= 36
    return tag("g", *parts)


def _tips(
    series: Sequence[Series],
    x: Axis,
    y: Axis,
    labels: tuple[str, str],
    spell: tuple[Spell, Spell],
) -> list[Markup]:
    """Return one area per x that shows its values while the pointer is over it."""
    at, tips = [x(v) for v in series[0].x], []
    edges = [LEFT, *((a + b) / 2 for a, b in pairwise(at)), WIDTH - RIGHT]
    names = [f"{line.name} " if len(series) > 1 else "" for line in series]
    for k, (left, right) in enumerate(pairwise(edges)):
        told = [name + spell[1](line.y[k]) for name, line in zip(names, series, strict=True)]
        words = f"{labels[0]} {spell[0](series[0].x[k])}: {', '.join(told)}"
        tips.append(_tip(left, right, at[k], [y(line.y[k]) for line in series], words))
    return tips


def _tip(left: float, right: float, at: float, heights: Sequence[float], words: str) -> Markup:
    shown = tag(
        "g",
        tag("line", x1=at, x2=at, y1=TOP, y2=HEIGHT - BOTTOM, class_="axis"),
        *(tag("circle", cx=at, cy=height, r=3.5, class_="point") for height in heights),
        tag("rect", x=0, y=HEIGHT - 24, width=WIDTH, height=24, class_="cover"),
        text(words, MIDDLE, HEIGHT - 8, "tip mid"),
        class_="shown",
    )
    height = HEIGHT - BOTTOM - TOP
    area = tag("rect", x=left, y=TOP, width=right - left, height=height, class_="area")
    return tag("g", area, shown, class_="hover", aria_hidden="true")


def dot_plot(
    name: str,
    title: str,
    rows: Sequence[tuple[str, float]],
    label: str,
    marks: Sequence[tuple[str, float]],
    spell: Spell = short,
) -> Markup:
    """Draw one dot per row on a common axis, with named levels (words, value) as vertical lines."""
    step = 20 if len(rows) <= 12 else 14
    top = 14 + 16 * len(marks)
    bottom = top + step * len(rows) + 6
    values = [value for _, value in rows] + [value for _, value in marks]
    x = _axis(values, LEFT + 14, WIDTH - RIGHT - 8, log=False, pad=0.08)
    described = "; ".join(f"{words} {spell(value)}" for words, value in (*rows, *marks)) + "."
    return picture(
        name,
        title,
        described,
        (WIDTH, bottom + 46),
        _across(bottom, "axis"),
        *_below(x, x.ticks(4), bottom, spell),
        *(_named_level(k, words, x(v), bottom) for k, (words, v) in enumerate(marks)),
        *(_row(words, x(v), top + step * (k + 0.5)) for k, (words, v) in enumerate(rows)),
        text(label, (LEFT + WIDTH) / 2, bottom + 38, "label mid"),
    )


def _row(words: str, at: float, y: float) -> Markup:
    return tag(
        "g",
        _across(y, "grid"),
        text(words, LEFT - 6, y + 4, "tick end"),
        tag("circle", cx=at, cy=y, r=4.5, class_="dot"),
    )


def _named_level(k: int, words: str, at: float, bottom: float) -> Markup:
    y = 12 + 16 * k
    side = "end" if at > (LEFT + WIDTH) / 2 else ""
    return tag(
        "g",
        tag("line", x1=at, x2=at, y1=y - 9, y2=bottom, class_=f"level l{k + 1}"),
        text(words, at + (-5 if side else 5), y, f"note {side}"),
    )


def raster(
    name: str, title: str, description: str, shares: Sequence[Sequence[float]], rounds: int
) -> Markup:
    """Draw `shares[t][i]` in [0, 1], how much agent i spoke in column t, in four strengths."""
    rows, width = len(shares[0]), WIDTH - LEFT - RIGHT
    step, top = 20 if rows <= 12 else 12, 8
    bottom, x = top + step * rows, Axis(0, rounds, LEFT, WIDTH - RIGHT)
    return picture(
        name,
        title,
        description,
        (WIDTH, bottom + 44),
        tag("rect", x=LEFT, y=top, width=width, height=bottom - top, class_="ground"),
        *(
            tag("path", d=_cells(shares, k, width / len(shares), step, top), class_=f"spoke k{k}")
            for k in (1, 2, 3, 4)
        ),
        *(text(f"agent {i}", LEFT - 6, 12 + step * (i + 0.5), "tick end") for i in range(rows)),
        *_below(x, x.ticks(), bottom, short),
        text("round", x(rounds / 2), bottom + 36, "label mid"),
    )


def _cells(
    shares: Sequence[Sequence[float]], level: int, cell: float, step: float, top: float
) -> str:
    """Return a path of the cells of one strength, neighbours in a row joined."""
    path = []
    for i in range(len(shares[0])):
        start = 0
        for found, group in groupby(math.ceil(4 * column[i]) for column in shares):
            length = len(list(group))
            x, width = LEFT + cell * start, cell * length - min(0.6, cell / 4)
            if found == level:
                y = top + step * i + 1
                path.append(f"M{x:.2f} {y:.4g}h{width:.2f}v{step - 2:g}h-{width:.2f}z")
            start += length
    return "".join(path)


def share_bars(
    name: str, title: str, rows: Sequence[tuple[str, float, str]], one_colour: bool = False
) -> Markup:
    """Draw shares of one as bars: (words, share, how it is spelt), one below the other."""
    parts: list[Markup] = []
    for k, (words, share, spelt) in enumerate(rows):
        y, kind = 46 * k, "f2" if one_colour else f"f{k + 1}"
        parts += [
            text(words, 0, y + 14, "label"),
            tag("rect", x=0, y=y + 20, width=WIDTH, height=14, rx=3, class_="ground"),
            tag("rect", x=0, y=y + 20, width=WIDTH * share, height=14, rx=3, class_=kind),
            text(spelt, WIDTH, y + 14, "tip end"),
        ]
    described = "; ".join(f"{words}: {spelt}" for words, _, spelt in rows) + "."
    return picture(name, title, described, (WIDTH, 46 * len(rows) - 8), *parts)


def bar(value: float, largest: float) -> Markup:
    """Draw a bar from the middle to the left or right: decoration of a number beside it."""
    half = 60.0
    size = abs(value) / largest * (half - 1) if largest else 0.0
    left, kind = (half, "bar up") if value >= 0 else (half - size, "bar down")
    middle = tag("line", x1=half, x2=half, y1=0, y2=14, class_="axis")
    filled = tag("rect", x=left, y=2, width=size, height=10, class_=kind)
    return tag("svg", middle, filled, class_="tiny", aria_hidden="true", viewBox="0 0 120 14")
