"""A setting to forecast, and the same with some of its agents away."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ppadmm.accounting import Budget
from ppadmm.algorithms import Settings, Site, name_alone
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.method import MethodSpec, choose, settings_of, strictest, weigh
from ppadmm.problem import KINDS, Graph, Loss, Risk, make_graph
from ppadmm.problem.graphs import ALONE
from ppadmm.summing.trust import LOCAL, SUM

ONE_PLACE = Graph(1, (), ALONE)
"""The network of a single agent."""


@dataclass(frozen=True)
class Scenario:
    """A setting to forecast: all that is public about a run but its ε.

    `fractions` are the agents' budgets in units of that ε; none where all have the same.
    """

    records: tuple[int, ...]
    features: int
    graph: Graph
    loss: Loss
    method: MethodSpec
    fractions: tuple[float, ...] = ()

    @property
    def parameters(self) -> int:
        """Length of a model."""
        return self.features * self.loss.outputs

    def budgets(self, epsilon: float) -> list[Budget]:
        """Return every agent's budget."""
        each = self.fractions or (1.0,) * self.graph.size
        return [Budget(fraction * epsilon, self.method.delta) for fraction in each]

    def chosen(self, epsilon: float) -> MethodSpec:
        """Return the method as `train` would choose what is open."""
        sizes = (self.records, self.features, self.graph)
        return choose(self.method, sizes, self.budgets(epsilon), self.loss)

    def settings(self, epsilons: Sequence[float]) -> list[Settings]:
        """Return each site's settings of one replicate per ε; their T and β must be the same."""
        methods, each = [self.chosen(e) for e in epsilons], [self.budgets(e) for e in epsilons]
        if self.method.recipe.pooled:
            each = [[strictest(budgets)] for budgets in each]
        elif self.method.trusting.by_sum:
            each = [[strictest(budgets)] * len(budgets) for budgets in each]
        return [settings_of(methods, own) for own in zip(*each, strict=True)]

    def sites(self, risks: Sequence[Risk], epsilon: float) -> list[Site]:
        """Return every agent's place in the network, or the one place of pooled records."""
        if self.method.recipe.pooled:
            return [Site(0, 1, (), risks[0])]
        weights, graph, n = self.weights(epsilon), self.method.exchange(self.graph), self.records
        return [site_in(graph, i, risk, weights, sum(n)) for i, risk in enumerate(risks)]

    def weights(self, epsilon: float) -> tuple[float, ...]:
        """Return how much each site counts."""
        return weigh(self.method, self.records, self.budgets(epsilon), self.parameters)

    @property
    def holdings(self) -> tuple[int, ...]:
        """Records at each site."""
        pooled = self.method.recipe.pooled
        return (sum(self.records),) if pooled else self.records

    def by_rule(self, algorithm: str, trust: str = LOCAL) -> MethodSpec:
        """Return the method with another algorithm or trust; its settings follow by rule."""
        return replace(
            self.method,
            algorithm=algorithm,
            trust=trust,
            weights=None if trust == SUM else self.method.weights,
            rounds=None,
            eta=None,
            beta=None,
        )

    def alone(self, agent: int) -> "Scenario":
        """Return one agent by itself: all by rule, with what its recipe names for one place."""
        name = name_alone(self.method.algorithm)
        method = replace(self.by_rule(name), regularisation=0.0)
        one = slice(agent, agent + 1)
        return replace(
            self,
            records=self.records[one],
            graph=ONE_PLACE,
            method=method,
            fractions=self.fractions[one],
        )

    def without(self, agents: Iterable[int]) -> "Scenario":
        """Return all but these agents, numbered anew; the last one of all is by itself."""
        found = self
        for agent in sorted(agents, reverse=True):
            found = found._without(agent)
        return found

    def _without(self, agent: int) -> "Scenario":
        if self.graph.size == 2:
            return self.alone(1 - agent)
        left = [i for i in range(self.graph.size) if i != agent]
        c = min(self.method.colluding, len(left) - 1)
        return replace(
            self,
            method=replace(self.method, colluding=c),
            records=tuple(self.records[i] for i in left),
            graph=_without(self.graph, agent),
            fractions=tuple(self.fractions[i] for i in left if self.fractions),
        )


def _without(graph: Graph, agent: int) -> Graph:
    """Return the network of the others: of the same kind, or with its neighbours joined in a row.

    So a network that hung together by `agent` still hangs together.
    """
    if graph.name in KINDS:
        return make_graph(graph.name, graph.size - 1)
    others = [edge for edge in graph.edges if agent not in edge]
    pairs = [*others, *pairwise(graph.neighbours(agent))]
    return Graph(
        graph.size - 1, tuple((i - (i > agent), j - (j > agent)) for i, j in pairs), graph.name
    )
