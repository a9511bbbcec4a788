"""What a person reads on the terminal after a run."""

import textwrap
from collections.abc import Sequence
from typing import Any

from ppadmm.ledger.text import booked_lines
from ppadmm.runs.benefit import SiteBenefit
from ppadmm.runs.run import Result
from ppadmm.runs.tables import WIDTH, fill
from ppadmm.summing.trust import SUM

MOST_NAMED = 12
UNBROKEN = "\N{NO-BREAK SPACE}"


NOISES = {
    "sigma1": "σ₁",
    "sigma2": "σ₂",
    "sigma_moments": "σ of second moments",
    "test": "σ of a test",
    "epsilon_per_release": "ε of a release",
}
"""How each noise scale is spelt."""


PHASES_IN_WORDS = {
    "signing": "waiting for signatures on the agreement",
    "rounds": "training",
    "ending": "exchanging final averages",
    "ended": "ended before its time",
}
"""What a peer is doing, by the phase of its run."""


def summary(result: Result) -> str:
    """Return what was run, the test figures and the privacy statement as plain lines."""
    figures = result.to_dict()
    rows = [*_agent_rows(figures), *_test_rows(figures), *_cost_rows(figures)]
    table = [f"  {name:<14} {value}" for name, value in rows]
    words = [*result.statement.text().splitlines(), *booked_lines(result.entry)]
    setting, sites = fill(_setting(result, figures)), benefit_lines(result.sites)
    return "\n".join([setting, "", *table, "", *sites, *map(fill, words)])


def benefit_lines(sites: Sequence[SiteBenefit]) -> list[str]:
    """Return a table of what the run did for each site, if there is anything to compare."""
    if not any(site.alone is not None for site in sites):
        return []
    shown = sites[:MOST_NAMED]
    width = max(len("site"), *(len(site.name) for site in shown))
    lines = [
        f"  {'site':<{width}}   records   together    alone   commonest class   (own test accuracy)"
    ]
    for site in shown:
        alone = "-" if site.alone is None else f"{1.0 - site.alone:.4f}"
        lines.append(
            f"  {site.name:<{width}} {site.records:>9,} {1.0 - site.together:>10.4f} {alone:>8} "
            f"{1.0 - site.commonest:>17.4f}"
        )
    if len(sites) > len(shown):
        lines.append(f"  and {len(sites) - len(shown)} more (result.json)")
    return [*lines, ""]


def _setting(result: Result, figures: dict[str, Any]) -> str:
    spec, count = result.spec, len(figures["classes"])
    place = f"{spec.agents} agents ({result.setup.graph.name})"
    if spec.agents == 1:
        place = "one site, no network"
    elif spec.recipe.pooled:
        place = f"all records of {spec.agents} agents at one place, no network"
    classes = "" if count == 2 else f"{count} classes ({figures['loss']}), "
    return (
        f"{figures['algorithm']} on {spec.data_name}: {place}, {sum(figures['records']):,} "
        f"training records, {figures['features']} features, {classes}{figures['rounds']} "
        f"round{'' if figures['rounds'] == 1 else 's'}, η = {figures['eta']:.4g}"
    )


def _agent_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Name the agents and their training records, where they are not all alike."""
    if figures["partition"] == "even":
        return []
    pairs = list(zip(figures["agent_names"], figures["records"], strict=True))
    named = [f"{name} ({n:,} records)" for name, n in pairs[:MOST_NAMED]]
    if len(pairs) > MOST_NAMED:
        named.append(f"and {len(pairs) - MOST_NAMED} more")
    whole = ", ".join(item.replace(" ", UNBROKEN) for item in named)
    lines = textwrap.wrap(whole, WIDTH - 17, break_long_words=False)
    return [("" if k else "agents", line.replace(UNBROKEN, " ")) for k, line in enumerate(lines)]


def _test_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    accuracies = [1 - error for error in figures["test_error_per_agent"]]
    auc = figures["test_auc"]
    return [
        (
            "test accuracy",
            f"{1 - figures['test_error']:.4f}   of {figures['test_records']:,} held-out records "
            f"(always the commonest class: {figures['test_majority']:.4f})",
        ),
        *([("  per agent", _range(accuracies))] if min(accuracies) < max(accuracies) else []),
        ("test AUC", "not defined (one class only)" if auc is None else f"{auc:.4f}"),
        ("test log loss", f"{figures['test_log_loss']:.4f}"),
    ]


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.4f} to {max(values):.4f}"


def _cost_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    work = f"{figures['passes']:.0f} passes over each agent's records, {figures['seconds']:.2f} s"
    low, high = min(figures["releases"]), max(figures["releases"])
    many = f"{high}" if low == high else f"{low} to {high}"
    noise = _noise(max(figures["noise"], key=lambda scales: max(scales.values())))
    if figures["statement"]["trust"]["kind"] == SUM:
        return [("share of noise", noise), ("sums", many), ("work", work)]
    return [
        ("noise", noise),
        ("releases", f"{many} per agent"),
        ("work", work),
    ]


def _noise(scales: dict[str, float]) -> str:
    if not any(scales.values()):
        return "none"
    return ", ".join(f"{NOISES.get(name, name)} = {scale:.3g}" for name, scale in scales.items())
