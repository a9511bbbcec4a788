"""CPU time of one private training against one non-private fit, in the same process and run.

    python benchmarks/train.py [--data-dir DIR] [--repeats 5] [--megabytes 400] [--out FILE]
    python benchmarks/train.py --curves [--repeats 15]      # writes results/train-curves.json

PP-ADMM: lines, 5 agents, 30 rounds, ε = 1, δ = 1e-4, β = 1e-8, η = 0.002, secure noise, as a
private run has it; calibration included. Beside it the same with seeded noise, and scikit-learn's
LogisticRegression (L-BFGS, C = 100) on the same records pooled in one place. Loading and evaluation
are left out of all, all use one BLAS thread, and the repeats alternate; the table shows medians of
`time.process_time`, and the ratio of wall-clock medians beside it. The compiled kernel is used
unless PPADMM_KERNEL says otherwise. The first fit, which loads (or compiles) it and packs the
records, is not counted; its cost is "first".

With --curves numbers are curves, as they are by default, all settings are the defaults at ε = 1 and
δ = 1e-4, and scikit-learn's fit has its own defaults (C = 1, run until it converges), or C = 100,
on the same dense rows. Secure and seeded noise and scikit-learn alternate. Here every training
starts from records that are not laid out yet; "again" is a second one on the same records.

A second table compares the bytes that one gradient reads per second with a plain read (`X.sum()`)
of the same arrays, which are larger than the caches.
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
os.environ.setdefault("PPADMM_KERNEL", "numba")

import numpy as np
from sklearn.linear_model import LogisticRegression

from ppadmm.accounting import accountant
from ppadmm.accounting.calibration import calibrate
from ppadmm.data import Shard
from ppadmm.data.coded import Coded
from ppadmm.datasets.named import DATA_DIR_VARIABLE, load
from ppadmm.problem import Logistic, risk_of
from ppadmm.runs.metrics import evaluate
from ppadmm.runs.run import execute, prepare
from ppadmm.runs.specification import RunSpec

SETTINGS = {
    "agents": 5,
    "rounds": 30,
    "beta": 1e-8,
    "epsilon": 1.0,
    "delta": 1e-4,
    "eta": 0.002,
    "knots": 0,
}
PACKAGES = ("ppadmm", "numpy", "scipy", "scikit-learn")


def fit_ppadmm(prepared):
    """One whole training, calibration included; returns the model (d,)."""
    calibrate.cache_clear()
    accountant.epsilon.cache_clear()
    return execute(prepared).trace.model(prepared.weights)[0]


def fit_sklearn(X, y):
    return LogisticRegression(solver="lbfgs", C=100, max_iter=1000).fit(X, y)


def dense(X):
    return X if isinstance(X, np.ndarray) else X.toarray()


def seconds(fit, *arguments):
    """Return (CPU, wall) seconds and what was fitted."""
    cpu, wall = time.process_time(), time.perf_counter()
    model = fit(*arguments)
    return (time.process_time() - cpu, time.perf_counter() - wall), model


def measure(data, data_dir, repeats):
    """Time private trainings, seeded ones and fits on one data set, in turn."""
    spec = RunSpec(data=data, data_dir=data_dir, **SETTINGS)
    prepared = prepare(spec)
    seeded = prepared.changed(seed=0)
    pooled = prepared.federation.pooled()
    X, y = dense(pooled.X), pooled.y
    first, theta = seconds(fit_ppadmm, prepared)
    ours, simulated, theirs = [], [], []
    for _ in range(repeats):
        time_, theta = seconds(fit_ppadmm, prepared)
        ours.append(time_)
        simulated.append(seconds(fit_ppadmm, seeded)[0])
        time_, model = seconds(fit_sklearn, X, y)
        theirs.append(time_)
    (our_cpu, our_wall), (seeded_cpu, _), (their_cpu, their_wall) = (
        [statistics.median(column) for column in zip(*times, strict=True)]
        for times in (ours, simulated, theirs)
    )
    test_X, test_y = prepared.federation.test
    test_X = dense(test_X)
    return {
        "data": data,
        "records": len(y),
        "features": X.shape[1],
        "spec": asdict(spec) | {"data_dir": None},
        "private": not prepared.not_private_because,
        "eta": prepared.settings.eta[0],
        "kernel": os.environ["PPADMM_KERNEL"],
        "ppadmm_first": first,
        "ppadmm_seconds": ours,
        "seeded_seconds": simulated,
        "over_seeded": our_cpu / seeded_cpu,
        "sklearn_seconds": theirs,
        "ppadmm_median": our_cpu,
        "sklearn_median": their_cpu,
        "ratio": our_cpu / their_cpu,
        "wall_ratio": our_wall / their_wall,
        "ppadmm_test_error": float(evaluate(test_X, test_y, theta[None]).error[0]),
        "sklearn_test_error": float(1 - model.score(test_X, test_y)),
        "sklearn_iterations": int(model.n_iter_[0]),
    }


def measure_curves(name, data_dir, repeats):
    """Time trainings with curves, secure and seeded, against one default fit of scikit-learn."""
    data, spec = load(name, data_dir=data_dir), RunSpec(epsilon=1.0, delta=1e-4, seed=0)
    federation = prepare(spec, data).federation
    pooled, (test_X, test_y) = federation.pooled(), federation.test
    X, y = dense(pooled.X), pooled.y
    found = {
        "sklearn": [],
        "sklearn C=100": [],
        "secure": [],
        "secure again": [],
        "seeded": [],
        "seeded again": [],
    }
    fit_ppadmm(prepare(spec, data))  # loads the kernel
    for _ in range(repeats):
        for noise, seed in (("secure", None), ("seeded", 0)):
            prepared = prepare(spec, data).changed(seed=seed)
            for again in ("", " again"):
                time_, theta = seconds(fit_ppadmm, prepared)
                found[noise + again].append(time_)
        time_, model = seconds(LogisticRegression(max_iter=1000).fit, X, y)
        found["sklearn"].append(time_)
        found["sklearn C=100"].append(seconds(fit_sklearn, X, y)[0])
    return {
        "data": name,
        "records": len(y),
        "features": X.shape[1],
        "rounds": prepared.settings.rounds,
        "seconds": found,
        "ppadmm_test_error": float(evaluate(dense(test_X), test_y, theta[None]).error[0]),
        "sklearn_test_error": float(1 - model.score(dense(test_X), test_y)),
        "sklearn_iterations": int(model.n_iter_[0]),
    }


def show_curves(row):
    """Print a line for each kind of noise: medians, and medians of ratios within a repeat."""
    fits = [[cpu for cpu, _ in row["seconds"][name]] for name in ("sklearn", "sklearn C=100")]
    for noise in ("secure", "seeded"):
        cells = [f"{statistics.median(theirs):.3f}" for theirs in fits]
        for again in ("", " again"):
            ours = [cpu for cpu, _ in row["seconds"][noise + again]]
            pairs = [list(zip(ours, theirs, strict=True)) for theirs in fits]
            ratios = [statistics.median(a / b for a, b in pair) for pair in pairs]
            cells += [f"{statistics.median(ours):.3f}", *(f"{ratio:.2f}" for ratio in ratios)]
        start = f"| {row['data']} | {row['features']} | {row['rounds']} | {noise} | "
        print(start + " | ".join(cells) + " |", flush=True)


def bandwidth(megabytes, d=50):
    """Yield bytes per second of one gradient and of a plain read of the arrays it reads."""
    print("\n| records | MB | gradient, GB/s | plain read, GB/s | ratio |\n|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    n = megabytes * 1_000_000 // (8 * d)
    numbers = rng.random((n, d - 1), dtype=np.float32)  # few digits: quick to draw
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    theta = rng.standard_normal((1, d))
    coded = Coded.of(numbers.astype(np.float64), np.empty((n, 0), np.int64), d, 1 - 1e-12)
    os.environ["PPADMM_KERNEL"] = "numba"
    risk = risk_of(Shard(coded, y), Logistic())
    yield bandwidth_row("numbers, compiled", risk, list(risk.packed.double[:3]), theta)
    groups = 20
    codes = rng.integers(0, 100, (n, groups)) + 2 + 100 * np.arange(groups)
    wide = Coded.of(numbers[:, :2].astype(np.float64), codes, 3 + 100 * groups, 1 - 1e-12)
    risk = risk_of(Shard(wide, y), Logistic())
    point = rng.standard_normal((1, wide.d))
    yield bandwidth_row("codes, compiled", risk, list(risk.packed.double[:3]), point)
    os.environ["PPADMM_KERNEL"] = "numpy"
    risk = risk_of(Shard(coded.toarray(), y), Logistic())
    yield bandwidth_row("dense, NumPy", risk, risk._blocks, theta)


def bandwidth_row(name, risk, arrays, theta, repeats=7):
    size = sum(array.nbytes for array in arrays)
    gradient, read = [], []
    for _ in range(repeats):
        gradient.append(seconds(risk.gradient, theta)[0][0])
        read.append(seconds(lambda: [array.sum() for array in arrays])[0][0])
    rates = [size / statistics.median(times) / 1e9 for times in (gradient[1:], read[1:])]
    print(
        f"| {name} | {size / 1e6:.0f} | {rates[0]:.1f} | {rates[1]:.1f} | "
        f"{rates[0] / rates[1]:.2f} |",
        flush=True,
    )
    return {"records": name, "bytes": size, "gradient_gb_s": rates[0], "read_gb_s": rates[1]}


def show(row):
    print(
        f"| {row['data']} | {row['records']:,} | {row['features']} | {row['ppadmm_median']:.3f} | "
        f"{row['sklearn_median']:.3f} | {row['ratio']:.2f} | {row['wall_ratio']:.2f} | "
        f"{row['over_seeded']:.2f} | "
        f"{row['ppadmm_first'][0]:.3f} | {row['ppadmm_test_error']:.4f} | "
        f"{row['sklearn_test_error']:.4f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data-dir", default=os.environ.get(DATA_DIR_VARIABLE))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--curves", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    name = "train-curves.json" if args.curves else "train.json"
    file = args.out or Path(__file__).parent / "results" / name
    machine = {"machine": platform.machine(), "system": platform.platform(), "cpus": os.cpu_count()}
    versions = {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}
    result = {"machine": machine, "versions": versions, "blas_threads": 1}
    result |= curve_tables(args) if args.curves else tables(args)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def curve_tables(args):
    """Print the table of --curves."""
    print(
        "| data | features | rounds | noise | scikit-learn, CPU s | with C = 100 | "
        "PP-ADMM, CPU s | ratio | C = 100 | again, CPU s | ratio | C = 100 |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|"
    )
    rows = []
    for data in ("adult", "us", "brazil") if args.data_dir else ("synthetic",):
        rows.append(measure_curves(data, args.data_dir, args.repeats))
        show_curves(rows[-1])
    return {"rows": rows}


def tables(args):
    """Print the two tables of lines."""
    print(
        "| data | records | features | PP-ADMM, CPU s | scikit-learn, CPU s | ratio | "
        "ratio, wall | over seeded | first, CPU s | PP-ADMM, test error | "
        "scikit-learn, test error |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|"
    )
    rows = []
    for data in ("adult", "brazil") if args.data_dir else ("synthetic",):
        rows.append(measure(data, args.data_dir, args.repeats))
        show(rows[-1])
    return {"rows": rows, "bandwidth": list(bandwidth(args.megabytes))}


if __name__ == "__main__":
    main()
