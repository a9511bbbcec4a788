"""The network of agents as a drawing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ppadmm.runs.report.svg import picture, tag, text

CIRCLE_UP_TO = 12
LABELS_UP_TO = 12
WIDTH = 460.0

Edges = Sequence[Sequence[int]]
Position = tuple[float, float]


@dataclass(frozen=True)
class Node:
    """One agent: `lines` are written beside it, `words` said of it in full."""

    weight: float
    lines: tuple[str, ...]
    words: str


def draw(name: str, title: str, kind: str, nodes: Sequence[Node], edges: Edges) -> Markup:
    """Draw agents as discs of an area that follows their weight, numbered from 0."""
    labelled = len(nodes) <= LABELS_UP_TO
    height, side, edge = (380.0, 62.0, 58.0) if labelled else (440.0, 20.0, 20.0)
    places = [
        (side + x * (WIDTH - 2 * side), edge + y * (height - 2 * edge))
        for x, y in positions(kind, len(nodes), edges)
    ]
    lines = [
        tag("line", x1=places[i][0], y1=places[i][1], x2=places[j][0], y2=places[j][1])
        for i, j in edges
    ]
    most = max(node.weight for node in nodes) or 1.0
    discs = [
        _disc(i, node, place, node.weight / most, height / 2 if labelled else None)
        for i, (node, place) in enumerate(zip(nodes, places, strict=True))
    ]
    links = ", ".join(f"{i} with {j}" for i, j in edges)
    described = f"{len(nodes)} agents, {len(edges)} links: {links}."
    size = (WIDTH, height)
    return picture(name, title, described, size, tag("g", *lines, class_="links"), *discs)


def _disc(i: int, node: Node, place: Position, share: float, middle: float | None) -> Markup:
    """Return one agent; if the height of the middle is given, with its lines.

    They are above an agent in the upper half, below one in the lower half.
    """
    x, y = place
    radius = (13.0 + 7.0 * math.sqrt(share)) if middle else (7.0 + 5.0 * math.sqrt(share))
    disc = tag("circle", cx=x, cy=y, r=radius, class_="disc" if node.weight else "disc idle")
    number = text(i, x, y + 4, "number mid" if middle else "number mid small")
    if middle is None:
        return tag("g", tag("title", node.words), disc, number, class_="node")
    first = y - radius - 6 - 14 * (len(node.lines) - 1) if y < middle else y + radius + 15
    beside = [text(words, x, first + 14 * k, "note mid") for k, words in enumerate(node.lines)]
    return tag("g", tag("title", node.words), disc, number, *beside, class_="node")


def positions(kind: str, size: int, edges: Edges) -> list[Position]:
    """Return a place in the unit square for each agent, the same every time."""
    if kind == "star" and size > 2:
        return [(0.5, 0.5), *_circle(size - 1)]
    if kind == "grid":
        return _rows(size)
    if size <= CIRCLE_UP_TO or kind in ("ring", "complete"):
        return _circle(size)
    return _springs(size, edges)


def _circle(size: int) -> list[Position]:
    angles = [2.0 * math.pi * k / size for k in range(size)]
    return [(0.5 + 0.5 * math.sin(a), 0.5 - 0.5 * math.cos(a)) for a in angles]


def _rows(size: int) -> list[Position]:
    """Return the rows that `ppadmm.problem.graphs` fills."""
    width = max(1, round(size**0.5))
    across, down = max(width - 1, 1), max((size - 1) // width, 1)
    return [((i % width) / across, (i // width) / down) for i in range(size)]


def _springs(size: int, edges: Edges) -> list[Position]:
    """Return places that fill the unit square."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from((i, j) for i, j in edges)
    found = nx.kamada_kawai_layout(graph) if size <= 80 else nx.spring_layout(graph, seed=0)
    places = np.array([found[i] for i in range(size)], dtype=float)
    spans = np.ptp(places, axis=0)
    stretched = (places - places.min(axis=0)) / np.where(spans > 0.0, spans, 1.0)
    return [(float(x), float(y)) for x, y in stretched]
