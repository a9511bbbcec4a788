"""Noise sources. The only place in the package where randomness is drawn for a release.

`SecureNoise` is exactly a continuous law rounded to a grid (`ppadmm.sampling`), from the operating
system's entropy. `SeededNoise` is for simulation: repeatable, hence not private.
"""

import math
import secrets
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from ppadmm.arrays import Array, Rows
from ppadmm.errors import InputError
from ppadmm.sampling import choice, discrete
from ppadmm.sampling import grid as on_grid
from ppadmm.sampling.stock import store

FINENESS = 2.0**-44
"""Grids are at most this fraction of the noise's standard deviation."""


@dataclass(frozen=True)
class Key:
    """Where noise is used: it is drawn from here, never from the order of calls."""

    agent: int
    round: int
    purpose: str


class NoiseSource(Protocol):
    """Adds noise to values, one row per replicate."""

    @property
    def secure(self) -> bool:
        """Whether the noise may protect real records."""

    def gaussian(self, values: Array, scale: Array, grid: Array, key: Key) -> Array:
        """Return values + N(0, scale²) per row; values (R, d), scale and grid (R,)."""

    def laplace(self, values: Array, scale: Array, grid: Array, key: Key) -> Array:
        """Return values + Lap(scale) per row, the same shapes."""

    def gamma(self, size: int, rate: Array, key: Key) -> Array:
        """Return vectors (R, size) with density ∝ exp(−rate·‖b‖): Gamma norm, any direction."""

    def restricted(self, rows: Rows) -> "NoiseSource":
        """Return the source for some of the replicates."""


class _Named(ISeedSequence):
    """Seeds a generator with the hash of a name, much faster than `SeedSequence`."""

    def __init__(self, name: str) -> None:
        self.name = name.encode()

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        """Return `n_words` words of the hash."""
        size = n_words * np.dtype(dtype).itemsize
        return np.frombuffer(blake2b(self.name, digest_size=size).digest(), dtype=dtype)


@dataclass(frozen=True)
class SeededNoise:
    """Gaussian noise from NumPy, one seed per row. For simulation only: not private.

    Rows are replicates of the key's agent, or `agents`.
    """

    seeds: tuple[int, ...]
    agents: tuple[int, ...] | None = None
    secure: bool = field(default=False, init=False)

    def gaussian(self, values: Array, scale: Array, grid: Array, key: Key) -> Array:
        """Add noise that depends on (seed, agent, round, purpose) alone."""
        noise = np.empty(values.shape)
        for row, stream in zip(noise, self._streams(len(values), key), strict=True):
            stream.standard_normal(out=row)
        noise *= scale[:, None]
        noise += values
        return noise

    def laplace(self, values: Array, scale: Array, grid: Array, key: Key) -> Array:
        """Add noise that depends on (seed, agent, round, purpose) alone."""
        n, size = values.shape
        noise = [stream.laplace(size=size) for stream in self._streams(n, key)]
        return np.asarray(values + scale[:, None] * np.array(noise))

    def gamma(self, size: int, rate: Array, key: Key) -> Array:
        """Draw vectors that depend on (seed, agent, round, purpose) alone."""
        streams = self._streams(len(rate), key)
        return np.stack([_gamma_vector(s, size, r) for s, r in zip(streams, rate, strict=True)])

    def restricted(self, rows: Rows) -> "SeededNoise":
        """Return the source for some of the replicates."""
        agents = None if self.agents is None else tuple(self.agents[k] for k in rows)
        return SeededNoise(tuple(self.seeds[k] for k in rows), agents)

    def _streams(self, n: int, key: Key) -> Iterator[np.random.Generator]:
        """Yield a generator for each of n rows."""
        if n != len(self.seeds):
            raise InputError(f"Expected one seed per row, got {len(self.seeds)} for {n}.")
        agents = (key.agent,) * n if self.agents is None else self.agents
        for seed, agent in zip(self.seeds, agents, strict=True):
            # NumPy's stubs know no seed sequence but its own.
            named: Any = _Named(f"{seed}/{agent}/{key.round}/{key.purpose}")
            yield np.random.Generator(np.random.PCG64(named))


def _gamma_vector(generator: np.random.Generator, size: int, rate: float) -> Array:
    direction = generator.standard_normal(size)
    norm = generator.gamma(size, 1.0 / rate)
    return np.asarray(direction * (norm / np.linalg.norm(direction)))


@dataclass(frozen=True)
class SecureNoise:
    """Exactly sampled noise on a grid; `PPADMM_NOISE` says by whom.

    The value itself is rounded to the grid 2ᵏ ≤ `grid`, and the sum is formed in exact arithmetic.
    `expected` is how many numbers a run may need: if they are many, what draws them is loaded now
    and not in the middle of a round.
    """

    expected: int = 0
    secure: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if choice.sampler() == "exact":
            store().expect(self.expected)  # refuses a broken generator before anything is paid for

    def gaussian(self, values: Array, scale: Array, grid: Array, key: Key) -> Array:
        """Add Gaussian noise to each row; `key` is not used."""
        return self._released("normal", values, scale, grid)

    def laplace(self, values: Array, scale: Array, grid: Array, key: Key) -> Array:
        """Add Laplace noise to each row; `key` is not used."""
        return self._released("exponential", values, scale, grid)

    def gamma(self, size: int, rate: Array, key: Key) -> Array:
        """Draw from the system's entropy in floating point: secret, but not exactly sampled."""
        generator = np.random.default_rng(secrets.randbits(256))
        return np.stack([_gamma_vector(generator, size, r) for r in rate])

    def restricted(self, rows: Rows) -> "SecureNoise":
        """Return itself: no state belongs to a replicate."""
        return self

    def _released(self, law: str, values: Array, scale: Array, grid: Array) -> Array:
        if values.ndim != 2 or not len(values) == len(scale) == len(grid):
            raise InputError(
                f"Expected one scale and one grid per row, got values of shape {values.shape}, "
                f"{len(scale)} scales and {len(grid)} grids."
            )
        if not np.isfinite(values).all():
            raise InputError("Expected finite values to add noise to, got NaN or infinity.")
        released = np.empty(values.shape)
        for (s, g), rows in _alike(scale, grid).items():
            noisy = self._release(law, values[rows].ravel(), s, grid_exponent(g))
            released[rows] = noisy.reshape(len(rows), values.shape[1])
        return released

    def _release(self, law: str, row: Array, scale: float, exponent: int) -> Array:
        if choice.sampler() == "opendp":
            return discrete.release(row, scale, exponent, law)
        return on_grid.release(row, scale, exponent, law, store())


def _alike(scale: Array, grid: Array) -> dict[tuple[float, float], list[int]]:
    """Return the rows of every pair of scale and grid: a thousand agents' noise is one call."""
    rows = defaultdict[tuple[float, float], list[int]](list)
    for k, pair in enumerate(zip(scale.tolist(), grid.tolist(), strict=True)):
        rows[pair].append(k)
    return rows


def grid_exponent(grid: float) -> int:
    """Return the largest k with 2ᵏ ≤ grid."""
    if not grid > 0.0 or not math.isfinite(grid):
        raise InputError(f"Expected grid > 0, got {grid!r}.")
    return math.frexp(grid)[1] - 1


def total_variation(size: int, scale: float, grid: float) -> float:
    """Bound the distance of a discrete Gaussian on grid g from a rounded continuous one.

    d·g²/(8σ²) for d coordinates (docs/privacy.md, section 6), for any g ≤ σ. The exact sampler has
    distance 0, OpenDP's has this one; it is charged for either (docs/decisions/0020).
    """
    if grid > scale:
        raise InputError(f"Expected grid ≤ scale, got {grid!r} > {scale!r}.")
    return size * (grid / scale) ** 2 / 8.0


@dataclass(frozen=True)
class BatchNoise:
    """Noise for many replicates at once, from one seed. For simulation only: not private.

    `SeededNoise` makes a generator per replicate, so that a replicate does not depend on the
    others; this one makes a generator per use, which is some hundred times quicker.
    """

    seed: int
    replicates: int
    rows: Rows | None = None
    secure: bool = field(default=False, init=False)

    def gaussian(self, values: Array, scale: Array, grid: Array, key: Key) -> Array:
        """Add noise that depends on (seed, agent, round, purpose) and the replicate."""
        noise = self._stream(key).standard_normal((self.replicates, values.shape[1]))
        return np.asarray(values + scale[:, None] * self._own(noise))

    def laplace(self, values: Array, scale: Array, grid: Array, key: Key) -> Array:
        """Add noise that depends on (seed, agent, round, purpose) and the replicate."""
        noise = self._stream(key).laplace(size=(self.replicates, values.shape[1]))
        return np.asarray(values + scale[:, None] * self._own(noise))

    def gamma(self, size: int, rate: Array, key: Key) -> Array:
        """Draw vectors that depend on (seed, agent, round, purpose) and the replicate."""
        stream = self._stream(key)
        direction = stream.standard_normal((self.replicates, size))
        norm = stream.gamma(size, size=self.replicates)
        unit = direction / np.linalg.norm(direction, axis=1, keepdims=True)
        return np.asarray(self._own(unit * norm[:, None]) / rate[:, None])

    def restricted(self, rows: Rows) -> "BatchNoise":
        """Return the source for some of the replicates."""
        inner = rows if self.rows is None else self.rows[rows]
        return BatchNoise(self.seed, self.replicates, inner)

    def _own(self, noise: Array) -> Array:
        return noise if self.rows is None else noise[self.rows]

    def _stream(self, key: Key) -> np.random.Generator:
        stream: Any = _Named(f"crowd/{self.seed}/{key.agent}/{key.round}/{key.purpose}")
        return np.random.Generator(np.random.PCG64(stream))
