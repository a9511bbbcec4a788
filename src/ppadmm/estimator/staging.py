"""Who holds which record of a fit, and who talks to whom."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from ppadmm.data import Deal, Schema, even, shards
from ppadmm.data.partition import MOST_AGENTS
from ppadmm.errors import DataError
from ppadmm.estimator.labels import refuse_mixed
from ppadmm.experiments.scene import Scene
from ppadmm.experiments.spec import RunSpec
from ppadmm.problem import Graph, graph_from, loss_for
from ppadmm.problem.graphs import ALONE


def deal(n: int, agents: int, groups: Any) -> Deal:
    """Deal n records evenly, or to the sites that `groups` names."""
    if groups is None:
        if n < agents:
            raise DataError(
                f"Expected at least n_samples = {agents}, one for each of n_agents, got "
                f"n_samples = {n}; give more records or fewer agents."
            )
        return Deal(tuple(f"agent {i}" for i in range(agents)), even(n, agents, 0))
    refuse_mixed("list of groups", groups)
    sites = column_or_1d(groups)
    refuse_missing("group", sites)
    if len(sites) != n:
        raise DataError(f"Expected groups to name the site of {n} records, got {len(sites)}.")
    names, codes = np.unique(sites, return_inverse=True)
    if len(names) > MOST_AGENTS:
        raise DataError(f"The groups name {len(names):,} sites, more than {MOST_AGENTS:,}.")
    return Deal(
        names=tuple(str(name) for name in names.tolist()),
        parts=[np.flatnonzero(codes == k) for k in range(len(names))],
        caveat="Which agent holds a record follows from groups: that, and how many records each "
        "agent has, count as public and are not protected.",
    )


def refuse_missing(what: str, values: Any) -> None:
    """Refuse None and pandas' NA, which cannot be put in an order with other values."""
    cells = np.asarray(values)
    for row, value in enumerate(cells if cells.ndim == 1 and cells.dtype.kind == "O" else ()):
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            raise DataError(f"The {what} of record {row} is missing; give it or drop the record.")


@contextmanager
def texts_unquoted() -> Iterator[None]:
    """Say that a cell is no number without quoting it, as NumPy does."""
    try:
        yield
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise DataError(
            "Expected X to hold numbers only, and some cell is a text; encode text columns first, "
            "or give a schema."
        ) from None


def scene(spec: RunSpec, rows: Any, codes: NDArray[np.intp], schema: Schema, dealt: Deal) -> Scene:
    """Return the stage of a run that holds nothing out."""
    classes = schema.classes
    y = codes.astype(np.float64)
    if classes == 2:
        y = 2.0 * y - 1.0
    network = Graph(1, (), ALONE) if spec.agents == 1 else graph_from(spec.graph, spec.agents)
    parts = tuple(shards(rows, y, dealt.parts, classes))
    return Scene(schema, network, parts, None, loss_for(spec.loss, classes), dealt)
