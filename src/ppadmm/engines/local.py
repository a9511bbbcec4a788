"""The local engine: all agents in one process, in lock step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ppadmm.agent import Agent, Send
from ppadmm.errors import ProtocolError
from ppadmm.typing import Array


@dataclass(frozen=True)
class Trace:
    """Every release of a run, shape (T, N, R, d). Post-processing of it is free."""

    releases: Array

    @property
    def rounds(self) -> int:
        """T."""
        return len(self.releases)

    def agent_models(self) -> Array:
        """Average each agent's releases over the last half of the rounds: (N, R, d)."""
        mean: Array = self.releases[self.rounds // 2 :].mean(axis=0)
        return mean

    def model(self) -> Array:
        """Average over the last half of the rounds and over agents: (R, d)."""
        mean: Array = self.agent_models().mean(axis=0)
        return mean


def run(agents: Sequence[Agent], on_round: Callable[[int], None] | None = None) -> Trace:
    """Drive `agents` to the end; `on_round(t)` is called after round t."""
    rounds = agents[0].algorithm.rounds
    releases = []
    for t in range(rounds):
        actions = [agent.next() for agent in agents]
        sends = [action for action in actions if isinstance(action, Send)]
        if len(sends) != len(agents):
            raise ProtocolError(f"Round {t}: not every agent spoke.")
        releases.append(np.stack([send.release.value for send in sends]))
        _deliver(agents, sends)
        if on_round is not None:
            on_round(t)
    for agent in agents:
        agent.next()
    return Trace(np.stack(releases))


def _deliver(agents: Sequence[Agent], sends: Sequence[Send]) -> None:
    for agent in agents:
        for j in agent.neighbours:
            agent.receive(sends[j].message)
