"""A run as one HTML file: no network, no scripts needed, every value escaped."""

import base64
import functools
import hashlib
import math
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from ppadmm import __version__
from ppadmm.algorithms import ALGORITHMS, title_of
from ppadmm.data.sites import called
from ppadmm.errors import InputError
from ppadmm.files import write_whole
from ppadmm.runs.curves import PERCENT
from ppadmm.runs.report.command import command
from ppadmm.runs.report.curve_plots import curve_plots
from ppadmm.runs.report.figures import AgentRow, Figures
from ppadmm.runs.report.network import Node, draw
from ppadmm.runs.report.svg import (
    Mark,
    Series,
    bar,
    dot_plot,
    line_chart,
    raster,
    share_bars,
    short,
)
from ppadmm.runs.saved import SavedRun, load_run
from ppadmm.runs.text import NOISES, PHASES_IN_WORDS

MOST_BARS, MOST_LETTERS = 20, 28
"""Agents with a bar each, and letters of a name above it."""
EVENTS = {
    "ObjectivePerturbation": "perturbed local problem",
    "Gaussian": "Gaussian noise on a value",
    "Pure": "purely private step",
    "Approximate": "rounding of the noise",
    "NonPrivate": "release that nothing covers",
}
CONSTANTS = {
    "ratio": "sensitivity / noise",
    "kappa": "κ",
    "records": "records that change",
    "span": "q",
    "trace": "ρ",
    "square": "φ",
    "epsilon": "ε",
    "distance": "total variation",
}


def write_report(folder: Path, out: Path | None = None, public: bool = False) -> Path:
    """Write the report of the run in `folder` and return its path; a reader never sees half.

    Without `out` it goes into the folder, over an earlier report; `out` itself must be new.
    """
    if out is not None and os.path.lexists(out):
        raise InputError(f"{str(out)!r} exists already; choose another --out or remove it.")
    path = out or folder / ("report-public.html" if public else "report.html")
    page = render(load_run(folder), public)
    try:
        write_whole(path, page.encode())
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"Cannot write the report to {str(path)!r}: {reason}; choose another --out."
        ) from None
    return path


def render(run: SavedRun, public: bool = False, live: Any = None) -> str:
    """Return the page; with `public` only what the guarantee covers goes into it.

    With `live`, a peer's status, it is the page of a peer at work: it says where the run stands and
    updates itself.
    """
    figures = Figures(run.public() if public else run)
    guess = best_guess(figures.statement["epsilon"], figures.statement["delta"])
    environment = templates()
    names = ("report.css", "report.js", "live.js")
    css, js, live_js = (environment.get_template(name).render() for name in names)
    return environment.get_template("report.html").render(
        f=figures,
        r=figures.result,
        s=figures.statement,
        spec=figures.spec,
        public=public,
        css=Markup(css),  # noqa: S704 - from our own template, without a value in it
        js=Markup(js),  # noqa: S704
        live=live,
        live_js=Markup(live_js),  # noqa: S704
        live_hash=content_hash(live_js),
        words=PHASES_IN_WORDS,
        css_hash=content_hash(css),
        js_hash=content_hash(js),
        plots=_plots(figures, guess),
        columns=curve_plots(figures.curves),
        level=PERCENT,
        command=_command(figures),
        data=called(figures.spec["data"]),
        name=title_of(figures.result["algorithm"]),
        summary=figures.recipe.summary if figures.recipe else "",
        started=_spelt_time(figures.result["started"]),
        guess=guess,
        ways_out=_ways_out(figures),
        events=EVENTS,
        constants=CONSTANTS,
        noises=NOISES,
        version=__version__,
    )


def _command(figures: Figures) -> str | None:
    result = figures.result
    if "own" in result:
        return "ppadmm peer run peer.toml"
    return command(figures.spec, result["ledger_file"], (result["booked"] or {}).get("dataset"))


def best_guess(epsilon: float | None, delta: float) -> float | None:
    """How often the best attacker tells two neighbouring data sets apart: (eᵉ + δ)/(eᵉ + 1)."""
    if epsilon is None:
        return None
    return (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon))


@functools.cache
def templates() -> jinja2.Environment:
    """Return the pages' templates and filters."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ppadmm.runs.report"),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False, "allow_nan": False}
    environment.filters.update(
        number=short,
        percent=percent,
        upper_percent=upper_percent,
        signed=signed,
        count="{:,}".format,
        bar=bar,
        holders=holders,
    )
    return environment


def percent(share: float) -> str:
    """Spell a share with one decimal."""
    return f"{100.0 * share:.1f}\N{NO-BREAK SPACE}%"


def precise_percent(share: float) -> str:
    """Spell a share with up to two decimals."""
    return f"{100.0 * share:.2f}".rstrip("0").rstrip(".") + "\N{NO-BREAK SPACE}%"


def signed(value: float, digits: int = 4) -> str:
    """Spell a number with its sign, and a minus sign that is one."""
    return f"{value:+.{digits}f}".replace("-", "−")


def upper_percent(share: float) -> str:
    """Spell an upper bound on a share, rounded up."""
    return f"{math.ceil(1000.0 * share - 1e-9) / 10.0:.1f}\N{NO-BREAK SPACE}%"


def content_hash(text: str) -> str:
    """Return the hash by which the Content-Security-Policy knows an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _spelt_time(iso: str) -> str:
    when = datetime.fromisoformat(iso)
    return f"{when.day} {when:%B %Y}, {when:%H:%M} ({when.tzname() or 'local time'})"


def _ways_out(figures: Figures) -> list[str]:
    """Say what would have made the run private, one sentence per reason."""
    spec, recipe, ways = figures.spec, figures.recipe, []
    if recipe is not None and recipe.not_private_because:
        proven = [name for name, other in ALGORITHMS.items() if not other.not_private_because]
        ways.append(f"Choose --algorithm {', '.join(proven[:-1])} or {proven[-1]}.")
    if spec["seed"] is not None:
        option = "--test-seed" if "own" in figures.result else "--seed"
        ways.append(f"Leave out {option}: the noise then comes from the operating system.")
    if spec["calibration"] == "paper":
        ways.append("Use the proven calibration: leave out --preset paper and --calibration paper.")
    if not figures.model["schema"]["confirmed"]:
        ways.append(
            "Give a schema whose bounds, categories and classes are public knowledge, with "
            "confirmed = true (--schema FILE)."
        )
    return ways


def _plots(figures: Figures, guess: float | None) -> dict[str, Markup | None]:
    return {
        "guess": _guess(guess) if figures.statement["private"] else None,
        "accuracy": _accuracy(figures),
        "error": _history(figures, "test_error", "test error"),
        "log_loss": _history(figures, "test_log_loss", "test log loss"),
        "distance": _distance(figures),
        "raster": _raster(figures),
        "network": _network(figures),
        "sites": _sites(figures),
        "curve": _curve(figures),
    }


def _guess(best: float | None) -> Markup | None:
    if best is None:
        return None
    rows = [("a coin", 0.5, "50 %"), ("the best attacker, at most", best, upper_percent(best))]
    return share_bars("plot-guess", "How often a guess about one record is right", rows)


def _accuracy(figures: Figures) -> Markup | None:
    result = figures.result
    if "test_error" not in result or figures.pooled or figures.everyone:
        return None
    rows = [(row.name, row.accuracy or 0.0) for row in figures.agents]
    marks = [
        (f"commonest class {percent(result['test_majority'])}", result["test_majority"]),
        (f"joint model {percent(1.0 - result['test_error'])}", 1.0 - result["test_error"]),
    ]
    title = "Test accuracy of each agent's model"
    return dot_plot("plot-accuracy", title, rows, "test accuracy", marks, precise_percent)


def _history(figures: Figures, name: str, words: str) -> Markup | None:
    history = figures.result.get("history")
    if history is None or len(history["rounds"]) < 2:
        return None
    marks, spell = [], precise_percent if name == "test_error" else short
    if name == "test_error":
        level = 1.0 - figures.result["test_majority"]
        marks = [Mark(f"commonest class {percent(level)}", level)]
    plot, title = f"plot-{name.replace('_', '-')}", f"{words.capitalize()} by round"
    line, labels = Series(words, history["rounds"], history[name]), ("round", words)
    return line_chart(plot, title, [line], labels, marks=marks, spell=(short, spell))


def _distance(figures: Figures) -> Markup | None:
    found = figures.distances
    if len(found["rounds"]) < 2 or figures.run.releases.shape[1] < 2 or figures.everyone:
        return None
    pairs = (("single releases", "releases"), ("averages", "averages"))
    lines = [Series(name, found["rounds"], found[key]) for name, key in pairs]
    labels, logs = ("round", "distance"), (False, min(map(min, (s.y for s in lines))) > 0)
    return line_chart("plot-distance", "Distance between agents by round", lines, labels, log=logs)


def _raster(figures: Figures) -> Markup | None:
    if figures.run.spoke.all() or figures.run.spoke.shape[1] < figures.result["agents"]:
        return None
    rounds, spoken = figures.result["rounds"], figures.result["releases"]
    described = "; ".join(f"agent {i}: {k} of {rounds} rounds" for i, k in enumerate(spoken)) + "."
    return raster("plot-raster", "Who spoke when", described, figures.raster, rounds)


def _network(figures: Figures) -> Markup | None:
    if figures.pooled:
        return None
    graph, rows = figures.result["graph"], figures.agents
    nodes = [
        Node(float(row.records), (_epsilon(row), f"{row.records:,} records"), _said(row))
        for row in rows
    ]
    title = f"The network of {len(rows)} agents"
    return draw("plot-network", title, graph["name"], nodes, graph["edges"])


def _sites(figures: Figures) -> Markup | None:
    """Draw how many records each agent holds, where they are not all alike: sizes are public."""
    rows, sizes = figures.agents, figures.result["records"]
    if not 2 <= len(rows) <= MOST_BARS or min(sizes) == max(sizes):
        return None
    bars = [
        (shortened(row.name), row.records / max(sizes), f"{row.records:,} records, {_epsilon(row)}")
        for row in rows
    ]
    return share_bars("plot-sites", "Records of each agent", bars, one_colour=True)


def holders(partition: str) -> str:
    """Say by what rule the agents hold their records."""
    kind, _, value = partition.partition(":")
    return {
        "even": "dealt at random",
        "column": f"by the column “{value}”",
        "files": "by file: each file or folder is an agent",
        "dirichlet": f"dealt by labels in shares of Dirichlet({value}), a simulation",
    }.get(kind, "every site its own")


def shortened(name: str) -> str:
    """Return a name that leaves room beside it."""
    return name if len(name) <= MOST_LETTERS else name[: MOST_LETTERS - 1] + "…"


def _epsilon(row: AgentRow) -> str:
    if not row.records:
        return "only listens"
    if row.epsilon is None:
        return "no ε"
    return f"ε {short(row.epsilon)} of {short(row.budget or 0.0)}"


def _said(row: AgentRow) -> str:
    noise = ", ".join(f"{NOISES.get(k, k)} = {short(v)}" for k, v in row.noise.items() if v)
    return (
        f"{row.name[0].upper()}{row.name[1:]}: {_epsilon(row)}, {row.records:,} records, "
        f"{row.degree} neighbours, {row.releases} releases" + (f", {noise}" if noise else "")
    )


def _curve(figures: Figures) -> Markup | None:
    points, delta, epsilon = figures.curve, figures.result["delta"], figures.statement["epsilon"]
    if len(points) < 2:
        return None
    line = Series("ε", [d for d, _ in points], [e for _, e in points])
    shown = points[0][0] <= delta <= points[-1][0]
    marks = [Mark(f"ε = {short(epsilon)}", epsilon, delta)] if shown else []
    title, labels = "ε by δ for everything that was released", ("δ", "ε")
    return line_chart("plot-curve", title, [line], labels, marks=marks, log=(True, False))
