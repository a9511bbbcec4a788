"""Who holds which record: train and test, then one part per agent."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ppadmm import checks
from ppadmm.data.named import Dataset
from ppadmm.data.shard import Matrix, Shard, Vector
from ppadmm.errors import InputError

Indices = NDArray[np.int64]

_SPLIT, _EVEN = 0, 1  # one stream each: a split and a partition share a seed, not their draws


def split(dataset: Dataset, seed: int) -> tuple[Indices, Indices]:
    """Train and test indices: a random permutation cut at `dataset.train_records`."""
    order = _permutation(dataset.n, seed, _SPLIT)
    return order[: dataset.train_records], order[dataset.train_records :]


def even(n: int, agents: int, rng_seed: int) -> list[Indices]:
    """Deal 0…n−1 at random into `agents` parts whose sizes differ by at most one."""
    n, agents = checks.count("n", n), checks.count("agents", agents)
    if agents > n:
        raise InputError(f"Expected at most {n} agents, one record each, got {agents}.")
    return np.array_split(_permutation(n, rng_seed, _EVEN), agents)


def sized(n: int, sizes: Sequence[int], rng_seed: int) -> list[Indices]:
    """Deal `sizes[i]` ≥ 0 of 0…n−1 at random to agent i; what is left over goes to nobody."""
    for k, size in enumerate(sizes):
        checks.count(f"the number of records of agent {k}", size, at_least=0)
    if not any(sizes):
        raise InputError("Expected at least one agent with records, got none.")
    if sum(sizes) > n:
        raise InputError(f"Expected at most {n} records in all, got {sum(sizes)} over the agents.")
    order = _permutation(n, rng_seed, _EVEN)
    return np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1])


def shards(X: Matrix, y: Vector, parts: Iterable[Indices], classes: int = 2) -> list[Shard]:
    """One shard per part: rows X[part] with labels y[part]."""
    return [Shard(X[part], y[part], classes) for part in parts]


def _permutation(n: int, seed: int, stream: int) -> Indices:
    seed = checks.count("seed", seed, at_least=0)
    return np.random.Generator(np.random.PCG64([seed, stream])).permutation(n)
