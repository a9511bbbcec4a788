"""Derives and checks the rule of noisy Newton (η, share of the second moments, rounds).

    python benchmarks/newton.py                   # the rule on made-up populations: 15 minutes
    python benchmarks/newton.py --again           # the tables of the saved figures
    python benchmarks/newton.py --wide            # 2,000 sparse features: the diagonal
    python benchmarks/newton.py --data adult,us,brazil [--agents 5] [--epsilons 0.5,1,2]
    python benchmarks/newton.py --data adult --agents 50 --epsilons 0.5,1 --colluding 1,12,25

Where sites are equal the mean over sites is one descent over all records with one noise, so that is
what is simulated, many settings at once. Before it starts, it is compared with the algorithm itself
on one site: θ must be the same to rounding. Regret is how much larger the test error is than that
of the best of the grid for the same population, noise and seeds.
"""

import argparse
import json
import math
import os
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from knots import bent
from knots import population as curved
from scipy.sparse import csr_array

from ppadmm import RunSpec, train
from ppadmm.accounting import Budget
from ppadmm.algorithms import newton
from ppadmm.algorithms.base import Site
from ppadmm.algorithms.defaults import Sizes
from ppadmm.algorithms.settings import Settings
from ppadmm.data import Shard
from ppadmm.engines import local
from ppadmm.noise import Key, SeededNoise
from ppadmm.planning.synthetic_records import class_shares, draw_population
from ppadmm.problem import loss_for
from ppadmm.problem.scores import risk_of
from ppadmm.runs.federation import make_agents
from ppadmm.summing.trust import LOCAL_TRUST, Trust

DELTA, TEST, DRAW = 1e-5, 14_000, 1
"""The rule was fitted to draw 0 of the populations; the tables are of draw 1."""
RESULTS = Path(__file__).parent / "results" / "newton.json"
CASES = (
    ("table", 20, 2_000, 2),
    ("table", 60, 20_000, 2),
    ("scattered", 60, 20_000, 2),
    ("scattered", 150, 50_000, 2),
    ("power-law", 30, 10_000, 2),
    ("power-law", 100, 200_000, 2),
    ("flat", 25, 5_000, 2),
    ("flat", 200, 50_000, 2),
    ("curves:census", 0, 6_000, 2),
    ("curves:census", 0, 35_000, 2),
    ("curves:many", 0, 35_000, 2),
    ("curves:few", 0, 10_000, 2),
    ("curves:yes-no", 0, 35_000, 2),
    ("curves:straight", 0, 6_000, 2),
    ("table", 30, 20_000, 4),
    ("scattered", 20, 5_000, 3),
)
"""Population, features (those of curves follow from the columns), records, classes."""
NOISES = (
    (0.1, 5, "sum"),
    (0.5, 50, "local"),
    (0.5, 5, "local"),
    (1.0, 5, "sum"),
    (3.0, 50, "local"),
    (10.0, 1, "local"),
)
"""ε, sites, trust; one site may collude."""
PLANNED = {
    "table": (0.14, 0.4),
    "scattered": (0.16, 0.25),
    "flat": (0.2, 0.4),
    "power-law": (0.2, 0.45),
}
SEVERAL = (0.25, 0.6)
"""The least possible error, and that of the commonest class."""
MULTIPLES, SHARES, ROUNDS = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0), (1 / 4, 1 / 2, 1, 2, 4), (
    5, 9, 13, 19,
)  # fmt: skip
BANDS = (0.0, 0.003, 0.01, 0.03, 0.15)


@dataclass(frozen=True)
class Way:
    """How steps are made. `floor`: eigenvalues below η are η, or else η is added to all.

    `momentum`: a part of the last step is made again; below 0, Nesterov's t/(t+3). `growth`: each
    slope gets so many times the budget of the one before.
    """

    floor: bool = True
    momentum: float = 0.0
    growth: float = 1.0


RULE = Way()
WAYS = {
    "η added to all eigenvalues": Way(floor=False),
    "Nesterov": Way(momentum=-1.0),
    "momentum ½": Way(momentum=0.5),
    "budget grows by 8 % a step": Way(growth=1.08),
}
AVERAGES = ("t²", "t", "t⁴", "last half", "last third", "last")


def averaged(path):
    """Return averages over steps (averages, …) of a path (steps, …)."""
    t = np.arange(1.0, len(path) + 1.0)
    weights = (t**2, t, t**4, t > len(path) / 2, t > 2 * len(path) / 3, t == len(path))
    return np.stack([np.tensordot(w / w.sum(), path, 1) for w in weights])


def population(case, draw):
    """Return the loss, the risk of the training records, and test records."""
    kind, d, n, classes = case
    if kind.startswith("curves:"):
        data = bent(curved(kind.removeprefix("curves:"), draw, n), 6)
        X, y = data.X.toarray(), data.y
    else:
        error, majority = PLANNED[kind] if classes == 2 else SEVERAL
        rng, shares = np.random.default_rng([draw, d, n]), class_shares(majority, classes)
        made = draw_population(kind, n + TEST, d, shares, rng).with_error(error)
        X, y = made.X, made.labels()
    loss = loss_for("logistic", classes)
    return loss, risk_of(Shard(X[:n], y[:n], classes), loss), (X[n:].astype(np.float32), y[n:])


def public(n, d, sites, trust):
    """Return what the rule knows of equal sites."""
    kind = LOCAL_TRUST if trust == "local" else Trust(trust, 1)
    each = (n / sites,) * sites
    return Sizes(each, d, (max(sites - 1, 1),) * sites, (1.0,) * sites, trust=kind)


def chosen(loss, n, d, epsilon, sites, trust):
    """Return σ̄ of the mean slope if it had the whole budget, x and the rule's η."""
    sizes, budgets = public(n, d, sites, trust), [Budget(epsilon, DELTA)] * sites
    sigma = newton.mean_noise(sizes, budgets, loss.lipschitz)
    x = math.sqrt(d) * sigma / (4.0 * loss.smoothness)
    return sigma, x, newton.default_damping(sizes, budgets, loss)


def descend(risk, sigma, steps, etas, shares, seeds, way=RULE, single=True):
    """Return the path (steps, replicates, parameters); η, share and seed are per replicate."""
    loss, d = risk.loss, risk.d // risk.loss.outputs
    noise, etas, shares = SeededNoise(tuple(seeds)), np.array(etas), np.array(shares)
    ratio = math.sqrt(0.5) / loss.lipschitz
    exact = np.tile(newton.moments(risk), (len(seeds), 1))
    scale = ratio * sigma / np.sqrt(shares)
    noisy = noise.gaussian(exact, scale, scale, Key(0, 0, newton.MOMENTS))
    metrics = [metric(row, d, loss, eta, way) for row, eta in zip(noisy, etas, strict=True)]
    theta, before, path = np.zeros((len(seeds), risk.d)), 0.0, []
    parts = way.growth ** np.arange(steps)
    for t, part in enumerate(parts / parts.sum()):
        again = way.momentum if way.momentum >= 0 else t / (t + 3.0)
        at = theta + again * (theta - before)
        scale = sigma / np.sqrt((1.0 - shares) * part)
        slope = risk.gradient(at, single=single)
        slope = noise.gaussian(slope, scale, scale, Key(0, t + 1, newton.SLOPES))
        step = np.stack([m.apply(row) for m, row in zip(metrics, slope, strict=True)])
        before, theta = theta, at - step
        path.append(theta)
    return np.stack(path)


def metric(released, d, loss, eta, way):
    if way.floor:
        return newton.Preconditioner.of(released, d, loss.smoothness, eta, 0.0)
    values, basis = np.linalg.eigh(newton.unfolded(released, d))
    return newton.Preconditioner(basis, 1.0 / (loss.smoothness * np.maximum(values, 0.0) + eta))


def require_same_theta():
    """Compare with the algorithm itself: one site, the same noise."""
    for case in (("table", 20, 2_000, 2), ("scattered", 20, 5_000, 3)):
        loss, risk, _ = population(case, 0)
        eta, budget = 0.02, Budget(1.0, DELTA)
        settings = Settings(newton.ROUNDS, (eta,), (0.0,), (budget,))
        site = Site(0, 1, (), risk, records=risk.n)
        rule = newton.build_newton(site, settings)
        agents = make_agents("newton", [site], [settings], SeededNoise((3,)))
        found = local.run(agents).model()
        share, steps = newton.share_of(eta, loss), newton.ROUNDS - 1
        sigma = float(rule.scales["sigma1"][0]) * math.sqrt((1.0 - share) / steps)
        path = descend(risk, sigma, steps, [eta], [share], [3], single=False)
        gap = np.abs(averaged(path)[0] - found).max() / np.abs(found).max()
        print(f"# θ of the simulation and of the algorithm, {case[0]}: relative gap {gap:.1e}")
        if gap > 1e-8:
            raise SystemExit("The simulation is not the algorithm.")


def errors(models, test, classes):
    """Return test errors (…) of models (…, parameters)."""
    X, y = test
    flat, found = models.reshape(-1, models.shape[-1]).astype(np.float32), []
    for some in np.array_split(flat, max(len(flat) // 64, 1)):
        if classes == 2:
            found.append(((X @ some.T) * y[:, None] <= 0).mean(axis=0))
        else:
            scores = (X @ some.reshape(-1, X.shape[1]).T).reshape(len(X), len(some), classes)
            found.append((scores.argmax(axis=2) != y[:, None]).mean(axis=0))
    return np.concatenate(found).reshape(models.shape[:-1])


def run_setting(risk, test, classes, sigma, eta, seeds):
    """Return {name: error}: names are (way, average, rounds, multiple of η, of the share)."""
    found, share = {}, newton.share_of(eta, risk.loss)

    def add(way, steps, pairs):
        columns = [(m, s, seed) for m, s in pairs for seed in seeds]
        shares = [min(share * s, 0.6) for _, s, _ in columns]
        etas = [eta * m for m, _, _ in columns]
        path = descend(
            risk, sigma, steps, etas, shares, [c[2] for c in columns], {**WAYS, "rule": RULE}[way]
        )
        each = errors(averaged(path), test, classes)
        each = each.reshape(len(AVERAGES), len(pairs), len(seeds)).mean(axis=2)
        for name, row in zip(AVERAGES, each, strict=True):
            for (m, s), error in zip(pairs, row, strict=True):
                found[way, name, steps + 1, m, s] = float(error)

    for rounds in ROUNDS:
        full = rounds == newton.ROUNDS
        shares = SHARES if full else (1,)
        add("rule", rounds - 1, [(m, s) for m in MULTIPLES for s in shares])
    for way in WAYS:
        add(way, newton.ROUNDS - 1, [(m, 1) for m in MULTIPLES])
    old = 0.5 * risk.loss.smoothness * 2.0 * math.sqrt(risk.d // risk.loss.outputs)
    old *= math.sqrt(0.5 / 0.15) * sigma / risk.loss.lipschitz
    path = descend(
        risk, sigma, 12, [old] * len(seeds), [0.15] * len(seeds), seeds, Way(floor=False)
    )
    found["before", "last half", 13, 1, 1] = float(errors(averaged(path)[3], test, classes).mean())
    return found


def simulate(quick):
    rows = []
    for case in CASES[::5] if quick else CASES:
        loss, risk, test = population(case, DRAW)
        d = risk.d // loss.outputs
        seeds = range(1 if case[2] * d * case[3] > 4e6 or quick else 3)
        for noise in NOISES:
            sigma, x, eta = chosen(loss, case[2], d, *noise)
            found = run_setting(risk, test, case[3], sigma, eta, seeds)
            best, kept = min(found.values()), [[k, round(found[k], 6)] for k in shown()]
            setting = {"case": case, "d": d, "noise": noise, "x": x}
            rows.append({**setting, "best": best, "errors": kept})
        print("#", *case, f"last: rule {found[MINE]:.4f}, best {best:.4f}", flush=True)
    return rows


# Tables


def band(x):
    """Return the number of the band of noise that x is in, None if it is beyond them all."""
    k = int(np.searchsorted(BANDS, x, side="right")) - 1
    return k if k < len(BANDS) - 1 else None


T = newton.ROUNDS
MINE = ("rule", "t²", T, 1.0, 1)
TABLES = {
    "choice": {"the rule": MINE, "guessed before": ("before", "last half", 13, 1, 1)},
    "multiple of η": {f"{m:g}": (*MINE[:3], m, 1) for m in MULTIPLES},
    "multiple of the share": {f"{s:g}": (*MINE[:4], s) for s in SHARES},
    "rounds": {str(r): ("rule", "t²", r, 1.0, 1) for r in ROUNDS},
    "average over steps": {name: ("rule", name, T, 1.0, 1) for name in AVERAGES},
    "steps": {"the rule": MINE}
    | {f"{w}, {m:g}·η": (w, "t²", T, m, 1) for w in WAYS for m in (0.5, 1.0, 2.0)},
}


def shown():
    """Return the settings that a table shows."""
    return dict.fromkeys(key for names in TABLES.values() for key in names.values())


def print_table(title, rows, names):
    """Print mean and worst regret of each of `names` {text: key}, by bands of x."""
    groups = [[] for _ in BANDS[1:]]
    for row in rows:
        if (k := band(row["x"])) is not None:
            groups[k].append({tuple(key): error - row["best"] for key, error in row["errors"]})
    heads = [f"{a:g} ≤ x < {b:g}" for a, b in pairwise(BANDS)]
    print(f"\n| {title} | all | " + " | ".join(heads) + " |\n" + "|---" * (2 + len(heads)) + "|")
    for text, key in names.items():
        each = [[own[key] for own in group] for group in groups]
        cells = [[r for own in each for r in own], *each]
        texts = [f"{np.mean(c):.4f} / {np.max(c):.4f}" if c else "–" for c in cells]
        print(f"| {text} | " + " | ".join(texts) + " |")


def print_tables(rows):
    beyond = sum(band(row["x"]) is None for row in rows)
    print(f"{len(rows)} settings, {beyond} of them with x ≥ {BANDS[-1]:g} left out")
    for title, names in TABLES.items():
        print_table(title, rows, names)


def print_wide():
    """Test errors with 2,000 sparse features: steps by the diagonal, and without a metric."""
    print(
        "| features in a record | ε | x | the diagonal | none, best of 7 steps |\n"
        + "|---" * 5
        + "|"
    )
    for active in (12, 40):
        loss, risk, test = wide(active)
        for epsilon in (1.0, 3.0, 10.0):
            sigma, x, eta = chosen(loss, risk.n, risk.d, epsilon, 1, "local")
            share, steps = newton.share_of(eta, loss), newton.ROUNDS - 1
            path = descend(risk, sigma, steps, [eta], [share], [0], single=False)
            mine = wide_error(averaged(path)[0][0], test)
            plain = min(wide_error(plain_descent(risk, sigma, k), test) for k in STEPS)
            print(f"| {active} | {epsilon:g} | {x:.4f} | {mine:.4f} | {plain:.4f} |", flush=True)


STEPS = (1.0, 3.0, 10.0, 30.0, 60.0, 100.0, 200.0)


def plain_descent(risk, sigma, length):
    """Return the t²-mean of gradient descent with the whole budget."""
    theta, path = np.zeros((1, risk.d)), []
    scale, noise = np.array([sigma * math.sqrt(T)]), SeededNoise((0,))
    for t in range(T):
        slope = noise.gaussian(risk.gradient(theta), scale, scale, Key(0, t, "plain"))
        theta = theta - length * slope
        path.append(theta[0])
    return averaged(np.stack(path))[0]


def wide(active, n=50_000, d=2_000):
    """Return records with `active` features of 2,000, some far more frequent, and a constant."""
    rng, m = np.random.default_rng(active), n + TEST
    share = np.arange(1.0, d) ** -0.8
    columns = rng.choice(d - 1, size=(m, active), p=share / share.sum())
    columns = np.c_[columns, np.full(m, d - 1)].ravel()
    X = csr_array((np.ones(len(columns)), (np.repeat(np.arange(m), active + 1), columns)), (m, d))
    X.sum_duplicates()
    X.data[:] = 1.0
    X.data /= np.repeat(np.sqrt(np.diff(X.indptr)), np.diff(X.indptr))
    score = X @ (5.0 * rng.standard_normal(d))
    y = np.where(score - score.mean() + rng.logistic(size=m) > 0, 1.0, -1.0)
    loss = loss_for("logistic", 2)
    return loss, risk_of(Shard(X[:n], y[:n]), loss), (X[n:], y[n:])


def wide_error(theta, test):
    return float(((test[0] @ theta) * test[1] <= 0).mean())


def measure(names, agents, epsilons, seeds, colluding):
    """Print test error and AUC of real data: no setting is chosen by them."""
    spec = RunSpec(delta=1e-4, agents=agents)
    ways = {"PP-ADMM": {"algorithm": "pp"}, "newton, local": {"algorithm": "newton"}}
    for c in colluding:
        ways[f"newton, sum, c = {c}"] = {"algorithm": "newton", "trust": "sum", "colluding": c}
    ways["centralised"] = {"algorithm": "centralised"}
    if agents > 20:  # what does not depend on sums is slow or bad there, and not what is asked
        ways = {way: options for way, options in ways.items() if "sum" in way}
    print("| data | sites | ε | " + " | ".join(ways) + " |\n" + "|---" * (3 + len(ways)) + "|")
    for name in names:
        for epsilon in epsilons:
            cells = []
            for options in ways.values():
                runs = [
                    train(replace(spec, data=name, epsilon=epsilon, seed=seed, **options)).metrics
                    for seed in range(seeds)
                ]
                error = np.mean([run.error for run in runs])
                cells.append(f"{error:.4f}, {np.mean([run.auc for run in runs]):.4f}")
            print(f"| {name} | {agents} | {epsilon:g} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--again", action="store_true", help="print the saved figures")
    parser.add_argument("--quick", action="store_true", help="every fifth population, one seed")
    parser.add_argument("--wide", action="store_true", help="2,000 sparse features")
    parser.add_argument("--data", help="real data sets instead, by name")
    parser.add_argument("--agents", type=int, default=5)
    parser.add_argument("--epsilons", default="0.5,1,2")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--colluding", default="1")
    given = parser.parse_args()
    if given.data:
        epsilons, colluding = given.epsilons.split(","), given.colluding.split(",")
        numbers = [float(e) for e in epsilons], given.seeds, [int(c) for c in colluding]
        return measure(given.data.split(","), given.agents, *numbers)
    if given.wide:
        return print_wide()
    if not given.again:
        require_same_theta()
        rows = simulate(given.quick)
        if given.quick:
            return print_tables(rows)
        RESULTS.write_text(json.dumps(rows) + "\n")
    return print_tables(json.loads(RESULTS.read_text()))


if __name__ == "__main__":
    main()
