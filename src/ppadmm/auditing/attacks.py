"""Scores of a transcript: how much more likely it is on one data set than on the other.

Where the density of a transcript is known the score is the exact log-likelihood ratio, which no
attack can beat (Neyman & Pearson). Densities are written down here anew, from the formulas and not
from the code under audit; noise scales are those that the agent says it uses. Beside the ratio, or
where there is none, scores say what happened at all: how a run ended, how long it was silent, how
far out its noise went. An event that one of the data sets excludes shows there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from ppadmm.algorithms import recipe_named
from ppadmm.arrays import Array
from ppadmm.auditing.game import SIDES, NeighbouringData, Transcript

INSIDE = 1.0 - 1e-12
"""A release of a norm above this part of the radius may have been brought back to it."""


@dataclass(frozen=True)
class ScoredRun:
    """One side's runs: the algorithm that was played against, and what the opponent saw.

    `again` is what it saw when the same agent ran a second time.
    """

    world: NeighbouringData
    rule: Any
    seen: Transcript
    again: Transcript | None = None

    @property
    def ends(self) -> list[NDArray[np.int64]]:
        """How each run ended, and each second run."""
        return [seen.end for seen in (self.seen, self.again) if seen is not None]

    @classmethod
    def stacked(cls, parts: Sequence["ScoredRun"]) -> "ScoredRun":
        """Return all runs in one."""
        again = [part.again for part in parts if part.again is not None]
        return cls(
            parts[0].world,
            parts[0].rule,
            Transcript.stacked([part.seen for part in parts]),
            Transcript.stacked(again) if again else None,
        )

    def mu(self, t: int) -> Array:
        """μ of round t, (1,) or (R,): (λ̂/N + 2η|B|)/w, but for who listens to nobody."""
        place = self.world.place
        degree = place.degree if recipe_named(self.rule.name).listens else 0
        return np.asarray((self.rule.ridge + 2.0 * degree * self.rule.penalty(t)) / place.weight)

    def noise(self, t: int, theta: Array, side: int) -> Array:
        """−b = ∇F(θ), the noise that would have made θ the minimiser on a side; (R, d)."""
        public = self.mu(t)[:, None] * theta + self.seen.linear[t]
        return np.asarray(self.world.slope(theta, side) + public)

    def stretch(self, t: int, theta: Array, side: int) -> Array:
        """log det ∇²F(θ), (R,)."""
        whole = self.world.bend(theta, side) + self.mu(t)[:, None, None] * np.eye(self.world.d)
        if self.world.d == 1:
            return np.log(whole[:, 0, 0])
        return np.asarray(np.linalg.slogdet(whole)[1])

    def summed(self, score: Callable[[int], Array]) -> Array:
        """Add up a score (R,) over the rounds that were made."""
        total = np.zeros(self.seen.runs)
        for t, there in enumerate(self.seen.made):
            if there.any():
                total += np.where(there, score(t), 0.0)
        return total


Scorer = Callable[[ScoredRun], dict[str, Array]]


def ratio(log_density: Callable[[int], Array]) -> Array:
    """log p_D − log p_D'."""
    ours, theirs = (log_density(side) for side in SIDES)
    return ours - theirs


def perturbed(run: ScoredRun, t: int, theta: Array) -> Array:
    """log p_D(θ̃)/p_D'(θ̃) with p(θ̃) = φ(∇F(θ̃))·det ∇²F(θ̃); (R,)."""
    sigma = run.rule.mechanism.scales["sigma1"]

    def log_density(side: int) -> Array:
        z = run.noise(t, theta, side) / sigma[:, None]
        return np.asarray(run.stretch(t, theta, side) - 0.5 * np.vecdot(z, z))

    return ratio(log_density)


def ending(run: ScoredRun) -> Array:
    """Return how a run ended, and after how many rounds: a number for each pair, (R,)."""
    seen = run.seen
    return np.asarray(seen.end * (seen.rounds + 1.0) + seen.made.sum(axis=0))


def whole_run(run: ScoredRun) -> dict[str, Array]:
    """PP-ADMM: the ratios of all rounds, its end, and a look for noise that was used twice.

    The second noise is some 10⁻⁵ of the first and is ignored.
    """
    seen = run.seen
    total = run.summed(lambda t: perturbed(run, t, seen.after[t]))
    scores = {"likelihood ratio": total, "ending": ending(run)}
    return scores if seen.rounds == 1 else scores | {"repeated noise": repeated(run, 0, 1, seen)}


def two_runs(run: ScoredRun) -> dict[str, Array]:
    """PP-ADMM twice: the ratios of both runs, and a look for noise of the first in the second.

    The opponent has it solve another problem the second time: from the same one, the same noise
    would lead to the same release, on either side.
    """
    if run.again is None:
        raise TypeError("Two runs are audited with an agent that runs twice.")
    second = ScoredRun(run.world, run.rule, run.again)
    both = [whole_run(each)["likelihood ratio"] for each in (run, second)]
    return {
        "likelihood ratio": both[0] + both[1],
        "ending": ending(run) + 1e3 * ending(second),
        "noise of the first run": repeated(run, 1, 1, run.again),
    }


def repeated(run: ScoredRun, first: int, second: int, later: Transcript) -> Array:
    """log‖b'−b‖ on D' minus on D: where noise is used twice the true side gives 0."""
    other = ScoredRun(run.world, run.rule, later)

    def log_density(side: int) -> Array:
        change = other.noise(second, later.after[second], side)
        change = change - run.noise(first, run.seen.after[first], side)
        return np.asarray(-np.log(np.linalg.norm(change, axis=1) + 1e-300))

    return ratio(log_density)


def at_the_radius(run: ScoredRun) -> dict[str, Array]:
    """PP-ADMM on the edge of what messages may do: releases, the end, and how far c + b reached.

    What was brought back to the sphere lies there on both sides alike. Whoever ends a run because
    c + b is too long never shows one that is: ‖c + b‖ by either side is a score of its own.
    """
    seen, radius = run.seen, run.rule.radius
    inside = np.linalg.norm(seen.after, axis=2) < INSIDE * radius
    total = run.summed(lambda t: np.where(inside[t], perturbed(run, t, seen.after[t]), 0.0))

    def farthest(side: int) -> Array:
        far = np.full(seen.runs, -1e300)
        for t in range(seen.rounds):
            whole = run.noise(t, seen.after[t], side) - seen.linear[t]
            size = np.linalg.norm(whole, axis=1) - run.mu(t) * radius
            far = np.where(seen.made[t] & inside[t], np.maximum(far, size), far)
        return far

    return {
        "likelihood ratio": total,
        "ending": ending(run),
        "farthest by D": farthest(0),
        "farthest by D'": farthest(1),
    }


def second_noise(run: ScoredRun) -> dict[str, Array]:
    """PP-ADMM with θ̃ revealed: θ̃ itself, then the release given θ̃.

    The two θ̂ lie at θ̃ ± a, so log p_D/p_D' = 2a·(release − θ̃)/σ₂². The sum that a message carries
    must be that of the releases: what is new in it is compared with θ̃, too.
    """
    seen, rule = run.seen, run.rule
    if seen.solved is None:
        raise TypeError("The second noise is audited with a solver that reveals the minimiser.")
    sigma, total = rule.mechanism.scales["sigma2"], np.zeros(seen.runs)
    added, before = np.zeros(seen.runs), np.zeros_like(seen.total[0])
    for t in range(seen.rounds):
        away = (seen.after[t] - seen.solved[t])[:, 0]
        shift = rule.mechanism.beta / run.mu(t)
        total += perturbed(run, t, seen.solved[t]) + 2.0 * shift * away / sigma**2
        added += (seen.total[t] - before - seen.solved[t])[:, 0]
        before = seen.total[t]
    return {"likelihood ratio": total, "sum of releases": added, "ending": ending(run)}


def gamma(run: ScoredRun) -> dict[str, Array]:
    """DVP, M-ADMM, R-ADMM: p(θ̃) ∝ exp(−r‖∇F(θ̃)‖)·det ∇²F(θ̃), in the rounds that read data."""
    every = recipe_named(run.rule.name).every

    def one(t: int) -> Array:
        theta, rate = run.seen.after[t], run.rule.mechanism.rates(run.mu(t))

        def log_density(side: int) -> Array:
            size = np.linalg.norm(run.noise(t, theta, side), axis=1)
            return np.asarray(run.stretch(t, theta, side) - rate * size)

        return ratio(log_density) if t % every == 0 else np.zeros(len(theta))

    return {"likelihood ratio": run.summed(one), "ending": ending(run)}


def gradients(run: ScoredRun) -> dict[str, Array]:
    """Noisy gradient descent: what is left of a step is the noisy gradient."""
    seen, rule = run.seen, run.rule

    def one(t: int) -> Array:
        before, after = seen.before[t], seen.after[t]
        slope = (before - after) / rule.step[:, None] - rule.ridge[:, None] * before
        slope = slope / run.world.place.weight

        def log_density(side: int) -> Array:
            z = (slope - run.world.slope(before, side)) / rule.sigma[:, None]
            return np.asarray(-0.5 * np.vecdot(z, z))

        return ratio(log_density)

    return {"likelihood ratio": run.summed(one), "ending": ending(run)}


def tests_and_releases(run: ScoredRun) -> dict[str, Array]:
    """IPP-ADMM with Gaussian tests: every answer, every release, and the end."""
    seen, rule = run.seen, run.rule
    before = np.concatenate([np.zeros((1, seen.runs)), np.cumsum(seen.spoke, axis=0)[:-1]])
    left = rule.releases - before

    def one(t: int) -> Array:
        spoke = seen.spoke[t]
        released = np.where(spoke, perturbed(run, t, seen.after[t]), 0.0)
        return released + np.where(left[t] > 0, _answers(run, t, spoke), 0.0)

    return {"likelihood ratio": run.summed(one), "ending": ending(run)}


def _answers(run: ScoredRun, t: int, spoke: Array) -> Array:
    """log p_D/p_D' of one answer: P(yes) = Φ((‖∇F(θᵢ)‖ − threshold)/σ)."""
    test, before = run.rule.test, run.seen.before[t]

    def log_density(side: int) -> Array:
        size = np.linalg.norm(run.noise(t, before, side), axis=1)
        z = (size - test.threshold) / test.noise
        return np.asarray(log_ndtr(np.where(spoke, z, -z)))

    return ratio(log_density)


def silence(run: ScoredRun) -> dict[str, Array]:
    """With one "yes" the whole transcript of the tests is how long the agent stayed silent."""
    spoke = run.seen.spoke
    first = np.where(spoke.any(axis=0), spoke.argmax(axis=0), len(spoke))
    return {"rounds of silence": first.astype(np.float64), "ending": ending(run)}
