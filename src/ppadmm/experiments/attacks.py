"""Scores of a transcript: how much more likely it is on one data set than on the other.

Where the density of a transcript is known the score is the exact log-likelihood ratio, which no
attack can beat (Neyman & Pearson). Densities are written down here anew, from the formulas and not
from the code under audit; noise scales are those that the agent says it uses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from ppadmm.experiments.game import SIDES, Transcript, World
from ppadmm.typing import Array


@dataclass(frozen=True)
class Bout:
    """One side's runs: the algorithm that was played against, and what the opponent saw."""

    world: World
    rule: Any
    seen: Transcript

    def mu(self, t: int) -> Array:
        """μ of round t, (R,)."""
        return np.asarray(self.rule.weight + 2.0 * self.rule.penalty(t))

    def noise(self, t: int, theta: Array, side: int) -> Array:
        """−b = ∇F(θ), the noise that would have made θ the minimiser on a side; (R, d)."""
        public = self.mu(t)[:, None] * theta + self.seen.linear[t]
        return np.asarray(self.world.slope(theta, side) + public)

    def stretch(self, t: int, theta: Array, side: int) -> Array:
        """log det ∇²F(θ) but for what both sides share; (R,)."""
        return np.asarray(np.log(self.mu(t) + self.world.bend(theta, side)))


Scorer = Callable[[Bout], dict[str, Array]]


def ratio(log_density: Callable[[int], Array]) -> Array:
    """log p_D − log p_D'."""
    ours, theirs = (log_density(side) for side in SIDES)
    return ours - theirs


def perturbed(bout: Bout, t: int, theta: Array) -> Array:
    """log p_D(θ̃)/p_D'(θ̃) with p(θ̃) = φ(∇F(θ̃))·det ∇²F(θ̃); (R,)."""
    sigma = bout.rule.mechanism.scales["sigma1"]

    def log_density(side: int) -> Array:
        z = bout.noise(t, theta, side) / sigma[:, None]
        return np.asarray(bout.stretch(t, theta, side) - 0.5 * np.vecdot(z, z))

    return ratio(log_density)


def whole_run(bout: Bout) -> dict[str, Array]:
    """PP-ADMM: the ratios of all rounds, and a look for noise that was used twice.

    The second noise is some 10⁻⁵ of the first and is ignored.
    """
    seen = bout.seen
    total = sum(perturbed(bout, t, seen.after[t]) for t in range(seen.rounds))
    return {"likelihood ratio": np.asarray(total), "repeated noise": repeated(bout)}


def repeated(bout: Bout) -> Array:
    """log‖b₁−b₀‖ on D' minus on D: where noise is used twice the true side gives 0."""
    first, second = bout.seen.after[0], bout.seen.after[1]

    def log_density(side: int) -> Array:
        change = bout.noise(1, second, side) - bout.noise(0, first, side)
        return np.asarray(-np.log(np.linalg.norm(change, axis=1) + 1e-300))

    return ratio(log_density)


def second_noise(bout: Bout) -> dict[str, Array]:
    """PP-ADMM with θ̃ revealed: θ̃ itself, then the release given θ̃.

    The two θ̂ lie at θ̃ ± a, so log p_D/p_D' = 2a·(release − θ̃)/σ₂².
    """
    seen, rule = bout.seen, bout.rule
    if seen.solved is None:
        raise TypeError("The second noise is audited with a solver that reveals the minimiser.")
    sigma, total = rule.mechanism.scales["sigma2"], np.zeros(seen.after.shape[1])
    for t in range(seen.rounds):
        away = (seen.after[t] - seen.solved[t])[:, 0]
        shift = rule.mechanism.beta / bout.mu(t)
        total += perturbed(bout, t, seen.solved[t]) + 2.0 * shift * away / sigma**2
    return {"likelihood ratio": total}


def gamma(bout: Bout) -> dict[str, Array]:
    """DVP, M-ADMM, R-ADMM: p(θ̃) ∝ exp(−r‖∇F(θ̃)‖)·det ∇²F(θ̃), in the rounds that read data."""
    every = 2 if bout.rule.name == "r-admm" else 1
    total = np.zeros(bout.seen.after.shape[1])
    for t in range(0, bout.seen.rounds, every):
        theta, rate = bout.seen.after[t], bout.rule.mechanism.rates(bout.mu(t))

        def log_density(side: int, t: int = t, theta: Array = theta, r: Array = rate) -> Array:
            size = np.linalg.norm(bout.noise(t, theta, side), axis=1)
            return np.asarray(bout.stretch(t, theta, side) - r * size)

        total += ratio(log_density)
    return {"likelihood ratio": total}


def gradients(bout: Bout) -> dict[str, Array]:
    """Noisy gradient descent: what is left of a step is the noisy gradient."""
    seen, rule = bout.seen, bout.rule
    total = np.zeros(seen.after.shape[1])
    for before, after in zip(seen.before, seen.after, strict=True):
        slope = (before - after) / rule.step[:, None] - rule.weight[:, None] * before

        def log_density(side: int, at: Array = before, slope: Array = slope) -> Array:
            z = (slope - bout.world.slope(at, side)) / rule.sigma[:, None]
            return np.asarray(-0.5 * np.vecdot(z, z))

        total += ratio(log_density)
    return {"likelihood ratio": total}


def tests_and_releases(bout: Bout) -> dict[str, Array]:
    """IPP-ADMM with Gaussian tests: every answer and every release."""
    seen, rule = bout.seen, bout.rule
    total, left = np.zeros(seen.after.shape[1]), np.full(seen.after.shape[1], rule.releases)
    for t in range(seen.rounds):
        spoke = seen.spoke[t]
        answers = _answers(bout, t, spoke)
        total += np.where(left > 0, answers, 0.0)
        total += np.where(spoke, perturbed(bout, t, seen.after[t]), 0.0)
        left = left - spoke
    return {"likelihood ratio": total}


def _answers(bout: Bout, t: int, spoke: Array) -> Array:
    """log p_D/p_D' of one answer: P(yes) = Φ((‖∇F(θᵢ)‖ − threshold)/σ)."""
    test, before = bout.rule.test, bout.seen.before[t]

    def log_density(side: int) -> Array:
        size = np.linalg.norm(bout.noise(t, before, side), axis=1)
        z = (size - test.threshold) / test.noise
        return np.asarray(log_ndtr(np.where(spoke, z, -z)))

    return ratio(log_density)


def silence(bout: Bout) -> dict[str, Array]:
    """Sparse vector with one "yes": the whole transcript is how long the agent stayed silent."""
    spoke = bout.seen.spoke
    first = np.where(spoke.any(axis=0), spoke.argmax(axis=0), len(spoke))
    return {"rounds of silence": first.astype(np.float64)}
