"""Lines against curves: test error and AUC of private training with each, on one data set.

    python benchmarks/curves.py [synthetic] [--epsilons 0.5,1,2] [--knots 6]

Five equal agents, default settings, δ = 10⁻⁴, mean over seeds 0 to 4. Every numeric column whose
bounds are more than 1 apart becomes a curve.
"""

import argparse
import os
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from ppadmm import RunSpec, train
from ppadmm.data import Numeric
from ppadmm.datasets import load

SEEDS = range(5)
KNOTS = 6


def with_curves(data, knots):
    """Return the same records with their numbers as curves."""
    columns = tuple(
        replace(c, shape="curve", knots=knots)
        if isinstance(c, Numeric) and c.high - c.low > 1.0
        else c
        for c in data.schema.columns
    )
    schema = replace(data.schema, columns=columns)
    return replace(data, X=schema.encode_coded(data.table), schema=schema)


def with_lines(data):
    """Return the same records with a line for every number."""
    columns = tuple(
        replace(c, shape="line", knots=None) if isinstance(c, Numeric) else c
        for c in data.schema.columns
    )
    schema = replace(data.schema, columns=columns)
    return replace(data, X=schema.encode_coded(data.table), schema=schema)


def feature_sets(name, data_dir=None):
    """Return a data set twice, as lines and as curves: what benchmarks compare is said here."""
    data = load(name, data_dir=data_dir)
    return {"lines": with_lines(data), "curves": with_curves(data, KNOTS)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", default="synthetic")
    parser.add_argument("--epsilons", default="0.5,1,2")
    parser.add_argument("--knots", type=int, default=KNOTS)
    given = parser.parse_args()
    lines = load(given.data)
    kinds = {"lines": lines, f"{given.knots} knots": with_curves(lines, given.knots)}
    print("| " + given.data + " | features | ε | test error | AUC |\n|---|---|---|---|---|")
    for epsilon in map(float, given.epsilons.split(",")):
        for name, data in kinds.items():
            spec = RunSpec(epsilon=epsilon, delta=1e-4)
            found = [train(replace(spec, seed=seed), data=data).metrics for seed in SEEDS]
            error, auc = (
                np.mean([getattr(m, what)[0] for m in found]) for what in ("error", "auc")
            )
            print(f"| {name} | {data.d} | {epsilon:g} | {error:.4f} | {auc:.4f} |", flush=True)


if __name__ == "__main__":
    main()
