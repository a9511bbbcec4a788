"""Losses, networks and the subproblem that an agent solves in every round."""

from ppadmm.problem.graphs import KINDS, Graph, graph_from, make_graph, read_edges
from ppadmm.problem.losses import (
    LOSSES,
    HuberHinge,
    Logistic,
    Loss,
    MarginLoss,
    OneMargin,
    loss_named,
)
from ppadmm.problem.multiclass import MULTICLASS, Multinomial, OneVsRest, ScoreLoss, loss_for
from ppadmm.problem.risk import MarginRisk, NoRecords, Risk, Subproblem
from ppadmm.problem.scores import ScoreRisk, laid_out, risk_of
from ppadmm.problem.streamed import StreamedRisk, risk_over

__all__ = [
    "KINDS",
    "LOSSES",
    "MULTICLASS",
    "Graph",
    "HuberHinge",
    "Logistic",
    "Loss",
    "MarginLoss",
    "MarginRisk",
    "Multinomial",
    "NoRecords",
    "OneMargin",
    "OneVsRest",
    "Risk",
    "ScoreLoss",
    "ScoreRisk",
    "StreamedRisk",
    "Subproblem",
    "graph_from",
    "laid_out",
    "loss_for",
    "loss_named",
    "make_graph",
    "read_edges",
    "risk_of",
    "risk_over",
]
