"""Tables and a picture of what benchmarks/glassbox.py measured, for a page of the documentation."""

import statistics
from pathlib import Path

BEGIN, END = "<!-- glassbox.json: begin -->\n", "<!-- glassbox.json: end -->"
TITLES = {"adult": "Adult", "us": "US", "brazil": "Brazil", "synthetic": "synthetic"}
ORDER = (
    "ppadmm, five sites",
    "ppadmm, one site",
    "ppadmm, one site, zero-out",
    "DP-EBM",
    "DP-EBM, learning rate 0.2",
    "diffprivlib",
    "Opacus",
    "scikit-learn",
)
AGAINST = "DP-EBM, learning rate 0.2"
KINDS = ("curves", "lines", "raw")


def place(row):
    """Sort rows by tool, then features, then ε."""
    return ORDER.index(row["tool"]), KINDS.index(row["features"]), row["epsilon"] or 0.0


def of_data(rows, name, noise=("seeded", "none")):
    return sorted((r for r in rows if r["data"] == name and r["noise"] in noise), key=place)


def timed(rows, row):
    """Return the row whose times count: that of secure noise where there is one."""
    same = ("data", "tool", "features", "epsilon")
    secure = (r for r in rows if r["noise"] == "secure" and all(r[k] == row[k] for k in same))
    return next(secure, row)


def mean(row, what, digits=4):
    return f"{statistics.mean(row[what]):.{digits}f}"


def show(rows, name, epsilon=1.0):
    """Return a table of one data set at one ε: mean figures over the seeds, median times."""
    lines = [
        f"| {TITLES[name]}, ε = {epsilon:g} | features | test error | AUC | log loss | CPU s "
        "| scikit-learn fits |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in of_data(rows, name):
        if row["epsilon"] not in (epsilon, None):
            continue
        times = timed(rows, row)
        fits = [a / b for a, b in zip(times["seconds"], times["reference"], strict=True)]
        private = row["tool"] + (", no privacy" if row["epsilon"] is None else "")
        cells = [private, row["features"], *(mean(row, w) for w in ("error", "auc", "log_loss"))]
        cells += [f"{statistics.median(times['seconds']):.2f}", f"{statistics.median(fits):.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def by_epsilon(rows, name):
    """Return a table of test error and AUC of one data set at every ε."""
    mine = [row for row in of_data(rows, name) if row["epsilon"] is not None]
    epsilons = sorted({row["epsilon"] for row in mine})
    head = " | ".join(f"ε = {epsilon:g}" for epsilon in epsilons)
    lines = [f"| {TITLES[name]}, error / AUC | features | {head} |", "|---" * (len(epsilons) + 2)]
    lines[1] += "|"
    for tool, kind in dict.fromkeys((row["tool"], row["features"]) for row in mine):
        own = {r["epsilon"]: r for r in mine if (r["tool"], r["features"]) == (tool, kind)}
        cells = [
            f"{mean(own[e], 'error')} / {mean(own[e], 'auc')}" if e in own else "" for e in epsilons
        ]
        lines.append(f"| {tool} | {kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def difference(rows, name, tool, what, epsilon):
    """Return the mean of a figure with curves minus that of AGAINST over the splits, ± its error.

    Splits are the same, so differences within each are what varies.
    """
    at = [r for r in of_data(rows, name, ("seeded",)) if r["epsilon"] == epsilon]
    ours = next(r for r in at if r["tool"] == tool and r["features"] == "curves")
    theirs = next(r for r in at if r["tool"] == AGAINST)
    gaps = [a - b for a, b in zip(ours[what], theirs[what], strict=True)]
    return f"{statistics.mean(gaps):+.4f} ± {statistics.stdev(gaps) / len(gaps) ** 0.5:.4f}"


def paired(rows, what, label):
    """Return a table of ours with curves minus AGAINST, split by split."""
    names = [name for name in TITLES if of_data(rows, name)]
    head = " | ".join(TITLES[name] for name in names)
    lines = [f"| {label}, curves minus {AGAINST} | ε | {head} |", "|---" * (len(names) + 2) + "|"]
    for tool in ORDER[:3]:
        for epsilon in (0.5, 1.0, 4.0):
            cells = [difference(rows, name, tool, what, epsilon) for name in names]
            lines.append(f"| {tool} | {epsilon:g} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def agreement(rows):
    """Return a table of simulated beside secure noise, mean over data sets, splits and ε."""
    lines = ["| ppadmm | features | error, simulated | error, secure | AUC, simulated | secure |"]
    lines.append("|---|---|---|---|---|---|")
    mine = sorted((r for r in rows if r["tool"].startswith("ppadmm")), key=place)
    for tool, kind in dict.fromkeys((row["tool"], row["features"]) for row in mine):
        own = [r for r in mine if (r["tool"], r["features"]) == (tool, kind)]
        cells = [
            f"{statistics.mean(v for r in own if r['noise'] == noise for v in r[what]):.4f}"
            for what in ("error", "auc")
            for noise in ("seeded", "secure")
        ]
        lines.append(f"| {tool} | {kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def text(rows):
    """Return all tables."""
    names = [name for name in TITLES if of_data(rows, name)]
    tables = [show(rows, name) for name in names] + [by_epsilon(rows, name) for name in names]
    gaps = [paired(rows, "error", "test error"), paired(rows, "auc", "AUC")]
    return "\n".join([*tables, *gaps, agreement(rows)])


def write_page(page, rows):
    """Put the tables between the two marks of a page, and draw the picture beside it."""
    whole = page.read_text("utf-8")
    before, rest = whole.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{text(rows)}\n{END}{after}", encoding="utf-8")
    draw(rows, Path(page).parent / "figures" / "glassbox.png")


SHOWN = {
    ("ppadmm, five sites", "curves"): ("C0", "-", "o"),
    ("ppadmm, one site", "curves"): ("C0", "--", "s"),
    ("ppadmm, five sites", "lines"): ("C7", "-", "o"),
    ("DP-EBM", "raw"): ("C1", "-", "^"),
    ("DP-EBM, learning rate 0.2", "raw"): ("C1", "--", "v"),
    ("diffprivlib", "curves"): ("C2", "-", "D"),
    ("Opacus", "curves"): ("C3", "-", "x"),
}


def draw(rows, file):
    """Draw test error and AUC against ε, a column for each data set."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = [name for name in TITLES if of_data(rows, name)]
    figure, axes = plt.subplots(
        2, len(names), figsize=(3.2 * len(names), 5.6), sharex=True, squeeze=False
    )
    for j, name in enumerate(names):
        for i, (what, label) in enumerate((("error", "test error"), ("auc", "AUC"))):
            panel(axes[i][j], of_data(rows, name), what)
            axes[i][0].set_ylabel(label)
        axes[0][j].set_title(TITLES[name])
        axes[1][j].set_xlabel("ε")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=4, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.savefig(file, dpi=110, metadata={"Software": None})
    plt.close(figure)


def panel(axis, rows, what):
    for (tool, kind), (colour, line, mark) in SHOWN.items():
        own = [r for r in rows if (r["tool"], r["features"]) == (tool, kind)]
        at = [r["epsilon"] for r in own]
        values = [statistics.mean(r[what]) for r in own]
        axis.plot(at, values, color=colour, linestyle=line, marker=mark, label=f"{tool}, {kind}")
    axis.set_xscale("log", base=2)
    axis.set_xticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
