"""Why DP-EBM's test error is high where its AUC is good, and which learning rate helps.

    python benchmarks/ebm.py [adult] [--epsilon 1] [--seeds 0,1,2,3,4] [--envs DIR]

Fits with its defaults, nearly without noise (ε = 10⁶), with more rounds, and with larger learning
rates, on the splits of benchmarks/glassbox.py. Beside the test figures: the mean probability that
is predicted and the share that is true, the share that is predicted positive, and the slope by
which scores would have to be multiplied to fit the test records best (1 is right, 3 says that they
are a third of what they should be). Means over the seeds.
"""

import argparse
import json
import os
import statistics
from pathlib import Path

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
from glassbox import arrays_of, figures
from peers import environment, peer
from sklearn.linear_model import LogisticRegression

from ppadmm.datasets import load

VARIANTS = {
    "defaults (learning rate 0.01, 300 rounds)": {},
    "ε = 10⁶": {"epsilon": 1e6},
    "1,000 rounds": {"max_rounds": 1000},
    "learning rate 0.05": {"learning_rate": 0.05},
    "learning rate 0.1": {"learning_rate": 0.1},
    "learning rate 0.2": {"learning_rate": 0.2},
}
SHOWN = ("error", "auc", "log_loss", "probability", "positive", "slope", "seconds")


def scale(scores, y):
    """Return how scores relate to the truth on the test records."""
    again = LogisticRegression(C=1e9).fit(scores[:, None], y)
    return {
        "probability": float(np.mean(1 / (1 + np.exp(-scores)))),
        "true": float(np.mean(y > 0)),
        "positive": float(np.mean(scores > 0)),
        "slope": float(again.coef_[0, 0]),
    }


def measure(python, data, epsilon, seed):
    """Return the figures of every variant on one split."""
    arrays = arrays_of(data, "raw", epsilon, seed)
    fits = [{"epsilon": epsilon, "seed": seed} | more for more in VARIANTS.values()]
    said, scores = peer(python, "ebm", arrays, fits)
    found = [figures(own, arrays["test_y"]) | scale(own, arrays["test_y"]) for own in scores]
    return [a | {"seconds": b} for a, b in zip(found, said["seconds"], strict=True)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", nargs="?", default="adult")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=lambda t: [*map(int, t.split(","))], default=range(5))
    parser.add_argument("--envs", type=Path, default=Path("~/.cache/ppadmm-peers").expanduser())
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    data, python = load(given.data), environment(given.envs, "ebm")
    found = [measure(python, data, given.epsilon, seed) for seed in given.seeds]
    true = statistics.mean(row["true"] for rows in found for row in rows)
    print(
        f"| DP-EBM, {given.data}, ε = {given.epsilon:g}, {true:.3f} positive | test error | AUC ",
        end="",
    )
    print(
        "| log loss | mean probability | predicted positive | slope | CPU s |\n" + "|---" * 8 + "|"
    )
    for k, name in enumerate(VARIANTS):
        means = [statistics.mean(rows[k][what] for rows in found) for what in SHOWN]
        error, auc, loss, *rest, slope, cpu = means
        cells = [f"{v:.4f}" for v in (error, auc, loss)] + [f"{v:.3f}" for v in rest]
        print(f"| {name} | {' | '.join(cells)} | {slope:.2f} | {cpu:.2f} |", flush=True)
    file = given.out or Path(__file__).parent / f"results/ebm-{given.data}.json"
    result = {name: [rows[k] for rows in found] for k, name in enumerate(VARIANTS)}
    file.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
