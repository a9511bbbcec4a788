"""All agents of a simulation in step: a row of every array is an agent.

The same releases as one agent after another: the same formulas (`linear_term`), the same mechanism
with a row for every agent, each agent's own ledger and noise, each solve with its own certificate.
What it spares is Python between them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from ppadmm.agent import Agent
from ppadmm.algorithms.admm import ADMM, ADMMState, linear_term
from ppadmm.algorithms.base import SharedState
from ppadmm.arrays import Array, Rows
from ppadmm.mechanisms import ChargedNoise, PerturbedMinimiser, Place, Release
from ppadmm.noise import Key, NoiseSource, SecureNoise, SeededNoise
from ppadmm.problem.risk import MarginRisk, Subproblem
from ppadmm.solvers import FixedMetric, Guarded, Solver, each
from ppadmm.solvers.base import Warm
from ppadmm.solvers.each import Everyone


def supports(agents: Sequence[Agent]) -> bool:
    """Whether these agents can run in step: PP-ADMM, compiled, one replicate, books in memory.

    Several replicates are a matrix product for each agent: that is quicker than a row each.
    """
    rules = [agent.algorithm for agent in agents if type(agent.algorithm) is ADMM]
    return (
        len(agents) > 1
        and len(rules) == len(agents)
        and all(_quick(rule.solver) is FixedMetric for rule in rules)
        and all(isinstance(rule.mechanism, PerturbedMinimiser) for rule in rules)
        and all(len(rule.eta) == 1 for rule in rules)
        and len({rule.rounds for rule in rules}) == 1
        and all(each.supports(rule.site.risk) for rule in rules)
        and all(agent.untouched and not agent.charged.durable for agent in agents)
    )


def _quick(solver: Solver) -> type[Solver]:
    return type(solver.quick) if isinstance(solver, Guarded) else type(solver)


def _mechanism(rule: ADMM) -> PerturbedMinimiser:
    return cast(PerturbedMinimiser, rule.mechanism)


@dataclass(frozen=True)
class RowwiseNoise:
    """Everyone's noise, a row each: that which the agent would have drawn by itself."""

    sources: tuple[NoiseSource, ...]
    agents: tuple[int, ...]

    @property
    def secure(self) -> bool:
        """Whether everyone's noise may protect real records."""
        return all(source.secure for source in self.sources)

    def gaussian(self, values: Array, scale: Array, grid: Array, key: Key) -> Array:
        """Add every agent's own noise to its row."""
        noisy = np.empty_like(values)
        for source, row, own in self._parts(key):
            noisy[row] = source.gaussian(values[row], scale[row], grid[row], own)
        return noisy

    def laplace(self, values: Array, scale: Array, grid: Array, key: Key) -> Array:
        """Add every agent's own noise to its row."""
        noisy = np.empty_like(values)
        for source, row, own in self._parts(key):
            noisy[row] = source.laplace(values[row], scale[row], grid[row], own)
        return noisy

    def gamma(self, size: int, rate: Array, key: Key) -> Array:
        """Draw every agent's own vector."""
        parts = [source.gamma(size, rate[row], own) for source, row, own in self._parts(key)]
        return np.concatenate(parts)

    def restricted(self, rows: Rows) -> NoiseSource:
        """Nobody leaves a lockstep early."""
        raise NotImplementedError

    def _parts(self, key: Key) -> Iterator[tuple[NoiseSource, slice, Key]]:
        for k, (source, agent) in enumerate(zip(self.sources, self.agents, strict=True)):
            yield source, slice(k, k + 1), Key(agent, key.round, key.purpose)


def run(agents: Sequence[Agent], on_round: Callable[[int], None] | None) -> list[Release]:
    """Drive agents that `supports` accepts to the end; return every round's releases, (N, d)."""
    rules = [cast(ADMM, agent.algorithm) for agent in agents]
    risks = tuple(cast(MarginRisk, rule.site.risk) for rule in rules)
    everyone, mechanism = cast(Any, Everyone(risks)), _merged([_mechanism(r) for r in rules])
    eta = np.concatenate([rule.eta for rule in rules])
    steepness = np.concatenate([rule.ridge + 2.0 * rule.eta * rule.site.degree for rule in rules])
    weight = np.array([rule.site.weight for rule in rules])
    degree, joins = np.array([rule.site.degree for rule in rules]), _adjacency(agents)
    charged, own, warm = _shared_noise(agents), *_begun(agents)
    releases = []
    for t in range(rules[0].rounds):
        theirs = SharedState(*np.split(joins @ np.hstack([own.value, own.total]), 2, axis=1))
        linear = linear_term(eta, eta, degree, own, theirs)
        sub = Subproblem(everyone, steepness / weight, linear / weight[:, None])
        release, warm = mechanism.release(sub, rules[0].solver, warm, charged, Place(-1, t))
        own = SharedState(release.value, own.total + release.value)
        releases.append(release)
        for agent in agents:
            agent.round = t + 1
        if on_round is not None:
            on_round(t)
    return releases


def _merged(mechanisms: Sequence[PerturbedMinimiser]) -> PerturbedMinimiser:
    noises = tuple(noise for mechanism in mechanisms for noise in mechanism.noises)
    reaches = [mechanism.reach for mechanism in mechanisms]
    together = replace(
        reaches[0],
        n=max(reach.n for reach in reaches),
        beta=np.concatenate([np.atleast_1d(reach.beta) for reach in reaches]),
        weight=np.array([reach.weight for reach in reaches]),
        mu=np.concatenate([reach.mu for reach in reaches]),
        radius=np.concatenate([reach.radius for reach in reaches]),
    )
    return PerturbedMinimiser(noises, together)


def _begun(agents: Sequence[Agent]) -> tuple[SharedState, Warm]:
    """Stack what the agents start from."""
    states: list[ADMMState] = [agent.snapshot().state for agent in agents]
    value = np.concatenate([state.own.value for state in states])
    total = np.concatenate([state.own.total for state in states])
    gradient = np.concatenate([state.warm.risk_gradient for state in states])
    return SharedState(value, total), Warm(np.concatenate([s.warm.point for s in states]), gradient)


def _shared_noise(agents: Sequence[Agent]) -> ChargedNoise:
    """Everyone's own ledgers and noise, a row each; noise of one kind is drawn at once."""
    ledgers = tuple(ledger for agent in agents for ledger in agent.ledgers)
    numbers = tuple(agent.number for agent in agents)
    sources = tuple(agent.charged.source for agent in agents)
    seeds = tuple(seed for s in sources if type(s) is SeededNoise for seed in s.seeds)
    if len(seeds) == len(sources):
        return ChargedNoise(ledgers, SeededNoise(seeds, numbers))
    if all(type(s) is SecureNoise for s in sources):
        return ChargedNoise(ledgers, sources[0])
    return ChargedNoise(ledgers, RowwiseNoise(sources, numbers))


def _adjacency(agents: Sequence[Agent]) -> Any:
    """Who hears whom (N, N); products add up in order of the neighbours' numbers, as agents do."""
    place = {agent.number: k for k, agent in enumerate(agents)}
    columns = [place[j] for agent in agents for j in agent.neighbours]
    ends = np.cumsum([0, *(len(agent.neighbours) for agent in agents)])
    return sp.csr_array((np.ones(len(columns)), columns, ends), shape=(len(agents), len(agents)))
