"""The options that several commands share, each declared once.

Where an option means the same everywhere it is a type. `Open…` is the same option where no default
is set, as a preset may fill it in: then the help says in brackets what is taken. Where each command
has to say what an option means there, it is a function that takes those words and knows the rest.
"""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ppadmm.cli import names


def _option(flag: str, metavar: str, text: str, listed: str = "") -> Any:
    """Return an option with these words; a shell completes the names in `listed`."""
    complete = names.completed(listed) if listed else None
    return typer.Option(flag, metavar=metavar, autocompletion=complete, help=text)


def _open(flag: str, metavar: str, text: str, usual: str = "", listed: str = "") -> Any:
    """Return an option that may be left open; `usual` is what is taken then."""
    return _option(flag, metavar, f"{text} [{usual}]." if usual else f"{text}.", listed)


def value(metavar: str, text: str) -> Any:
    """Return an option that is called as its parameter is and takes a value."""
    return typer.Option(metavar=metavar, help=text)


def flag(name: str, text: str) -> Any:
    """Return an option that is given or not."""
    return typer.Option(name, help=text)


def argument(metavar: str, text: str) -> Any:
    """Return an argument."""
    return typer.Argument(metavar=metavar, help=text)


# What all commands have

Json = Annotated[bool, flag("--json", "Print one JSON object and nothing else.")]
NoSave = Annotated[bool, flag("--no-save", "Write nothing.")]
out = partial(_option, "--out")

# Records and who holds them

Data = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DATA]...",
        show_default=False,
        autocompletion=names.completed("{data}"),
        help="synthetic (made-up records, no file needed), adult, adult-onehot, us, brazil, a CSV "
        "or Parquet file, or a folder of such files; each of several files or folders is an agent "
        "[synthetic].",
    ),
]
Label = Annotated[str | None, value("NAME", "The label column of a file.")]
Schema = Annotated[
    str | None,
    value(
        "FILE",
        "TOML file with the public bounds, categories and classes of a file. Without it "
        "they are read off the records and the run is NOT private.",
    ),
]
DataDir = Annotated[str | None, value("DIR", "Folder of the named data sets [$PPADMM_DATA].")]

_agents = partial(_open, "--agents", "N", "Agents that share the records")
_partition = partial(
    _open,
    "--partition",
    "HOW",
    "Who holds which record: even, column:NAME (an agent for each value of a column), files "
    "(an agent for each file, or folder of files), or dirichlet:ALPHA (skewed labels, a "
    "simulation, NOT private)",
)
_graph = partial(
    _open,
    "--graph",
    "KIND",
    "Who talks to whom: {graphs}, or a file with one edge 'i j' per line, agents from 0",
    listed="{graphs}",
)
Records = Annotated[
    str | None, value("n,n,…", "Training records of each agent, 0 to only listen [an even share].")
]
Agents = Annotated[int, _agents()]
OpenAgents = Annotated[int | None, _agents("5")]
OpenPartition = Annotated[str | None, _partition("even; files, if several are named")]
Graph = Annotated[str, _graph()]
OpenGraph = Annotated[str | None, _graph("erdos-renyi")]

# The method


def algorithm(usual: str = "", listed: str = "{algorithms}") -> Any:
    """Say which algorithm; `listed` are those that the command takes."""
    return _open("--algorithm", "NAME", listed, usual, listed)


_loss = partial(_open, "--loss", "NAME", "logistic or huber-hinge", listed="logistic, huber-hinge")
_multiclass = partial(
    _open,
    "--multiclass",
    "NAME",
    "Three or more classes: multinomial (logistic only) or one-vs-rest",
)
_calibration = partial(_open, "--calibration", "NAME", "proven, or paper (a claim, NOT private)")
Weights = Annotated[
    str | None,
    _open(
        "--weights",
        "NAME",
        "How sites count: by their records, equal, or by their records and noise",
        "records",
        "records, equal, noise",
    ),
]
Knots = Annotated[
    int | None,
    _open("--knots", "K", "Knots of curves that name none in the schema", "from public sizes"),
]
Linear = Annotated[
    bool, flag("--linear", "Straight lines in place of curves that name no knots in the schema.")
]
Trust = Annotated[
    str | None,
    _open(
        "--trust",
        "NAME",
        "Whom sites trust: local (nobody: each message is private by itself) or sum (sites see "
        "sums only and share the noise; docs/choosing-trust.md)",
        "local",
        "local, sum",
    ),
]
Colluding = Annotated[
    int | None,
    _open("--colluding", "c", "With --trust sum: sites that may put their knowledge together", "1"),
]
_regularisation = partial(_open, "--regularisation", "λ", "Weight of ½‖θ‖²")
rounds = partial(_open, "--rounds", "T", "Rounds")
eta = partial(_open, "--eta", "η", "Penalty of ADMM")
beta = partial(_option, "--beta", "β")
OpenAlgorithm = Annotated[str | None, algorithm("pp; with --trust sum newton")]
Loss = Annotated[str, _loss()]
OpenLoss = Annotated[str | None, _loss("logistic")]
Multiclass = Annotated[str, _multiclass()]
OpenMulticlass = Annotated[str | None, _multiclass("auto")]
Calibration = Annotated[str, _calibration()]
OpenCalibration = Annotated[str | None, _calibration("proven")]
Regularisation = Annotated[float, _regularisation()]
OpenRegularisation = Annotated[float | None, _regularisation("0")]
Rounds = Annotated[int | None, rounds("chosen from public sizes")]
Eta = Annotated[float | None, eta("chosen from public sizes")]
Beta = Annotated[
    float | None,
    beta("Gradient norm that local solves reach [1e-8], or more where rounding needs it."),
]
seed = partial(_option, "--seed", "INT")
Seed = Annotated[int | None, seed("Simulate: repeatable numbers, NOT private.")]

# Budgets

epsilon = partial(_option, "--epsilon", "ε")
epsilons = partial(_option, "--epsilons", "ε,ε,…")
delta = partial(_option, "--delta", "δ")
adjacency = partial(_option, "--adjacency", "NAME", listed="replace-one, zero-out")
Delta = Annotated[float, delta("δ of the budget.")]
Adjacency = Annotated[str, adjacency("replace-one or zero-out.")]
OpenAdjacency = Annotated[str | None, adjacency("replace-one or zero-out [replace-one].")]

# The ledger

LedgerFile = Annotated[
    Path | None,
    _option(
        "--ledger",
        "FILE",
        "Charge the run to this ledger, which refuses it if the budget granted to the "
        "data set does not cover it; runs that are NOT private are refused.",
    ),
]
LedgerName = Annotated[
    str | None,
    _option(
        "--dataset", "NAME", "With --ledger: what the data set is called there [its own name]."
    ),
]
Resume = Annotated[
    bool,
    flag(
        "--resume",
        "With --ledger: take up the unfinished run with the same records and options, or "
        "show the finished one again; what was released is used again, never drawn again.",
    ),
]

# Sweeps

Splits = Annotated[int, value("S", "Splits of the records to deal the seeds over.")]
Seeds = Annotated[int, value("K", "Noise seeds.")]
Jobs = Annotated[
    int | None, value("J", "Cells to run at a time [compare 1, reproduce 2, ray every CPU it has].")
]
SweepEngine = Annotated[
    str,
    value(
        "NAME",
        "Where cells run: pool (processes of this machine) or ray (a cluster; "
        "pip install 'ppadmm[ray]').",
    ),
]
RayAddress = Annotated[
    str | None,
    value(
        "ADDR",
        "With --engine ray: HOST:PORT of a running cluster, or auto [one that is started "
        "here and ends with the command]. Ray does not keep those who share a cluster apart and "
        "moves everything by pickle: use it on your own organisation's machines only.",
    ),
]
