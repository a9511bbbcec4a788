"""Fit diffprivlib's logistic regression on encoded records; see timed.py for the arguments.

Run by benchmarks/peers.py and glassbox.py in an environment of its own. Pure ε, rows of norm ≤ 1,
an intercept column among the features, C = 1/(n·10⁻³), a regulariser of 10⁻³; not tuned.
"""

import warnings

import diffprivlib
from diffprivlib.models import LogisticRegression
from timed import run

warnings.filterwarnings("ignore")


def fit(X, y, epsilon, seed):
    return LogisticRegression(
        epsilon=epsilon,
        data_norm=1.0,
        C=1 / (len(y) * 1e-3),
        fit_intercept=False,
        max_iter=1000,
        random_state=seed,
    ).fit(X, y)


if __name__ == "__main__":
    run(
        lambda X, y, _: (X, y),
        fit,
        lambda model, X: X @ model.coef_[0],
        f"diffprivlib {diffprivlib.__version__}",
    )
