"""Derives and checks the rule for the default η and T, on synthetic data only.

    python benchmarks/defaults.py            # about 15 minutes on two cores; --quick: two minutes

For every scenario (records × sizes × network × budgets) the rule's choice is compared with η and T
around it. The tables print the mean and the worst regret in test error, by class of scenario: how
much worse a multiple of the rule's η (or T) is than the best of those tried. One more table has the
agents' models averaged in other ways than by weight.
"""

import argparse
import json
import os
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from ppadmm.accounting import Budget
from ppadmm.algorithms import recipe_named
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.method import MethodSpec, choose, settings_of
from ppadmm.algorithms.weights import site_weights
from ppadmm.data import dirichlet, normalise_rows, shards, sized
from ppadmm.datasets import load
from ppadmm.engines import local
from ppadmm.errors import InfeasibleError
from ppadmm.noise import SeededNoise
from ppadmm.planning.synthetic_records import class_shares, draw_population
from ppadmm.problem import Logistic, make_graph
from ppadmm.problem.scores import laid_out, risk_of
from ppadmm.runs.federation import make_agents

DELTA, TEST = 1e-6, 10_000
MULTIPLES, FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0), (0.5, 1.0, 2.0)
SEEDS, ONE = range(3), range(1)
MANY = 100
"""With so many agents a replicate is a run of its own: the engine does all agents in step."""
LOSS = Logistic()
PLANNED = {"table": (0.14, 0.4), "scattered": (0.16, 0.25), "flat": (0.2, 0.4)}
"""The populations of `ppadmm plan`: the least possible error, and that of the commonest class."""


@dataclass(frozen=True)
class Case:
    """A scenario. `sizes`: equal, geometric, giant, three, or dirichlet:ALPHA (by labels).

    `spread`: each site has a budget of its own, from 0.1 to 4 times ε.
    """

    group: str
    population: str
    features: int
    records: int
    agents: int
    sizes: str = "equal"
    graph: str = "erdos-renyi"
    epsilons: tuple[float, ...] = (0.5, 2.0, 6.0)
    spread: bool = False
    weights: str = "records"

    def holdings(self, y):
        """Return the rows of every agent."""
        kind, _, alpha = self.sizes.partition(":")
        if alpha:
            return dirichlet(y, self.agents, float(alpha), 0)
        shares = {
            "equal": np.ones(self.agents),
            "geometric": np.geomspace(40.0, 1.0, self.agents),
            "giant": np.r_[3.0 * (self.agents - 1), np.ones(self.agents - 1)],
            "three": np.r_[np.ones(self.agents - 1), 0.0],
        }[kind]
        counts = np.maximum((len(y) - 3) * shares / shares.sum(), 3).astype(int)
        return sized(len(y), counts.tolist(), 0)

    def budgets(self, epsilon):
        """Return every agent's."""
        each = np.full(self.agents, epsilon)
        if self.spread:
            each = np.random.default_rng(1).permutation(np.geomspace(0.1, 4.0, self.agents))
            each = each * epsilon
        return [Budget(float(e), DELTA) for e in each]


CASES = (
    Case("equal sites", "census", 41, 35_000, 5),
    Case("equal sites", "census", 12, 10_000, 10, graph="ring"),
    Case("equal sites", "power-law", 30, 30_000, 3, graph="complete"),
    Case("equal sites", "power-law", 150, 15_000, 30),
    Case("equal sites", "table", 20, 10_000, 5, graph="star"),
    Case("equal sites", "scattered", 60, 20_000, 5),
    Case("equal sites", "flat", 25, 20_000, 20, graph="complete"),
    Case("unequal sizes", "census", 41, 35_000, 5, "geometric"),
    Case("unequal sizes", "power-law", 30, 20_000, 20, "geometric", "ring"),
    Case("unequal sizes", "flat", 25, 20_000, 20, "giant", "star"),
    Case("unequal sizes", "table", 20, 20_000, 5, "three"),
    Case("label skew", "census", 41, 35_000, 5, "dirichlet:0.3"),
    Case("label skew", "census", 41, 20_000, 20, "dirichlet:0.1", "star"),
    Case("label skew", "power-law", 30, 20_000, 20, "dirichlet:0.1", "ring"),
    Case("label skew", "flat", 25, 20_000, 10, "dirichlet:0.3", "complete"),
    Case("unequal budgets", "census", 41, 35_000, 5, spread=True),
    Case("unequal budgets", "power-law", 30, 20_000, 20, "geometric", "ring", spread=True),
    Case("unequal budgets", "flat", 25, 20_000, 10, "dirichlet:0.3", "star", spread=True),
    Case("many sites", "census", 41, 35_000, 100, graph="ring", epsilons=(1.0, 4.0)),
    Case("many sites", "census", 41, 35_000, 100, "geometric", "complete", (1.0, 4.0)),
    Case("many sites", "census", 41, 35_000, 100, "dirichlet:0.3", "star", (1.0, 4.0)),
    Case("many sites", "census", 41, 35_000, 300, epsilons=(1.0, 4.0)),
    Case("many sites", "census", 41, 35_000, 300, "geometric", "ring", (4.0,)),
    Case("many sites", "census", 41, 35_000, 1000, graph="small-world", epsilons=(4.0,)),
)


def census(records, features, seed):
    """The embedded census-like data; the first columns and the intercept for fewer features."""
    data = load("synthetic")
    rows = np.random.default_rng(seed).permutation(data.n)[:records]
    X = data.X[rows]
    if features < data.d:
        X = normalise_rows(X.toarray()[:, np.r_[0 : features - 1, data.d - 1]])
    return X, data.y[rows]


def power_law(records, features, seed):
    """Gaussian features with variances 1, 1/2, 1/3, …, labels from a logistic model."""
    rng = np.random.default_rng([seed, features])
    scale = np.arange(1, features) ** -0.5
    X = np.c_[rng.standard_normal((records, features - 1)) * scale, np.full(records, 0.7)]
    X = normalise_rows(X)
    weights = rng.standard_normal(features) * 6 / np.sqrt(features) / np.r_[scale, 1.0] ** 0.5
    positive = rng.random(records) < 1 / (1 + np.exp(-X @ weights))
    return X, np.where(positive, 1.0, -1.0)


@lru_cache(maxsize=2)
def population(name, features, records):
    """Records and as many test records as there are, at most TEST."""
    if name == "census":
        return census(records + TEST, features, seed=0)
    if name == "power-law":
        return power_law(records + TEST, features, seed=0)
    error, majority = PLANNED[name]
    rng, shares = np.random.default_rng([0, features]), class_shares(majority, 2)
    made = draw_population(name, records + TEST, features, shares, rng).with_error(error)
    return made.X, made.labels()


class Simulation:
    """A scenario with its records dealt."""

    def __init__(self, case):
        self.case, (X, y) = case, population(case.population, case.features, case.records)
        n = case.records
        self.X, self.y = X[n:], y[n:]
        parts = shards(X[:n], y[:n], case.holdings(y[:n]))
        self.records = tuple(part.n for part in parts)
        self.graph = make_graph(case.graph, case.agents, 0)
        self.risks = laid_out([risk_of(part, LOSS, n * case.features) for part in parts])
        self.sizes = (self.records, case.features, self.graph)

    def chosen(self, epsilon, **given):
        """Return the method with what is open chosen by rule."""
        method = MethodSpec(delta=DELTA, weights=self.case.weights, **given)
        return choose(method, self.sizes, self.case.budgets(epsilon), LOSS)

    def weights(self, epsilon):
        """Return how much every agent counts."""
        budgets = self.case.budgets(epsilon)
        return site_weights(self.case.weights, self.records, budgets, self.case.features)

    def sites(self, epsilon):
        """Return every agent's place."""
        weights = self.weights(epsilon)
        return [site_in(self.graph, i, risk, weights) for i, risk in enumerate(self.risks)]

    def agents(self, methods, epsilon, seeds):
        """Return the agents of a run with a replicate for each method and seed."""
        columns = [method for method in methods for _ in seeds]
        settings = [settings_of(columns, [b] * len(columns)) for b in self.case.budgets(epsilon)]
        noise = SeededNoise(tuple(seed for _ in methods for seed in seeds))
        return make_agents(methods[0].algorithm, self.sites(epsilon), settings, noise)

    def models(self, methods, epsilon, seeds=SEEDS):
        """Return the agents' models (N, methods, seeds, d); methods have the same T."""
        if self.case.agents >= MANY:
            runs = [[m, s] for m in methods for s in seeds]
            each = [local.run(self.agents([m], epsilon, [s])).agent_models() for m, s in runs]
            found = np.concatenate(each, axis=1)
        else:
            found = local.run(self.agents(methods, epsilon, seeds)).agent_models()
        return found.reshape(len(found), len(methods), len(seeds), -1)

    def errors(self, models, weights):
        """Return the test errors of an average over agents, and over seeds: (methods,)."""
        mean = local.averaged(models, weights)
        wrong = (self.X @ mean.reshape(-1, mean.shape[-1]).T) * self.y[:, None] <= 0
        return wrong.mean(axis=0).reshape(mean.shape[:2]).mean(axis=1)

    def feasible(self, method, epsilon):
        """Say whether some noise reaches every budget."""
        build = recipe_named(method.algorithm).build
        try:
            for site, budget in zip(self.sites(epsilon), self.case.budgets(epsilon), strict=True):
                build(site, settings_of([method], [budget]))
        except InfeasibleError:
            return False
        return True


def averages(simulation, epsilon):
    """Ways of averaging the agents' models."""
    degrees = np.array(simulation.graph.degrees, dtype=float)
    weights = np.array(simulation.weights(epsilon))
    return {
        "by weight": weights,
        "equal": np.ones_like(weights),
        "by degree": degrees,
        "by weight × degree": weights * degrees,
    }


def run_case(case, seeds=SEEDS):
    """Test errors around the rule: a row for each ε, multiple of η and of T."""
    simulation, rows = Simulation(case), []
    for epsilon in case.epsilons:
        T = simulation.chosen(epsilon).rounds
        for factor in FACTORS:
            eta = simulation.chosen(epsilon, rounds=round(T * factor)).eta
            multiples = MULTIPLES if factor == 1.0 else (1.0,)
            methods = [
                simulation.chosen(epsilon, rounds=round(T * factor), eta=eta * m) for m in multiples
            ]
            pairs = zip(multiples, methods, strict=True)
            pairs = [(m, method) for m, method in pairs if simulation.feasible(method, epsilon)]
            models = simulation.models([method for _, method in pairs], epsilon, seeds)
            ways = averages(simulation, epsilon)
            found = {name: simulation.errors(models, own) for name, own in ways.items()}
            rows += [
                {
                    **asdict(case),
                    "epsilon": epsilon,
                    "rounds": method.rounds,
                    "factor": factor,
                    "eta": method.eta,
                    "multiple": multiple,
                    "error": {name: float(errors[k]) for name, errors in found.items()},
                }
                for k, (multiple, method) in enumerate(pairs)
            ]
    return rows


def regrets(rows, key):
    """Return {value of `key`: {group: regrets}} against the best value tried beside it."""
    beside = defaultdict(list)
    for row in rows:
        scenario = [str(v) for k, v in row.items() if k in Case.__annotations__]
        beside[(*scenario, row["epsilon"])].append(row)
    found = defaultdict(lambda: defaultdict(list))
    for group in beside.values():
        best = min(row["error"]["by weight"] for row in group)
        for row in group:
            found[row[key]][row["group"]].append(row["error"]["by weight"] - best)
    return found


def print_regrets(title, rows, key):
    groups = list(dict.fromkeys(row["group"] for row in rows))
    print(f"\n| {title} | settings | all | " + " | ".join(groups) + " |")
    print("|---" * (3 + len(groups)) + "|")
    for value, by_group in sorted(regrets(rows, key).items()):
        cells = [[r for own in by_group.values() for r in own], *(by_group[g] for g in groups)]
        texts = [f"{np.mean(c):.4f} / {np.max(c):.4f}" if c else "–" for c in cells]
        print(f"| {value:g} | {len(cells[0])} | " + " | ".join(texts) + " |")


def print_averages(rows):
    groups = list(dict.fromkeys(row["group"] for row in rows))
    print("\n| models averaged | " + " | ".join(groups) + " |\n" + "|---" * (1 + len(groups)) + "|")
    ruled = [row for row in rows if row["multiple"] == 1 and row["factor"] == 1]
    for name in ruled[0]["error"]:
        cells = [[r["error"][name] for r in ruled if r["group"] == group] for group in groups]
        print(f"| {name} | " + " | ".join(f"{np.mean(c):.4f}" for c in cells) + " |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/defaults.json"))
    parser.add_argument("--quick", action="store_true", help="every third scenario, one ε and seed")
    args = parser.parse_args()
    rows = []
    for case in CASES[::3] if args.quick else CASES:
        if args.quick:
            case = replace(case, epsilons=case.epsilons[-1:])
        rows += run_case(case, ONE if args.quick or case.agents > MANY else SEEDS)
        last = [r for r in rows if r["multiple"] == 1 and r["factor"] == 1][-1]
        print("#", *vars(case).values(), "T =", last["rounds"], last["error"], flush=True)
    print_regrets("multiple of the rule's η", [r for r in rows if r["factor"] == 1], "multiple")
    print_regrets("multiple of the rule's T", [r for r in rows if r["multiple"] == 1], "factor")
    print_averages(rows)
    if not args.quick:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
