"""What an interaction learns that two columns alone cannot: test error with and without it.

    python benchmarks/interactions.py [--epsilons 1,2] [--records 4000]

A record is ill if exactly one of two things is so; 5 % of the labels are wrong. Three equal agents,
default settings, mean over seeds 0 to 4.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from ppadmm import RunSpec, train
from ppadmm.data import Categorical, Interaction, Label, Numeric, Schema
from ppadmm.datasets import load

SEEDS = range(5)
COLUMNS = {
    "x": Numeric("x", 0, 1, shape="curve", knots=6),
    "z": Numeric("z", 0, 1, shape="curve", knots=6),
    "group": Categorical("group", ("a", "b")),
}
PAIRS = {"two curves": ("x", "z"), "a curve and a category": ("x", "group")}


def crossed(n, seed=0):
    """Return records of which no sum over their columns knows who is ill."""
    rng = np.random.default_rng(seed)
    x, z = rng.random(n), rng.random(n)
    ill = ((x > 0.5) != (z > 0.5)) ^ (rng.random(n) < 0.05)
    group = np.where(z > 0.5, "b", "a")
    return {"x": x, "z": z, "group": group, "ill": np.where(ill, "yes", "no")}


def error(table, pair, with_product, **how):
    """Return the mean test error over the seeds."""
    products = (Interaction(pair),) if with_product else ()
    columns = tuple(COLUMNS[name] for name in pair)
    schema = Schema(columns, Label("ill", ("yes",), ("no",)), interactions=products)
    data = load(table, schema=schema)
    specs = (RunSpec(agents=3, seed=seed, **how) for seed in SEEDS)
    return np.mean([train(spec, data=data).metrics.error[0] for spec in specs])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilons", default="1,2")
    parser.add_argument("--records", type=int, default=4000)
    given = parser.parse_args()
    runs = {"no noise": {"algorithm": "non-private"}}
    runs |= {f"ε = {e}": {"epsilon": float(e)} for e in given.epsilons.split(",")}
    print("| test error | " + " | ".join(runs) + " |\n|---|" + "---|" * len(runs))
    table = crossed(given.records)
    for name, pair in PAIRS.items():
        for with_product in (False, True):
            found = [error(table, pair, with_product, **how) for how in runs.values()]
            what = name + (", with their interaction" if with_product else "")
            print(f"| {what} | " + " | ".join(f"{e:.3f}" for e in found) + " |", flush=True)


if __name__ == "__main__":
    main()
