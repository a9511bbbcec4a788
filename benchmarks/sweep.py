"""The sweep of figure 5 against the same runs one at a time.

    python benchmarks/sweep.py [--data adult] [--data-dir DIR] [--rounds 30] [--sample 4] [--out F]

Six algorithms, five budgets (ε = 0.5, 1, 1.5, 2, 10), 20 seeds, δ = 1e-4, β = 1e-8, lines. In the
sweep the 100 runs of an algorithm advance together and share data, split and calibration. One at a
time:

- *in this process*: the same cells with one ε and one seed each, the data set loaded once;
- *as commands*: `ppadmm train` once per run, as one would without a sweep.

All of it is timed with secure noise, that of a private run, and then with seeded noise. A sweep is
itself a simulation, with seeds, and never private: here it is given secure noise, to be compared
with private runs. `private` says whether the commands' runs were. Of the six only PP-ADMM's and
IPP's can be; the others add no noise, or noise that is not sampled exactly.

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
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np

from ppadmm.accounting import accountant
from ppadmm.accounting.calibration import calibrate
from ppadmm.datasets.named import DATA_DIR_VARIABLE
from ppadmm.noise import SecureNoise
from ppadmm.runs.run import prepare
from ppadmm.runs.specification import RunSpec
from ppadmm.studies import cell as cells
from ppadmm.studies.cell import Cell, run_cell
from ppadmm.studies.figures import ALGORITHMS, BUDGETS, FigureSetting

SEEDS = tuple(range(20))
TIMES = ("sweep_seconds", "alone_seconds", "command_seconds")


def cpu(function, *arguments):
    calibrate.cache_clear()
    accountant.epsilon.cache_clear()
    began = time.process_time()
    function(*arguments)
    return time.process_time() - began


@contextmanager
def drawing(noise):
    """Let cells draw secure noise, or as they do: from seeds."""
    seeded = cells.SeededNoise
    cells.SeededNoise = (lambda seeds: SecureNoise()) if noise == "secure" else seeded
    try:
        yield
    finally:
        cells.SeededNoise = seeded


def command(cell, epsilon, seed):
    """CPU seconds of one `ppadmm train` with these settings, and whether the run was private."""
    line = [sys.executable, "-c", "from ppadmm.cli import main; main()", "train", cell.data]
    line += ["--algorithm", cell.algorithm, "--epsilon", str(epsilon), "--delta", str(cell.delta)]
    line += ["--rounds", str(cell.rounds), "--linear", "--json"]
    line += [] if seed is None else ["--seed", str(seed)]
    line += ["--data-dir", cell.data_dir] if cell.data_dir else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(line, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, json.loads(done.stdout)["private"]


def measure(cell, sample):
    """Time one algorithm's sweep and a sample of its runs one at a time, with either noise."""
    run_cell(replace(cell, seeds=SEEDS[:1], epsilons=BUDGETS[:1]))
    runs = 1 if cell.algorithm == "non-private" else len(SEEDS) * len(BUDGETS)
    found = {noise: timed(cell, sample, runs, noise) for noise in ("secure", "seeded")}
    return {"algorithm": cell.algorithm, "runs": runs, **found}


def timed(cell, sample, runs, noise):
    """Return seconds of the sweep, and of its runs one at a time as the sample has them."""
    picked = [(BUDGETS[k % len(BUDGETS)], SEEDS[3 * k % len(SEEDS)]) for k in range(sample)]
    with drawing(noise):
        alone = [cpu(run_cell, replace(cell, seeds=(s,), epsilons=(e,))) for e, s in picked]
        sweep = cpu(run_cell, cell)
    own = [command(cell, e, None if noise == "secure" else s) for e, s in picked[:2]]
    return {
        "private": all(private for _, private in own),
        "sweep_seconds": sweep,
        "alone_seconds": runs * statistics.median(alone),
        "command_seconds": runs * statistics.median(seconds for seconds, _ in own),
    }


def certificates(cell):
    """CPU seconds of the gradients without which no solve of a sweep can be certified."""
    runs = len(SEEDS) * len(BUDGETS)
    spec = RunSpec(data=cell.data, data_dir=cell.data_dir, agents=5, epsilon=1.0, knots=0)
    prepared = prepare(spec)
    risks = [site.risk for site in prepared.federation.sites(prepared.method, prepared.budgets)]
    theta = np.random.default_rng(0).standard_normal((runs, risks[0].d))
    once = [cpu(lambda: [risk.gradient(theta) for risk in risks]) for _ in range(8)]
    return cell.rounds * statistics.median(once[1:])


def show(row):
    secure, seeded = row["secure"], row["seeded"]
    ratios = [secure[k] / secure["sweep_seconds"] for k in TIMES[1:]]
    over = [secure[k] / seeded[k] for k in TIMES]
    private = "yes" if secure["private"] else "no"
    print(
        f"| {row['algorithm']} | {row['runs']} | {private} | {secure['sweep_seconds']:.2f} | "
        f"{secure['alone_seconds']:.1f} | {ratios[0]:.1f} | {secure['command_seconds']:.0f} | "
        f"{ratios[1]:.0f} | {seeded['sweep_seconds']:.2f} | "
        + " | ".join(f"{ratio:.2f}" for ratio in over)
        + " |",
        flush=True,
    )


def total(rows):
    """Add up the algorithms; private if all of them are."""
    sums = {
        noise: {"private": all(row[noise]["private"] for row in rows)}
        | {key: sum(row[noise][key] for row in rows) for key in TIMES}
        for noise in ("secure", "seeded")
    }
    return {"algorithm": "all", "runs": sum(row["runs"] for row in rows), **sums}


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
        "| algorithm | runs | private | sweep, CPU s | one at a time, CPU s | ratio | "
        "as commands, CPU s | ratio | sweep seeded, CPU s | sweep over seeded | "
        "one at a time over seeded | commands over seeded |\n" + "|---" * 12 + "|"
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
            knots=0,
            data_dir=args.data_dir,
        )
        rows.append(measure(cell, args.sample))
        show(rows[-1])
    rows.append(total(rows))
    show(rows[-1])
    floor = certificates(cell)
    print(f"\nCertificates of PP-ADMM's 100 runs alone: {floor:.2f} s")
    found = {"rounds": args.rounds, "certificates_seconds": floor, "rows": rows}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
