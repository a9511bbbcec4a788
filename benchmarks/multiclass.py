"""More than two classes: the default η on synthetic classes, and the digits 0–9.

    python benchmarks/multiclass.py            # both tables, about 6 minutes
    python benchmarks/multiclass.py digits     # only the digits
    python benchmarks/multiclass.py hinge      # `rule` for the hinge loss, one-vs-rest

`rule` compares multiples of the rule's η on Gaussian classes. `digits` trains on scikit-learn's
1,797 digits (64 pixels with the public bounds 0 and 16) over five agents and reports test accuracy.
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from ppadmm.accounting import Budget
from ppadmm.algorithms import Settings
from ppadmm.algorithms.method import MethodSpec
from ppadmm.data import Classes, Dataset, Numeric, Schema
from ppadmm.engines import local
from ppadmm.errors import InfeasibleError
from ppadmm.noise import SeededNoise
from ppadmm.problem import loss_for
from ppadmm.runs.federation import build_federation, make_agents
from ppadmm.runs.metrics import evaluate

SPLITS, SEEDS = range(4), range(5)


def digits():
    X, y = load_digits(return_X_y=True)
    columns = tuple(Numeric(f"pixel {k}", 0, 16) for k in range(64))
    schema = Schema(columns, Classes("digit", tuple(map(str, range(10)))))
    table = {c.name: X[:, k] for k, c in enumerate(columns)} | {"digit": [str(v) for v in y]}
    return Dataset("digits", *schema.encode(table), schema, 1437)


def gaussian_classes(K, d, n, seed):
    """K classes around random means, bounds ±4 declared."""
    rng = np.random.default_rng([K, d, n, seed])
    means = rng.standard_normal((K, d)) * 0.5
    y = rng.integers(0, K, n)
    X = means[y] + rng.standard_normal((n, d))
    columns = tuple(Numeric(f"x{k}", -4, 4) for k in range(d))
    schema = Schema(columns, Classes("class", tuple(map(str, range(K)))))
    table = {c.name: X[:, k] for k, c in enumerate(columns)} | {"class": [str(v) for v in y]}
    return Dataset("gaussian", *schema.encode(table), schema, n - 5000)


def errors(federation, algorithm, epsilon, delta, multiple=1.0, seeds=SEEDS):
    """Test errors of one cell over noise seeds, and the η in use."""
    budgets = [Budget(epsilon, delta)] * federation.graph.size
    plan = federation.chosen(MethodSpec(algorithm=algorithm), budgets)
    R, eta = len(seeds), plan.eta * multiple
    settings = Settings(
        plan.rounds, (eta,) * R, (plan.regularisation,) * R, (budgets[0],) * R, beta=1e-8
    )
    sites = federation.sites(plan, budgets)
    agents = make_agents(algorithm, sites, [settings] * len(sites), SeededNoise(tuple(seeds)))
    model = local.run(agents).model(federation.weights(plan, budgets))
    return evaluate(*federation.test, model, federation.schema.classes).error


def rule(loss, settings):
    rows = []
    print("| classes | features | records per agent | ε | " + " | ".join(
        f"{m:g}·η" for m in MULTIPLES) + " |")  # fmt: skip
    print("|---" * (4 + len(MULTIPLES)) + "|")
    for K, d, n in settings:
        data = gaussian_classes(K, d, 5 * n + 5000, 0)
        federation = build_federation(data, 5, "erdos-renyi", loss_for(loss, K), 0)
        for epsilon in (0.5, 1.0, 4.0):
            cells = {}
            for m in MULTIPLES:
                try:
                    found = errors(federation, "pp", epsilon, 1e-6, m, range(3))
                    cells[m] = float(np.mean(found))
                except InfeasibleError:
                    cells[m] = None
            rows.append({"K": K, "d": d, "n": n, "epsilon": epsilon, "error": cells})
            spelt = ["–" if v is None else f"{v:.3f}" for v in cells.values()]
            print(f"| {K} | {d} | {n} | {epsilon:g} | " + " | ".join(spelt) + " |", flush=True)
    return rows


MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)
SETTINGS = ((3, 20, 2000), (5, 50, 1000), (10, 20, 2000), (10, 20, 400))


def digit_table():
    data, rows = digits(), []
    federations = {
        how: [
            build_federation(data, 5, "erdos-renyi", loss_for("logistic", 10, how), k)
            for k in SPLITS
        ]
        for how in ("multinomial", "one-vs-rest")
    }
    print("| algorithm | loss | ε = 1 | ε = 10 | ε = ∞ |\n|---|---|---|---|---|")
    for algorithm in ("pp", "ipp"):
        for how, parts in federations.items():
            cells = []
            for epsilon in (1.0, 10.0):
                found = np.concatenate([errors(s, algorithm, epsilon, 1e-4) for s in parts])
                cells.append(1.0 - found)
            cells.append(1.0 - np.concatenate(
                [errors(s, "non-private", 1.0, 1e-4, seeds=range(1)) for s in parts]))  # fmt: skip
            spelt = [f"{c.mean():.3f} ± {c.std():.3f}" for c in cells]
            rows.append({"algorithm": algorithm, "loss": how, "accuracy": [list(c) for c in cells]})
            print(f"| {algorithm} | {how} | " + " | ".join(spelt) + " |", flush=True)
    pooled = [s.pooled() for s in federations["multinomial"]]
    reference = [
        LogisticRegression(C=100, max_iter=5000).fit(p.X, p.y).score(*s.test)
        for p, s in zip(pooled, federations["multinomial"], strict=True)
    ]
    print(f"\nscikit-learn on the pooled records: {np.mean(reference):.3f}")
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parts = ("rule", "hinge", "digits", "all")
    parser.add_argument("part", nargs="?", choices=parts, default="all")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/multiclass.json"))
    args = parser.parse_args()
    result = {}
    if args.part in ("rule", "all"):
        result["rule"] = rule("logistic", SETTINGS)
    if args.part == "hinge":
        result["hinge"] = rule("huber-hinge", SETTINGS[::2])
    if args.part in ("digits", "all"):
        result["digits"] = digit_table()
    args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
