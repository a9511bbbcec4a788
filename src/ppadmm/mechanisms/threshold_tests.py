"""Private tests of whether a statistic exceeds a threshold.

Both answer one bit per round. `GaussianTest` draws fresh noise every time and charges every test;
`SparseVector` (Lyu, Su & Li 2017, Algorithm 1) keeps one noisy threshold for the whole run, charges
once, and may answer "yes" at most c times. A kept threshold is never drawn again after a "no".
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ppadmm.accounting.events import Approximate, Charge, Gaussian, Pure
from ppadmm.arrays import Array, Rows
from ppadmm.mechanisms.charged_noise import ChargedNoise
from ppadmm.mechanisms.minimiser import Place
from ppadmm.noise import FINENESS, Key, total_variation

Bits = NDArray[np.bool_]


class PrivateTest(Protocol):
    """Compares a statistic with a threshold, with noise; all arrays have one row per replicate."""

    @property
    def noise(self) -> Array:
        """Standard deviation of the noise on a comparison, (R,)."""

    @property
    def reserved(self) -> tuple[tuple[Charge, int], ...]:
        """Per replicate, what tests cost and the most times that it falls due."""

    def draw_threshold(self, charged: ChargedNoise, agent: int) -> Array:
        """Return what to compare with for the whole run, (R,)."""

    def decide(
        self, values: Array, kept: Array, rows: Rows, charged: ChargedNoise, place: Place
    ) -> Bits:
        """Say for each of `rows` whether its value is above; (A,) → (A,)."""


@dataclass(frozen=True)
class GaussianTest:
    """value + N(0, σ²) > threshold, with fresh noise in each of at most T rounds."""

    sensitivity: Array
    threshold: Array
    ratio: Array
    rounds: int

    @property
    def noise(self) -> Array:
        """σ = Δ/ratio."""
        return self.sensitivity / self.ratio

    @property
    def charges(self) -> tuple[Charge, ...]:
        """One Gaussian comparison."""
        distance = Approximate(total_variation(1, 1.0, FINENESS))
        made = {r: Charge((Gaussian(r), distance)) for r in set(self.ratio.tolist())}
        return tuple(made[r] for r in self.ratio.tolist())

    @property
    def reserved(self) -> tuple[tuple[Charge, int], ...]:
        """T tests."""
        return tuple((charge, self.rounds) for charge in self.charges)

    def draw_threshold(self, charged: ChargedNoise, agent: int) -> Array:
        """Return the threshold itself: it needs no noise."""
        return self.threshold

    def decide(
        self, values: Array, kept: Array, rows: Rows, charged: ChargedNoise, place: Place
    ) -> Bits:
        """Pay for one comparison and make it."""
        charges = self.charges
        noise = charged.charge([charges[k] for k in rows])
        sigma = self.noise[rows]
        key = Key(place.agent, place.round, "test")
        noisy = noise.gaussian(values[:, None], sigma, FINENESS * sigma, key)[:, 0]
        return np.asarray(noisy > kept)


@dataclass(frozen=True)
class SparseVector:
    """value + Lap(2cΔ/ε₂) > threshold + Lap(Δ/ε₁), the latter drawn once; ε₁ + ε₂ in all.

    ε₁ : ε₂ = 1 : (2c)^⅔. That a kept threshold may be interleaved with other releases is the
    concurrent composition theorem (Vadhan & Zhang 2023; Lyu 2022).
    """

    sensitivity: Array
    threshold: Array
    epsilon: Array
    releases: int

    @property
    def _split(self) -> tuple[Array, Array]:
        weight = (2.0 * self.releases) ** (2.0 / 3.0)
        return self.epsilon / (1.0 + weight), self.epsilon * weight / (1.0 + weight)

    @property
    def query_scale(self) -> Array:
        """2cΔ/ε₂."""
        return np.asarray(2.0 * self.releases * self.sensitivity / self._split[1])

    @property
    def noise(self) -> Array:
        """Standard deviation of query and threshold noise together."""
        both = self.query_scale**2 + (self.sensitivity / self._split[0]) ** 2
        return np.asarray(np.sqrt(2.0 * both))

    @property
    def reserved(self) -> tuple[tuple[Charge, int], ...]:
        """ε once, for the whole run."""
        return tuple((Charge((Pure(float(e)),)), 1) for e in self.epsilon)

    def draw_threshold(self, charged: ChargedNoise, agent: int) -> Array:
        """Pay for the whole run and draw the one noisy threshold.

        After a crash it is found again; if it was lost, nothing is above it for the rest of the
        run, as it must not be drawn twice.
        """
        if (kept := charged.kept("threshold")) is not None:
            return kept
        charges = [charge for charge, _ in self.reserved]
        if charged.paid(charges):
            return np.full_like(self.threshold, np.inf)
        noise = charged.charge(charges)
        scale = self.sensitivity / self._split[0]
        key = Key(agent, 0, "threshold")
        drawn = noise.laplace(self.threshold[:, None], scale, FINENESS * scale, key)[:, 0]
        charged.keep("threshold", drawn)
        return drawn

    def decide(
        self, values: Array, kept: Array, rows: Rows, charged: ChargedNoise, place: Place
    ) -> Bits:
        """Make one comparison with the kept threshold; it is paid for already."""
        noise = charged.charge([Charge(())] * len(rows))
        scale = self.query_scale[rows]
        key = Key(place.agent, place.round, "test")
        noisy = noise.laplace(values[:, None], scale, FINENESS * scale, key)[:, 0]
        return np.asarray(noisy > kept)
