"""How a model is trained: the one value that runs, sweeps, plans and agreements have in common."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import compress
from typing import Any

from ppadmm import checks
from ppadmm.accounting.calibration import Budget
from ppadmm.accounting.sensitivity import ADJACENCIES
from ppadmm.algorithms import ALGORITHMS, recipe_named
from ppadmm.algorithms.base import Recipe
from ppadmm.algorithms.defaults import BETA, Sizes, default_beta
from ppadmm.algorithms.settings import (
    CALIBRATIONS,
    HALF_THE_ROUNDS,
    MAX_ROUNDS,
    Settings,
    Speaking,
)
from ppadmm.algorithms.weights import WEIGHTS, site_weights
from ppadmm.data.features import MOST_KNOTS
from ppadmm.errors import InputError
from ppadmm.problem.graphs import Graph, make_graph
from ppadmm.problem.losses import LOSSES, Loss
from ppadmm.problem.multiclass import MULTICLASS
from ppadmm.summing.trust import LOCAL, SUM, Trust


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """The method of a run. What is `None`, and a regularisation of 0, is chosen by rule (`choose`).

    Run specifications, cells of sweeps, plans and agreements are such values with entries of their
    own: an option of the method is declared here and nowhere else. `knots` are those of curves that
    name none in the schema, 0 for straight lines (`ppadmm.data.knots` has the rule). `trust`,
    `colluding` and `repeats` are those of `ppadmm.summing.trust.Trust`.
    """

    algorithm: str = "pp"
    loss: str = "logistic"
    multiclass: str = "auto"
    delta: float = 1e-6
    rounds: int | None = None
    eta: float | None = None
    regularisation: float = 0.0
    beta: float | None = None
    calibration: str = "proven"
    adjacency: str = "replace-one"
    weights: str | None = None
    knots: int | None = None
    speaking: Speaking = HALF_THE_ROUNDS
    trust: str = LOCAL
    colluding: int = 1
    repeats: int = 0

    def __post_init__(self) -> None:
        checks.one_of("algorithm", self.algorithm, ALGORITHMS)
        checks.one_of("loss", self.loss, LOSSES)
        checks.one_of("multiclass", self.multiclass, MULTICLASS)
        checks.one_of("calibration", self.calibration, CALIBRATIONS)
        checks.one_of("adjacency", self.adjacency, ADJACENCIES)
        self._check_weights()
        self._check_knots()
        self._check_trust()
        self._coerce("delta", checks.probability)
        self._coerce("beta", checks.probability)
        self._coerce("eta", checks.positive)
        self._coerce("regularisation", checks.non_negative)
        if self.rounds is not None:
            checks.count("rounds", self.rounds, at_most=MAX_ROUNDS)

    def _check_weights(self) -> None:
        if self.weights is not None:
            checks.one_of("weights", self.weights, WEIGHTS)
        if self.calibration == "paper" and self.weighting != "equal":
            raise InputError(
                "In the paper's calibration all sites count alike; leave weights out or give "
                f"'equal', got {self.weights!r}."
            )

    def _check_knots(self) -> None:
        if self.knots is not None and checks.count("knots", self.knots, 0, MOST_KNOTS) == 1:
            raise InputError("Expected 2 knots or more, or 0 for straight lines, got 1.")

    def _check_trust(self) -> None:
        if not self.trusting.by_sum:
            return
        if not self.recipe.sums:
            able = ", ".join(name for name, recipe in ALGORITHMS.items() if recipe.sums)
            raise InputError(
                f"The algorithm {self.algorithm!r} needs what each site says, so it has no trust "
                f"'sum'; choose one of: {able}."
            )
        if self.weighting != "records":
            raise InputError(
                f"A sum counts every record alike; leave weights out, got {self.weights!r}."
            )

    def _coerce(self, name: str, check: Any) -> None:
        """Check a number that may be open, and keep it as one spelling: 1 is 1.0."""
        if (value := getattr(self, name)) is not None:
            object.__setattr__(self, name, check(name, value))

    @property
    def method(self) -> "MethodSpec":
        """The method alone."""
        return MethodSpec(**{field.name: getattr(self, field.name) for field in fields(MethodSpec)})

    @property
    def trusting(self) -> Trust:
        """Who is trusted with what."""
        return Trust(self.trust, self.colluding, self.repeats)

    def exchange(self, graph: Graph) -> Graph:
        """Return who hears whom: neighbours, or everybody where messages are handed on."""
        if not self.recipe.everyone or graph.size == 1:
            return graph
        return make_graph("complete", graph.size)

    @property
    def weighting(self) -> str:
        """How sites are weighed: by their records; alike in the paper's calibration."""
        return self.weights or ("equal" if self.calibration == "paper" else "records")

    @property
    def recipe(self) -> Recipe:
        """What there is to know of the algorithm."""
        return recipe_named(self.algorithm)

    @property
    def guaranteed(self) -> bool:
        """Whether the noise is calibrated so that the budget holds."""
        return self.calibration == "proven" and not self.recipe.noiseless


def usual_algorithm(trust: str | None) -> str:
    """Return what is run if nobody names an algorithm: with sums, one that needs no more."""
    return "newton" if trust == SUM else MethodSpec.algorithm


PublicSizes = tuple[Sequence[int], int, Graph]
"""Every agent's number of records, the features of a record, and the network."""


def choose(
    method: MethodSpec, sizes: PublicSizes, budgets: Sequence[Budget], loss: Loss
) -> MethodSpec:
    """Return the method with nothing left open: chosen from sizes and budgets, all public."""
    records, features, graph = sizes
    recipe, parameters = method.recipe, features * loss.outputs
    if recipe.pooled:
        public, budgets = Sizes((sum(records),), features, (1,), (1.0,)), [strictest(budgets)]
    else:
        holds, weights = [n > 0 for n in records], weigh(method, records, budgets, parameters)
        public = Sizes(
            tuple(compress(records, holds)),
            features,
            tuple(compress(graph.degrees, holds)),
            tuple(compress(weights, holds)),
            graph.connectivity,
            method.trusting,
        )
        budgets = list(compress(budgets, holds))
    found = recipe.defaults(public, budgets, loss, method.rounds, method.eta)
    found = replace(found, regularisation=method.regularisation or found.regularisation)
    beta = method.beta
    if beta is None and recipe.solves and not recipe.not_private_because:
        counted = public.degrees if recipe.listens else (0,) * public.agents
        beta = default_beta(found, replace(public, degrees=counted), budgets, loss)
    return replace(
        method.method,
        rounds=found.rounds,
        eta=found.eta,
        regularisation=found.regularisation,
        beta=beta or BETA,
        weights=method.weighting,
    )


def weigh(
    method: MethodSpec, records: Sequence[int], budgets: Sequence[Budget], parameters: int
) -> tuple[float, ...]:
    """Return how much every agent counts, or the one place of pooled records."""
    if method.recipe.pooled:
        return (1.0,)
    noisy = None if method.recipe.noiseless else budgets
    return site_weights(method.weighting, records, noisy, parameters)


def strictest(budgets: Sequence[Budget]) -> Budget:
    """Return the budget that satisfies everyone whose records are pooled."""
    return Budget(min(b.epsilon for b in budgets), min(b.delta for b in budgets))


def settings_of(
    methods: Sequence[MethodSpec], budgets: Sequence[Budget], **others: Any
) -> Settings:
    """Return what agents run with: a replicate for each chosen method and budget.

    Methods differ in η and λ̂ only; the largest β does for all. `others` are settings that are no
    part of the method.
    """
    first = methods[0]
    if first.rounds is None or any(m.eta is None or m.beta is None for m in methods):
        raise InputError("Expected a method with nothing left open; choose rounds, eta and beta.")
    return Settings(
        rounds=first.rounds,
        eta=tuple(m.eta or 0.0 for m in methods),
        regularisation=tuple(m.regularisation for m in methods),
        budgets=tuple(budgets),
        beta=max(m.beta or 0.0 for m in methods),
        calibration=first.calibration,
        adjacency=first.adjacency,
        speaking=first.speaking,
        trust=first.trusting,
        **others,
    )
