"""What a person reads after `ppadmm plan`: plain text, and one HTML page with pictures."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from markupsafe import Markup

from ppadmm import __version__
from ppadmm.algorithms import title_of
from ppadmm.planning.error_ranges import Change, Forecast
from ppadmm.planning.joining_text import joining_picture, joining_table, joining_text, missing_table
from ppadmm.planning.result import Plan
from ppadmm.planning.specification import PlanSpec
from ppadmm.runs.folder import draft_of, require_new, write_json, writing
from ppadmm.runs.report.page import content_hash, signed, templates
from ppadmm.runs.report.svg import Mark, Series, line_chart, short
from ppadmm.runs.tables import WIDTH, fill, table
from ppadmm.runs.text import NOISES

MADE_UP = (
    "A forecast on made-up records of {count} populations, not on yours: the range is over noise "
    "and over what the data may be like. No private data were read. {advice}docs/plan.md says how "
    "well such forecasts met real data."
)
RESAMPLED = (
    "A forecast on {name}, not on your records: as good as they are alike. No private data were "
    "read. docs/plan.md says how well such forecasts met real data."
)
MORE = (
    "`ppadmm plan` says more, and comes closer if it is told the error without privacy on similar "
    "data; docs/plan.md has how well it met real data."
)
ADVICE = (
    "The error of a model without privacy on similar data (--nonprivate-error), the share of the "
    "rarer classes (--majority-error) or public records (--public) narrow it. "
)


def plan_text(plan: Plan) -> str:
    """Return settings, expected error, the curve, what would help and what it is worth."""
    helps = [(change.words, gain_words(change)) for change in plan.changes]
    blocks = [
        *(fill(words) for words in warnings(plan)),
        fill(headline(plan)),
        "\n".join(_fact(name, value) for name, value in facts(plan)),
        *(fill(words) for words in _answers(plan)),
        *([] if plan.joining is None else joining_text(plan.joining)),
        table(("ε", "expected error", "four of five runs"), _curve_rows(plan)),
        *([table(("what would help most", "less error"), helps)] if helps else []),
        *(fill(f"Note: {note}") for note in plan.notes),
        fill(worth(plan)),
    ]
    return "\n\n".join(blocks)


def short_text(plan: Plan) -> list[str]:
    """Return what a site wants to know before it signs: alone or together, in a few lines."""
    found = plan.joining
    lines = ["Forecast, on made-up records with these public numbers (no private data were read):"]
    lines += [fill(words) for words in warnings(plan)]
    if found is not None:
        lines += [*map(fill, found.sentences()), table(*joining_table(found))]
    return [*lines, fill("Errors, with the range of four of five simulated runs. " + MORE)]


def _fact(name: str, value: str) -> str:
    first, rest = f"  {name:<16} ", " " * 19
    return textwrap.fill(value, WIDTH, initial_indent=first, subsequent_indent=rest)


def headline(plan: Plan) -> str:
    """Return the question in one sentence."""
    spec = plan.spec
    classes = "" if plan.classes == 2 else f"{plan.classes} classes, "
    where = "pooled at one place" if spec.recipe.pooled else f"network: {plan.graph_name}"
    who = "one agent" if spec.agents == 1 else f"{spec.agents} agents ({where})"
    least = plan.epsilon * min(spec.fractions, default=1.0)
    budget = f"{plan.epsilon:g}" if least == plan.epsilon else f"{least:g} to {plan.epsilon:g}"
    return (
        f"Plan for {title_of(spec.algorithm)}: {who}, {_records(spec.holdings)}, "
        f"{plan.features} features, {classes}{_skew(spec)}ε = {budget} at δ = {spec.delta:g}"
    )


def _skew(spec: PlanSpec) -> str:
    how = spec.dealing
    if how.alpha is not None:
        return f"skewed labels (Dirichlet, α = {how.alpha:g}), "
    return f"sites by {how.column!r}, " if how.column else ""


def warnings(plan: Plan) -> list[str]:
    """Say first of all if the model is not worth having."""
    if not plan.useless:
        return []
    naming = f"always naming the commonest class ({median(plan.majority):.4f})"
    return [
        f"Not worth running as it is: the expected error, {plan.expected.median:.4f}, is no better "
        f"than that of {naming}. More records or a larger ε are needed."
    ]


def facts(plan: Plan) -> list[tuple[str, str]]:
    """Return what a run would use and what to expect, as (name, words)."""
    return [*_trust(plan), *_settings(plan), *_errors(plan)]


def _trust(plan: Plan) -> list[tuple[str, str]]:
    """Say first of all what ε would rest on."""
    claim = plan.trust
    lying = [("not noticed", claim.unnoticed)] if claim.unnoticed else []
    assumed = "; ".join(claim.assumes) + "."
    return [("trust", f"{claim.name}. {claim.sees}"), ("assumed", assumed), *lying]


def worth(plan: Plan) -> str:
    """Say what the forecast is made of."""
    spec = plan.spec
    if spec.real:
        return RESAMPLED.format(name=Path(spec.public).name if spec.public else spec.like)
    unknown = spec.nonprivate_error is None or spec.majority_error is None
    return MADE_UP.format(count=len(plan.populations), advice=ADVICE if unknown else "")


def _records(holdings: Sequence[int]) -> str:
    low, high = min(holdings), max(holdings)
    each = " each" if len(holdings) > 1 else ""
    return f"{low:,} records{each}" if low == high else f"{low:,} to {high:,} records"


def _settings(plan: Plan) -> list[tuple[str, str]]:
    used = plan.setup
    if used is None:
        return []
    noise = max(used.noise, key=lambda scales: max(scales.values()))
    weight = f"λ̂ = {used.regularisation:.3g}" if used.regularisation else f"η = {used.eta:.4g}"
    rows = [
        ("rounds", f"{used.rounds}, {weight}"),
        ("noise", ", ".join(f"{NOISES[name]} = {scale:.3g}" for name, scale in noise.items())),
    ]
    if not plan.spec.recipe.pooled:
        rows.append(("messages", _messages(plan, used.releases)))
    promise = f"ε = {used.epsilon_proven:.4g} for {plan.trust.unit(plan.spec.adjacency)}"
    return [*rows, ("guarantee", f"{promise} (bound: {used.theorem}; docs/privacy.md)")]


def _messages(plan: Plan, releases: int) -> str:
    if plan.spec.recipe.everyone:
        return (
            f"{releases} per agent to all {plan.hearers} others, handed on by neighbours: "
            f"{plan.first_bytes:,} bytes once, then {plan.message_bytes:,} bytes a round"
        )
    low, most = min(plan.degrees), max(plan.degrees)
    few = "at most " if plan.spec.recipe.tests else ""
    span = f"{low}" if low == most else f"{low} to {most}"
    return (
        f"{few}{releases} per agent to each of its {span} neighbours, "
        f"{plan.message_bytes * most:,} bytes per agent and round"
    )


def _errors(plan: Plan) -> list[tuple[str, str]]:
    low, high = min(plan.non_private), max(plan.non_private)
    quiet = f"{median(plan.non_private):.4f}   (populations: {low:.4f} to {high:.4f})"
    naming = f"{median(plan.majority):.4f}   (error of always naming it)"
    rows = [("without privacy", quiet), ("commonest class", naming)]
    if (ends := plan.expected.range) is None:
        return rows
    span = f"{ends[0]:.4f} to {ends[1]:.4f}"
    words = f"{plan.expected.median:.4f}   (four of five simulated runs: {span})"
    return [("expected error", words), *rows]


def _answers(plan: Plan) -> list[str]:
    """Answer "which ε for this error", and say why a budget cannot be reached."""
    found = [plan.expected.infeasible] if plan.expected.infeasible else []
    found += _other_trust(plan)
    if (target := plan.target) is None:
        return found
    if target.epsilon is None:
        answer = (
            f"No ε up to {target.largest_tried:g} brings the median error to {target.error:g}: "
            f"without privacy it is {median(plan.non_private):.4f}. The plan is for "
            f"ε = {plan.epsilon:g}."
        )
    else:
        answer = (
            f"ε = {target.epsilon:g} is the smallest found whose median error is at most "
            f"{target.error:g}; {target.share:.0%} of the simulated runs reach it there."
        )
    return [answer, *found]


def _other_trust(plan: Plan) -> list[str]:
    """Say what the other trust model would change for these sites."""
    change = plan.other_trust
    if change is None or not change.gains or plan.expected.median is None:
        return []
    less = "less" if change.gain > 0.0 else "more"
    by = f"{abs(change.gain):.4f} {less} error (± {change.uncertainty:.4f})"
    if plan.trust.by_sum:
        return [
            f"With --trust local, where nobody is trusted, the same sites get {by} than with sums."
        ]
    c = plan.spec.colluding
    return [
        f"With --trust sum these {plan.spec.agents} sites get {by}, if at most {c} of them puts "
        "its knowledge together with others and all follow the protocol (docs/choosing-trust.md)."
    ]


def _curve_rows(plan: Plan) -> list[tuple[str, str, str]]:
    return [(f"{p.epsilon:g}", *_cells(p)) for p in plan.curve]


def _cells(point: Forecast) -> tuple[str, str]:
    if (ends := point.range) is None:
        return "", "no noise reaches it"
    return f"{point.median:.4f}", f"{ends[0]:.4f} to {ends[1]:.4f}"


def gain_words(change: Change) -> str:
    """Spell a gain with its standard error."""
    if not change.gains:
        return "no noise reaches ε"
    return f"{signed(change.gain)} ± {change.uncertainty:.4f}"


def write_plan(plan: Plan, folder: Path) -> Path:
    """Write plan.json and plan.html into a new folder and return the page's path."""
    require_new(folder)
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with draft_of(folder) as draft:
            write_json(draft / "plan.json", plan.to_dict())
            (draft / "plan.html").write_text(render_plan(plan), encoding="utf-8")
    return folder / "plan.html"


def render_plan(plan: Plan) -> str:
    """Return the plan as one HTML page that loads nothing."""
    environment = templates()
    css = environment.get_template("report.css").render()
    gains = [abs(change.gain) for change in plan.changes if change.gains]
    return environment.get_template("plan.html").render(
        plan=plan,
        headline=headline(plan),
        facts=facts(plan),
        warnings=warnings(plan),
        answers=_answers(plan),
        joining=plan.joining,
        joining_picture=plan.joining and joining_picture(plan.joining),
        joining_table=plan.joining and joining_table(plan.joining),
        missing_table=plan.joining and missing_table(plan.joining),
        rows=_curve_rows(plan),
        worth=worth(plan),
        gain_words=gain_words,
        largest=max(gains, default=0.0),
        picture=curve_picture(plan),
        css=Markup(css),  # noqa: S704 - from our own template, without a value in it
        css_hash=content_hash(css),
        version=__version__,
    )


def curve_picture(plan: Plan) -> Markup | None:
    """Draw the median error over ε with its range, or nothing for fewer than two points."""
    points = [point for point in plan.curve if point.errors]
    if len(points) < 2:
        return None
    x = [point.epsilon for point in points]
    ends = [point.range or (0.0, 0.0) for point in points]
    level = median(plan.non_private)
    return line_chart(
        "plot-plan",
        "Expected test error by ε",
        [Series("median", x, [point.median or 0.0 for point in points])],
        ("ε", "test error"),
        marks=[Mark(f"without privacy {level:.4f}", level)],
        log=(True, False),
        spell=(short, short),
        band=(
            Series("lower end", x, [a for a, _ in ends]),
            Series("upper end", x, [b for _, b in ends]),
        ),
    )
