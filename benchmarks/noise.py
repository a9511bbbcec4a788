"""Time of a secure random number: the exact sampler, compiled and in NumPy, beside OpenDP's.

    python benchmarks/noise.py [--repeats 15] [--data synthetic adult] [--out FILE]

One process, one thread, one run: the samplers take turns, so that a busy machine slows all of them
alike. Figures are medians of `time.process_time` over the repeats, each of enough calls to draw
more than a batch; what keeping numbers ready costs is therefore part of them. The first
calls, which load or compile, are not counted; what they took is "first".

The second table is private training as in benchmarks/train.py (5 agents, 30 rounds, ε = 1,
calibration included) with secure noise against seeded noise, with the same kernel of gradients.
"""

import argparse
import json
import os
import platform
import statistics
import time
from importlib.metadata import version
from pathlib import Path

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np

from ppadmm.accounting import accountant
from ppadmm.accounting.calibration import calibrate
from ppadmm.engines import local
from ppadmm.noise import FINENESS, Key, SecureNoise, SeededNoise
from ppadmm.runs.federation import make_agents
from ppadmm.runs.run import prepare
from ppadmm.runs.specification import RunSpec
from ppadmm.sampling import stock

SAMPLERS = {
    "numba": {"PPADMM_NOISE": "exact", "PPADMM_KERNEL": "numba"},
    "numpy": {"PPADMM_NOISE": "exact", "PPADMM_KERNEL": "numpy"},
    "opendp": {"PPADMM_NOISE": "opendp", "PPADMM_KERNEL": "numba"},
}
SIZES = (42, 1_000, 100_000)
AT_ONCE = {"numba": 20_000, "numpy": 50_000, "opendp": 3_000}
"""About how many numbers are timed together: the exact samplers draw in batches below that."""
KEY = Key(0, 0, "benchmark")
SHELVES = {}


def use(name):
    """Switch to a sampler; each keeps a stock of its own."""
    os.environ.update(SAMPLERS[name])
    stock._opened[:] = [SHELVES.setdefault(name, stock.Store())]


def timed(law, name, d, calls=0):
    """Return microseconds per call, over so many calls or some that draw `AT_ONCE` numbers."""
    use(name)
    values, scale = np.zeros((1, d)), np.full(1, 3.0)
    draw = getattr(SecureNoise(), law)
    calls = calls or max(AT_ONCE[name] // d, 1)
    began = time.process_time()
    for _ in range(calls):
        draw(values, scale, scale * FINENESS, KEY)
    return (time.process_time() - began) / calls * 1e6


def first_calls():
    """Return the seconds that the first two numbers of each sampler took, one of each law."""
    return {
        name: sum(timed(law, name, 1, calls=1) for law in ("gaussian", "laplace")) / 1e6
        for name in SAMPLERS
    }


def numbers(repeats):
    """Return the rows of the first table."""
    rows = []
    for law in ("gaussian", "laplace"):
        for d in SIZES:
            times = {name: [] for name in SAMPLERS}
            for _ in range(repeats):
                for name in SAMPLERS:
                    times[name].append(timed(law, name, d))
            call = {name: statistics.median(each) for name, each in times.items()}
            rows.append({"law": law, "d": d, "call_us": call, **ratios(call, d)})
    return rows


def ratios(call, d):
    each = {name: us / d for name, us in call.items()}
    return {"number_us": each, "opendp_over_numba": call["opendp"] / call["numba"]}


def train(prepared, noise):
    """Return the seconds of one whole training, calibration included."""
    calibrate.cache_clear()
    accountant.epsilon.cache_clear()
    began = time.process_time()
    sites = prepared.federation.sites(prepared.method, prepared.budgets)
    settings = [prepared.settings] * len(sites)
    local.run(make_agents(prepared.spec.algorithm, sites, settings, noise, capped=True))
    return time.process_time() - began


def trainings(data, repeats):
    """Return medians of a training by sampler: secure, seeded with the same kernel, and ratios."""
    prepared = prepare(
        RunSpec(data=data, agents=5, rounds=30, beta=1e-8, epsilon=1.0, delta=1e-4, eta=0.002)
    )
    times = {name: ([], []) for name in SAMPLERS}
    for k in range(repeats + 1):
        for name, (secure, seeded) in times.items():
            use(name)
            secure.append(train(prepared, SecureNoise()))
            seeded.append(train(prepared, SeededNoise((k,))))
    rows = {}
    for name, (secure, seeded) in times.items():
        secure, seeded = statistics.median(secure[1:]), statistics.median(seeded[1:])
        rows[name] = {"secure_s": secure, "seeded_s": seeded, "ratio": secure / seeded}
    return {"d": prepared.federation.features, **rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--data", nargs="*", default=["synthetic"])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {
        "platform": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg()[0],
        "versions": {name: version(name) for name in ("numpy", "numba", "opendp", "cryptography")},
        "first_seconds": first_calls(),
        "numbers": numbers(options.repeats),
        "training": {data: trainings(data, options.repeats) for data in options.data},
    }
    for row in found["numbers"]:
        calls = "  ".join(
            f"{name} {row['call_us'][name]:10.1f} µs a call {row['number_us'][name]:7.3f} µs each"
            for name in SAMPLERS
        )
        print(f"{row['law']:<9} d = {row['d']:<7} {calls}  ×{row['opendp_over_numba']:.1f}")
    print("first", found["first_seconds"], "load", found["load"])
    for data, taken in found["training"].items():
        print(data, taken)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
