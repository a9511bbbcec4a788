"""Games against algorithms of sums: a site with one of two data sets, honest others, a coalition.

The coalition hears everybody before it speaks. It knows its own keys and adds no noise, so that
what is left of a sum is the honest sites' parts with their noise. It answers with what makes every
mean zero: θ stays where one record shows most. Without masks (`trust = local`) it reads the parts
themselves.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ppadmm.accounting import Budget, Tally
from ppadmm.agent import Message, Send
from ppadmm.algorithms import Settings, SharedState, build
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.newton import MOMENTS
from ppadmm.algorithms.sums import KEYS, SumAlgorithm
from ppadmm.arrays import Array
from ppadmm.auditing.audit import Game, GameScores
from ppadmm.auditing.game import SIDES, MarginRecords, NeighbouringData, unlimited
from ppadmm.data import Shard
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import BatchNoise, NoiseSource, SecureNoise
from ppadmm.problem import HuberHinge, make_graph, risk_of
from ppadmm.sum_agent import SumAgent
from ppadmm.summing.fixed_point import Words
from ppadmm.summing.masks import Masks, new_key, public_key
from ppadmm.summing.trust import Trust

CROSSED = MarginRecords(
    loss=HuberHinge(), records=((1.0, 0.0), (0.0, 1.0)), start=(0.0, 0.0), eta=1e-4
)
"""Two records at a right angle: second moments move by all of √2/n. A small η gives them most."""


class Coalition:
    """Sites of one mind, with the keys that they announced; without masks it needs none."""

    def __init__(self, numbers: range, run: bytes) -> None:
        self.numbers, self.run = numbers, run
        self._private = {i: new_key() for i in numbers}
        self._masks: dict[int, Masks] = {}

    def announce(self, replicates: int) -> dict[int, Array]:
        """Return the public key of each."""
        keys = {i: np.frombuffer(public_key(key), float) for i, key in self._private.items()}
        return {i: np.tile(key, (replicates, 1)) for i, key in keys.items()}

    def agree(self, heard: dict[int, Array]) -> None:
        """Share a secret with everybody, as honest sites do."""
        keys = {i: part[0].tobytes() for i, part in (heard | self.announce(1)).items()}
        for i, own in self._private.items():
            others = {j: key for j, key in keys.items() if j != i}
            self._masks[i] = Masks.between(i, own, others, self.run)

    def masks(self, members: int, exchange: int, shape: tuple[int, ...]) -> dict[int, Words]:
        """Return each one's mask of a sum."""
        size = math.prod(shape)
        return {
            i: own.mask(range(members), exchange, size).reshape(shape)
            for i, own in self._masks.items()
        }


@dataclass(frozen=True, kw_only=True)
class SumGame(Game):
    """Releases of one stage; the claim is what the run reserved for that stage.

    `honest` sites have `world.n` records each, all zero but the one of the first that differs.
    Beside them are `colluding` others. The other stage has the same law on both sides.
    """

    world: NeighbouringData
    stage: str
    rounds: int
    trust: Trust
    honest: int = 1
    colluding: int = 1

    @property
    def sites(self) -> int:
        """N."""
        return self.honest + self.colluding

    def scored(self, epsilon: float, delta: float, runs: int, seed: int | None) -> GameScores:
        """Play both sides and score what the coalition has after it subtracted what it knows."""
        sides, claim = [], Tally()
        for side in SIDES:
            noise = SecureNoise() if seed is None else BatchNoise(2 * seed + side, runs)
            rules = self._rules(side, Budget(epsilon, delta), runs)
            sides.append(self._score(rules, noise, Budget(epsilon, delta)))
            times = rules[0].stages.count(self.stage) + self.trust.repeats
            claim = Tally().plus(rules[0].price(self.stage, 0)[1], times)
        ours, theirs = sides
        return GameScores({name: (ours[name], theirs[name]) for name in ours}, claim)

    def _rules(self, side: int, budget: Budget, runs: int) -> list[SumAlgorithm]:
        graph, n = make_graph("complete", self.sites), self.world.n
        settings = Settings(
            rounds=self.rounds,
            eta=(self.world.eta,) * runs,
            regularisation=(0.0,) * runs,
            budgets=(budget,) * runs,
            trust=self.trust,
            run=b"audit",
        )
        nothing = Shard(np.zeros((n, self.world.d)), np.ones(n))
        shards = [self.world.shard(side), *[nothing] * (self.honest - 1)]
        sites = [
            site_in(graph, i, risk_of(s, self.world.loss), (n,) * self.sites, n * self.sites)
            for i, s in enumerate(shards)
        ]
        rules: list[Any] = [build("newton", site, settings) for site in sites]
        return rules

    def _score(
        self, rules: list[SumAlgorithm], noise: NoiseSource, budget: Budget
    ) -> dict[str, Array]:
        """Let the agents run; add up the log-likelihood ratio of each release of the stage."""
        runs = rules[0].replicates
        agents = [
            SumAgent(rule, i, rule.site.neighbours, [MemoryLedger(budget), *unlimited(runs)], noise)
            for i, rule in enumerate(rules)
        ]
        coalition = Coalition(range(self.honest, self.sites), b"audit")
        whole, alone = np.zeros((2, runs))
        for t, stage in enumerate(rules[0].stages):
            sends = [agent.next() for agent in agents]
            said = {s.message.agent: s.message.heard.value for s in sends if isinstance(s, Send)}
            if len(said) < len(agents):
                raise RuntimeError(f"A site is silent in round {t}.")
            left, answers = self._answer(coalition, rules[0], t, said)
            if stage == self.stage:
                theta = sends[0].release.value if isinstance(sends[0], Send) else left
                whole += self._ratio(rules[0], theta, left, self.honest)
                alone += self._ratio(rules[0], theta, self._read(rules[0], said[0]), 1)
            for agent in agents:
                for j, part in (said | answers).items():
                    if j != agent.number:
                        agent.receive(Message(j, t, SharedState(part, part[:, :0])))
        return {"likelihood ratio": whole, "one site's message": alone}

    def _answer(
        self, coalition: Coalition, rule: SumAlgorithm, t: int, said: dict[int, Array]
    ) -> tuple[Array, dict[int, Array]]:
        """Return what the coalition reads, and what it says."""
        if rule.stages[t] == KEYS:
            coalition.agree(said)
            return said[0], coalition.announce(rule.replicates)
        if not self.trust.by_sum:
            return said[0], dict.fromkeys(coalition.numbers, -said[0] / self.colluding)
        masks = coalition.masks(self.sites, t, said[0].shape)
        words = [part.view(np.uint64) for part in said.values()]
        opened = np.add.reduce([*words, *masks.values()], axis=0)
        first = coalition.numbers[0]
        answers = {i: (m - opened if i == first else m) for i, m in masks.items()}
        return self._read(rule, opened), {i: a.view(np.float64) for i, a in answers.items()}

    def _read(self, rule: SumAlgorithm, part: Array | Words) -> Array:
        """Return numbers modulo 2⁶⁴ as what they stand for, whether or not that is anything."""
        if not self.trust.by_sum:
            return np.asarray(part, dtype=float)
        rows = np.ascontiguousarray(part).view(np.uint64)
        if rows.shape[1] != rule.size(self.stage):
            return np.zeros(rows.shape)
        adders = rule.adders(self.stage, self.sites)
        return np.stack([adder.decode(row) for adder, row in zip(adders, rows, strict=True)])

    def _ratio(self, rule: SumAlgorithm, theta: Array, seen: Array, shares: int) -> Array:
        """log p_D − log p_D' of a release (R, size), with the noise of so many shares: (R,)."""
        weight = rule.site.share if self.trust.by_sum else 1.0
        sigma = rule.sigma(self.stage)[:, None] * math.sqrt(shares)
        found = []
        for side in SIDES:
            z = (seen - weight * self._part(theta, side)) / sigma
            found.append(-0.5 * np.vecdot(z, z))
        return np.asarray(found[0] - found[1])

    def _part(self, theta: Array, side: int) -> Array:
        """Return the site's part of a side without noise, written down anew."""
        if self.stage != MOMENTS:
            return self.world.slope(theta, side)
        x = np.array(self.world.records[side])
        pairs = [(i, j) for i in range(len(x)) for j in range(i, len(x))]
        moments = [x[i] * x[j] * (1.0 if i == j else math.sqrt(2.0)) for i, j in pairs]
        return np.array(moments) / self.world.n
