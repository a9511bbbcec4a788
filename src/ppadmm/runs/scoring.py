"""Noisy scores of models on the private records, and where runs and scores are paid."""

from dataclasses import dataclass

import numpy as np

from ppadmm.accounting import Approximate, Charge, Gaussian
from ppadmm.accounting.sensitivity import MARGIN
from ppadmm.arrays import Array
from ppadmm.data import Shard, ShardStream
from ppadmm.ledger import Ledger, MemoryLedger
from ppadmm.ledger.protocol import Lost, Past, Sent
from ppadmm.ledger.run import AgentLedger, Part, RunLedger
from ppadmm.mechanisms import ChargedNoise
from ppadmm.noise import FINENESS, Key, total_variation
from ppadmm.runs.evaluation import judge
from ppadmm.runs.federation import OpenLedgers, noise_from
from ppadmm.runs.run import Prepared, Result


def score_charge(ratio: float) -> Charge:
    """Return what one noisy score costs at Δ/σ = `ratio`."""
    return Charge((Gaussian(ratio), Approximate(total_variation(1, 1.0, FINENESS))))


@dataclass(frozen=True)
class SearchLedger:
    """Where the runs of a search and their scores are paid: in memory, or in a ledger.

    In a ledger they are parts of one run: the k-th has rounds of its own, from `first[k]`, and one
    more for its score. `ratio` is Δ/σ of a score.
    """

    ratio: float
    first: tuple[int, ...] = ()
    ledger: RunLedger | None = None

    def book(self, k: int) -> OpenLedgers | None:
        """Return what gives the agents of the k-th run their ledgers."""
        ledger = self.ledger
        if ledger is None:
            return None
        rounds = range(self.first[k], self.first[k + 1] - 1)
        return lambda asked: [ledger.agent(i, Part(f"{k}", rounds, most)) for i, most in asked]

    def scoring(self, k: int, agent: int) -> Ledger:
        """Return the ledger that an agent's score of the k-th run is charged to."""
        most = ((score_charge(self.ratio), 1),)
        if self.ledger is not None:
            last = self.first[k + 1] - 1
            return self.ledger.agent(agent, Part(f"{k} score", range(last, last + 1), most))
        memory = MemoryLedger()
        memory.reserve(most)
        return memory


def noisy_score(prepared: Prepared, model: Array, search: SearchLedger, k: int) -> float | None:
    """Return the mean of the agents' noisy accuracies on their own records, weighted by n.

    None if a crash lost them all: what was paid for and not kept is never drawn again.
    """
    federation = prepared.federation
    parts = [federation.pooled()] if prepared.spec.recipe.pooled else federation.parts
    scored = [
        (score, part.n)
        for agent, part in enumerate(parts)
        if part is not None
        and (score := agent_score(prepared, model, part, search, (agent, k))) is not None
    ]
    if not scored:
        return None
    scores, sizes = zip(*scored, strict=True)
    return float(np.average(scores, weights=sizes))


def agent_score(
    prepared: Prepared,
    model: Array,
    part: Shard | ShardStream,
    search: SearchLedger,
    place: tuple[int, int],
) -> float | None:
    """Return one agent's score: as it was kept, or paid for, drawn and kept; None if lost."""
    agent, k = place
    ledger = search.scoring(k, agent)
    past = ledger.past(0)
    if past is not None:
        return float(past.value[0]) if isinstance(past, Sent) else None
    charged = ChargedNoise((ledger,), noise_from(prepared.spec.seed))
    noise = charged.charge([score_charge(search.ratio)])
    sigma = np.array([(1.0 + MARGIN) / (part.n * search.ratio)])
    exact = np.array([[accuracy(part, model, prepared.federation.schema.classes)]])
    score = noise.gaussian(exact, sigma, FINENESS * sigma, Key(agent, k, "score"))[0]
    ledger.record(Sent(score, score, spoke=True))
    return float(score[0])


def accuracy(part: Shard | ShardStream, model: Array, classes: int) -> float:
    """Return the share of records that a model gets right; one record moves it by at most 1/n."""
    records = part if isinstance(part, ShardStream) else (part.X, part.y)
    return 1.0 - float(judge(records, model[None], classes, areas=False).error[0])


class SelectionRecord:
    """What a ledger keeps of a repeated search: one charge, then which run was best and all of it.

    The bytes are the number of the setting, the score, and the release.
    """

    def __init__(self, ledger: AgentLedger) -> None:
        self._ledger = ledger
        self._past = ledger.past(0)

    @property
    def is_lost(self) -> bool:
        """Whether it was paid for and nothing was kept."""
        return isinstance(self._past, Lost)

    @property
    def sent(self) -> tuple[int, float, Sent] | None:
        """The best run, if it was kept."""
        if not isinstance(self._past, Sent):
            return None
        (index, score, *value), total = self._past.value, self._past.total[2:]
        return int(index), float(score), Sent(np.array(value), total, spoke=True)

    def pay(self) -> None:
        """Book the whole search; only then may anything be drawn.

        How long it takes can be watched, so its cost is on disk before it begins.
        """
        for charge, times in self._ledger.most:
            for _ in range(times):
                self._ledger.charge(charge)
        self._ledger.settle()

    def keep(self, index: int, score: float, result: Result) -> None:
        """Keep the best; only then may it be shown."""
        (value,) = result.trace.releases[:, 0, 0]
        found = np.array([index, score, *value])
        self._ledger.record(Sent(found, found, spoke=True))


class ReplayedLedger(MemoryLedger):
    """A ledger that holds the one round of a run: nothing is drawn for it."""

    def __init__(self, sent: Sent) -> None:
        super().__init__()
        self._sent = sent

    @property
    def durable(self) -> bool:
        """Yes: what it holds was kept on disk."""
        return True

    def past(self, round_: int) -> Past:
        """Return what was kept."""
        return self._sent
