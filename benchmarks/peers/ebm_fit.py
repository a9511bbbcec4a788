"""Fit interpret's DP-EBM on raw columns; see timed.py for the arguments.

Run by benchmarks/glassbox.py in an environment of its own. δ = 1e-4, one job, and otherwise the
defaults of DPExplainableBoostingClassifier. RECORDS also has `columns`, a JSON list: [name, low,
high] of a number, whose public bounds they are, and [name] of a category, whose cells are codes.
"""

import json
import warnings

import interpret
import pandas as pd
from interpret.privacy import DPExplainableBoostingClassifier
from timed import run

warnings.filterwarnings("ignore")


def read(X, y, columns):
    known = json.loads(columns)
    cells = {
        c[0]: x if len(c) == 3 else x.astype(int).astype(str)
        for c, x in zip(known, X.T, strict=True)
    }
    return pd.DataFrame(cells), y, known


def fit(X, y, known, epsilon, seed, **more):
    return DPExplainableBoostingClassifier(
        feature_types=["continuous" if len(c) == 3 else "nominal" for c in known],
        privacy_bounds={c[0]: (c[1], c[2]) for c in known if len(c) == 3},
        epsilon=epsilon,
        delta=1e-4,
        random_state=seed,
        n_jobs=1,
        **more,
    ).fit(X, y)


if __name__ == "__main__":
    run(
        read,
        fit,
        lambda model, X: model.decision_function(X),
        f"interpret-core {interpret.__version__}",
    )
