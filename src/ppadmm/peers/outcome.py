"""What a peer needs to be told, and how its run ends."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppadmm.accounting import Tally
from ppadmm.agent import Agent
from ppadmm.arrays import Array
from ppadmm.engines.local import Trace, averaged
from ppadmm.errors import InputError
from ppadmm.mechanisms import Release
from ppadmm.peers.agreement import Agreement


@dataclass(frozen=True)
class RetrySchedule:
    """How often a waiting peer says things again: after `first` seconds, then ever less often.

    `grace` is how long it stays at the end for a neighbour whose last word was lost. `wait` bounds
    the time before round 0, where nothing is spent yet.
    """

    first: float = 0.25
    factor: float = 1.5
    longest: float = 5.0
    grace: float = 3.0
    wait: float = float("inf")

    def __post_init__(self) -> None:
        if not self.wait >= 0:  # NaN would wait for ever
            raise InputError(f"Expected wait ≥ 0 seconds, got {self.wait}.")


@dataclass(frozen=True)
class PeerOutcome:
    """How a run ended: own releases (t, d), who spoke (t,), and the averages of all agents (N, d).

    Agents count by their `weights`. Where `reason` says why the run ended before its time,
    `averages` is this agent's own (1, d). `left_out` are the agents that a run by sums went on
    without: they have no average.
    """

    releases: Array
    spoke: NDArray[np.bool_]
    averages: Array
    reason: str = ""
    weights: tuple[float, ...] = (1.0,)
    left_out: tuple[int, ...] = ()

    @property
    def model(self) -> Array:
        """The mean of the averages (d,), in the order of the agents: the same at every peer."""
        return averaged(self.averages, self.weights)


def tallies_of(agent: Agent) -> tuple[Tally, Tally]:
    """Return what was reserved and charged: a copy, for other threads to read."""
    return agent.ledgers[0].reserved, agent.ledgers[0].spent


def spoken(made: Sequence[Release], parameters: int) -> tuple[Array, NDArray[np.bool_]]:
    """Return a site's releases (t, d) and in which rounds it spoke (t,)."""
    if not made:
        return np.zeros((0, parameters)), np.zeros(0, dtype=bool)
    trace = Trace.of([[release] for release in made])
    return trace.releases[:, 0, 0], trace.spoke[:, 0, 0]


def average_of(releases: Array, spoke: NDArray[np.bool_]) -> Array:
    """Return the average that a site ends with (d,); 0 before its first release."""
    if not len(releases):
        return np.zeros(releases.shape[1])
    trace = Trace(releases[:, None, None], spoke[:, None, None])
    return np.asarray(trace.agent_models()[0, 0])


def require_same(agent: Agent, agreement: Agreement) -> None:
    """Refuse an agent that is not the one agreed upon."""
    made = agent.algorithm.rounds - agreement.trusting.announced
    if made != agreement.rounds:
        raise InputError(
            f"{agreement.algorithm} makes {made} rounds, the agreement says {agreement.rounds}; "
            f"agree on {made}."
        )
    if agent.neighbours != agreement.exchange(agreement.graph).neighbours(agent.number):
        raise InputError(f"Agent {agent.number} has other neighbours than the agreement says.")
