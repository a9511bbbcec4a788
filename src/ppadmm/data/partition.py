"""Who holds which record: train and test, then one part per agent."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppadmm import checks
from ppadmm.data.columns import column, distinct_texts, parses
from ppadmm.data.dataset import Dataset
from ppadmm.data.encode import category_codes
from ppadmm.data.shard import Matrix, Shard, Vector
from ppadmm.data.tables import placed
from ppadmm.errors import DataError, InputError
from ppadmm.records import HoldsRecords

Indices = NDArray[np.int64]

# One stream each: a split and a partition share a seed, not their draws.
_SPLIT, _EVEN, _DIRICHLET, _SITE = 0, 1, 2, 4
MOST_AGENTS = 1000


@dataclass(frozen=True)
class Partition:
    """How one table is dealt to agents, spelt even, column:NAME, files or dirichlet:ALPHA.

    even: at random, in parts of the same size. column: a record goes to the agent that its column
    NAME names. files: each file, or folder of files, is an agent. dirichlet: each class is dealt in
    shares ~ Dirichlet(ALPHA, …, ALPHA) over the agents, so that the smaller ALPHA the more the
    agents' labels differ.
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
    `caveat` says what the guarantee does not cover all the same. `alike[i]` are the places among
    the held-out records of those like agent i's own; None where all agents' are alike.
    """

    names: tuple[str, ...]
    parts: list[Indices]
    not_private_because: str | None = None
    caveat: str | None = None
    alike: tuple[Indices, ...] | None = None


def split(dataset: Dataset, seed: int) -> tuple[Indices, Indices]:
    """Train and test indices: a random permutation cut at `dataset.train_records`."""
    return split_rows(dataset.n, dataset.train_records, seed)


def split_rows(n: int, train_records: int, seed: int) -> tuple[Indices, Indices]:
    """Cut a random permutation of 0…n−1 at `train_records`."""
    order = _generator(seed, _SPLIT).permutation(n)
    return order[:train_records], order[train_records:]


def split_site(n: int, test: int, seed: int, site: int) -> tuple[Indices, Indices]:
    """Return which of a site's records 0…n−1 are for training, and which `test` of them are not.

    The draw follows from the seed, the site's place and its size alone.
    """
    order = _generator(seed, _SITE, site).permutation(n)
    return np.sort(order[: n - test]), np.sort(order[n - test :])


def held_out_by_site(sizes: Sequence[int], test: int) -> list[int]:
    """Return how many records each site holds out, `test` in all, in proportion to its size.

    Remainders go to the sites where they are largest. A site keeps at least one record to train on,
    so fewer than `test` are held out where all sites are very small. Sizes alone decide.
    """
    n, most = sum(sizes), [max(size - 1, 0) for size in sizes]
    test = min(test, sum(most))
    if test < 1:
        raise DataError(
            f"Expected a site with 2 records or more, so that one can be held out for testing, got "
            f"{n} in all over {sum(map(bool, sizes))} sites."
        )
    shares = [test * size // n for size in sizes]
    by_remainder = sorted(range(len(sizes)), key=lambda k: -(test * sizes[k] % n))
    while left := test - sum(shares):
        for k in [k for k in by_remainder if shares[k] < most[k]][:left]:
            shares[k] += 1
    return shares


def deal(
    data: Dataset,
    partition: Partition,
    agents: int,
    seed: int,
    sizes: Sequence[int] | None = None,
) -> tuple[Assignment, Indices]:
    """Return who holds which training records, as rows of `data`, and the rows that are held out.

    Where records have holders of their own, a column's or files, every site holds out its share;
    otherwise the test set is drawn from all records first.
    """
    if not partition.names_agents:
        train, test = split(data, seed)
        dealt = assign(data, train, partition, agents, seed, sizes)
        parts = [train[part] for part in dealt.parts]
        skewed = partition.alpha is not None
        alike = _skewed_alike(data.y, parts, test) if skewed else None
        return replace(dealt, parts=parts, alike=alike), test
    whole = assign(data, np.arange(data.n), partition, agents, seed)
    counts = [len(part) for part in whole.parts]
    shares = held_out_by_site(counts, data.n - data.train_records)
    pairs = [
        split_site(size, out, seed, site)
        for site, (size, out) in enumerate(zip(counts, shares, strict=True))
    ]
    both = list(zip(whole.parts, pairs, strict=True))
    kept = [rows[train] for rows, (train, _) in both]
    alike = tuple(np.split(np.arange(sum(shares)), np.cumsum(shares)[:-1]))
    out = np.concatenate([rows[out] for rows, (_, out) in both])
    return replace(whole, parts=kept, alike=alike), out


def assign(
    data: Dataset,
    rows: Indices,
    partition: Partition,
    agents: int,
    seed: int,
    sizes: Sequence[int] | None = None,
) -> Assignment:
    """Deal the records `rows` of `data` to agents; the parts index into `rows`.

    With a column or files their number follows from them; with `sizes` an even partition gives
    agent i `sizes[i]` records.
    """
    if partition.column is not None:
        return _deal_by_column(data, rows, partition.column)
    if partition.kind == "files":
        return _deal_by_files(data, rows)
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


def _skewed_alike(y: Vector, parts: Sequence[Indices], test: Indices) -> tuple[Indices, ...]:
    """Deal held-out records of each class in the shares in which training records were dealt."""
    found: list[list[Indices]] = [[] for _ in parts]
    for label in np.unique(y):
        counts = np.array([(y[own] == label).sum() for own in parts])
        members = np.flatnonzero(y[test] == label)
        cuts = np.cumsum(counts)[:-1] / max(counts.sum(), 1) * len(members)
        for part, more in zip(found, np.split(members, np.round(cuts).astype(int)), strict=True):
            part.append(more)
    return tuple(np.concatenate(part) for part in found)


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
    return _parts(codes, len(values))


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
    schema, tables = data.schema, data.tables
    if not tables:
        raise DataError(
            f"{data.name!r} holds encoded records only and no column {name!r} to deal them by; "
            "give the data set its table."
        )
    public = schema.public_values(name)
    values = public or agents_in_order(
        name, sorted({v for table in tables for v in seen_values(table, name, schema.missing)})
    )
    codes = [_codes_in(data, k, name, values) for k in range(len(tables))]
    parts = _parts(np.concatenate(codes)[rows], len(values))
    return named_by_column(name, values, parts, public is not None)


def _codes_in(data: Dataset, k: int, name: str, values: tuple[str, ...]) -> Indices:
    """Return who holds the records of table k; where there are several, an error names the file."""
    several = len(data.tables) > 1
    with placed(data.files[k].origin.path) if several else nullcontext():
        return by_column_codes(data.tables[k], name, values, data.schema.missing)


def _deal_by_files(data: Dataset, rows: Indices) -> Assignment:
    if not data.files:
        raise InputError(
            "The partition 'files' is for CSV or Parquet files, each of them an agent, got "
            f"{data.name!r}; choose another partition or give the files."
        )
    names = tuple(dict.fromkeys(file.site for file in data.files))
    codes = [np.full(file.table.num_rows, names.index(file.site)) for file in data.files]
    return named_by_files(names, _parts(np.concatenate(codes)[rows], len(names)))


def _parts(codes: Indices, agents: int) -> list[Indices]:
    return [np.flatnonzero(codes == agent) for agent in range(agents)]


def named_by_files(names: tuple[str, ...], parts: list[Indices]) -> Assignment:
    """Say what it means that files name the agents."""
    if len(names) > MOST_AGENTS:
        raise DataError(
            f"Expected at most {MOST_AGENTS:,} files or folders, an agent each, got {len(names):,}."
        )
    return Assignment(
        names,
        parts,
        caveat="Which agent holds a record follows from the file that it is in: that, and how many "
        "records each agent has, count as public and are not protected.",
    )


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


def _generator(seed: int, *stream: int) -> np.random.Generator:
    seed = checks.count("seed", seed, at_least=0)
    return np.random.Generator(np.random.PCG64([seed, *stream]))
