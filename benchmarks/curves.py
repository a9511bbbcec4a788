"""Lines against curves: test error and AUC of private training with each, on one data set.

    python benchmarks/curves.py [synthetic] [--epsilons 0.5,1,2] [--knots K]

Five equal agents, default settings, δ = 10⁻⁴, mean over seeds 0 to 4 (simulated noise of the size
that a private run has). Without --knots curves have as many as the rule says.
"""

import argparse
import os
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from ppadmm import RunSpec, train
from ppadmm.data.knots import settle_knots
from ppadmm.datasets import load

SEEDS = range(5)
FEATURES = {"curves": None, "lines": 0}
"""What benchmarks compare, as the `knots` of a RunSpec: curves by the rule, and lines."""


def encoded(data, kind, epsilon):
    """Return the data as a run at this ε encodes them; the rule for knots goes by ε."""
    schema = settle_knots(data.schema, data.train_records, epsilon, FEATURES[kind])
    return data.with_schema(schema)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", default="synthetic")
    parser.add_argument("--epsilons", default="0.5,1,2")
    parser.add_argument("--knots", type=int)
    given = parser.parse_args()
    data = load(given.data)
    print("| " + given.data + " | features | ε | test error | AUC |\n|---|---|---|---|---|")
    for epsilon in map(float, given.epsilons.split(",")):
        for name, knots in (("lines", 0), ("curves", given.knots)):
            spec = RunSpec(epsilon=epsilon, delta=1e-4, knots=knots)
            found = [train(replace(spec, seed=seed), data=data) for seed in SEEDS]
            error, auc = (
                np.mean([getattr(r.metrics, what)[0] for r in found]) for what in ("error", "auc")
            )
            d = found[0].setup.features
            print(f"| {name} | {d} | {epsilon:g} | {error:.4f} | {auc:.4f} |", flush=True)


if __name__ == "__main__":
    main()
