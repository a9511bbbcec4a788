"""Theorem C against exact hockey-stick divergences, of one release and of adaptive runs.

On the line θ̃ falls into a cell with a probability known from Φ alone, under D and under D'. The
divergence between the two laws on cells is never above the exact δ(ε) and comes close to it.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from ppadmm.accounting.accountant import _by_theorem_c, epsilon
from ppadmm.accounting.events import Charge, Gaussian, ObjectivePerturbation, Tally
from ppadmm.accounting.gaussian import gdp_epsilon
from ppadmm.problem.losses import HuberHinge, Logistic
from tests.accounting.exact import (
    PAIRS,
    Lines,
    centred,
    hockey_stick,
    interval_masses,
    random_lines,
    random_plane,
)

DELTAS = (1e-6, 1e-4, 1e-2, 0.1)
LOSSES = (Logistic(), HuberHinge(0.5), HuberHinge(0.05))


def tally(event: ObjectivePerturbation, times: int = 1) -> Tally:
    return Tally.of([Charge((event,))], times)


def by_c(event: ObjectivePerturbation, delta: float, times: int = 1) -> float:
    return _by_theorem_c(tally(event, times), delta).epsilon


def claimed(event: ObjectivePerturbation, delta: float, times: int = 1) -> float:
    return epsilon(tally(event, times), delta).epsilon


def worst_share(lines: Lines, claim) -> np.ndarray:
    """Return δ(ε_claimed)/δ, the larger of both directions, (I, deltas)."""
    p, q = lines.cells()
    shares = []
    for delta in DELTAS:
        eps = np.array([claim(event, delta) for event in lines.events()])
        there, back = hockey_stick(p, q, eps), hockey_stick(q, p, eps)
        shares.append(np.maximum(there, back) / delta)
    return np.stack(shares, axis=1)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}-{loss.smoothness:g}")
def test_no_single_release_on_the_line_exceeds_the_claim(loss, pair):
    rng = np.random.default_rng([11, LOSSES.index(loss), PAIRS.index(pair)])
    lines = random_lines(loss, pair, 25, rng)
    assert worst_share(lines, by_c).max() <= 1.0 + 1e-6
    assert worst_share(lines, claimed).max() <= 1.0 + 1e-6


def before_the_bend(count: int = 30) -> Lines:
    """The gradient moves by all of s = 2G/n, and the curvature hardly changes."""
    rng = np.random.default_rng(12)
    lines = random_lines(
        HuberHinge(0.1), "antipodal", count, rng, kappa=(1e-6, 1e-5), ratio=(0.1, 3.0)
    )
    return centred(replace(lines, old=np.ones(count), new=-np.ones(count)), np.zeros(count))


def at_the_bend(count: int = 30) -> Lines:
    """Little s/σ and much κ, with θ̃ where the changed record's loss bends."""
    rng = np.random.default_rng(13)
    lines = random_lines(
        HuberHinge(0.5), "zero-out", count, rng, kappa=(0.1, 1.0), ratio=(1e-2, 1e-1)
    )
    return centred(lines, 1.0 / lines.old)


def test_theorem_c_is_reached():
    """All of δ but the hundredth set aside for the tail is used: 0.98998 was measured."""
    assert 0.9 < worst_share(before_the_bend(), by_c).max() <= 1.0


def test_a_sensitivity_too_small_by_the_root_of_two_is_caught():
    def broken(event, delta):
        return by_c(replace(event, ratio=event.ratio / math.sqrt(2.0)), delta)

    assert worst_share(before_the_bend(), broken).max() > 1.5


def test_a_missing_curvature_shift_is_caught():
    def broken(event, delta):
        return gdp_epsilon(delta, event.ratio)

    assert worst_share(at_the_bend(), broken).max() > 1.5
    assert worst_share(at_the_bend(), by_c).max() <= 1.0


@pytest.mark.parametrize("pair", PAIRS)
def test_no_single_release_in_the_plane_exceeds_the_claim(pair):
    rng = np.random.default_rng([14, PAIRS.index(pair)])
    for _ in range(3):
        plane = random_plane(Logistic(), pair, rng)
        log_w, loss = plane.losses(8.0 + 2.0 * plane.event.ratio, 0.08)
        p, q = np.exp(log_w), np.exp(log_w - loss)
        for delta in DELTAS:
            eps = np.array([by_c(plane.event, delta), claimed(plane.event, delta)])
            exact = np.maximum(hockey_stick(p, q, eps), hockey_stick(q, p, eps))
            assert (exact <= delta * (1.0 + 1e-3)).all(), plane.event


@dataclass(frozen=True)
class Run:
    """T adaptive releases of one agent on the line; the linear term follows what was released.

    `pull` is the share of μ that comes from a proximal term around the last release, as in ADMM;
    `chase` moves the centre with the sign of the privacy loss so far, as an adversary would.
    """

    lines: Lines
    pull: float
    chase: float

    def laws(self, rounds: int, cells: int) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of all histories of cells, under D and under D'."""
        p, q, c = np.ones(1), np.ones(1), self.lines.c.copy()
        for _ in range(rounds):
            p, q, c = self._round(p, q, c, cells)
        return p, q

    def _round(self, p, q, c, cells):
        edges = self._edges(c, cells)
        first, second = (self._masses(edges, c, primed) for primed in (False, True))
        p, q = (p[:, None] * first).ravel(), (q[:, None] * second).ravel()
        keep = np.maximum(p, q) > 1e-13
        middle = ((edges[:, 1:] + edges[:, :-1]) / 2.0).ravel()
        with np.errstate(divide="ignore"):
            loss = np.sign(np.log(p[keep]) - np.log(q[keep]))
        moved = self.lines.c[0] - self.pull * self.lines.mu[0] * middle[keep] + self.chase * loss
        return p[keep], q[keep], moved

    def _edges(self, c: np.ndarray, cells: int) -> np.ndarray:
        """Any edges are valid; these are nearly even in b, from a table of F' without c."""
        reach = (6.0 + 2.0 * self.lines.ratio[0]) * self.lines.sigma[0]
        level = reach * np.linspace(-1.0, 1.0, cells + 1) - c[:, None]
        span = (np.abs(level).max() + 1.0) / self.lines.mu[0]
        table = np.linspace(-span, span, 20_001)
        edges = np.interp(level, self.lines.slope(table[None])[0] - self.lines.c[0], table)
        edges[:, 0], edges[:, -1] = -1e9 * span, 1e9 * span
        return edges

    def _masses(self, edges: np.ndarray, c: np.ndarray, primed: bool) -> np.ndarray:
        flat = self.lines.slope(edges.reshape(1, -1), primed)[0].reshape(edges.shape)
        return interval_masses((flat - self.lines.c[0] + c[:, None]) / self.lines.sigma[0])


def one(lines: Lines, i: int) -> Lines:
    rows = {k: v[i : i + 1] for k, v in lines.__dict__.items() if isinstance(v, np.ndarray)}
    return replace(lines, **rows)


def run_shares(run: Run, rounds: int, cells: int, claim) -> list[float]:
    p, q = run.laws(rounds, cells)
    assert p.sum() == pytest.approx(1.0, abs=1e-6)
    assert q.sum() == pytest.approx(1.0, abs=1e-6)
    event, shares = run.lines.events()[0], []
    for delta in (1e-4, 1e-2):
        eps = np.array(claim(event, delta, rounds))
        shares.append(float(max(hockey_stick(p, q, eps), hockey_stick(q, p, eps)) / delta))
    return shares


@pytest.mark.parametrize("rounds", [2, 3])
@pytest.mark.parametrize("pair", PAIRS)
def test_no_adaptive_run_exceeds_the_claim(pair, rounds):
    rng = np.random.default_rng([15, PAIRS.index(pair)])
    cells = {2: 250, 3: 60}[rounds]
    for loss in (Logistic(), HuberHinge(0.5)):
        lines = random_lines(loss, pair, 3, rng, kappa=(1e-3, 0.5), ratio=(0.05, 2.0))
        for i in range(3):
            row = one(lines, i)
            run = Run(row, pull=0.9, chase=float(rng.choice([0.0, 1.0])) * row.sigma[0])
            assert max(run_shares(run, rounds, cells, by_c)) <= 1.0 + 1e-6
            assert max(run_shares(run, rounds, cells, claimed)) <= 1.0 + 1e-6


@pytest.mark.parametrize("pair", PAIRS)
def test_no_mixed_run_exceeds_the_claim(pair):
    """Two steps with different κ and s/σ and a Gaussian release: maximum κ, Cauchy–Schwarz."""
    rng = np.random.default_rng([16, PAIRS.index(pair)])
    for loss in (Logistic(), HuberHinge(0.5)):
        lines = random_lines(loss, pair, 12, rng, kappa=(1e-4, 1.0), ratio=(0.01, 2.0))
        p, q = lines.cells(150)
        for i in range(0, 12, 2):
            ratio = float(rng.uniform(0.01, 2.0))
            z = np.linspace(-7.0 - ratio, 7.0, 60)
            gaussian = interval_masses(z), interval_masses(z + ratio)
            there, back = (
                np.einsum("i,j,k->ijk", law[i], law[i + 1], third).ravel()
                for law, third in zip((p, q), gaussian, strict=True)
            )
            mixed = Tally.of([Charge((*lines.events()[i : i + 2], Gaussian(ratio)))])
            for delta in (1e-5, 1e-2):
                for e in (_by_theorem_c(mixed, delta).epsilon, epsilon(mixed, delta).epsilon):
                    assert hockey_stick(there, back, e) <= delta * (1.0 + 1e-6)
                    assert hockey_stick(back, there, e) <= delta * (1.0 + 1e-6)


@pytest.mark.parametrize("rounds", [2, 3])
def test_composition_is_reached_and_a_round_too_few_is_caught(rounds):
    lines = before_the_bend()
    row = one(lines, int(np.argmin(np.abs(lines.ratio - 1.0))))
    run = Run(row, pull=0.0, chase=0.0)
    cells = {2: 400, 3: 90}[rounds]
    assert 0.85 < max(run_shares(run, rounds, cells, by_c)) <= 1.0

    def too_few(event, delta, times):
        return by_c(event, delta, times - 1)

    assert max(run_shares(run, rounds, cells, too_few)) > 1.5
