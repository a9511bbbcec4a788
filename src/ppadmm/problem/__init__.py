"""Losses, networks and the subproblem that an agent solves in every round."""

from ppadmm.problem.graphs import KINDS, Graph, graph_from, make_graph, read_edges
from ppadmm.problem.losses import LOSSES, HuberHinge, Logistic, Loss, loss_named
from ppadmm.problem.risk import NoRecords, Risk, Subproblem

__all__ = [
    "KINDS",
    "LOSSES",
    "Graph",
    "HuberHinge",
    "Logistic",
    "Loss",
    "NoRecords",
    "Risk",
    "Subproblem",
    "graph_from",
    "loss_named",
    "make_graph",
    "read_edges",
]
