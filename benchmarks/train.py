"""CPU time of one private training against one non-private fit, in the same process and run.

    python benchmarks/train.py [--data-dir DIR] [--repeats 5] [--out FILE]

PP-ADMM: 5 agents, 30 rounds, ε = 1, δ = 1e-4, β = 1e-8, η = 0.002, seeded noise;
calibration included. Against it scikit-learn's LogisticRegression (L-BFGS, C = 100) on the same
records pooled in one place. Loading and evaluation are left out of both, both use one BLAS
thread, and the repeats alternate; the table shows medians of `time.process_time`.
"""

import argparse
import json
import os
import platform
import statistics
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
from sklearn.linear_model import LogisticRegression

from ppadmm.data.named import DATA_DIR_VARIABLE
from ppadmm.engines import local
from ppadmm.experiments.metrics import evaluate
from ppadmm.experiments.scene import cast
from ppadmm.experiments.spec import RunSpec
from ppadmm.experiments.train import prepare
from ppadmm.noise import SeededNoise
from ppadmm.privacy.calibration import calibrate

SETTINGS = {
    "agents": 5,
    "rounds": 30,
    "beta": 1e-8,
    "epsilon": 1.0,
    "delta": 1e-4,
    "eta": 0.002,
    "seed": 0,
}
PACKAGES = ("ppadmm", "numpy", "scipy", "scikit-learn")


def fit_ppadmm(prepared):
    """One whole training, calibration included; returns the model (d,)."""
    calibrate.cache_clear()
    spec, noise = prepared.spec, SeededNoise((prepared.spec.seed,))
    sites = prepared.scene.sites(spec.algorithm)
    agents = cast(spec.algorithm, sites, [prepared.settings] * len(sites), noise, capped=True)
    return local.run(agents).model()[0]


def fit_sklearn(X, y):
    return LogisticRegression(solver="lbfgs", C=100, max_iter=1000).fit(X, y)


def dense(X):
    return X if isinstance(X, np.ndarray) else X.toarray()


def cpu_seconds(fit, *arguments):
    started = time.process_time()
    model = fit(*arguments)
    return time.process_time() - started, model


def measure(data, data_dir, repeats):
    """Time both on one data set, in turn."""
    spec = RunSpec(data=data, data_dir=data_dir, **SETTINGS)
    prepared = prepare(spec)
    pooled = prepared.scene.pooled()
    X, y = dense(pooled.X), pooled.y
    ours, theirs = [], []
    for _ in range(repeats):
        seconds, theta = cpu_seconds(fit_ppadmm, prepared)
        ours.append(seconds)
        seconds, model = cpu_seconds(fit_sklearn, X, y)
        theirs.append(seconds)
    test_X, test_y = prepared.scene.test
    test_X = dense(test_X)
    return {
        "data": data,
        "records": len(y),
        "features": X.shape[1],
        "spec": asdict(spec) | {"data_dir": None},
        "eta": prepared.settings.eta[0],
        "ppadmm_seconds": ours,
        "sklearn_seconds": theirs,
        "ppadmm_median": statistics.median(ours),
        "sklearn_median": statistics.median(theirs),
        "ratio": statistics.median(ours) / statistics.median(theirs),
        "ppadmm_test_error": float(evaluate(test_X, test_y, theta[None]).error[0]),
        "sklearn_test_error": float(1 - model.score(test_X, test_y)),
        "sklearn_iterations": int(model.n_iter_[0]),
    }


def show(row):
    print(
        f"| {row['data']} | {row['records']:,} | {row['features']} | {row['ppadmm_median']:.3f} | "
        f"{row['sklearn_median']:.3f} | {row['ratio']:.2f} | {row['ppadmm_test_error']:.4f} | "
        f"{row['sklearn_test_error']:.4f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data-dir", default=os.environ.get(DATA_DIR_VARIABLE))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/train.json")
    args = parser.parse_args()
    print(
        "| data | records | features | PP-ADMM, CPU s | scikit-learn, CPU s | ratio | "
        "PP-ADMM, test error | scikit-learn, test error |\n|---|---|---|---|---|---|---|---|"
    )
    rows = []
    for data in ("adult", "brazil") if args.data_dir else ("synthetic",):
        rows.append(measure(data, args.data_dir, args.repeats))
        show(rows[-1])
    machine = {"machine": platform.machine(), "system": platform.platform(), "cpus": os.cpu_count()}
    versions = {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}
    result = {"machine": machine, "versions": versions, "blas_threads": 1, "rows": rows}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
