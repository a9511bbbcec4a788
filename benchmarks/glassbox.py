"""Accuracy and time beside DP-EBM, diffprivlib and Opacus, all on the same records.

    python benchmarks/glassbox.py [--only ppadmm,ebm,diffprivlib,opacus,sklearn] [--data adult,us]
    python benchmarks/glassbox.py --page docs/comparison-figures.md     # tables and picture, no run

Adult, US, Brazil and synthetic data, ε = 0.5, 1, 2, 4, δ = 1e-4, seeds 0 to 4. A seed fixes the
split into training and test records: it is that of `ppadmm train --seed`, for all tools. Ours runs
at five equal sites and at one, the others have all records in one place. DP-EBM gets raw columns,
diffprivlib and Opacus our encoded rows.

Test figures are of seeded noise. Every run of ours is made a second time with noise from the
system, and that of DP-EBM and diffprivlib at ε = 1. Times are of these, where there are some, and
their figures are kept beside. Seconds are CPU time of a fit in one thread, calibration and layout
included, encoding not. A scikit-learn fit of the same split as lines, made before its fits
(`reference`), makes times of several runs comparable.

Results are kept in --out. Tools that are not in --only keep what they have there.
"""

import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
os.environ.setdefault("PPADMM_KERNEL", "numba")

import numpy as np
import sklearn
from curves import FEATURES, encoded
from glassbox_page import show, write_page
from peers import environment, peer
from sklearn.linear_model import LogisticRegression
from train import dense, fit_ppadmm, seconds

from ppadmm import RunSpec, __version__
from ppadmm.data import Numeric
from ppadmm.data.columns import column, numbers
from ppadmm.data.partition import split
from ppadmm.datasets.named import DATA_DIR_VARIABLE, SOURCES, data_folder, load
from ppadmm.runs.metrics import evaluate
from ppadmm.runs.run import prepare

HERE = Path(__file__).parent
DATA = ("adult", "us", "brazil", "synthetic")
EPSILONS, SEEDS, DELTA = (0.5, 1.0, 2.0, 4.0), range(5), 1e-4
OURS = {
    "ppadmm, five sites": {"agents": 5},
    "ppadmm, one site": {"agents": 1},
    "ppadmm, one site, zero-out": {"agents": 1, "adjacency": "zero-out"},
}
# The learning rate 0.2 had the lowest log loss of 0.01, 0.05, 0.1 and 0.2 on synthetic data.
THEIRS = {
    "DP-EBM": ("ebm", {}),
    "DP-EBM, learning rate 0.2": ("ebm", {"learning_rate": 0.2}),
    "diffprivlib": ("diffprivlib", {}),
    "Opacus": ("opacus", {}),
}
TIMED = 1.0
"""The ε at which peers are timed; it makes no difference to their time."""
SECURE = ("ebm", "diffprivlib")
"""Peers that take noise from the system where no seed is given. Opacus needs a package for that
which this version of torch has not."""
NAMES = ("ppadmm", "ebm", "diffprivlib", "opacus", "sklearn")


def figures(scores, y):
    """Return the test figures of scores (n,), log-odds, as plain data."""
    found = evaluate(np.asarray(scores)[:, None], y, np.ones((1, 1)))
    return {what: float(getattr(found, what)[0]) for what in ("error", "auc", "log_loss")}


def raw_columns(data):
    """Return the columns of the schema before encoding (n, c), and what is public of each.

    DP-EBM takes no missing cells. A missing number becomes the lower bound, as it is for a line;
    missing is one more category.
    """
    schema, cells, known = data.schema, [], []
    for c in schema.columns:
        if isinstance(c, Numeric):
            x, present = numbers(column(data.table, c.name), c.name, (*schema.missing, *c.missing))
            cells.append(np.clip(np.where(present, x, c.low), c.low, c.high))
            known.append([c.name, c.low, c.high])
        else:
            places, present = c.entries(data.table, schema.missing)
            cells.append(np.where(present[:, 0] > 0, places[:, 0], c.width))
            known.append([c.name])
    return np.column_stack(cells), json.dumps(known)


def arrays_of(data, kind, epsilon, seed):
    """Return training and test records of one split, as the peers read them."""
    train, test = split(data, seed)
    raw = kind == "raw"
    X, known = raw_columns(data) if raw else (dense(encoded(data, kind, epsilon).X), None)
    arrays = {"X": X[train], "y": data.y[train], "test_X": X[test], "test_y": data.y[test]}
    return arrays | ({"columns": known} if raw else {})


class Results:
    """Rows by (data, tool, features, noise, ε), each with a list over seeds for every figure."""

    def __init__(self, file):
        self.file = file
        self.content = json.loads(file.read_text("utf-8")) if file.exists() else {"rows": []}
        self.fresh = set()

    def add(self, key, version, **values):
        """Append one seed's figures; what an earlier run measured for this row is dropped."""
        names = dict(zip(("data", "tool", "features", "noise", "epsilon"), key, strict=True))
        rows = self.content["rows"]
        if key not in self.fresh:
            self.fresh.add(key)
            rows[:] = [row for row in rows if not names.items() <= row.items()]
            rows.append(names | {"version": version} | {name: [] for name in values})
        row = next(row for row in rows if names.items() <= row.items())
        for name, value in values.items():
            row[name].append(value if isinstance(value, int) else float(f"{value:.5g}"))

    def save(self):
        """Write one row a line, in a fixed order."""
        rows = sorted(self.content["rows"], key=lambda row: [str(v) for v in row.values()])
        machine = {"machine": platform.machine(), "cpus": os.cpu_count()}
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        text = f'{{"machine": {json.dumps(machine)}, "rows": [\n{lines}\n]}}\n'
        self.file.write_text(text, encoding="utf-8")


def reference(arrays):
    """Return CPU seconds of a scikit-learn fit: what other times are measured by."""
    fit = LogisticRegression(max_iter=1000).fit
    return statistics.median(seconds(fit, arrays["X"], arrays["y"])[0][0] for _ in range(3))


def warm_up(data):
    """Load the compiled kernel; not counted."""
    for knots in FEATURES.values():
        for settings in OURS.values():
            fit_ppadmm(prepare(RunSpec(seed=0, knots=knots, **settings), data))


def measure_ours(results, data, kind, seed, epsilons, beside):
    """Train with simulated and with secure noise, each on a federation of its own."""
    for tool, settings in OURS.items():
        for epsilon in epsilons:
            spec = RunSpec(
                epsilon=epsilon, delta=DELTA, seed=seed, knots=FEATURES[kind], **settings
            )
            for noise, own in (("seeded", seed), ("secure", None)):
                prepared = prepare(spec, data).changed(seed=own)
                (cpu, _), theta = seconds(fit_ppadmm, prepared)
                test_X, test_y = prepared.federation.test
                found = figures(np.asarray(test_X @ theta), test_y)
                more = {"dimension": len(theta), "rounds": prepared.settings.rounds}
                key, version = (data.name, tool, kind, noise, epsilon), f"ppadmm {__version__}"
                results.add(key, version, seed=seed, seconds=cpu, reference=beside, **found, **more)


def measure_theirs(results, data, kind, seed, epsilons, beside, tool, python):
    """Run one peer's fits on one split; all at once where rows are the same at every ε."""
    if kind == "curves" and len(epsilons) > 1:
        for epsilon in epsilons:
            measure_theirs(results, data, kind, seed, [epsilon], beside, tool, python)
        return
    peer_name, settings = THEIRS[tool]
    arrays = arrays_of(data, kind, epsilons[0], seed)
    runs = [("seeded", epsilon, seed) for epsilon in epsilons]
    if peer_name in SECURE and TIMED in epsilons:
        runs.append(("secure", TIMED, None))
    fits = [{"epsilon": epsilon, "seed": own, **settings} for _, epsilon, own in runs]
    said, scores = peer(python, peer_name, arrays, fits)
    for (noise, epsilon, _), cpu, own in zip(runs, said["seconds"], scores, strict=True):
        found = figures(own, arrays["test_y"]) | {"dimension": arrays["X"].shape[1]}
        key = (data.name, tool, kind, noise, epsilon)
        results.add(key, said["version"], seed=seed, seconds=cpu, reference=beside, **found)


def measure_sklearn(results, data, kind, seed, beside):
    """Fit without privacy on the rows of ε = 1, in one place."""
    arrays = arrays_of(data, kind, TIMED, seed)
    (cpu, _), model = seconds(LogisticRegression(max_iter=1000).fit, arrays["X"], arrays["y"])
    found = figures(model.decision_function(arrays["test_X"]), arrays["test_y"])
    found |= {"dimension": arrays["X"].shape[1]}
    key = (data.name, "scikit-learn", kind, "none", None)
    version = f"scikit-learn {sklearn.__version__}"
    results.add(key, version, seed=seed, seconds=cpu, reference=beside, **found)


def measure(results, name, given):
    """Run all tools that are asked for on one data set, split by split."""
    data = load(name, data_dir=given.data_dir)
    envs = {what: environment(given.envs, what) for what in given.only & {*NAMES[1:4]}}
    if "ppadmm" in given.only:
        warm_up(data)
    for seed in given.seeds:
        beside = reference(arrays_of(data, "lines", TIMED, seed))
        for kind in FEATURES:
            if "sklearn" in given.only:
                measure_sklearn(results, data, kind, seed, beside)
            if "ppadmm" in given.only:
                measure_ours(results, data, kind, seed, given.epsilons, beside)
        for tool, (peer_name, _) in THEIRS.items():
            for kind in (("raw",) if peer_name == "ebm" else FEATURES) if peer_name in envs else ():
                python = envs[peer_name]
                measure_theirs(results, data, kind, seed, given.epsilons, beside, tool, python)
        results.save()
        print(f"# {name}, seed {seed}: done", file=sys.stderr, flush=True)


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", type=lambda text: {*text.split(",")}, default={*NAMES})
    parser.add_argument("--data", type=lambda text: text.split(","), default=list(DATA))
    parser.add_argument("--epsilons", type=lambda t: [*map(float, t.split(","))], default=EPSILONS)
    parser.add_argument("--seeds", type=lambda t: [*map(int, t.split(","))], default=SEEDS)
    parser.add_argument("--data-dir", default=os.environ.get(DATA_DIR_VARIABLE))
    parser.add_argument("--envs", type=Path, default=Path("~/.cache/ppadmm-peers").expanduser())
    parser.add_argument("--out", type=Path, default=HERE / "results/glassbox.json")
    parser.add_argument("--page", type=Path, help="write the tables into this page and run nothing")
    given = parser.parse_args()
    if unknown := given.only - {*NAMES}:
        sys.exit(f"Unknown tool {min(unknown)!r}; choose from {', '.join(NAMES)}.")
    return given


def main():
    given = parsed()
    if given.page:
        write_page(given.page, json.loads(given.out.read_text("utf-8"))["rows"])
        return
    results = Results(given.out)
    for name in given.data:
        if not SOURCES[name].present(data_folder(given.data_dir)):
            print(f"{name} is left out: its files are not in {DATA_DIR_VARIABLE}.", flush=True)
            continue
        given.envs.mkdir(parents=True, exist_ok=True)
        measure(results, name, given)
        print(show(results.content["rows"], name), flush=True)


if __name__ == "__main__":
    main()
