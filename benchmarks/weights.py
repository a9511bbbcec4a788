"""Whether weights by noise pay against weights by records, on synthetic data only.

    python benchmarks/weights.py            # about 3 minutes

Prints mean test errors (three seeds, δ = 1e-6) of both, with η and T by rule for each, where sizes
and budgets differ and records are of one kind, and where the labels of the sites differ.
"""

import argparse
from dataclasses import dataclass, replace

import numpy as np
from defaults import DELTA, Case, Simulation

from ppadmm.accounting import Budget

BUDGETS = {
    "all 1": lambda N: np.ones(N),
    "0.5 and 1": lambda N: np.where(np.arange(N) % 2, 0.5, 1.0),
    "0.1 and 2": lambda N: np.where(np.arange(N) % 2, 0.1, 2.0),
    "0.1 once, else 1": lambda N: np.r_[0.1, np.ones(N - 1)],
    "0.1 … 4": lambda N: np.random.default_rng(1).permutation(np.geomspace(0.1, 4.0, N)),
}
POPULATIONS = (("census", 41), ("power-law", 30), ("flat", 25))
SITES = (
    ("one kind", 6, "equal", "erdos-renyi"),
    ("one kind", 6, "geometric", "erdos-renyi"),
    ("one kind", 20, "geometric", "small-world"),
    ("label skew", 6, "dirichlet:0.3", "erdos-renyi"),
)


@dataclass(frozen=True)
class Own(Case):
    """A scenario whose sites have the budgets of `BUDGETS[each]`."""

    each: str = "all 1"

    def budgets(self, epsilon):
        """Return every agent's; ε does not count."""
        return [Budget(float(e), DELTA) for e in BUDGETS[self.each](self.agents)]


def error(case):
    """Return the test error with η and T by rule."""
    simulation = Simulation(case)
    models = simulation.models([simulation.chosen(1.0)], 1.0)
    return float(simulation.errors(models, simulation.weights(1.0))[0])


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    names = [name for name, _ in POPULATIONS]
    print("| sites | sizes | ε | " + " | ".join(f"{n}: records, noise" for n in names) + " |")
    print("|---" * (3 + len(names)) + "|")
    for group, agents, sizes, graph in SITES:
        for each in BUDGETS:
            if (sizes, each) == ("equal", "all 1"):
                continue  # both are alike
            cells = []
            for name, features in POPULATIONS:
                case = Own(group, name, features, 20_000, agents, sizes, graph, each=each)
                cells.append(f"{error(case):.4f}, {error(replace(case, weights='noise')):.4f}")
            print(
                f"| {group}, {agents} | {sizes} | {each} | " + " | ".join(cells) + " |", flush=True
            )


if __name__ == "__main__":
    main()
