import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.errors import GraphError, InputError
from ppadmm.problem import KINDS, Graph, graph_from, make_graph, read_edges
from ppadmm.problem.graphs import ALONE


@pytest.mark.parametrize("kind", KINDS)
@given(size=st.integers(2, 40), seed=st.integers(0, 1000))
def test_every_kind_is_connected_and_simple(kind, size, seed):
    graph = make_graph(kind, size, seed)
    drawn = nx.Graph(list(graph.edges))
    assert set(drawn.nodes) == set(range(size))
    assert nx.is_connected(drawn)
    assert all(i < j for i, j in graph.edges)
    assert graph == make_graph(kind, size, seed)
    for i in range(size):
        assert graph.neighbours(i) == tuple(sorted(drawn[i]))
        assert graph.degree(i) == drawn.degree[i]


def test_shapes_are_what_their_names_say():
    assert make_graph("complete", 6).degrees == (5,) * 6
    assert make_graph("ring", 6).degrees == (2,) * 6
    assert make_graph("star", 6).degrees == (5, 1, 1, 1, 1, 1)
    assert sorted(make_graph("grid", 9).degrees) == [2, 2, 2, 2, 3, 3, 3, 3, 4]
    assert sum(make_graph("small-world", 10).degrees) == 40


def test_random_kinds_follow_the_seed():
    for kind in ("erdos-renyi", "small-world"):
        assert len({make_graph(kind, 12, seed).edges for seed in range(8)}) > 1


def test_a_disconnected_network_is_refused_by_name():
    with pytest.raises(GraphError, match=r"disconnected: agents \[2, 3\]"):
        Graph(4, ((0, 1), (2, 3)))


@pytest.mark.parametrize(
    ("size", "edges", "message"),
    [
        (3, ((0, 1),), "Agent 2 has no neighbour"),
        (1, (), "Agent 0 has no neighbour"),
        (3, ((0, 1), (1, 3)), "names agent 3"),
        (2, ((0, 1), (1, 1)), "joins an agent to itself"),
        (0, (), "agents"),
    ],
)
def test_bad_networks(size, edges, message):
    with pytest.raises(InputError, match=message):
        Graph(size, edges)


@pytest.mark.parametrize("kind", KINDS)
def test_one_agent_is_alone_in_every_kind_of_network(kind):
    assert make_graph(kind, 1) == Graph(1, (), ALONE)


def test_one_agent_may_be_alone_if_it_says_so():
    assert Graph(1, (), ALONE).degrees == (0,)
    with pytest.raises(GraphError, match="Agent 0 has no neighbour"):
        Graph(2, (), ALONE)


def test_edges_from_a_file(tmp_path):
    path = tmp_path / "net.txt"
    path.write_text("# who talks to whom\n0 1\n2,1  # a comma will do\n\n1 0\n")
    graph = read_edges(path)
    assert graph.size == 3
    assert graph.edges == ((0, 1), (1, 2))
    assert graph_from(str(path), 3) == graph
    with pytest.raises(GraphError, match="Agent 3 has no neighbour"):
        graph_from(str(path), 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [("0 1\n1 x\n", r"Line 2 .*'1 x'"), ("0 1 2\n", "Line 1"), ("# nothing\n", "names no edge")],
)
def test_malformed_files(tmp_path, text, message):
    path = tmp_path / "net.txt"
    path.write_text(text)
    with pytest.raises(GraphError, match=message):
        read_edges(path)


def test_unknown_names():
    with pytest.raises(InputError, match="Unknown graph 'wheel'"):
        graph_from("wheel", 5)
    with pytest.raises(GraphError, match=r"Cannot read the edge list 'no/such\.txt'"):
        graph_from("no/such.txt", 5)
