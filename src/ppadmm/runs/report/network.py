"""The network of agents as a drawing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ppadmm.runs.report.svg import picture, tag

CIRCLE_UP_TO = 12
LABELS_UP_TO = 12
WIDTH = 460.0

Edges = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Node:
    """One agent: `lines` are written beside it, `words` said of it in full."""

    weight: float
    lines: tuple[str, ...]
    words: str


def draw(name: str, title: str, kind: str, nodes: Sequence[Node], edges: Edges) -> Markup:
    """Draw agents as discs of an area that follows their weight, numbered from 0."""
    labelled = len(nodes) <= LABELS_UP_TO
    height = 380.0 if labelled else 440.0
    places = [_onto_page(p, labelled, height) for p in positions(kind, len(nodes), edges)]
    lines = [
        tag("line", x1=places[i][0], y1=places[i][1], x2=places[j][0], y2=places[j][1])
        for i, j in edges
    ]
    discs = [
        _disc(i, node, place, _radius(node, nodes), height / 2 if labelled else None)
        for i, (node, place) in enumerate(zip(nodes, places, strict=True))
    ]
    described = f"{len(nodes)} agents, {len(edges)} links: " + ", ".join(
        f"{i} with {j}" for i, j in edges
    )
    size = (WIDTH, height)
    return picture(name, title, described + ".", size, tag("g", *lines, class_="links"), *discs)


def _radius(node: Node, nodes: Sequence[Node]) -> float:
    most = max(other.weight for other in nodes) or 1.0
    least, span = (13.0, 7.0) if len(nodes) <= LABELS_UP_TO else (7.0, 5.0)
    return least + span * math.sqrt(node.weight / most)


def _disc(
    i: int, node: Node, place: tuple[float, float], radius: float, middle: float | None
) -> Markup:
    """Return one agent, with its lines beside it if the height of the middle is given."""
    x, y = place
    disc = tag("circle", cx=x, cy=y, r=radius, class_="disc" if node.weight else "disc idle")
    number = tag("text", i, x=x, y=y + 4, class_="number mid" if middle else "number mid small")
    beside = _beside(node.lines, place, radius, y < middle) if middle else []
    return tag("g", tag("title", node.words), disc, number, *beside, class_="node")


def _beside(
    lines: Sequence[str], place: tuple[float, float], radius: float, above: bool
) -> list[Markup]:
    """Write above an agent in the upper half, below one in the lower half."""
    x, y = place
    first = y - radius - 6 - 14 * (len(lines) - 1) if above else y + radius + 15
    return [
        tag("text", words, x=x, y=first + 14 * k, class_="note mid")
        for k, words in enumerate(lines)
    ]


def _onto_page(place: tuple[float, float], labelled: bool, height: float) -> tuple[float, float]:
    side, edge = (62.0, 58.0) if labelled else (20.0, 20.0)
    return side + place[0] * (WIDTH - 2 * side), edge + place[1] * (height - 2 * edge)


def positions(kind: str, size: int, edges: Edges) -> list[tuple[float, float]]:
    """Return a place in the unit square for each agent, the same every time."""
    if kind == "star" and size > 2:
        return [(0.5, 0.5), *_circle(size - 1)]
    if kind == "grid":
        return _rows(size)
    if size <= CIRCLE_UP_TO or kind in ("ring", "complete"):
        return _circle(size)
    return _springs(size, edges)


def _circle(size: int) -> list[tuple[float, float]]:
    angles = [2.0 * math.pi * k / size for k in range(size)]
    return [(0.5 + 0.5 * math.sin(a), 0.5 - 0.5 * math.cos(a)) for a in angles]


def _rows(size: int) -> list[tuple[float, float]]:
    """Return the rows that `ppadmm.problem.graphs` fills."""
    width = max(1, round(size**0.5))
    across, down = max(width - 1, 1), max((size - 1) // width, 1)
    return [((i % width) / across, (i // width) / down) for i in range(size)]


def _springs(size: int, edges: Edges) -> list[tuple[float, float]]:
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from((i, j) for i, j in edges)
    places = nx.kamada_kawai_layout(graph) if size <= 80 else nx.spring_layout(graph, seed=0)
    return _stretched([(float(places[i][0]), float(places[i][1])) for i in range(size)])


def _stretched(places: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Fill the unit square."""
    xs, ys = [p[0] for p in places], [p[1] for p in places]
    across, down = max(xs) - min(xs) or 1.0, max(ys) - min(ys) or 1.0
    return [((x - min(xs)) / across, (y - min(ys)) / down) for x, y in places]
