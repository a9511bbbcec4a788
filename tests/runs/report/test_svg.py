"""Plots: where things are drawn, and what they are called."""

import re
import xml.etree.ElementTree as ET

import pytest

from ppadmm.problem import make_graph
from ppadmm.runs.report.network import Node, draw, positions
from ppadmm.runs.report.svg import (
    Axis,
    Mark,
    Series,
    bar,
    dot_plot,
    line_chart,
    raster,
    share_bars,
    short,
    tag,
)


class TestAxis:
    def test_ends_and_middle(self):
        axis = Axis(0.0, 10.0, 100.0, 200.0)
        assert [axis(v) for v in (0, 5, 10)] == [100, 150, 200]
        log = Axis(1e-6, 1e-2, 0.0, 4.0, log=True)
        assert [log(10.0**k) for k in (-6, -5, -2)] == pytest.approx([0, 1, 4])

    @pytest.mark.parametrize("span", [(0.0, 1.0), (0.17, 0.246), (1, 80), (-3.2, 7.1), (0, 1e-9)])
    def test_ticks_are_round_and_within(self, span):
        ticks = Axis(*span, 0.0, 1.0).ticks()
        assert 3 <= len(ticks) <= 8
        assert all(span[0] - 1e-12 <= v <= span[1] + 1e-12 for v in ticks)

    @pytest.mark.parametrize("span", [(1e-12, 1e-2), (0.2, 6.0), (3.0, 4.0), (1e-300, 1.0)])
    def test_ticks_of_a_logarithm(self, span):
        ticks = Axis(*span, 0.0, 1.0, log=True).ticks()
        assert len(ticks) <= 9
        assert all(span[0] * 0.99 <= v <= span[1] * 1.01 for v in ticks)


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (0.9999999999, "1"), (1e-6, "1e-6"), (80, "80"), (7.615e-4, "7.62e-4"), (-2, "-2")],
)
def test_short_numbers(value, words):
    assert short(value) == words


def test_text_is_escaped():
    assert tag("text", "<&>", x='"') == '<text x="&#34;">&lt;&amp;&gt;</text>'


class TestLineChart:
    def chart(self, y=(3.0, 1.0, 2.0), **options):
        lines = [Series("loss", [1, 2, 3], list(y))]
        return ET.fromstring(line_chart("c", "T<", lines, ("round", "loss"), **options))

    def test_points_follow_the_values(self):
        points = self.chart().find(".//polyline").get("points").split()
        x, y = zip(*(map(float, point.split(",")) for point in points), strict=True)
        assert x[0] < x[1] < x[2]
        assert y[1] > y[2] > y[0]  # down is up

    def test_is_named_and_described(self):
        chart = self.chart()
        assert chart.find("title").text == "T<"
        assert "loss 3 at round 1, 2 at 3, lowest 1, highest 3" in chart.find("desc").text

    def test_every_point_can_be_read_off(self):
        words = [e.text for e in self.chart().iter("text") if "tip" in e.get("class", "")]
        assert words == ["round 1: 3", "round 2: 1", "round 3: 2"]

    def test_a_level_stretches_the_axis(self):
        chart = self.chart(marks=[Mark("here", 9.0)])
        level = next(e for e in chart.iter("line") if e.get("class") == "level")
        assert float(level.get("y1")) < min(
            float(p.split(",")[1]) for p in chart.find(".//polyline").get("points").split()
        )

    @pytest.mark.parametrize("log", [False, True])
    def test_a_flat_line_is_drawn(self, log):
        points = self.chart(y=(2.0, 2.0, 2.0), log=(False, log)).find(".//polyline").get("points")
        assert len(set(re.findall(r",([\d.]+)", points))) == 1
        assert "nan" not in points


def test_dots_are_where_their_values_are():
    rows = [("a", 0.8), ("b", 0.9)]
    plot = ET.fromstring(dot_plot("d", "T", rows, "accuracy", [("level", 0.7)]))
    a, b = (float(e.get("cx")) for e in plot.iter("circle"))
    level = next(float(e.get("x1")) for e in plot.iter("line") if "level" in e.get("class"))
    assert b - a == pytest.approx(a - level, abs=0.01)


def test_raster_joins_neighbouring_cells():
    shares = [[1, 0], [1, 0], [0, 0.5], [1, 0]]
    plot = ET.fromstring(raster("r", "T", "D", shares, 4))
    paths = {e.get("class"): e.get("d") for e in plot.iter("path")}
    assert paths["spoke k4"].count("M") == 2
    assert paths["spoke k2"].count("M") == 1
    assert not paths["spoke k1"]


def test_bars_have_the_length_of_their_shares():
    plot = ET.fromstring(share_bars("s", "T", [("a", 0.5, "50 %"), ("b", 0.75, "75 %")]))
    widths = [float(e.get("width")) for e in plot.iter("rect") if e.get("class") != "ground"]
    assert widths == [210, 315]
    for value in (2.0, -1.0, 0.0):
        rect = ET.fromstring(bar(value, 2.0)).find("rect")
        assert float(rect.get("width")) == pytest.approx(59 * abs(value) / 2)
        assert (float(rect.get("x")) < 60) == (value < 0)
    assert "nan" not in bar(0.0, 0.0)


@pytest.mark.parametrize("size", [2, 5, 12, 30, 100])
@pytest.mark.parametrize("kind", ["ring", "star", "grid", "complete", "erdos-renyi"])
def test_agents_are_drawn_apart_and_on_the_page(kind, size):
    edges = make_graph(kind, size).edges
    places = positions(kind, size, edges)
    assert places == positions(kind, size, edges)
    assert all(-1e-9 <= c <= 1 + 1e-9 for place in places for c in place)
    assert len({(round(x, 3), round(y, 3)) for x, y in places}) == size


def test_a_network_shows_every_link_and_agent():
    graph = make_graph("ring", 5)
    nodes = [Node(float(k), (f"ε {k}",), f"Agent {k}: all of it") for k in range(5)]
    plot = ET.fromstring(draw("n", "T", "ring", nodes, graph.edges))
    assert len(list(plot.iter("line"))) == 5
    discs = list(plot.iter("circle"))
    assert float(discs[1].get("r")) < float(discs[4].get("r"))
    assert [e.text for e in plot.iter("title")] == ["T", *(node.words for node in nodes)]
    assert {"ε 0", "ε 4"} <= {e.text for e in plot.iter("text")}
