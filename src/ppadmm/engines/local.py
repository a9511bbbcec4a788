"""The local engine: all agents in one process, in lock step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppadmm.accounting import Tally
from ppadmm.agent import Agent, Send
from ppadmm.arrays import Array
from ppadmm.engines import vectorised
from ppadmm.errors import ProtocolError
from ppadmm.mechanisms import Release
from ppadmm.problem import Risk


@dataclass(frozen=True)
class Trace:
    """Every release of a run, shape (T, N, R, d), and who spoke when, shape (T, N, R).

    Where an agent was silent its row repeats what it last released. Post-processing is free.
    `models` (N, R, d) are the agents' own, where they are not averages of their releases.
    """

    releases: Array
    spoke: NDArray[np.bool_]
    models: Array | None = None

    @classmethod
    def of(cls, rounds: Sequence[Sequence[Release]], models: Array | None = None) -> "Trace":
        """Stack the releases of every round, in the order of the agents."""
        values = [np.stack([release.value for release in releases]) for releases in rounds]
        spoke = [np.stack([release.spoke for release in releases]) for releases in rounds]
        return cls(np.stack(values), np.stack(spoke), models)

    def since(self, first: int) -> "Trace":
        """Return the trace without what was said before a round: keys are no releases."""
        return Trace(self.releases[first:], self.spoke[first:], self.models)

    @property
    def messages(self) -> NDArray[np.int64]:
        """How often each agent spoke: (N, R)."""
        return np.asarray(self.spoke.sum(axis=0))

    @property
    def rounds(self) -> int:
        """T."""
        return len(self.releases)

    def agent_models(self) -> Array:
        """Average each agent's releases over the last half of its own: (N, R, d).

        An agent that speaks in every round is averaged over the last half of the rounds; one that
        was silent in some, over the last half of the rounds that it spoke in. Where all add up what
        all said, `models` is what each makes of it.
        """
        if self.models is not None:
            return self.models
        order = np.cumsum(self.spoke, axis=0)
        tail = self.spoke & (order > self.messages // 2)
        weights = tail / np.maximum(tail.sum(axis=0), 1)
        return np.asarray(np.einsum("tnr,tnrd->nrd", weights, self.releases))

    def model(self, weights: Sequence[float] | None = None) -> Array:
        """Average over the last half of the rounds and over agents, by weight if given: (R, d)."""
        models = self.agent_models()
        return averaged(models, [1.0] * len(models) if weights is None else weights)


def averaged(models: Array, weights: Sequence[float]) -> Array:
    """Return Σ wᵢθᵢ/Σ wᵢ of the agents' models (N, …): the same to the last bit everywhere."""
    total = np.zeros(models.shape[1:])
    for model, weight in zip(models, weights, strict=True):
        total += weight * model
    return np.asarray(total / sum(weights))


@dataclass(frozen=True)
class Ending:
    """What is left of an agent after a run, in whichever process it was; one tally per replicate.

    `scales` are the sizes (R,) of its noises, `passes` how often it read its records. `model`
    (R, d) is its own, where it is no average of its releases.
    """

    reserved: tuple[Tally, ...]
    spent: tuple[Tally, ...]
    scales: dict[str, Array]
    passes: int
    model: Array | None = None


def ending(agent: Agent, risk: Risk) -> Ending:
    """Close an agent's books."""
    return Ending(
        reserved=tuple(ledger.reserved for ledger in agent.ledgers),
        spent=tuple(ledger.spent for ledger in agent.ledgers),
        scales=agent.algorithm.scales,
        passes=risk.passes,
        model=agent.model,
    )


def run(agents: Sequence[Agent], on_round: Callable[[int], None] | None = None) -> Trace:
    """Drive `agents` to the end; `on_round(t)` is called after round t."""
    if vectorised.supports(agents):
        whole = Trace.of([[release] for release in vectorised.run(agents, on_round)])
        # Its rows are agents, of one replicate each.
        return Trace(whole.releases.swapaxes(1, 2), whole.spoke.swapaxes(1, 2))
    releases = []
    for t in range(agents[0].algorithm.rounds):
        actions = [agent.next() for agent in agents]
        sends = [action for action in actions if isinstance(action, Send)]
        if len(sends) != len(agents):
            raise ProtocolError(f"Round {t}: not every agent spoke.")
        releases.append([send.release for send in sends])
        _deliver(agents, sends)
        if on_round is not None:
            on_round(t)
    for agent in agents:
        agent.next()
    models = [agent.model for agent in agents if agent.model is not None]
    return Trace.of(releases, np.stack(models) if models else None)


def _deliver(agents: Sequence[Agent], sends: Sequence[Send]) -> None:
    for agent in agents:
        for j in agent.neighbours:
            agent.receive(sends[j].message)
