"""What a run did for each site: a local diagnostic, worked out from records without noise.

A site's own test error with the joint model, with a private model that it could have made alone
with the same ε, and with the commonest class. The model of its own is simulated: it is made to be
judged here and never leaves, so nothing is charged for it, and its noise follows from a seed, so
that no secret noise is drawn without a charge. No ε covers these figures.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ppadmm.accounting import Budget
from ppadmm.algorithms import Site
from ppadmm.algorithms.method import MethodSpec, choose, settings_of
from ppadmm.arrays import Array
from ppadmm.errors import PpadmmError
from ppadmm.ledger import MemoryLedger
from ppadmm.mechanisms import ChargedNoise
from ppadmm.noise import NoiseSource, SeededNoise
from ppadmm.problem import Graph, Risk, risk_over
from ppadmm.problem.graphs import ALONE
from ppadmm.runs.evaluation import HeldOut, judge, largest_share, records_in
from ppadmm.runs.federation import Federation

SIMULATION = SeededNoise((20_261_118,))
"""The noise of models that never leave."""
MOST_SITES = 50
"""With more sites no model of each one's own is made."""


@dataclass(frozen=True)
class SiteBenefit:
    """One site's test errors; `alone` is None where it has no private model of its own."""

    name: str
    records: int
    test_records: int
    together: float
    alone: float | None
    commonest: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, fit for JSON."""
        return asdict(self)


def site_benefits(
    federation: Federation, method: MethodSpec, budgets: Sequence[Budget], model: Array
) -> tuple[SiteBenefit, ...]:
    """Return every site's figures; none where records are pooled, streamed or at one site."""
    if method.recipe.pooled or federation.dealing is not None or len(federation.parts) < 2:
        return ()
    found, own = [], len(federation.shards) <= MOST_SITES and not method.recipe.noiseless
    for i, part in enumerate(federation.parts):
        test = federation.test_of(i)
        if part is None or not records_in(test):
            continue
        risk = risk_over(part, federation.loss) if own else None
        row = benefit(federation.names[i], test, model, federation.schema.classes)
        alone = None if risk is None else alone_error(risk, method, budgets[i], test)
        found.append(replace(row, records=part.n, alone=alone))
    return tuple(found)


def benefit(name: str, test: HeldOut, model: Array, classes: int) -> SiteBenefit:
    """Return what the joint model and the commonest class get wrong of a site's test records."""
    together = float(judge(test, model[None], classes, areas=False).error[0])
    return SiteBenefit(name, 0, records_in(test), together, None, 1.0 - largest_share(test))


def alone_error(risk: Risk, method: MethodSpec, budget: Budget, test: HeldOut) -> float | None:
    """Return the test error of a private model that the site makes alone; None if none exists."""
    try:
        model = alone_model(risk, method, budget)
    except PpadmmError:
        return None
    classes = risk.loss.outputs if risk.loss.outputs > 1 else 2
    return float(judge(test, model[None], classes, areas=False).error[0])


def alone_model(
    risk: Risk, method: MethodSpec, budget: Budget, noise: NoiseSource = SIMULATION
) -> Array:
    """Return a simulated model (d,) of one site's records alone: objective perturbation."""
    usual = MethodSpec(
        algorithm=str(MethodSpec().recipe.alone),
        loss=method.loss,
        multiclass=method.multiclass,
        delta=method.delta,
        adjacency=method.adjacency,
    )
    sizes = ((risk.n,), risk.d // risk.loss.outputs, Graph(1, (), ALONE))
    chosen = choose(usual, sizes, [budget], risk.loss)
    rule = chosen.recipe.build(Site(0, 1, (), risk), settings_of([chosen], [budget]))
    ledger = MemoryLedger(budget)
    ledger.reserve(rule.reserved[0])
    _, release = rule.propose(rule.init(), ChargedNoise((ledger,), noise))
    return np.asarray(release.value[0])
