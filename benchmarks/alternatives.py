"""Where the defaults of the other algorithms come from, on synthetic data only.

    python benchmarks/alternatives.py        # about 6 minutes

Prints mean test errors (six seeds over two splits, δ = 1e-4, five agents) for settings around the
defaults of one-shot averaging, noisy gradient descent, DVP and IPP-ADMM; those of every algorithm
with its defaults where sites are not alike (three seeds, δ = 1e-6); and how much more noise
PP-ADMM's accounting needs than a Gaussian mechanism with the same budget.
"""

import math
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from defaults import Case, Simulation

from ppadmm.accounting import Budget, calibrate, perturbed_step
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.algorithms import ALGORITHMS, defaults, one_shot
from ppadmm.algorithms.settings import Speaking
from ppadmm.studies.compare import Grid, compare

EPSILONS = (0.5, 1.0, 2.0)
FEDERATIONS = {
    "5 alike": (5, "equal", "erdos-renyi"),
    "geometric": (5, "geometric", "erdos-renyi"),
    "giant, star of 20": (20, "giant", "star"),
    "3 records": (5, "three", "erdos-renyi"),
    "skew 0.3": (5, "dirichlet:0.3", "erdos-renyi"),
    "skew 0.1, ring of 20": (20, "dirichlet:0.1", "ring"),
    "ring of 100": (100, "equal", "ring"),
    "complete, 100": (100, "equal", "complete"),
}
EARLIER = {
    "gradient, α = 16, T = 400": {"algorithm": "gradient", "eta": 16.0, "rounds": 400},
    "non-private, η = 0.0005, T = 100": {"algorithm": "non-private", "eta": 5e-4, "rounds": 100},
}
"""Settings that do for a few sites that are alike."""


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


def federations_table(epsilon=2.0):
    """Every algorithm, as it comes, on the census-like records dealt in other ways."""
    print(f"\n| test error at ε = {epsilon:g} | " + " | ".join(FEDERATIONS) + " |")
    print("|---" * (1 + len(FEDERATIONS)) + "|")
    simulations = [
        Simulation(Case("", "census", 41, 20_000, agents, sizes, graph))
        for agents, sizes, graph in FEDERATIONS.values()
    ]
    rows = [(name, {"algorithm": name}) for name in ALGORITHMS if not ALGORITHMS[name].pooled]
    for title, given in (*rows, *EARLIER.items()):
        cells, algorithm = [], given["algorithm"]
        for simulation in simulations:
            method = simulation.chosen(epsilon, **given)
            seeds = range(1 if ALGORITHMS[algorithm].noiseless else 3)
            models = simulation.models([method], epsilon, seeds)
            cells.append(f"{simulation.errors(models, simulation.weights(epsilon))[0]:.4f}")
        print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


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
    row("gradient, by rule", "gradient")
    for rounds, step in ((400, 8.0), (400, 16.0), (1000, 8.0), (1000, 16.0)):
        row(f"gradient, T = {rounds}, α = {step:g}", "gradient", rounds=rounds, eta=step)
    for rounds, rate in ((20, 0.155), (40, 0.08), (40, 0.155), (40, 0.31), (80, 0.155)):
        name = f"dvp, T = {rounds}, rate {rate:g}"
        with_value(defaults, "RATE", rate, name, "dvp", rounds=rounds)
    for level in (0.5, 1.0, 1.4):
        row(f"ipp, threshold {level:g}", "ipp", speaking=Speaking(level=level))
    federations_table()
    noise_table()


if __name__ == "__main__":
    main()
