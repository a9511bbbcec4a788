"""How well does `ppadmm plan` forecast real data? Needs PPADMM_DATA with adult, us and brazil.

    python benchmarks/plan.py                # about 11 minutes on one core
    python benchmarks/plan.py --joining      # every site alone, all, and without each, 3 minutes

For every data set and number of agents the error of `compare` is held against three forecasts:
from sizes alone, with the error of a model without privacy, and with the share of the rarer
classes as well. None of them reads the data set. The first table has the data that were looked at
while the populations were designed, the second has data that were not. With --joining, every site
alone and all together are held against `train --seed 0` to `--seed 4` on Adult.
"""

import argparse
import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

from ppadmm.datasets import load
from ppadmm.planning.plan import PlanSpec, plan
from ppadmm.planning.populations import majority_error
from ppadmm.runs.run import train
from ppadmm.runs.specification import RunSpec
from ppadmm.studies.compare import Grid, compare

JOINING = (
    ((20_000, 10_000, 3_500, 1_000, 500), (1.0,) * 5),
    ((7_000,) * 5, (1.0,) * 5),
    ((3_000, 500, 500), (2.0, 2.0, 0.1)),
)
"""Records and ε of every site."""
JOINING_DELTA, JOINING_SEEDS = 1e-4, 5
LARGE, SMALL = (0.25, 0.5, 1.0, 2.0, 4.0), (1.0, 2.0, 4.0, 8.0, 16.0)
DELTA, GRAPH = 1e-6, "ring"
SEEN = [(name, agents, LARGE) for name in ("adult", "us", "brazil") for agents in (5, 30)]
HELD_OUT = [
    ("adult-onehot", 5, LARGE),
    ("adult-onehot", 30, LARGE),
    ("breast-cancer", 3, SMALL),
    ("odd-digits", 3, SMALL),
    ("digits", 3, SMALL),
]


def small(name, folder):
    """The path of a data set of scikit-learn as CSV, with the label in column y."""
    from sklearn.datasets import load_breast_cancer, load_digits

    bunch = load_breast_cancer() if name == "breast-cancer" else load_digits()
    label = bunch.target % 2 if name == "odd-digits" else bunch.target
    table = pd.DataFrame(bunch.data, columns=[f"x{k}" for k in range(bunch.data.shape[1])])
    path = Path(folder) / f"{name}.csv"
    table.assign(y=[f"class {k}" for k in label]).to_csv(path, index=False)
    return str(path)


def truth(data, label, agents, epsilons):
    """{ε: mean error} of `compare`, with None for the model without privacy."""
    grid = Grid(
        data=data, label=label, algorithms=("pp", "non-private"), epsilons=epsilons, delta=DELTA,
        seeds=6, splits=3, agents=agents, graph=GRAPH,
    )  # fmt: skip
    return {row.epsilon: float(np.mean(row.test_error)) for row in compare(grid)}


def rows(name, agents, epsilons, folder):
    source, label = (small(name, folder), "y") if epsilons is SMALL else (name, None)
    data = load(source, label=label)
    found = truth(source, label, agents, epsilons)
    quiet, majority = round(found[None], 3), round(majority_error(data.y), 3)
    majority = min(majority, 1.0 - 1.0 / data.schema.classes)
    knowledge = {
        "sizes": {},
        "+ error": {"nonprivate_error": quiet},
        "+ majority": {"nonprivate_error": quiet, "majority_error": majority},
    }
    for known, given in knowledge.items():
        spec = PlanSpec(
            records=(data.train_records // agents,), features=data.d, agents=agents, graph=GRAPH,
            delta=DELTA, epsilons=epsilons, changes=False, joining=False,
            classes=data.schema.classes, **given,
        )  # fmt: skip
        for point in plan(spec).curve:
            low, high = point.range
            actual = found[point.epsilon]
            yield {
                "data": name, "agents": agents, "known": known, "epsilon": point.epsilon,
                "actual": actual, "non_private": found[None], "majority": majority,
                "forecast": point.median, "low": low, "high": high,
                "within": low <= actual <= high,
            }  # fmt: skip


def show(new):
    """Print one data set's lines of the table."""
    known = list(dict.fromkeys(r["known"] for r in new))
    actual = [r for r in new if r["known"] == known[0]]
    cells = [f"ε = {r['epsilon']:g}: {r['actual']:.3f}" for r in actual]
    print(f"| {new[0]['data']}, {new[0]['agents']} agents | **actual** | {' | '.join(cells)} |")
    for what in known:
        cells = [
            f"{r['forecast']:.3f} ({r['low']:.3f}–{r['high']:.3f})" + ("" if r["within"] else " ✗")
            for r in new
            if r["known"] == what
        ]
        print(f"| | {what} | {' | '.join(cells)} |", flush=True)


def summary(found):
    print("\n| known | within the range | mean distance of the forecast |\n|---|---|---|")
    for known in dict.fromkeys(r["known"] for r in found):
        part = [r for r in found if r["known"] == known]
        apart = np.mean([abs(r["forecast"] - r["actual"]) for r in part])
        print(f"| {known} | {sum(r['within'] for r in part)} of {len(part)} | {apart:.4f} |")


def simulated(**given):
    """The mean test error of `train --seed 0` and so on."""
    spec = RunSpec(data="adult", delta=JOINING_DELTA, **given)
    runs = [train(replace(spec, seed=seed)) for seed in range(JOINING_SEEDS)]
    return float(np.mean([run.metrics.error[0] for run in runs]))


def together(sizes, epsilons):
    graph = GRAPH if len(sizes) > 2 else "complete"
    return simulated(agents=len(sizes), records=sizes, epsilons=epsilons, graph=graph)


def joining_truth(sizes, epsilons):
    """{what: mean error} of every site alone, of all, and of all without each site."""
    sites = list(zip(sizes, epsilons, strict=True))
    found = {("together",): together(sizes, epsilons)}
    for k, (n, epsilon) in enumerate(sites):
        if ("alone", n, epsilon) in found:
            continue
        found["alone", n, epsilon] = simulated(
            algorithm="centralised", agents=2, records=(n, 0), epsilon=epsilon
        )
        left = sites[:k] + sites[k + 1 :]
        found["without", n, epsilon] = together(*map(tuple, zip(*left, strict=True)))
    return found


def joining_forecasts(sizes, epsilons, given):
    """{what: forecast} of the same, and the verdict of each site."""
    spec = PlanSpec(
        records=sizes, features=load("adult").d, agents=len(sizes), graph=GRAPH,
        epsilons_per_agent=epsilons, epsilons=(max(epsilons),), delta=JOINING_DELTA,
        changes=False, **given,
    )  # fmt: skip
    found = plan(spec).joining
    points = {("together",): found.sites[0].together}
    for site, away in zip(found.sites, found.absences, strict=True):
        who = site.records[0], site.epsilons[0]
        points |= {("alone", *who): site.alone, ("without", *who): away.forecast}
    return points, [site.verdict for site in found.sites]


def joining_rows():
    """Hold every site against the truth, from sizes alone and with what may be known."""
    quiet = round(simulated(algorithm="non-private", agents=5, graph=GRAPH), 3)
    majority = round(majority_error(load("adult").y), 3)
    knowledge = {
        "sizes": {},
        "+ error": {"nonprivate_error": quiet},
        "+ majority": {"nonprivate_error": quiet, "majority_error": majority},
    }
    for sizes, epsilons in JOINING:
        actual = joining_truth(sizes, epsilons)
        print(f"\n{sizes}, ε {epsilons}: without privacy {quiet}, commonest class {majority}")
        for known, given in knowledge.items():
            points, verdicts = joining_forecasts(sizes, epsilons, given)
            print(f"{known}: {', '.join(verdicts)}")
            for what, point in points.items():
                low, high = point.range
                row = {
                    "records": sizes, "epsilons": epsilons, "what": what, "known": known,
                    "actual": actual[what], "forecast": point.median, "low": low, "high": high,
                    "within": low <= actual[what] <= high,
                }  # fmt: skip
                mark = "" if row["within"] else " ✗"
                cell = f"{point.median:.3f} ({low:.3f}–{high:.3f}){mark}"
                print(f"| {what} | {actual[what]:.3f} | {cell} |", flush=True)
                yield row


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/plan.json"))
    parser.add_argument("--joining", action="store_true", help="sites of unequal size only")
    args = parser.parse_args()
    everything = []
    if args.joining:
        found = list(joining_rows())
        summary(found)
        write(found, args.out.with_name("plan-joining.json"))
        return
    with tempfile.TemporaryDirectory() as folder:
        for title, cases in (("seen", SEEN), ("held out", HELD_OUT)):
            print(f"\n| {title} | known | | | | | |\n|---|---|---|---|---|---|---|")
            found = []
            for case in cases:
                new = list(rows(*case, folder))
                show(new)
                found += new
            summary(found)
            everything += found
    write(everything, args.out)


def write(rows, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
