"""Plots of the paper's figures: the only home of matplotlib.

Lines differ in colour (Okabe & Ito's palette, safe for colour-blind readers), marker and dash, so
that they can be told apart in grey. Fonts in PDF are Type 42, as publishers ask.
"""

import io
import textwrap
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from ppadmm.errors import InputError
from ppadmm.studies.figures import ERROR, FINAL, LOSS, MESSAGES, CurvePoint, Figure, Panel, spelt

FORMATS = ("png", "pdf")
DPI = 160


class Style(NamedTuple):
    """How one line looks."""

    label: str
    colour: str
    marker: str
    dash: Any


STYLES = {
    "pp": Style("PP-ADMM", "#0072B2", "o", "-"),
    "ipp": Style("IPP-ADMM", "#D55E00", "s", (0, (5, 1.5))),
    "dvp": Style("DVP", "#009E73", "^", (0, (3, 1, 1, 1))),
    "m-admm": Style("M-ADMM", "#CC79A7", "v", (0, (1, 1))),
    "r-admm": Style("R-ADMM", "#E69F00", "D", (0, (7, 1.5, 1, 1.5))),
    "non-private": Style("non-private", "#000000", "", (0, (2, 2))),
    "ε = 0.5": Style("ε = 0.5", "#D55E00", "^", (0, (1, 1))),
    "ε = 1": Style("ε = 1", "#E69F00", "s", (0, (3, 1, 1, 1))),
    "ε = 2": Style("ε = 2", "#009E73", "D", (0, (5, 1.5))),
    "ε = 10": Style("ε = 10", "#0072B2", "o", "-"),
}
CALIBRATION = {
    "paper": "Paper's calibration: a claim, no guarantee",
    "proven": "Proven calibration",
}
LABELS = {
    ERROR: "Test error (share of records)",
    MESSAGES: "Messages per agent",
    LOSS: "Average loss (nats per record)",
    "ε": "Total budget ε (δ = 10⁻⁴)",
    "splits": "splits (share of the budget)",
    "β": "β (gradient norm)",
    "C_loss": "C_loss (nats)",
    "α": "α (nats per record)",
    "level": "level (units of σ₁√d)",
    "round": "Round",
}
LINEAR = ("level", "round")
RC: Any = {
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.8,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
}
WIDTH, ROW, EXTRA = 7.2, 2.35, 0.75
"""Inches: the width of a page's text, a row of panels, and legend with margins."""


def require_matplotlib() -> None:
    """Refuse, before any work, to draw without matplotlib."""
    if find_spec("matplotlib") is None:
        raise InputError("Plots need matplotlib; run: pip install 'ppadmm[figures]'.")


def draw(figure: Figure, points: Sequence[CurvePoint]) -> dict[str, bytes]:
    """Return the figure in every format; the same numbers give the same bytes."""
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with rc_context(RC):
        caption = textwrap.wrap(caption_of(figure, points), 152)
        foot = 0.125 * len(caption) + 0.1
        height = ROW * len(figure.panels) + EXTRA + foot
        layout = ConstrainedLayoutEngine(rect=(0, foot / height, 1, 1 - foot / height))
        canvas = Canvas(figsize=(WIDTH, height), layout=layout)
        _fill(canvas, figure, points)
        canvas.text(0.01, 0.04 / height, "\n".join(caption), fontsize=6.0, va="bottom")
        return {kind: _bytes(canvas, kind) for kind in FORMATS}


def caption_of(figure: Figure, points: Sequence[CurvePoint]) -> str:
    """Return what is shown, what it is worth, and what is missing."""
    replicates = max(point.replicates for point in points)
    parts = [
        f"{figure.title}. {figure.caption} Mean ± standard deviation of {replicates} replicates.",
        _worth(points),
        *_absent(figure),
        "Simulated with known seeds: not private.",
    ]
    return " ".join(parts)


def _absent(figure: Figure) -> list[str]:
    names = {spelt(p.data) for row in figure.panels for p in row if p.absent}
    return [f"The data set {name} is absent and was not run." for name in sorted(names)]


def _worth(points: Sequence[CurvePoint]) -> str:
    """Say what the accountant proves for noise at the paper's calibration."""
    said = []
    for algorithm, name in (("pp", "PP-ADMM"), ("ipp", "IPP-ADMM")):
        pairs: dict[float, list[float | None]] = {}
        for p in points:
            if p.calibration == "paper" and p.algorithm == algorithm and p.epsilon is not None:
                pairs.setdefault(p.epsilon, []).append(p.epsilon_proven)
        if pairs:
            said.append(f"{name} {_spans(pairs)}")
    return (
        "The paper's ε is a claim, not a guarantee; our accountant proves for its noise: "
        + "; ".join(said)
        + ". At the proven calibration ε is what it proves."
    )


def _spans(pairs: dict[float, list[float | None]]) -> str:
    if all(proven is None for values in pairs.values() for proven in values):
        return "no finite ε"
    claimed = ", ".join(f"{epsilon:g}" for epsilon in pairs)
    return f"ε = {', '.join(_span(values) for values in pairs.values())} where {claimed} is claimed"


def _span(values: Sequence[float | None]) -> str:
    finite = [value for value in values if value is not None]
    if len(finite) < len(values):
        return "∞"
    low, high = f"{min(finite):.2g}", f"{max(finite):.2g}"
    return low if low == high else f"{low}–{high}"


def _fill(canvas: Any, figure: Figure, points: Sequence[CurvePoint]) -> None:
    rows, columns = len(figure.panels), len(figure.panels[0])
    grid = canvas.subplots(rows, columns, squeeze=False, sharey=rows == 1 or _across(figure))
    for k, (axes_row, panels) in enumerate(zip(grid, figure.panels, strict=True)):
        for axes, panel in zip(axes_row, panels, strict=True):
            _panel(axes, panel, points)
            if k == 0 or _title(panel) not in map(_title, figure.panels[k - 1]):
                axes.set_title(_title(panel))
        axes_row[0].set_ylabel(LABELS[panels[0].measure])
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    canvas.legend(
        handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles),
        handlelength=3.0, columnspacing=1.4,
    )  # fmt: skip


def _across(figure: Figure) -> Any:
    """Share the vertical axis over all panels of one measure and data set, else along rows."""
    kinds = {(panel.measure, panel.data) for row in figure.panels for panel in row}
    return "all" if len(kinds) == 1 else "row"


def _panel(axes: Any, panel: Panel, points: Sequence[CurvePoint]) -> None:
    axes.grid(axis="y", linewidth=0.3, color="#cccccc")
    axes.set_axisbelow(True)
    if panel.absent:
        _say_absent(axes, panel.absent)
        return
    mine = [point for point in points if _belongs(point, panel)]
    for series in dict.fromkeys(point.series for point in mine):
        _line(axes, panel, STYLES[series], [p for p in mine if p.series == series])
    _scale(axes, panel, [p.x for p in mine if p.x is not None])


def _title(panel: Panel) -> str:
    place = f"{spelt(panel.data)}. " if panel.x_name == "ε" else ""
    if panel.epsilon is None:
        return place + CALIBRATION[panel.calibration]
    name = "Paper's (a claim)" if panel.calibration == "paper" else "Proven"
    return f"{name}, ε = {panel.epsilon:g}"


def _belongs(point: CurvePoint, panel: Panel) -> bool:
    return (
        (point.calibration, point.data) == (panel.calibration, panel.data)
        and (point.measure == panel.measure or (panel.measure == LOSS and point.measure == FINAL))
        and (panel.epsilon is None or point.epsilon in (None, panel.epsilon))
    )


def _say_absent(axes: Any, reason: str) -> None:
    text = "The data set is absent, so nothing is drawn here.\n" + textwrap.fill(reason, 46)
    axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=6.5, transform=axes.transAxes)
    axes.set_xticks([])
    axes.set_yticks([])


def _line(axes: Any, panel: Panel, style: Style, points: list[CurvePoint]) -> None:
    look = {"color": style.colour, "linestyle": style.dash, "label": style.label}
    if points[0].x is None:
        axes.axhline(points[0].mean, **look)
        return
    main = [p for p in points if p.measure == panel.measure]
    xs, means = [p.x for p in main], [p.mean for p in main]
    low, high = [p.mean - p.std for p in main], [p.mean + p.std for p in main]
    every = max(1, len(main) // 8)
    axes.plot(xs, means, marker=style.marker or None, markevery=every, **look)
    axes.fill_between(xs, low, high, color=style.colour, alpha=0.15, linewidth=0)
    for end in (p for p in points if panel.measure == LOSS and p.measure == FINAL):
        axes.plot(end.x, end.mean, "*", color=style.colour, markersize=7, markeredgecolor="white",
                  markeredgewidth=0.4, clip_on=False, zorder=5)  # fmt: skip


def _scale(axes: Any, panel: Panel, values: list[float]) -> None:
    from matplotlib.ticker import NullFormatter, NullLocator

    axes.set_xlabel(LABELS[panel.x_name])
    if panel.x_name in LINEAR:
        return
    axes.set_xscale("log")
    if panel.x_name in ("ε", "C_loss"):
        ticks = sorted(set(values))
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def _bytes(canvas: Any, kind: str) -> bytes:
    """Render without a date, so that a figure changes only with its numbers."""
    stream = io.BytesIO()
    metadata = {"CreationDate": None} if kind == "pdf" else {"Software": None}
    canvas.savefig(stream, format=kind, dpi=DPI, metadata=metadata)
    return _fewer_colours(stream) if kind == "png" else stream.getvalue()


def _fewer_colours(stream: io.BytesIO) -> bytes:
    """Return a PNG with a palette of 256 colours: a third of the size, and looks the same."""
    from PIL import Image

    image = Image.open(stream).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small = io.BytesIO()
    image.save(small, format="png", optimize=True, dpi=(DPI, DPI))
    return small.getvalue()
