"""How many knots a curve should have: test error of private training on made-up populations.

    python benchmarks/knots.py [--records 6000,35000] [--epsilons 0.25,0.5,1,2,4,10] [--draws 3]
    python benchmarks/knots.py --again

Five kinds of populations, each drawn several times: columns depend on one another through four
hidden traits; their effects on the log-odds are lines, humps, thresholds, saturating, U-shaped or
nothing. Five equal agents, default settings, δ = 10⁻⁴. Prints, for each number of records and ε,
the mean error for every number of knots less that of lines, and the mean and worst regret of the
rule: its error less that of the best number of knots for the population. Saves
benchmarks/results/knots.json.
"""

import argparse
import json
import os
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
from scipy.stats import norm

from ppadmm import RunSpec, train
from ppadmm.data import Categorical, Label, Numeric, Schema
from ppadmm.data.dataset import Dataset
from ppadmm.data.knots import knots_for

KNOTS = (3, 4, 5, 6, 8, 12)
HELD_OUT = 14_000
RESULTS = Path(__file__).parent / "results" / "knots.json"
ANY = ("line", "line", "hump", "saturating", "threshold", "bowl", "nothing")
STRAIGHT = ("line", "line", "nothing")
POPULATIONS = {
    "census": (("age", "count10", "normal", "zero", "zero", "skew"), (8, 7, 14, 6), 0, ANY),
    "yes-no": (
        ("count5", "count5", "count3", "count10", "count10", "age", "normal", "skew"), (), 44, ANY,
    ),
    "few": (("age", "normal", "uniform", "skew"), (4,), 0, ANY),
    "many": (
        ("age", "normal", "uniform", "skew", "zero", "count10", "count5", "uniform", "normal",
         "skew", "uniform", "normal", "zero", "count10"), (5, 3), 4, ANY,
    ),
    "straight": (
        ("age", "normal", "uniform", "skew", "count5", "count10"), (6, 4, 3), 10, STRAIGHT,
    ),
}  # fmt: skip
"""Kinds of numbers, sizes of categories, two-valued columns, kinds of effects."""


def effect(rng, kind):
    """Return a function on [0, 1]."""
    middle, width, rate = rng.uniform(0.3, 0.7), rng.uniform(0.12, 0.35), rng.uniform(4, 12)
    return {
        "line": lambda u: u,
        "hump": lambda u: np.exp(-(((u - middle) / width) ** 2)),
        "saturating": lambda u: 1 - np.exp(-rate * u),
        "threshold": lambda u: np.tanh(5 * rate * (u - middle)),
        "bowl": lambda u: (u - middle) ** 2,
        "nothing": np.zeros_like,
    }[kind]


def number(kind, z):
    """Return values and bounds of a column whose hidden normal number is z."""
    q = norm.cdf(z)
    counted = kind.removeprefix("count")
    if counted != kind:
        most = int(counted)
        return np.minimum(np.floor(-0.27 * most * np.log1p(-q * (1 - 1e-12))), most), most
    return {
        "uniform": q,
        "normal": np.clip(0.45 + 0.17 * z, 0, 1),
        "skew": np.clip(0.08 * np.exp(0.8 * z), 0, 1),
        "zero": np.where(z > 1.2, np.clip(0.3 + 0.4 * (z - 1.2), 0, 1), 0.0),
        "age": np.round(17 + 74 * (1 - np.sqrt(1 - q**1.1))) / 100,
    }[kind] * 100, 100


def population(kind, draw, n):
    """Return a data set of n made-up records and HELD_OUT more, with its numbers as lines."""
    numbers, groups, flags, effects = POPULATIONS[kind]
    rng = np.random.default_rng([draw, *map(ord, kind)])
    m, p = n + HELD_OUT, len(numbers) + len(groups) + flags
    traits = 0.5 * rng.normal(size=(p, 4))
    hidden = rng.normal(size=(m, 4)) @ traits.T + rng.normal(size=(m, p))
    hidden = iter((hidden / np.sqrt((traits**2).sum(axis=1) + 1)).T)
    table, columns, score = {}, [], np.zeros(m)

    def add(column, cells, part, size):
        nonlocal score
        table[column.name] = cells
        columns.append(column)
        score += size * (part - part.mean()) / max(part.std(), 0.2 if size < 0 else 1e-9)

    for name in numbers:
        x, high = number(name, next(hidden))
        part = effect(rng, effects[rng.integers(len(effects))])(x / high)
        add(Numeric(f"x{len(columns)}", 0, high, shape="line"), x, part, rng.uniform(0.3, 1.1))
    for size in groups:
        cut = np.searchsorted(np.sort(rng.normal(size=size - 1)), next(hidden))
        codes = rng.permutation(size)[cut]
        column = Categorical(f"g{len(columns)}", tuple(f"c{k}" for k in range(size)))
        cells = np.array(column.categories)[codes]
        add(column, cells, rng.normal(size=size)[codes], rng.uniform(0.2, 0.7))
    for _ in range(flags):
        z, share = next(hidden), rng.uniform(0.03, 0.45)
        flag = (z > norm.ppf(1 - share)).astype(float)
        add(Numeric(f"f{len(columns)}", 0, 1, shape="line"), flag, flag, 0.35 * rng.normal())
    score *= rng.uniform(1.3, 2.2) / score.std()
    high = score + rng.uniform(-1.2, 0.2) + rng.logistic(size=m) > 0
    table["label"] = np.where(high, "1", "0")
    schema = Schema(tuple(columns), Label("label", ("1",), ("0",)))
    arrow = pa.table(table)
    return Dataset(kind, schema.encode_coded(arrow), schema.encode_label(arrow), schema, n, arrow)


def bent(data, knots):
    """Return the records with as many knots, or fewer where whole numbers have fewer values."""
    columns = tuple(
        replace(c, shape="curve", knots=int(min(knots, c.high + 1)) if c.high < 100 else knots)
        if isinstance(c, Numeric) and c.high > 1.0
        else c
        for c in data.schema.columns
    )
    schema = replace(data.schema, columns=columns)
    return replace(data, X=schema.encode_coded(data.table), schema=schema)


def errors(data, epsilons, seed):
    spec = RunSpec(delta=1e-4, seed=seed)
    found = [train(replace(spec, epsilon=e), data=data) for e in epsilons]
    return [float(result.metrics.error[0]) for result in found]


def simulate(records, epsilons, draws):
    """Return [n, population, draw, columns, knots (0: lines), ε, error] of every run."""
    rows = []
    for n in records:
        for kind in POPULATIONS:
            for draw in range(draws):
                lines = population(kind, draw, n)
                for knots in (0, *KNOTS):
                    data = bent(lines, knots) if knots else lines
                    found = zip(epsilons, errors(data, epsilons, draw), strict=True)
                    columns = len(lines.schema.columns)
                    rows += [[n, kind, draw, columns, knots, *each] for each in found]
                print(f"{n} records, {kind}, draw {draw}", flush=True)
    return rows


def table(rows):
    """Print the error of every number of knots less that of lines, and the regret of the rule."""
    cases = defaultdict(dict)
    for n, kind, draw, columns, knots, epsilon, error in rows:
        cases[n, epsilon, kind, draw, columns][knots] = error
    print("| records | ε | " + " | ".join(f"{k} knots" for k in KNOTS) + " | rule: mean, worst |")
    print("|---" * (len(KNOTS) + 3) + "|")
    regrets = []
    for n, epsilon in dict.fromkeys(case[:2] for case in cases):
        some = {case: each for case, each in cases.items() if case[:2] == (n, epsilon)}
        gains = [np.mean([e[k] - e[0] for e in some.values()]) for k in KNOTS]
        own = [e[nearest(n, case[4], epsilon)] - min(e.values()) for case, e in some.items()]
        regrets += own
        cells = " | ".join(f"{gain:+.4f}" for gain in gains)
        print(f"| {n:,} | {epsilon:g} | {cells} | {np.mean(own):.4f}, {max(own):.4f} |")
    print(f"regret of the rule: mean {np.mean(regrets):.4f}, worst {max(regrets):.4f}")
    for k in KNOTS:
        own = [e[k] - min(e.values()) for e in cases.values()]
        print(f"regret of always {k}: mean {np.mean(own):.4f}, worst {max(own):.4f}")


def nearest(n, columns, epsilon):
    """Return the number of knots that was tried which is nearest to the rule's."""
    wanted = knots_for(n, columns, epsilon)
    return min(KNOTS, key=lambda k: abs(np.log(k / wanted)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", default="6000,35000")
    parser.add_argument("--epsilons", default="0.25,0.5,1,2,4,10")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--again", action="store_true", help="print the saved figures")
    given = parser.parse_args()
    if not given.again:
        records, epsilons = map(int, given.records.split(",")), given.epsilons.split(",")
        rows = simulate(records, [float(e) for e in epsilons], given.draws)
        RESULTS.write_text(json.dumps(rows) + "\n")
    table(json.loads(RESULTS.read_text()))


if __name__ == "__main__":
    main()
