"""Who holds which record: train and test, then one part per agent."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppadmm import checks
from ppadmm.data.columns import column, distinct_texts, parses
from ppadmm.data.dataset import Dataset
from ppadmm.data.encode import category_codes
from ppadmm.data.shard import Matrix, Shard, Vector
from ppadmm.errors import DataError, InputError
from ppadmm.records import HoldsRecords

Indices = NDArray[np.int64]

# One stream each: a split and a partition share a seed, not their draws.
_SPLIT, _EVEN, _DIRICHLET = 0, 1, 2
MOST_AGENTS = 1000


@dataclass(frozen=True)
class Partition:
    """How one table is dealt to agents, spelt even, column:NAME, files or dirichlet:ALPHA.

    even: at random, in parts of the same size. column: a record goes to the agent that its column
    NAME names. files: each file of a folder, or folder in it, is an agent. dirichlet: each class is
    dealt in shares ~ Dirichlet(ALPHA, …, ALPHA) over the agents, so that the smaller ALPHA the more
    the agents' labels differ.
    """

    kind: str = "even"
    column: str | None = None
    alpha: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Partition":
        """Read the spelling above."""
        kind, colon, value = text.partition(":")
        if kind in ("even", "files") and not colon:
            return cls(kind)
        if kind == "column" and value:
            return cls("column", column=value)
        if kind == "dirichlet" and value:
            alpha = checks.parsed("the partition's α", value)
            return cls("dirichlet", alpha=checks.positive("the partition's α", alpha))
        raise InputError(
            f"Unknown partition {text!r}; choose one of: even, column:NAME, files, dirichlet:ALPHA."
        )

    @property
    def names_agents(self) -> bool:
        """Whether the number of agents follows from the data."""
        return self.kind in ("column", "files")


@dataclass(frozen=True)
class Assignment(HoldsRecords):
    """What each agent got: `parts[i]` are the records of agent `names[i]`.

    `not_private_because` says why who holds what would reveal something about the records.
    `caveat` says what the guarantee does not cover all the same.
    """

    names: tuple[str, ...]
    parts: list[Indices]
    not_private_because: str | None = None
    caveat: str | None = None


def split(dataset: Dataset, seed: int) -> tuple[Indices, Indices]:
    """Train and test indices: a random permutation cut at `dataset.train_records`."""
    return split_rows(dataset.n, dataset.train_records, seed)


def split_rows(n: int, train_records: int, seed: int) -> tuple[Indices, Indices]:
    """Cut a random permutation of 0…n−1 at `train_records`."""
    order = _generator(seed, _SPLIT).permutation(n)
    return order[:train_records], order[train_records:]


def assign(
    data: Dataset,
    rows: Indices,
    partition: Partition,
    agents: int,
    seed: int,
    sizes: Sequence[int] | None = None,
) -> Assignment:
    """Deal the records `rows` of `data` to agents; the parts index into `rows`.

    With a column their number follows from it; with `sizes` an even partition gives agent i
    `sizes[i]` records.
    """
    if partition.column is not None:
        return _deal_by_column(data, rows, partition.column)
    if partition.kind == "files":
        raise InputError(
            f"The partition 'files' is for a folder of Parquet files, got {data.name!r}."
        )
    names = tuple(f"agent {i}" for i in range(agents))
    if partition.alpha is not None:
        parts = dirichlet(data.y[rows], agents, partition.alpha, seed)
        return Assignment(names, parts, _BY_LABEL.format(partition.alpha))
    n = len(rows)
    return Assignment(names, even(n, agents, seed) if sizes is None else sized(n, sizes, seed))


# Changing one record's label changes who holds it, the sizes of parts, and by the cuts of its
# class also who holds others: an agent's ε says nothing about that.
_BY_LABEL = (
    "the records were dealt to the agents by their labels (dirichlet:{:g}), a simulation of skew: "
    "who holds what depends on the labels"
)


def held_out_alike(
    data: Dataset, train: Indices, test: Indices, partition: Partition, dealt: Assignment
) -> tuple[Indices, ...] | None:
    """Return the places in `test` of records like those of each agent; None where all are alike.

    With a column, those that name the agent; with skewed labels, of each class in the shares in
    which its training records were dealt.
    """
    if partition.column is not None:
        missing = data.schema.missing
        whose = by_column_codes(data.table, partition.column, dealt.names, missing)[test]
        return tuple(np.flatnonzero(whose == agent) for agent in range(len(dealt.names)))
    if partition.alpha is None:
        return None
    parts: list[list[Indices]] = [[] for _ in dealt.parts]
    for label in np.unique(data.y[train]):
        counts = np.array([(data.y[train[own]] == label).sum() for own in dealt.parts])
        members = np.flatnonzero(data.y[test] == label)
        cuts = np.round(np.cumsum(counts)[:-1] / counts.sum() * len(members)).astype(np.int64)
        for part, more in zip(parts, np.split(members, cuts), strict=True):
            part.append(more)
    return tuple(np.concatenate(part) for part in parts)


def even(n: int, agents: int, rng_seed: int) -> list[Indices]:
    """Deal 0…n−1 at random into `agents` parts whose sizes differ by at most one."""
    n = checks.count("n", n)
    return np.array_split(_generator(rng_seed, _EVEN).permutation(n), count_agents(n, agents))


def sized(n: int, sizes: Sequence[int], rng_seed: int) -> list[Indices]:
    """Deal `sizes[i]` ≥ 0 of 0…n−1 at random to agent i; what is left over goes to nobody."""
    check_sizes(n, sizes)
    order = _generator(rng_seed, _EVEN).permutation(n)
    return np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1])


def count_agents(n: int, agents: int) -> int:
    """Return the number of agents, if n records are enough for them."""
    if checks.count("agents", agents) > n:
        raise InputError(f"Expected at most {n} agents, one record each, got {agents}.")
    return agents


def check_sizes(n: int, sizes: Sequence[int]) -> None:
    """Refuse numbers of records per agent that n records cannot give."""
    for k, size in enumerate(sizes):
        checks.count(f"the number of records of agent {k}", size, at_least=0)
    if not any(sizes):
        raise InputError("Expected at least one agent with records, got none.")
    if sum(sizes) > n:
        raise InputError(f"Expected at most {n} records in all, got {sum(sizes)} over the agents.")


def by_column(
    table: object, name: str, values: tuple[str, ...], missing: Sequence[str] = ()
) -> list[Indices]:
    """Return the rows whose column `name` holds `values[i]`, in order, for every i.

    Rows stay in the order of the table; a value outside the list, or a missing one, is refused.
    """
    codes = by_column_codes(table, name, values, missing)
    return [np.flatnonzero(codes == k) for k in range(len(values))]


def by_column_codes(
    table: object, name: str, values: tuple[str, ...], missing: Sequence[str] = ()
) -> Indices:
    """Return the place of every row's value among `values` (n,)."""
    codes, present = category_codes(column(table, name), name, values, missing)
    if not present.all():
        row = int(np.argmin(present)) + 1
        raise DataError(
            f"Column {name!r}, row {row} is missing, so no agent holds the record; fill it in or "
            "remove the record."
        )
    return codes


def dirichlet(y: Vector, agents: int, alpha: float, rng_seed: int) -> list[Indices]:
    """Deal 0…n−1 so that class c goes to the agents in shares p_c ~ Dirichlet(α, …, α).

    Every agent gets at least one record: one without takes it from the largest part.
    """
    agents = count_agents(len(y), agents)
    alpha = checks.positive("the partition's α", alpha)
    rng = _generator(rng_seed, _DIRICHLET)
    parts: list[list[Indices]] = [[] for _ in range(agents)]
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        cuts = np.round(np.cumsum(_shares(rng, agents, alpha))[:-1] * len(members))
        for part, more in zip(parts, np.split(members, cuts.astype(np.int64)), strict=True):
            part.append(more)
    return _none_empty([rng.permutation(np.concatenate(part)) for part in parts])


def shards(X: Matrix, y: Vector, parts: Iterable[Indices], classes: int = 2) -> list[Shard]:
    """One shard per part: rows X[part] with labels y[part]."""
    return [Shard(X[part], y[part], classes) for part in parts]


def _deal_by_column(data: Dataset, rows: Indices, name: str) -> Assignment:
    if data.table is None:
        raise DataError(
            f"{data.name!r} holds encoded records only and no column {name!r} to deal them by; "
            "give the data set its table."
        )
    schema = data.schema
    public = schema.public_values(name)
    values = public or agents_in_order(name, seen_values(data.table, name, schema.missing))
    whose = by_column_codes(data.table, name, values, schema.missing)[rows]
    parts = [np.flatnonzero(whose == agent) for agent in range(len(values))]
    return named_by_column(name, values, parts, public is not None)


def named_by_column(
    name: str, values: tuple[str, ...], parts: list[Indices], public: bool
) -> Assignment:
    """Say what it means that the values of a column name the agents."""
    return Assignment(
        names=values,
        parts=parts,
        not_private_because=None
        if public
        else f"the agents (the values of column {name!r}) were read off the records, not from a "
        "public list in the schema",
        caveat=f"Which agent holds a record follows from its {name!r}: that value, and how many "
        "records each agent has, count as public and are not protected.",
    )


def seen_values(table: Any, name: str, missing: Sequence[str]) -> list[str]:
    """Return the different values of a column, as text."""
    return distinct_texts(column(table, name), missing)


def agents_in_order(name: str, values: Sequence[str]) -> tuple[str, ...]:
    """Sort the values of a column that name agents; there must be some, and not too many."""
    if not values:
        raise DataError(f"Column {name!r} holds no values, so it names no agents.")
    if len(values) > MOST_AGENTS:
        raise DataError(
            f"Column {name!r} has {len(values):,} different values, too many for agents (at most "
            f"{MOST_AGENTS:,}); choose another column."
        )
    if all(map(parses, values)):
        return tuple(sorted(values, key=lambda value: (float(value), value)))
    return tuple(sorted(values))


def _shares(rng: np.random.Generator, agents: int, alpha: float) -> Vector:
    """Draw p ~ Dirichlet(α, …, α) (agents,): G(α) = G(α + 1)·U^(1/α), in logarithms for small α."""
    logs = np.log(rng.standard_gamma(alpha + 1, agents)) + np.log1p(-rng.random(agents)) / alpha
    weights = np.exp(logs - logs.max())
    shares: Vector = weights / weights.sum()
    return shares


def _none_empty(parts: list[Indices]) -> list[Indices]:
    for k, part in enumerate(parts):
        if len(part) == 0:
            largest = max(range(len(parts)), key=lambda i: len(parts[i]))
            parts[k], parts[largest] = parts[largest][-1:], parts[largest][:-1]
    return parts


def _generator(seed: int, stream: int) -> np.random.Generator:
    seed = checks.count("seed", seed, at_least=0)
    return np.random.Generator(np.random.PCG64([seed, stream]))
