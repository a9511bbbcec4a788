"""Every figure of docs/performance.md and docs/performance-scale.md, by one command.

    python benchmarks/run.py [--quick] [--only train,sweep,scale,peers] [--data-dir DIR]

Runs the benchmarks one after another, each in a process of its own; each prints its tables and
writes benchmarks/results/NAME.json. Every row is a ratio, or has its reference in the same table.
`peers` builds environments of its own for diffprivlib and Opacus (several minutes the first time).
With --quick sizes are smaller, and the results go to a temporary folder.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
NAMES = ("train", "sweep", "scale", "peers")
DATA = {"train", "sweep", "peers"}
QUICK = {
    "train": ["--repeats", "3", "--megabytes", "100"],
    "sweep": ["--rounds", "5", "--sample", "1"],
    "scale": ["--quick"],
    "peers": ["--repeats", "3"],
}


def command(name, args, folder):
    line = [sys.executable, str(HERE / f"{name}.py"), "--out", str(folder / f"{name}.json")]
    line += QUICK[name] if args.quick else []
    return line + (["--data-dir", args.data_dir] if name in DATA and args.data_dir else [])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--data-dir", default=os.environ.get("PPADMM_DATA"))
    args = parser.parse_args()
    chosen = args.only.split(",")
    if unknown := set(chosen) - set(NAMES):
        sys.exit(f"Unknown benchmark {min(unknown)!r}; choose from {', '.join(NAMES)}.")
    folder = Path(tempfile.mkdtemp()) if args.quick else HERE / "results"
    failed = []
    for name in chosen:
        print(f"\n== {name}\n", flush=True)
        if subprocess.run(command(name, args, folder), check=False).returncode:
            failed.append(name)
    print(f"\nResults: {folder}")
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
