"""How long a command takes, from typing it to its end: medians of whole processes.

    python benchmarks/startup.py [--repeats 7] [--out FILE]

Run with the Python of the installation that is to be measured. The training is the demo's (35,000
made-up records, 5 agents, 80 rounds), with secure noise, and with seeded noise beside it; with
NumPy's kernels, and with numba's where it is installed (compiled before the first measurement).
"""

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PPADMM = str(Path(sys.executable).with_name("ppadmm"))
TRAIN = [PPADMM, "train", "synthetic"]


def commands():
    """Name, command and kernel of everything that is measured."""
    yield "import ppadmm", [sys.executable, "-c", "import ppadmm"], "numpy"
    yield "ppadmm --help", [PPADMM, "--help"], "numpy"
    for kernel in ("numpy", "numba") if importlib.util.find_spec("numba") else ("numpy",):
        yield f"train synthetic ({kernel})", TRAIN, kernel
        yield f"train synthetic --seed 0 ({kernel})", [*TRAIN, "--seed", "0"], kernel


def timed(command, kernel):
    """(wall, processor) seconds of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    environment = {**os.environ, "PPADMM_KERNEL": kernel}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environment)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    measured, listed = {}, list(commands())
    for _, command, kernel in listed:
        timed(command, kernel)
    for _ in range(options.repeats):
        for name, command, kernel in listed:
            measured.setdefault(name, []).append(timed(command, kernel))
    found = {
        name: {
            "wall": statistics.median(wall for wall, _ in times),
            "processor": statistics.median(used for _, used in times),
            "noise": "seeded" if "--seed" in name else "secure" if "train" in name else "none",
        }
        for name, times in measured.items()
    }
    for name, figures in found.items():
        print(f"{name:40s} {figures['wall']:6.2f} s   processor {figures['processor']:6.2f} s")
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
