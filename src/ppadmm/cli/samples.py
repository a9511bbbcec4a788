"""`ppadmm samples`: how many records are enough, in the worst case."""

from typing import Annotated

from ppadmm.cli import names, options
from ppadmm.cli.app import app
from ppadmm.cli.common import interruptible, numbers, show


@app.command(cls=names.NamingCommand)
def samples(
    error: Annotated[float, options.value("α", "Excess expected loss that is accepted.")],
    epsilon: Annotated[float, options.epsilon("Budget of the run.")] = 1.0,
    delta: options.Delta = 1e-6,
    features: Annotated[int, options.value("d", "Features, the intercept included.")] = 42,
    agents: Annotated[int, options.value("N", "Number of agents.")] = 5,
    graph: options.Graph = "erdos-renyi",
    norm: Annotated[float, options.value("R", "Norm of the classifier to compare with.")] = 10.0,
    confidence: Annotated[
        float, options.value("p", "Probability with which the bound holds.")
    ] = 0.95,
    loss: options.Loss = "logistic",
    rounds: Annotated[int | None, options.rounds("enough for a tenth of the error")] = None,
    eta: Annotated[float | None, options.eta("the one with the least bound")] = None,
    regularisation: Annotated[
        float | None, options.value("λ̂", "Regulariser [the one with the least bound].")
    ] = None,
    beta: Annotated[float, options.beta("Gradient norm that local solves reach.")] = 1e-8,
    adjacency: options.Adjacency = "replace-one",
    epsilons: Annotated[
        str, options.epsilons("Budgets of the table, comma-separated.")
    ] = "0.25,0.5,1,2,4",
    as_json: options.Json = False,
) -> None:
    """Say how many records per agent are enough, without privacy and with it: a worst-case bound.

    No data are read, and a random network is drawn once. docs/sample-size.md has the theorems,
    their proofs and how loose they are.

    Example: ppadmm samples --error 0.1 --epsilon 1 --features 42 --agents 5
    """
    from ppadmm.planning.sample_bound import BoundSetting
    from ppadmm.planning.sample_sizes import answer
    from ppadmm.planning.sample_sizes_text import samples_text

    setting = BoundSetting.of(
        features, agents, graph, loss, norm=norm, confidence=confidence, rounds=rounds, eta=eta,
        regularisation=regularisation, beta=beta, adjacency=adjacency,
    )  # fmt: skip
    with interruptible():
        found = answer(error, setting, {epsilon, *numbers("epsilons", epsilons)}, delta)
    show(found.to_dict() if as_json else samples_text(found, epsilon))
