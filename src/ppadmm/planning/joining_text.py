"""What joining brings every site, in words, as tables and as a picture."""

from collections.abc import Sequence
from statistics import median

from markupsafe import Markup

from ppadmm.planning.error_ranges import Change, Forecast
from ppadmm.planning.joining import Joining, SiteForecast
from ppadmm.runs.report.page import signed
from ppadmm.runs.report.svg import WIDTH, Axis, picture, tag, text
from ppadmm.runs.tables import fill, table

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""The head of a table, and its rows."""
BAR, ROW, LONGEST = 12, 72, 270
"""Height of a bar, and of all three of a site with its name; the length of the longest."""


def joining_text(joining: Joining) -> list[str]:
    """Return the verdicts, every site alone and together, and all without one of them."""
    missing = missing_table(joining)
    return [
        "Does joining help?\n" + "\n".join(fill(words) for words in joining.sentences()),
        table(*joining_table(joining)),
        *([table(*missing)] if missing else []),
    ]


def joining_table(joining: Joining) -> Table:
    """Return every site alone and together; on its own mix first where sites differ."""
    whose = ", own mix" if joining.skewed else ""
    budgets = ("ε",) if _own_budgets(joining) else ()
    head = ("site", "records", *budgets, "commonest", f"alone{whose}", f"together{whose}")
    more = ("on all records",) if joining.skewed else ()
    return (*head, *more), [_row(site, joining) for site in joining.sites]


def _own_budgets(joining: Joining) -> bool:
    return len({e for site in joining.sites for e in site.epsilons}) > 1


def _row(site: SiteForecast, joining: Joining) -> tuple[str, ...]:
    budget = _span([f"{e:g}" for e in site.epsilons])
    pooled = f"{_middle(site.alone)} → {_middle(site.together)}"
    return (
        site.label,
        _span([f"{n:,}" for n in site.records]),
        *([budget] if _own_budgets(joining) else []),
        f"{median(site.majorities):.3f}",
        _ranged(site.own_alone),
        _ranged(site.own_together),
        *([pooled] if joining.skewed else []),
    )


def missing_table(joining: Joining) -> Table | None:
    """Return what the others would get without one site, on everybody's records."""
    rows = [(each.name, _ranged(each.forecast), _more(each.change)) for each in joining.absences]
    return (("without", "error of the others", "more error"), [*rows]) if rows else None


def _more(change: Change) -> str:
    return f"{signed(-change.gain)} ± {change.uncertainty:.4f}" if change.gains else ""


def _span(ends: Sequence[str]) -> str:
    return ends[0] if ends[0] == ends[1] else f"{ends[0]}–{ends[1]}"


def _middle(forecast: Forecast) -> str:
    return "no noise" if forecast.median is None else f"{forecast.median:.3f}"


def _ranged(forecast: Forecast) -> str:
    if (ends := forecast.range) is None:
        return "no noise reaches it"
    return f"{forecast.median:.3f} ({ends[0]:.3f}–{ends[1]:.3f})"


def joining_picture(joining: Joining) -> Markup:
    """Draw three bars for each site: the error alone, together, and of the commonest class."""
    sites = joining.sites
    bars = [_bars(site) for site in sites]
    largest = max(value for rows in bars for _, value, _ in rows)
    x = Axis(0.0, largest, 0.0, float(LONGEST))
    described = " ".join(
        f"{site.words}: {', '.join(f'{name} {value:.3f}' for name, value, _ in rows)}."
        for site, rows in zip(sites, bars, strict=True)
    )
    return picture(
        "plot-joining",
        "Test error of every site alone and together",
        described,
        (WIDTH, ROW * len(sites) + 4),
        *(_drawn(site, rows, k, x) for k, (site, rows) in enumerate(zip(sites, bars, strict=True))),
    )


def _bars(site: SiteForecast) -> list[tuple[str, float, str]]:
    """Return (words, error, class) of what there is to draw."""
    found = [
        ("alone", site.own_alone.median, "f1"),
        ("together", site.own_together.median, "f2"),
        ("commonest class", median(site.majorities), "f3"),
    ]
    return [(name, value, kind) for name, value, kind in found if value is not None]


def _drawn(site: SiteForecast, bars: Sequence[tuple[str, float, str]], k: int, x: Axis) -> Markup:
    top = ROW * k + 20.0
    size = f"{_span([f'{n:,}' for n in site.records])} records"
    parts = [text(site.words, 0, top - 6, "tip"), text(size, WIDTH, top - 6, "note end")]
    for j, (name, value, kind) in enumerate(bars):
        y = top + 15 * j
        parts.append(tag("rect", x=0, y=y, width=x(value), height=BAR, rx=2, class_=kind))
        parts.append(text(f"{value:.3f} {name}", x(value) + 6, y + 10, "note"))
    return tag("g", *parts)
