"""Communication networks: who talks to whom."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import inf, log
from pathlib import Path

import numpy as np

from ppadmm import checks
from ppadmm.errors import GraphError

Edges = list[tuple[int, int]]
Adjacency = tuple[tuple[int, ...], ...]

ALONE = "alone"
"""The name of the one network without edges: a single agent."""


@dataclass(frozen=True)
class Graph:
    """An undirected connected network on agents 0 … size−1, without loops.

    `edges` are pairs i < j in sorted order, so equal networks compare equal.
    """

    size: int
    edges: tuple[tuple[int, int], ...]
    name: str = "custom"

    def __post_init__(self) -> None:
        checks.count("agents", self.size)
        object.__setattr__(self, "edges", _canonical(self.size, self.edges))
        object.__setattr__(self, "_adjacency", _adjacency(self.size, self.edges))
        self._require_connected()

    def neighbours(self, agent: int) -> tuple[int, ...]:
        """Return the agents that `agent` talks to, in increasing order."""
        adjacency: Adjacency = self.__dict__["_adjacency"]
        return adjacency[agent]

    def degree(self, agent: int) -> int:
        """Return |Bᵢ|."""
        return len(self.neighbours(agent))

    @property
    def degrees(self) -> tuple[int, ...]:
        """Return every agent's number of neighbours."""
        return tuple(self.degree(i) for i in range(self.size))

    @cached_property
    def connectivity(self) -> float:
        """Return ℓ₂, the second smallest eigenvalue of the Laplacian: how fast agents can agree."""
        if self.size == 1:
            return inf
        laplacian = np.diag(np.array(self.degrees, dtype=float))
        ends = np.array(self.edges).T
        laplacian[ends[0], ends[1]] = laplacian[ends[1], ends[0]] = -1.0
        return float(np.linalg.eigvalsh(laplacian)[1])

    def _require_connected(self) -> None:
        lonely = [i for i in range(self.size) if not self.neighbours(i)]
        if lonely and (self.size, self.name) != (1, ALONE):
            raise GraphError(
                f"Agent {lonely[0]} has no neighbour; give it at least one edge or remove it."
            )
        unreached = sorted(set(range(self.size)) - _reached(self.__dict__["_adjacency"]))
        if unreached:
            raise GraphError(
                f"The network is disconnected: agents {unreached} cannot be reached from agent 0; "
                "add an edge between the parts."
            )


def _adjacency(size: int, edges: Iterable[tuple[int, int]]) -> Adjacency:
    near: list[list[int]] = [[] for _ in range(size)]
    for i, j in edges:
        near[i].append(j)
        near[j].append(i)
    return tuple(tuple(sorted(agents)) for agents in near)


def _reached(adjacency: Sequence[Sequence[int]]) -> set[int]:
    """Return the agents that messages of agent 0 reach."""
    reached, frontier = {0}, [0]
    while frontier:
        new = set(adjacency[frontier.pop()]) - reached
        reached |= new
        frontier.extend(new)
    return reached


def _canonical(size: int, edges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    pairs = set()
    for i, j in edges:
        for end in (i, j):
            if not 0 <= end < size:
                raise GraphError(f"Edge {i}–{j} names agent {end}; agents are 0 … {size - 1}.")
        if i == j:
            raise GraphError(f"Edge {i}–{j} joins an agent to itself; remove it.")
        pairs.add((min(i, j), max(i, j)))
    return tuple(sorted(pairs))


def _complete(size: int, seed: int) -> Edges:
    return list(combinations(range(size), 2))


def _ring(size: int, seed: int) -> Edges:
    return [(i, (i + 1) % size) for i in range(size)]


def _star(size: int, seed: int) -> Edges:
    return [(0, i) for i in range(1, size)]


def _grid(size: int, seed: int) -> Edges:
    """Fill rows of about √size agents; the last row may be shorter."""
    width = max(1, round(size**0.5))
    edges = [(i, i + 1) for i in range(size - 1) if (i + 1) % width]
    return edges + [(i, i + width) for i in range(size - width)]


def _erdos_renyi(size: int, seed: int) -> Edges:
    """Draw each edge with probability 2·ln N/N, again until the network is connected."""
    p = min(1.0, 2.0 * log(size) / size)
    for attempt in range(1000):
        rng = random.Random(seed * 1000 + attempt)  # noqa: S311 - who is linked is public
        drawn = [edge for edge in combinations(range(size), 2) if p == 1.0 or rng.random() < p]
        if len(_reached(_adjacency(size, drawn))) == size:
            return drawn
    raise GraphError(  # pragma: no cover - probability below 1e-100
        f"No connected Erdős–Rényi network of {size} agents in 1000 draws; try another seed."
    )


def _small_world(size: int, seed: int) -> Edges:
    """Watts–Strogatz with four nearest neighbours and rewiring probability 0.2."""
    if size <= 4:
        return _ring(size, seed) if size > 2 else _complete(size, seed)
    import networkx as nx

    return list(nx.connected_watts_strogatz_graph(size, 4, 0.2, tries=1000, seed=seed).edges)


KINDS: dict[str, Callable[[int, int], Edges]] = {
    "complete": _complete,
    "ring": _ring,
    "star": _star,
    "grid": _grid,
    "erdos-renyi": _erdos_renyi,
    "small-world": _small_world,
}


def make_graph(kind: str, size: int, seed: int = 0) -> Graph:
    """Return the network called `kind` on `size` agents; random kinds follow `seed`.

    Of a single agent there is one network, whatever the kind: it is alone.
    """
    checks.one_of("graph", kind, KINDS)
    if checks.count("agents", size) == 1:
        return Graph(1, (), ALONE)
    return Graph(size, tuple(KINDS[kind](size, seed)), kind)


def read_edges(path: str | Path, size: int | None = None) -> Graph:
    """Read a network from a text file with one edge `i j` per line; `#` starts a comment.

    Without `size` the agents are 0 … the largest number named.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise GraphError(f"Cannot read the edge list {str(path)!r}: {_reason(error)}.") from None
    edges = [edge for k, line in enumerate(lines, 1) if (edge := _edge(path, k, line))]
    if not edges:
        raise GraphError(f"The edge list {str(path)!r} names no edge.")
    largest = max(max(edge) for edge in edges)
    return Graph(largest + 1 if size is None else size, tuple(edges), path.name)


def _edge(path: Path, number: int, line: str) -> tuple[int, int] | None:
    words = line.split("#")[0].replace(",", " ").split()
    if not words:
        return None
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        raise GraphError(
            f"Line {number} of {str(path)!r} is {line.strip()!r}; expected two agent numbers."
        )
    return int(words[0]), int(words[1])


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or "it is not a text file"


def graph_from(kind_or_path: str, size: int, seed: int = 0) -> Graph:
    """Return a network by kind, or from an edge-list file when the name is not a kind."""
    if kind_or_path in KINDS:
        return make_graph(kind_or_path, size, seed)
    if Path(kind_or_path).suffix or "/" in kind_or_path:
        return read_edges(kind_or_path, size)
    checks.one_of("graph", kind_or_path, [*KINDS, "a file with one edge per line"])
    raise AssertionError("unreachable")  # pragma: no cover
