"""Who holds which record of a fit, and who talks to whom."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from ppadmm.data import Assignment, Schema, even, shards
from ppadmm.data.partition import MOST_AGENTS
from ppadmm.errors import DataError
from ppadmm.estimator.labels import refuse_mixed
from ppadmm.problem import Graph, graph_from, loss_for
from ppadmm.problem.graphs import ALONE
from ppadmm.runs.federation import Federation
from ppadmm.runs.specification import RunSpec


def deal(n: int, agents: int, groups: Any) -> Assignment:
    """Deal n records evenly, or to the sites that `groups` names."""
    if groups is None:
        if n < agents:
            raise DataError(
                f"Expected at least n_samples = {agents}, one for each of n_agents, got "
                f"n_samples = {n}; give more records or fewer agents."
            )
        return Assignment(tuple(f"agent {i}" for i in range(agents)), even(n, agents, 0))
    refuse_mixed("list of groups", groups)
    sites = column_or_1d(groups)
    refuse_missing("group", sites)
    if len(sites) != n:
        raise DataError(f"Expected groups to name the site of {n} records, got {len(sites)}.")
    names, codes = np.unique(sites, return_inverse=True)
    if len(names) > MOST_AGENTS:
        raise DataError(f"The groups name {len(names):,} sites, more than {MOST_AGENTS:,}.")
    return Assignment(
        names=tuple(str(name) for name in names.tolist()),
        parts=[np.flatnonzero(codes == k) for k in range(len(names))],
        caveat="Which agent holds a record follows from groups: that, and how many records each "
        "agent has, count as public and are not protected.",
    )


def refuse_missing(what: str, values: Any) -> None:
    """Refuse None, NaN, NaT and pandas' NA: no class and no site is called so."""
    cells = np.asarray(values)
    if cells.ndim != 1:
        return
    if cells.dtype.kind == "O":
        missing = np.array([_is_missing(value) for value in cells], dtype=bool)
    else:
        missing = cells != cells if cells.dtype.kind in "fM" else np.zeros(len(cells), dtype=bool)
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(f"The {what} of record {row} is missing; give it or drop the record.")


def _is_missing(value: object) -> bool:
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


@contextmanager
def no_cell_quoted(X: Any) -> Iterator[None]:
    """Pass on what scikit-learn says of X, without the cells that it quotes."""
    try:
        yield
    except DataError:
        raise
    except ValueError as error:
        first, *rest = str(error).splitlines() or [""]
        if first.startswith("could not convert"):
            raise DataError(_not_a_number(X)) from None
        if not rest:
            raise
        advice = [line for line in rest if line.startswith("Reshape your data")]
        raise DataError(" ".join([first.rstrip(":."), *advice])) from None


def _not_a_number(X: Any) -> str:
    """Name the first cell that is no number by its column and row, both from 0 in an array."""
    named = ((repr(name), X[name]) for name in X.columns) if hasattr(X, "columns") else None
    for name, cells in named or enumerate(np.asarray(X).T):
        for row, cell in enumerate(np.asarray(cells).tolist()):
            if not _is_number(cell):
                return (
                    f"Column {name}, row {row}: expected a number; correct the cell, encode the "
                    "column, or give a schema that lists its categories."
                )
    return "Expected X to hold numbers only; encode its text columns, or give a schema."


def _is_number(cell: Any) -> bool:
    """Whether NumPy can read it; what is neither a text nor a number fails in other words."""
    try:
        float(cell)
    except (TypeError, ValueError) as error:
        return isinstance(error, TypeError)
    return True


def federation_of(
    spec: RunSpec, rows: Any, codes: NDArray[np.intp], schema: Schema, dealt: Assignment
) -> Federation:
    """Return the stage of a run that holds nothing out."""
    classes = schema.classes
    y = np.asarray(2 * codes - 1 if classes == 2 else codes, dtype=np.float64)
    network = Graph(1, (), ALONE) if spec.agents == 1 else graph_from(spec.graph, spec.agents)
    parts = tuple(shards(rows, y, dealt.parts, classes))
    return Federation(schema, network, parts, None, loss_for(spec.loss, classes), dealt)
