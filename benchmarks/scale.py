"""Time and peak memory against records n, features d and agents N.

    python benchmarks/scale.py [--quick] [--only n,d,agents,curves,file] [--out FILE]

Each row is one private PP-ADMM training of 5 rounds in a process of its own (ε = 10, β = 1e-8,
lines, secure noise, one BLAS thread). Beside it stands the same training with seeded noise, which
is not private. Series `curves` has curves, as by default, which make eleven features of a number.
Records are made up, written as Parquet into a folder of temporary files (TMPDIR) and removed at the
end; the file of 5 GB needs twice its size there.

read s: CPU time from the file to encoded, dealt records.  train s: CPU time of the training with
secure noise; where it is short the first, which loads and compiles, does not count, and it is the
median of five that alternate with the seeded ones.  seeded s: the same with seeded noise.  judge s:
test figures of all agents.  pass ms: of one pass over all records.  MB: how much larger the process
was at its peak than the same program on 1,000 records.  A slope is that of a straight line through
the logarithms.
"""

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from ppadmm.data import Categorical, Label, Numeric, Schema

ROUNDS, CHUNK, WARM_BELOW, REPEATS = 5, 50_000, 10.0, 5
SERIES = ("n", "d", "agents", "curves", "file")


def schema_of(numbers, categories):
    columns = [Numeric(f"x{i}", 0, 1) for i in range(numbers)]
    if categories:
        columns.append(Categorical("code", tuple(map(str, range(categories)))))
    return Schema(tuple(columns), Label("y", ("yes",), ("no",)))


def write_records(path, n, numbers, categories=0, seed=0):
    """Write n made-up records, a row group at a time."""
    rng = np.random.default_rng(seed)
    slopes = rng.standard_normal(numbers)
    writer = None
    for start in range(0, n, CHUNK):
        m = min(CHUNK, n - start)
        X = rng.random((m, numbers))
        code = rng.integers(0, max(categories, 1), m)
        score = (X - 0.5) @ slopes + (code % 7 == 0) + rng.logistic(size=m)
        table = {f"x{i}": X[:, i] for i in range(numbers)}
        if categories:
            table["code"] = pa.array(code.astype(str))
        table["y"] = np.where(score > 0, "yes", "no")
        table = pa.table(table)
        options = {"compression": "none", "use_dictionary": ["y", "code"]}
        writer = writer or pa.parquet.ParquetWriter(path, table.schema, **options)
        writer.write_table(table)
    writer.close()


def memory(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith(field))


def run_case(case):
    """Private trainings, and seeded ones beside them, in this process; returns the figures."""
    from ppadmm.runs.run import _result, execute, prepare
    from ppadmm.runs.specification import RunSpec

    spec = RunSpec(rounds=ROUNDS, epsilon=10.0, delta=1e-7, **{"knots": 0} | case)
    began, started = time.perf_counter(), time.process_time()
    prepared = prepare(spec)
    read = time.process_time() - started
    first, played = cpu(execute, prepared)
    judged, result = cpu(_result, prepared, played)
    figures, peak = result.to_dict(), memory("VmHWM")
    wall = time.perf_counter() - began
    secure, seeded = alternate(execute, prepared, first)
    prepared.federation.close()
    trained, simulated = statistics.median(secure), statistics.median(seeded)
    passes = figures["passes"]
    return {
        "records": sum(figures["records"]) + figures["test_records"],
        "features": figures["features"],
        "agents": figures["agents"],
        "memory": case.get("memory"),
        "noise": "secure",
        "private": figures["private"],
        "read_seconds": read,
        "first_seconds": first,
        "train_seconds": trained,
        "seeded_seconds": simulated,
        "over_seeded": trained / simulated,
        "judge_seconds": judged,
        "wall_seconds": wall,
        "passes": passes,
        "pass_ms": 1e3 * trained / passes,
        "process_mb": peak,
        "test_error": figures["test_error"],
    }


def cpu(function, *arguments):
    """Return CPU seconds and what the function returned; garbage of earlier ones is not its own."""
    gc.collect()
    started = time.process_time()
    found = function(*arguments)
    return time.process_time() - started, found


def alternate(execute, prepared, first):
    """Return seconds of private trainings and of seeded ones, in turn; one each of a long one."""
    seeded = prepared.changed(seed=0)
    if first > WARM_BELOW:
        return [first], [cpu(execute, seeded)[0]]
    pairs = [(cpu(execute, prepared)[0], cpu(execute, seeded)[0]) for _ in range(REPEATS)]
    return map(list, zip(*pairs, strict=True))


def measured(folder, numbers, categories, n, **case):
    """Write the file unless it is there, and run the case after one with 1,000 records."""
    cap = {"memory": case["memory"]} if "memory" in case else {}
    few = cased(folder, numbers, categories, 1_000, **cap)
    row = cased(folder, numbers, categories, n, **case)
    row["peak_mb"] = row["process_mb"] - few["process_mb"]
    show(row)
    return row


def cased(folder, numbers, categories, n, **case):
    """Run one case in a process of its own."""
    path = folder / f"{n}-{numbers}-{categories}.parquet"
    schema = folder / f"{numbers}-{categories}.toml"
    if not path.exists():
        write_records(path, n, numbers, categories)
        schema.write_text(schema_of(numbers, categories).to_toml(), encoding="utf-8")
    case = {"data": str(path), "schema": str(schema), **case}
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit(found.stderr)
    return json.loads(found.stdout) | {"file_mb": path.stat().st_size / 1e6}


def series_n(folder, quick):
    sizes = [10**4, 10**5, 10**6] + ([] if quick else [10**7])
    for n in sizes:
        yield measured(folder, 49, 0, n, memory=512 * 10**6)
        (folder / f"{n}-49-0.parquet").unlink()


def series_d(folder, quick):
    n = 20_000 if quick else 100_000
    for d in (50, 500, 5_000, 50_000, 100_000):
        for cap in (None, 64 * 10**6):
            yield measured(folder, 9, d - 10, n, **({"memory": cap} if cap else {}))


def series_agents(folder, quick):
    n = 50_000 if quick else 200_000
    for agents in (5, 50, 200, 1000):
        yield measured(folder, 49, 0, n, agents=agents, graph="ring")


def series_curves(folder, quick):
    n = 50_000 if quick else 200_000
    for agents in (5, 1000):
        yield measured(folder, 49, 0, n, agents=agents, graph="ring", knots=None)


def series_file(folder, quick):
    size = 10**8 if quick else 5 * 10**9
    yield measured(folder, 49, 0, -(-size // (49 * 8)), memory=512 * 10**6)


def show(row):
    cap = "in memory" if row["memory"] is None else f"{row['memory'] / 1e6:.0f}"
    print(
        f"| {row['records']:,} | {row['features']:,} | {row['agents']} | {row['file_mb']:,.0f} | "
        f"{cap} | {row['read_seconds']:.1f} | {row['train_seconds']:.3f} | "
        f"{row['seeded_seconds']:.3f} | {row['over_seeded']:.2f} | "
        f"{row['judge_seconds']:.1f} | {row['passes']:.0f} | "
        f"{row['pass_ms']:.1f} | {row['peak_mb']:.0f} | {row['process_mb']:.0f} |",
        flush=True,
    )


HEAD = (
    "| records | features | agents | file, MB | cap, MB | read s | train s | seeded s | "
    "over seeded | judge s | passes | pass ms | MB | whole process, MB |\n" + "|---" * 14 + "|"
)


def slope(rows, over, of):
    points = [(row[over], row[of]) for row in rows]
    return float(np.polyfit(*np.log(np.array(points).T), 1)[0])


def slopes(name, rows):
    """Slopes of time and memory in log–log, by what varies."""
    over = {"n": "records", "d": "features", "agents": "agents"}.get(name)
    kinds = {"in memory": [row for row in rows if row["memory"] is None]}
    kinds["streamed"] = [row for row in rows if row["memory"] is not None]
    return {
        f"{what}, {kind}": slope(part, over, what)
        for kind, part in kinds.items()
        for what in ("read_seconds", "train_seconds", "seeded_seconds", "pass_ms")
        if over and part
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(SERIES))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/scale.json")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(run_case(json.loads(args.case))))
        return
    machine = {"machine": platform.machine(), "system": platform.platform(), "cpus": os.cpu_count()}
    result = {"machine": machine, "python": platform.python_version(), "rounds": ROUNDS}
    if args.out.exists():
        result = json.loads(args.out.read_text(encoding="utf-8")) | result
    for name in args.only.split(","):
        print(f"\n{name}\n\n{HEAD}", flush=True)
        with tempfile.TemporaryDirectory(prefix="ppadmm-scale-") as folder:
            rows = list(globals()[f"series_{name}"](Path(folder), args.quick))
        found = slopes(name, rows)
        print("".join(f"\nslope of {what}: {value:.2f}" for what, value in found.items()))
        result[name] = {"rows": [_plain(row) for row in rows], "slopes": found}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _plain(row):
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}


if __name__ == "__main__":
    main()
