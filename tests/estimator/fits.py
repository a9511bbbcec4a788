"""Small fits: their settings and their made-up records."""

import numpy as np

PUBLIC = {"bounds": (-1, 1), "classes": [0, 1], "delta": 1e-3}
SMALL = {**PUBLIC, "rounds": 8, "n_agents": 3, "graph": "complete"}
WEIGHTS = np.array([3.0, -2.0, 1.0, 0.0])


def records(n=600, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 4))
    scores = X @ WEIGHTS + 0.3 * rng.standard_normal(n)
    return X, np.digitize(scores, np.quantile(scores, np.arange(1, classes) / classes))
