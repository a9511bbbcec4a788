"""Where the defaults of the other algorithms come from, on synthetic data only.

    python benchmarks/alternatives.py        # about 3 minutes

Prints mean test errors (six seeds over two splits, δ = 1e-4, five agents) for settings around the
defaults of one-shot averaging, noisy gradient descent, DVP and IPP-ADMM, and how much more noise
PP-ADMM's accounting needs than a Gaussian mechanism with the same budget.
"""

import math
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from ppadmm.accounting import Budget, calibrate, perturbed_step
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.algorithms import defaults, one_shot
from ppadmm.algorithms.settings import Speaking
from ppadmm.studies.compare import Grid, compare

EPSILONS = (0.5, 1.0, 2.0)


def row(name, algorithm, **changes):
    grid = Grid(algorithms=(algorithm,), epsilons=EPSILONS, seeds=6, splits=2, **changes)
    errors = [f"{np.mean(r.test_error):.4f}" for r in compare(grid)]
    print(f"| {name} | " + " | ".join(errors) + " |", flush=True)


def with_value(module, name, value, *arguments, **changes):
    """Print a row with one of a module's constants changed."""
    kept = getattr(module, name)
    setattr(module, name, value)
    try:
        row(*arguments, **changes)
    finally:
        setattr(module, name, kept)


def noise_table():
    """σ₁ of PP-ADMM (n = 7000, |B| = 2, T = 80) over that of a Gaussian with the whole budget."""
    print("\n| PP-ADMM's noise over the Gaussian limit | " + " | ".join(f"{e:g}" for e in EPSILONS))
    print("|---|" + "---|" * len(EPSILONS))
    for eta in (0.0015, 0.003, 0.006):
        step = perturbed_step(lipschitz=1.0, smoothness=0.25, n=7000, d=42, mu=4 * eta, beta=1e-8)
        ratios = []
        for epsilon in EPSILONS:
            noise = calibrate(Budget(epsilon, 1e-4), step, 80)
            ideal = step.sensitivity * math.sqrt(80) / gdp_ratio(epsilon, 1e-4)
            ratios.append(f"{noise.sigma1 / ideal:.3f}")
        print(f"| η = {eta:g} | " + " | ".join(ratios) + " |")


def main():
    print("| test error at ε | " + " | ".join(f"{e:g}" for e in EPSILONS) + " |")
    print("|---|" + "---|" * len(EPSILONS))
    row("pp", "pp")
    row("pp, half the rounds", "pp", rounds=40)
    for rate in (0.2, 0.35, 0.7):
        with_value(one_shot, "RATE", rate, f"one-shot, rate {rate:g}", "one-shot")
    for rounds, step in ((200, 16.0), (400, 8.0), (400, 16.0), (400, 32.0)):
        row(f"gradient, T = {rounds}, α = {step:g}", "gradient", rounds=rounds, eta=step)
    for rounds, rate in ((20, 0.1), (40, 0.05), (40, 0.1), (40, 0.2), (80, 0.1)):
        name = f"dvp, T = {rounds}, rate {rate:g}"
        with_value(defaults, "RATE", rate, name, "dvp", rounds=rounds)
    for level in (0.5, 1.0, 1.4):
        row(f"ipp, threshold {level:g}", "ipp", speaking=Speaking(level=level))
    noise_table()


if __name__ == "__main__":
    main()
