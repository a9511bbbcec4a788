"""Derives and checks the rule for the default η and T, on synthetic data only.

    python benchmarks/defaults.py            # about 10 minutes on two cores

For every scenario (generator × sizes × graph) and budget the rule's choice is compared with
η and T around it; the table prints the mean and the worst regret in test error, i.e. how much
worse a multiple of the rule's η (or T) is than the best of those tried.
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from ppadmm.accounting import Budget
from ppadmm.agent import Agent
from ppadmm.algorithms import Settings, Site, build
from ppadmm.algorithms.defaults import Sizes, default_eta, default_rounds, smallest_mu
from ppadmm.data import even, normalise_rows, shards
from ppadmm.datasets import load
from ppadmm.engines import local
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import SeededNoise
from ppadmm.problem import Logistic, MarginRisk, make_graph

DELTA = 1e-6
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
MULTIPLES = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
SEEDS = range(3)
LOSS = Logistic()
SCENARIO = ("generator", "features", "records", "agents", "graph")


def census(records, features, seed):
    """The embedded census-like data; the first columns and the intercept for fewer features."""
    data = load("synthetic")
    rows = np.random.default_rng(seed).permutation(data.n)[:records]
    X = data.X[rows]
    if features < data.d:
        X = np.ascontiguousarray(X.toarray()[:, np.r_[0 : features - 1, data.d - 1]])
    return normalise_rows(X), data.y[rows]


def power_law(records, features, seed):
    """Gaussian features with variances 1, 1/2, 1/3, …, labels from a logistic model."""
    rng = np.random.default_rng([seed, features])
    scale = np.arange(1, features) ** -0.5
    X = np.c_[rng.standard_normal((records, features - 1)) * scale, np.full(records, 0.7)]
    X = normalise_rows(X)
    weights = rng.standard_normal(features) * 6 / np.sqrt(features) / np.r_[scale, 1.0] ** 0.5
    positive = rng.random(records) < 1 / (1 + np.exp(-X @ weights))
    return X, np.where(positive, 1.0, -1.0)


SCENARIOS = [
    (generator, features, records, agents, kind)
    for generator, features in ((census, 41), (census, 12), (power_law, 30), (power_law, 150))
    for records, agents, kind in (
        (7000, 5, "erdos-renyi"),
        (10000, 3, "complete"),
        (2000, 5, "star"),
        (1000, 10, "ring"),
        (500, 30, "erdos-renyi"),
    )
]


def test_errors(risks, graph, cells, rounds, test):
    """Mean test error of every (ε, η) cell, all cells and seeds in one batched run."""
    budgets = tuple(Budget(epsilon, DELTA) for epsilon, _ in cells for _ in SEEDS)
    etas = tuple(eta for _, eta in cells for _ in SEEDS)
    settings = Settings(rounds, etas, (0.0,) * len(etas), budgets, beta=1e-8)
    noise = SeededNoise(tuple(seed for _ in cells for seed in SEEDS))
    agents = [
        Agent(
            build("pp", Site(i, graph.size, graph.neighbours(i), risks[i]), settings),
            i,
            graph.neighbours(i),
            [MemoryLedger() for _ in etas],
            noise,
        )
        for i in range(graph.size)
    ]
    X, y = test
    wrong = (X @ local.run(agents).model().T) * y[:, None] <= 0
    return wrong.mean(axis=0).reshape(len(cells), len(SEEDS)).mean(axis=1)


def scenario(generator, features, records, agents, kind):
    """Test errors around the rule: {ε: {"eta": {multiple: error}, "rounds": {…}}}."""
    X, y = generator(records * agents + 10000, features, seed=0)
    cut = records * agents
    parts = shards(X[:cut], y[:cut], even(cut, agents, 0))
    graph = make_graph(kind, agents, 0)
    risks = [MarginRisk(part, LOSS) for part in parts]
    sizes = Sizes((records,) * agents, features, graph.degrees, (1.0,) * agents)
    rows = []
    by_rounds = {}
    for epsilon in EPSILONS:
        budgets = (Budget(epsilon, DELTA),) * agents
        T = default_rounds(sizes, budgets, LOSS)
        by_rounds.setdefault(T, []).append(epsilon)
    for T, epsilons in by_rounds.items():
        for factor in (0.5, 1.0, 2.0):
            rounds = round(T * factor)
            cells = []
            for epsilon in epsilons:
                budget = Budget(epsilon, DELTA)
                eta = default_eta(sizes, (budget,) * agents, LOSS, rounds)
                least = smallest_mu(budget, records, LOSS, features, rounds) / (
                    2.0 * min(graph.degrees)
                )
                multiples = MULTIPLES if factor == 1.0 else (1.0,)
                cells += [(epsilon, eta, m) for m in multiples if eta * m > 1.1 * least]
            errors = test_errors(
                risks, graph, [(e, h * m) for e, h, m in cells], rounds, (X[cut:], y[cut:])
            )
            rows += [
                {
                    "generator": generator.__name__,
                    "features": features,
                    "records": records,
                    "agents": agents,
                    "graph": kind,
                    "epsilon": e,
                    "rounds": rounds,
                    "round_factor": factor,
                    "eta": h * m,
                    "multiple": m,
                    "error": float(error),
                }
                for (e, h, m), error in zip(cells, errors, strict=True)
            ]
    return rows


def regrets(rows, key):
    """Regret of each value of `key` against the best value tried in the same scenario and ε."""
    out = {}
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[k] for k in (*SCENARIO, "epsilon")), []).append(row)
    for group in groups.values():
        best = min(row["error"] for row in group)
        for row in group:
            out.setdefault(row[key], []).append(row["error"] - best)
    return {k: (len(v), float(np.mean(v)), float(np.max(v))) for k, v in sorted(out.items())}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/defaults.json"))
    args = parser.parse_args()
    rows = []
    for case in SCENARIOS:
        rows += scenario(*case)
        done = [r for r in rows[-200:] if r["multiple"] == 1 and r["round_factor"] == 1]
        last = done[-1]
        print("#", *(last[k] for k in SCENARIO), "T =", last["rounds"], flush=True)
    for title, part, key in (
        ("multiple of the rule's η", [r for r in rows if r["round_factor"] == 1], "multiple"),
        ("multiple of the rule's T", [r for r in rows if r["multiple"] == 1], "round_factor"),
    ):
        print(f"\n| {title} | settings | mean regret | worst regret |\n|---|---|---|---|")
        for value, (count, mean, worst) in regrets(part, key).items():
            print(f"| {value:g} | {count} | {mean:.4f} | {worst:.4f} |")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
