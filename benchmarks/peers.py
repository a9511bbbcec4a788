"""One private training against other libraries doing comparable work, in the same run.

    python benchmarks/peers.py [--data-dir DIR] [--repeats 7] [--envs DIR] [--out FILE]

PP-ADMM: lines, five agents, 30 rounds, ε = 1, δ = 1e-4, β = 1e-8, η = 0.002, secure noise, as a
private run has it, calibration included. Beside it the same with seeded noise. Against it, on the
same records pooled in one place: scikit-learn's LogisticRegression (lbfgs and newton-cholesky,
C = 100, no privacy), diffprivlib's (ε = 1, noise from the system) and DP-SGD with Opacus (ε = 1,
seeded: it has no other noise with this version of torch). diffprivlib and Opacus run in
environments of their own, made in --envs when absent (about 1 GB; diffprivlib 0.6.6 needs
scikit-learn ≤ 1.7). One thread for all; medians of CPU seconds, scikit-learn and PP-ADMM in turn,
each other library directly after them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
from sklearn.linear_model import LogisticRegression
from train import SETTINGS, dense, fit_ppadmm, seconds

from ppadmm.datasets.named import DATA_DIR_VARIABLE
from ppadmm.runs.metrics import evaluate
from ppadmm.runs.run import prepare
from ppadmm.runs.specification import RunSpec

HERE = Path(__file__).parent
PEERS = {
    "diffprivlib": ["diffprivlib==0.6.6", "scikit-learn==1.7.2"],
    "opacus": ["torch==2.13.0", "opacus==1.6.0"],
    "ebm": ["interpret-core==0.7.8"],
}
NOISE = {
    "ppadmm": "secure",
    "ppadmm, seeded": "seeded",
    "lbfgs": "none",
    "newton-cholesky": "none",
    "diffprivlib": "secure",
    "opacus": "seeded",
}


def environment(folder, name):
    """The Python of a peer's environment, made when absent."""
    python = folder / name / "bin" / "python"
    if not python.exists():
        print(f"# installing {', '.join(PEERS[name])}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder / name], check=True)
        for package in PEERS[name]:
            subprocess.run([python, "-m", "pip", "install", "-q", package], check=True)
    return python


def peer(python, name, arrays, fits):
    """Run these fits of a peer on these arrays; return what it printed, and the scores (k, n)."""
    script = HERE / "peers" / f"{name}_fit.py"
    with tempfile.TemporaryDirectory() as folder:
        records, scores = Path(folder) / "records.npz", Path(folder) / "scores.npz"
        np.savez(records, **arrays)
        done = subprocess.run(
            [python, script, records, scores, json.dumps(fits)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return json.loads(done.stdout.splitlines()[-1]), np.load(scores)["scores"]


def measure(data, data_dir, repeats, envs):
    prepared = prepare(RunSpec(data=data, data_dir=data_dir, **SETTINGS))
    pooled, (test_X, test_y) = prepared.federation.pooled(), prepared.federation.test
    X, y = np.asarray(dense(pooled.X)), pooled.y
    test_X = np.asarray(dense(test_X))
    ours = {"ppadmm": prepared, "ppadmm, seeded": prepared.changed(seed=0)}
    found = {
        name: {"noise": NOISE[name], "seconds": [], "errors": []}
        for name in (*ours, "lbfgs", "newton-cholesky")
    }
    for name, run in ours.items():
        found[name]["private"] = not run.not_private_because
    fit_ppadmm(prepared)  # compile what is compiled
    for _ in range(repeats):
        for name, run in ours.items():
            (cpu, _), theta = seconds(fit_ppadmm, run)
            found[name]["seconds"].append(cpu)
            found[name]["errors"].append(float(evaluate(test_X, test_y, theta[None]).error[0]))
        for solver in ("lbfgs", "newton-cholesky"):
            model = LogisticRegression(solver=solver, C=100, max_iter=1000)
            (cpu, _), model = seconds(model.fit, X, y)
            found[solver]["seconds"].append(cpu)
            found[solver]["errors"].append(float(1 - model.score(test_X, test_y)))
    arrays = {"X": X, "y": y, "test_X": test_X, "test_y": test_y}
    for name in ("diffprivlib", "opacus"):
        seeds = range(min(repeats, 5)) if NOISE[name] == "seeded" else [None] * min(repeats, 5)
        fits = [{"epsilon": 1.0, "seed": seed} for seed in seeds]
        said, scores = peer(environment(envs, name), name, arrays, fits)
        found[name] = (
            {"noise": NOISE[name]} | said | {"errors": (scores * test_y <= 0).mean(axis=1).tolist()}
        )
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data-dir", default=os.environ.get(DATA_DIR_VARIABLE))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--envs", type=Path, default=Path("~/.cache/ppadmm-peers").expanduser())
    parser.add_argument("--out", type=Path, default=HERE / "results/peers.json")
    args = parser.parse_args()
    args.envs.mkdir(parents=True, exist_ok=True)
    print("| data | library | noise | CPU s | PP-ADMM takes | test error |\n" + "|---" * 6 + "|")
    result = {}
    for data in ("adult", "brazil") if args.data_dir else ("synthetic",):
        result[data] = measure(data, args.data_dir, args.repeats, args.envs)
        ours = statistics.median(result[data]["ppadmm"]["seconds"])
        for name, row in result[data].items():
            theirs = statistics.median(row["seconds"])
            ratio = "" if name == "ppadmm" else f"{ours / theirs:.2f} ×"
            error = statistics.mean(row["errors"])
            cells = (data, name, row["noise"], f"{theirs:.3f}", ratio, f"{error:.4f}")
            print(f"| {' | '.join(cells)} |", flush=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
