"""The sweep of figure 5 against the same runs one at a time.

    python benchmarks/sweep.py [--data adult] [--data-dir DIR] [--rounds 30] [--sample 4] [--out F]

Six algorithms, five budgets (ε = 0.5, 1, 1.5, 2, 10), 20 seeds, δ = 1e-4, β = 1e-8. In the sweep
the 100 runs of an algorithm advance together and share data, split and calibration. One at a time:

- *in this process*: the same cells with one ε and one seed each, the data set loaded once;
- *as commands*: `ppadmm train` once per run, as one would without a sweep.

Of the runs one at a time `--sample` are timed per algorithm and stand for the 100, alternating with
the sweep of the same algorithm. CPU seconds, one BLAS thread.

The last line is a floor: the gradients in double precision, one per agent, round and run, that
certify the solves of PP-ADMM's 100 runs, and nothing else.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np

from ppadmm.accounting import accountant
from ppadmm.accounting.calibration import calibrate
from ppadmm.datasets.named import DATA_DIR_VARIABLE
from ppadmm.runs.run import prepare
from ppadmm.runs.specification import RunSpec
from ppadmm.studies.cell import Cell, run_cell
from ppadmm.studies.figures import ALGORITHMS, BUDGETS, FigureSetting

SEEDS = tuple(range(20))


def cpu(function, *arguments):
    calibrate.cache_clear()
    accountant.epsilon.cache_clear()
    began = time.process_time()
    function(*arguments)
    return time.process_time() - began


def command(cell, epsilon, seed):
    """CPU seconds of one `ppadmm train` with these settings."""
    line = [sys.executable, "-c", "from ppadmm.cli import main; main()", "train", cell.data]
    line += ["--algorithm", cell.algorithm, "--epsilon", str(epsilon), "--delta", str(cell.delta)]
    line += ["--rounds", str(cell.rounds), "--seed", str(seed), "--json"]
    line += ["--data-dir", cell.data_dir] if cell.data_dir else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(line, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(cell, sample):
    """Time one algorithm's sweep, and a sample of its runs one at a time."""
    run_cell(replace(cell, seeds=SEEDS[:1], epsilons=BUDGETS[:1]))
    picked = [(BUDGETS[k % len(BUDGETS)], SEEDS[3 * k % len(SEEDS)]) for k in range(sample)]
    alone = [cpu(run_cell, replace(cell, seeds=(s,), epsilons=(e,))) for e, s in picked]
    sweep = cpu(run_cell, cell)
    commands = [command(cell, e, s) for e, s in picked[:2]]
    runs = 1 if cell.algorithm == "non-private" else len(SEEDS) * len(BUDGETS)
    return {
        "algorithm": cell.algorithm,
        "runs": runs,
        "sweep_seconds": sweep,
        "alone_seconds": runs * statistics.median(alone),
        "command_seconds": runs * statistics.median(commands),
    }


def certificates(cell):
    """CPU seconds of the gradients without which no solve of a sweep can be certified."""
    runs = len(SEEDS) * len(BUDGETS)
    spec = RunSpec(data=cell.data, data_dir=cell.data_dir, agents=5, seed=0, epsilon=1.0)
    prepared = prepare(spec)
    risks = [site.risk for site in prepared.federation.sites(prepared.method, prepared.budgets)]
    theta = np.random.default_rng(0).standard_normal((runs, risks[0].d))
    once = [cpu(lambda: [risk.gradient(theta) for risk in risks]) for _ in range(8)]
    return cell.rounds * statistics.median(once[1:])


def show(row):
    ratios = [row[k] / row["sweep_seconds"] for k in ("alone_seconds", "command_seconds")]
    print(
        f"| {row['algorithm']} | {row['runs']} | {row['sweep_seconds']:.2f} | "
        f"{row['alone_seconds']:.1f} | {ratios[0]:.1f} | {row['command_seconds']:.0f} | "
        f"{ratios[1]:.0f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", default="adult")
    parser.add_argument("--data-dir", default=os.environ.get(DATA_DIR_VARIABLE))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--sample", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/sweep.json")
    args = parser.parse_args()
    source = FigureSetting(data=args.data, data_dir=args.data_dir).main
    print(
        "| algorithm | runs | sweep, CPU s | one at a time, CPU s | ratio | as commands, CPU s | "
        "ratio |\n|---|---|---|---|---|---|---|"
    )
    rows = []
    for algorithm in ALGORITHMS:
        cell = Cell(
            data=args.data,
            data_digest=source.digest,
            split=0,
            seeds=SEEDS,
            algorithm=algorithm,
            epsilons=BUDGETS,
            rounds=args.rounds,
            data_dir=args.data_dir,
        )
        rows.append(measure(cell, args.sample))
        show(rows[-1])
    keys = ("runs", "sweep_seconds", "alone_seconds", "command_seconds")
    rows.append({"algorithm": "all"} | {key: sum(row[key] for row in rows) for key in keys})
    show(rows[-1])
    floor = certificates(cell)
    print(f"\nCertificates of PP-ADMM's 100 runs alone: {floor:.2f} s")
    found = {"rounds": args.rounds, "certificates_seconds": floor, "rows": rows}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
