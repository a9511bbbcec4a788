"""Subproblems that somebody would make who wants a solve to fail: anything that is admissible.

Records, messages and noise lie at the edges of what the terms of a run allow: values of norm R,
noise at its quantile, β as small as double precision lets it be, records that saturate, cancel or
vanish, and one solve's memory handed on to a very different one.
"""

import os
from collections import Counter

import numpy as np
from scipy.sparse import csr_array

from ppadmm.data import Shard
from ppadmm.data.coded import Coded
from ppadmm.mechanisms.limits import Reach, least_beta, noise_quantile, public_radius
from ppadmm.problem import (
    HuberHinge,
    Logistic,
    Multinomial,
    OneVsRest,
    Subproblem,
    kernels,
    risk_of,
)
from ppadmm.solvers import SOLVERS, Warm, cold_start, guarded, solver_named

LOSSES = (
    Logistic(),
    HuberHinge(0.5),
    HuberHinge(0.01),
    Multinomial(3),
    Multinomial(7),
    OneVsRest(HuberHinge(0.5), 3),
    OneVsRest(Logistic(), 4),
)
SHRUNK = 1.0 - 1e-12


class Hostile:
    """A source of admissible subproblems, one agent's run at a time."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def run(self, solves=6):
        """Yield (solver, subproblem, start, β) for one agent; solves share a memory."""
        rng = self.rng
        loss = LOSSES[rng.integers(len(LOSSES))]
        os.environ[kernels.VARIABLE] = str(rng.choice(["numba", "numpy"]))
        n = int(rng.choice([1, 2, 5, 30, 200]))
        d = int(rng.choice([1, 2, 3, 8, 40] if loss.outputs == 1 else [1, 2, 3, 6]))
        risk = self.risk(loss, n, d)
        width = int(rng.choice([1, 1, 3]))
        mu = np.full(width, 10.0 ** rng.uniform(-4.5, 3.0))
        sigma = np.full(width, 10.0 ** rng.uniform(-6.0, 3.0))
        q = noise_quantile(sigma, risk.d)
        beta = self.beta(loss, risk, mu, q)
        radius = public_radius(loss, risk.d, beta, mu * rng.choice([1.0, 10.0]))
        reach = Reach(loss, risk.d, risk.n, mu, beta, radius)
        name = str(rng.choice(["auto", *SOLVERS]))
        solver, start = solver_named(name, risk.d), None
        for _ in range(solves):
            public = self.messages(risk, width) * (mu * radius)[:, None]
            sub = reach.admissible(Subproblem(risk, mu, public))
            noise = self.noise(risk, width) * q[:, None]
            sub = Subproblem(risk, mu, sub.linear + noise)
            start = start or cold_start(sub)
            found = yield solver, sub, self.begin(sub, start), beta
            start = None if found is None else found.warm

    def beta(self, loss, risk, mu, q):
        least = float(least_beta(loss, risk.d, risk.n, mu, q).max())
        return least * float(self.rng.choice([1.0, 1.0, 1.001, 10.0, 1e3]))

    def begin(self, sub, start):
        """Start where the last solve ended, or anywhere else within reach."""
        if self.rng.random() < 0.8:
            return start
        size = np.linalg.norm(sub.linear, axis=1) / sub.mu * 10.0 ** self.rng.uniform(-9, 0)
        point = size[:, None] * self.unit(sub.linear.shape)
        return Warm(point, sub.risk.gradient(point), start.memory)

    def unit(self, shape):
        rows = self.rng.standard_normal(shape)
        return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-300)

    def risk(self, loss, n, d):
        rng, kind = self.rng, self.rng.integers(6)
        X = self.unit((n, d))
        if kind == 1:  # all alike but one
            X[1:] = X[:1]
        elif kind == 2:  # pairs that cancel
            X[1::2] = -X[: len(X[1::2]) * 2 : 2] if n > 1 else X[1::2]
        elif kind == 3:  # of every size
            X *= 10.0 ** rng.uniform(-30.0, 0.0, (n, 1))
        elif kind == 4:  # one direction, nearly
            X = self.unit((1, d)) + 1e-9 * X
            X /= np.linalg.norm(X, axis=1, keepdims=True)
        elif kind == 5:
            X[rng.random(n) < 0.7] = 0.0
        X = X * SHRUNK
        if loss.outputs > 1:
            return risk_of(
                Shard(self.stored(X), rng.integers(0, loss.outputs, n) * 1.0, loss.outputs), loss
            )
        y = np.where(rng.random(n) < rng.choice([0.0, 0.5, 0.95]), 1.0, -1.0)
        return risk_of(Shard(self.stored(X), y), loss)

    def stored(self, X):
        """Return the rows dense, sparse or coded."""
        kind = self.rng.integers(4)
        if kind == 1:
            return csr_array(X)
        if kind >= 2:
            return self.coded(len(X), X.shape[1])
        return X

    def coded(self, n, d):
        """Rows of categories and numbers, as a schema makes them."""
        rng = self.rng
        sizes = [int(k) for k in rng.integers(1, 6, max(1, d // 3))]
        numbers = rng.choice([0.0, 1.0, 1e-9, 0.5], (n, d)) * rng.choice([1.0, -1.0], (n, 1))
        starts = d + np.cumsum([0, *sizes[:-1]])
        groups = zip(starts, sizes, strict=True)
        codes = np.stack([start + rng.integers(0, size, n) for start, size in groups], axis=1)
        return Coded.of(numbers, codes, d + sum(sizes) + 1, SHRUNK)

    def messages(self, risk, width):
        """Directions of c (R, d), up to 2 in units of μR: along records, across, anywhere."""
        rng, shape = self.rng, (width, risk.d)
        kind, size = rng.integers(4), rng.choice([0.0, 1e-9, 1e-3, 1.0, 1.0, 2.0])
        if kind == 0 and risk.loss.outputs == 1:
            row = np.asarray(risk.gradient(np.zeros(shape)))
            length = np.linalg.norm(row, axis=1, keepdims=True)
            away = row / np.maximum(length, 1e-300)
        elif kind == 1:
            away = np.eye(risk.d)[rng.integers(risk.d, size=width)]
        else:
            away = self.unit(shape)
        return float(size) * away * rng.choice([1.0, -1.0])

    def noise(self, risk, width):
        """b in units of its quantile."""
        return self.unit((width, risk.d)) * float(self.rng.choice([0.0, 0.1, 1.0, 1.0]))


def attack(solves, seed):
    """Make so many solves; return what became of them, by name."""
    source, seen = Hostile(seed), Counter()
    finish = guarded.finish

    def slow(sub, tolerance):
        seen["slow"] += sub.replicates
        return finish(sub, tolerance)

    guarded.finish = slow
    try:
        while seen["solves"] < solves:
            _play(source.run(), seen)
    finally:
        guarded.finish = finish
    return seen


def _play(run, seen):
    problem = next(run)
    while problem is not None:
        solver, sub, start, beta = problem
        found = solver.solve(sub, start, beta)
        seen["solves"] += sub.replicates
        seen["uncertified"] += int((~(found.residual <= beta)).sum())
        seen["not finite"] += int((~np.isfinite(found.point).all(axis=1)).sum())
        seen["false"] += _false(sub, found, beta)
        problem = _sent(run, found)


def _sent(run, found):
    try:
        return run.send(found)
    except StopIteration:
        return None


def _false(sub, found, beta):
    """Count rows whose ∇F, evaluated once more, is far above what was certified."""
    gradient = np.linalg.norm(sub.gradient(found.point), axis=1)
    steepest = sub.risk.loss.smoothness + sub.mu
    # By gradient ‖∇F‖ ≤ β; by the number of steps ‖θ − θ̃‖ ≤ β/μ, hence ‖∇F‖ ≤ (L/μ)β.
    return int((gradient > 2.0 * beta * steepest / sub.mu).sum())
