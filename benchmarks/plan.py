"""How well does `ppadmm plan` forecast real data? Needs PPADMM_DATA with adult, us and brazil.

    python benchmarks/plan.py                # about 10 minutes on one core

For every data set and number of agents the error of `compare` is held against three forecasts:
from sizes alone, with the error of a model without privacy, and with the share of the rarer class
as well. None of them reads the data set.
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from ppadmm.data import load
from ppadmm.experiments.compare import Grid, compare
from ppadmm.experiments.crowds import majority_error
from ppadmm.experiments.plan import PlanSpec, plan

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
DELTA, GRAPH = 1e-6, "ring"


def truth(name, agents):
    """{ε: mean error} of `compare`, with None for the model without privacy."""
    grid = Grid(
        data=name, algorithms=("pp", "non-private"), epsilons=EPSILONS, delta=DELTA, seeds=6,
        splits=3, agents=agents, graph=GRAPH,
    )  # fmt: skip
    return {row.epsilon: float(np.mean(row.test_error)) for row in compare(grid)}


def rows(name, agents):
    data = load(name)
    found = truth(name, agents)
    quiet, majority = round(found[None], 3), round(majority_error(data.y), 3)
    knowledge = {
        "sizes": {},
        "+ error": {"nonprivate_error": quiet},
        "+ majority": {"nonprivate_error": quiet, "majority_error": majority},
    }
    for known, given in knowledge.items():
        spec = PlanSpec(
            records=(data.train_records // agents,), features=data.d, agents=agents, graph=GRAPH,
            delta=DELTA, epsilons=EPSILONS, changes=False, **given,
        )  # fmt: skip
        for point in plan(spec).curve:
            low, high = point.range
            actual = found[point.epsilon]
            yield {
                "data": name, "agents": agents, "known": known, "epsilon": point.epsilon,
                "actual": actual, "non_private": found[None], "forecast": point.median,
                "low": low, "high": high, "within": low <= actual <= high,
            }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/plan.json"))
    args = parser.parse_args()
    found = []
    print("| data | agents | known | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |")
    print("|---" * (3 + len(EPSILONS)) + "|")
    for name in ("adult", "us", "brazil"):
        for agents in (5, 30):
            new = list(rows(name, agents))
            found += new
            cells = [f"{r['actual']:.3f}" for r in new[: len(EPSILONS)]]
            print(f"| {name} | {agents} | **actual** | " + " | ".join(cells) + " |")
            for known in dict.fromkeys(r["known"] for r in new):
                cells = [
                    f"{r['forecast']:.3f} ({r['low']:.3f}–{r['high']:.3f})"
                    + ("" if r["within"] else " ✗")
                    for r in new
                    if r["known"] == known
                ]
                print(f"| | | {known} | " + " | ".join(cells) + " |", flush=True)
    print("\n| known | within the range | mean distance of the forecast |\n|---|---|---|")
    for known in dict.fromkeys(r["known"] for r in found):
        part = [r for r in found if r["known"] == known]
        apart = np.mean([abs(r["forecast"] - r["actual"]) for r in part])
        print(f"| {known} | {sum(r['within'] for r in part)} of {len(part)} | {apart:.4f} |")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
