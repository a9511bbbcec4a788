"""The options that several commands share, each declared once.

Where an option means the same everywhere it is a type. `Open…` is the same option where no default
is set, as a preset may fill it in: then the help says in brackets what is taken. Where each command
has to say what an option means there, it is a function that takes those words and knows the rest.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from ppadmm.cli import names


def _said(text: str, usual: str) -> str:
    """Return a help text; `usual` is what is taken where the option is left open."""
    return f"{text} [{usual}]." if usual else f"{text}."


# What all commands have

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
NoSave = Annotated[bool, typer.Option("--no-save", help="Write nothing.")]


def out(metavar: str, text: str) -> Any:
    """Say where results go: what it is, and what is written."""
    return typer.Option("--out", metavar=metavar, help=text)


# Records and who holds them

Data = Annotated[str, typer.Argument(metavar="[DATA]", help="As for ppadmm train [synthetic].")]
Label = Annotated[str | None, typer.Option(metavar="NAME", help="The label column of a file.")]
Schema = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="TOML file with the public bounds, categories and classes of a file. Without it "
        "they are read off the records and the run is NOT private.",
    ),
]
DataDir = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Folder of the named data sets [$PPADMM_DATA]."),
]


def agents(usual: str = "") -> Any:
    """Say how many agents there are."""
    text = _said("Agents that share the records", usual)
    return typer.Option("--agents", metavar="N", help=text)


def partition(usual: str = "") -> Any:
    """Say who holds which record."""
    text = (
        "Who holds which record: even, column:NAME (an agent for each value of a column), files "
        "(an agent for each file of a folder), or dirichlet:ALPHA (skewed labels, a simulation, "
        "NOT private)"
    )
    return typer.Option("--partition", metavar="HOW", help=_said(text, usual))


def graph(usual: str = "") -> Any:
    """Say who talks to whom."""
    text = "Who talks to whom: {graphs}, or a file with one edge 'i j' per line, agents from 0"
    complete = names.completed("{graphs}")
    return typer.Option("--graph", metavar="KIND", autocompletion=complete, help=_said(text, usual))


Agents = Annotated[int, agents()]
OpenAgents = Annotated[int | None, agents("5")]
Partition = Annotated[str, partition()]
OpenPartition = Annotated[str | None, partition("even")]
Graph = Annotated[str, graph()]
OpenGraph = Annotated[str | None, graph("erdos-renyi")]

# The method


def algorithm(usual: str = "", listed: str = "{algorithms}") -> Any:
    """Say which algorithm; `listed` are those that the command takes."""
    return typer.Option(
        "--algorithm",
        metavar="NAME",
        autocompletion=names.completed(listed),
        help=_said(listed, usual),
    )


def loss(usual: str = "") -> Any:
    """Say which loss."""
    return typer.Option(
        "--loss",
        metavar="NAME",
        autocompletion=names.completed("logistic, huber-hinge"),
        help=_said("logistic or huber-hinge", usual),
    )


def multiclass(usual: str = "") -> Any:
    """Say what becomes of three or more classes."""
    text = "Three or more classes: multinomial (logistic only) or one-vs-rest"
    return typer.Option("--multiclass", metavar="NAME", help=_said(text, usual))


def calibration(usual: str = "") -> Any:
    """Say how noise is calibrated."""
    text = "proven, or paper (a claim, NOT private)"
    return typer.Option("--calibration", metavar="NAME", help=_said(text, usual))


def regularisation(usual: str = "") -> Any:
    """Say the weight of the regulariser."""
    return typer.Option("--regularisation", metavar="λ", help=_said("Weight of ½‖θ‖²", usual))


def rounds(usual: str) -> Any:
    """Say how many rounds; `usual` is how they are chosen otherwise."""
    return typer.Option("--rounds", metavar="T", help=_said("Rounds", usual))


def eta(usual: str) -> Any:
    """Say the penalty; `usual` is how it is chosen otherwise."""
    return typer.Option("--eta", metavar="η", help=_said("Penalty of ADMM", usual))


Rounds = Annotated[int | None, rounds("chosen from public sizes")]
Eta = Annotated[float | None, eta("chosen from public sizes")]


def beta(usual: str = "") -> Any:
    """Say how exact local solves are; `usual` is how that is chosen otherwise."""
    return typer.Option(
        "--beta", metavar="β", help=f"Gradient norm that local solves reach{usual}."
    )


Beta = Annotated[float | None, beta(" [1e-8], or more where rounding needs it")]
Algorithm = Annotated[str, algorithm()]
OpenAlgorithm = Annotated[str | None, algorithm("pp")]
Loss = Annotated[str, loss()]
OpenLoss = Annotated[str | None, loss("logistic")]
Multiclass = Annotated[str, multiclass()]
OpenMulticlass = Annotated[str | None, multiclass("auto")]
Calibration = Annotated[str, calibration()]
OpenCalibration = Annotated[str | None, calibration("proven")]
Regularisation = Annotated[float, regularisation()]
OpenRegularisation = Annotated[float | None, regularisation("0")]


def seed(text: str = "Simulate: repeatable numbers, NOT private.") -> Any:
    """Say what a seed is for."""
    return typer.Option("--seed", metavar="INT", help=text)


Seed = Annotated[int | None, seed()]

# Budgets


def epsilon(text: str) -> Any:
    """Say whose budget it is."""
    return typer.Option("--epsilon", metavar="ε", help=text)


def epsilons(text: str) -> Any:
    """Say what the budgets are for."""
    return typer.Option("--epsilons", metavar="ε,ε,…", help=text)


def delta(text: str) -> Any:
    """Say what δ belongs to."""
    return typer.Option("--delta", metavar="δ", help=text)


Delta = Annotated[float, delta("δ of the budget.")]


def adjacency(text: str) -> Any:
    """Say what is protected."""
    return typer.Option(
        "--adjacency",
        metavar="NAME",
        autocompletion=names.completed("replace-one, zero-out"),
        help=text,
    )


Adjacency = Annotated[str, adjacency("replace-one or zero-out.")]
OpenAdjacency = Annotated[str | None, adjacency("replace-one or zero-out [replace-one].")]

# The ledger

LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        metavar="FILE",
        help="Charge the run to this ledger, which refuses it if the budget granted to the "
        "data set does not cover it; runs that are NOT private are refused.",
    ),
]
LedgerName = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="NAME",
        help="With --ledger: what the data set is called there [its own name].",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="With --ledger: take up the unfinished run with the same records and options, or "
        "show the finished one again; what was released is used again, never drawn again.",
    ),
]

# Sweeps

Splits = Annotated[
    int, typer.Option(metavar="S", help="Splits of the records to deal the seeds over.")
]
Seeds = Annotated[int, typer.Option(metavar="K", help="Noise seeds.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="J", help="Cells to run at a time [compare 1, reproduce 2, ray every CPU it has]."
    ),
]
SweepEngine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Where cells run: pool (processes of this machine) or ray (a cluster; "
        "pip install 'ppadmm[ray]').",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDR",
        help="With --engine ray: HOST:PORT of a running cluster, or auto [one that is started "
        "here and ends with the command]. Ray does not keep those who share a cluster apart and "
        "moves everything by pickle: use it on your own organisation's machines only.",
    ),
]
