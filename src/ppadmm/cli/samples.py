"""`ppadmm samples`: how many records are enough, in the worst case."""

from typing import Annotated

import typer

from ppadmm.cli.app import app
from ppadmm.cli.common import Json, interruptible, numbers, show


@app.command()
def samples(
    error: Annotated[
        float, typer.Option(metavar="α", help="Excess expected loss that is accepted.")
    ],
    epsilon: Annotated[float, typer.Option(metavar="ε", help="Budget of the run.")] = 1.0,
    delta: Annotated[float, typer.Option(metavar="δ", help="δ of the budget.")] = 1e-6,
    features: Annotated[
        int, typer.Option(metavar="d", help="Features, the intercept included.")
    ] = 42,
    agents: Annotated[int, typer.Option(metavar="N", help="Number of agents.")] = 5,
    graph: Annotated[
        str, typer.Option(metavar="KIND", help="Network, as for train; a random one is drawn once.")
    ] = "erdos-renyi",
    norm: Annotated[
        float, typer.Option(metavar="R", help="Norm of the classifier to compare with.")
    ] = 10.0,
    confidence: Annotated[
        float, typer.Option(metavar="p", help="Probability with which the bound holds.")
    ] = 0.95,
    loss: Annotated[str, typer.Option(metavar="NAME", help="As for train.")] = "logistic",
    rounds: Annotated[
        int | None, typer.Option(metavar="T", help="Rounds [enough for a tenth of the error].")
    ] = None,
    eta: Annotated[
        float | None, typer.Option(metavar="η", help="Penalty [the one with the least bound].")
    ] = None,
    regularisation: Annotated[
        float | None, typer.Option(metavar="λ̂", help="Regulariser [the one with the least bound].")
    ] = None,
    beta: Annotated[float, typer.Option(metavar="β", help="As for train.")] = 1e-8,
    adjacency: Annotated[
        str, typer.Option(metavar="NAME", help="replace-one or zero-out.")
    ] = "replace-one",
    epsilons: Annotated[
        str, typer.Option(metavar="ε,ε,…", help="Budgets of the table, comma-separated.")
    ] = "0.25,0.5,1,2,4",
    as_json: Json = False,
) -> None:
    """Say how many records per agent are enough, without privacy and with it: a worst-case bound.

    No data are read. docs/sample-size.md has the theorems, their proofs and how loose they are.

    Example: ppadmm samples --error 0.1 --epsilon 1 --features 42 --agents 5
    """
    from dataclasses import replace

    from ppadmm import checks
    from ppadmm.planning.sample_bound import BoundSetting
    from ppadmm.planning.sample_sizes import answer, default_rounds
    from ppadmm.planning.sample_sizes_text import samples_text
    from ppadmm.problem import graph_from, loss_named

    checks.positive("error", error)
    setting = BoundSetting(
        features=features, graph=graph_from(graph, agents), norm=norm, confidence=confidence,
        rounds=rounds, eta=eta, regularisation=regularisation, beta=beta, adjacency=adjacency,
        loss=loss_named(loss),
    )  # fmt: skip
    setting = replace(setting, rounds=rounds or default_rounds(error, setting))
    with interruptible():
        found = answer(error, setting, {epsilon, *numbers("epsilons", epsilons)}, delta)
    show(found.to_dict() if as_json else samples_text(found, epsilon))
